//! Where an agent listens, and how much it bears.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;
use tenure::InvalidInput;

/// Where an agent listens.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Address {
    /// A Unix socket, made with mode 0600.
    Unix(PathBuf),
    /// A loopback address, in plain text and with tokens only.
    Loopback(SocketAddr),
    /// Any address, with TLS and tokens only.
    Tls(SocketAddr),
}

impl Address {
    /// The same, with TLS if it is no Unix socket.
    #[must_use]
    pub fn with_tls(self) -> Address {
        match self {
            Address::Loopback(at) => Address::Tls(at),
            other => other,
        }
    }
}

/// `unix:PATH`, or `IP:PORT`: in plain text on the loopback network, and with TLS anywhere else.
impl FromStr for Address {
    type Err = InvalidInput;

    fn from_str(text: &str) -> Result<Address, InvalidInput> {
        if let Some(path) = text.strip_prefix("unix:") {
            if path.is_empty() {
                return Err(InvalidInput::new(
                    "\"unix:\" names no path; write unix:/run/tenure/agent.sock, for example",
                ));
            }
            return Ok(Address::Unix(path.into()));
        }
        let number = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
        let address: SocketAddr = number.as_deref().unwrap_or(text).parse().map_err(|_| {
            InvalidInput::new(format!(
                "{text:?} is no address to listen at; write unix:PATH, 127.0.0.1:PORT, or IP:PORT with TLS"
            ))
        })?;
        if !address.ip().is_loopback() {
            return Ok(Address::Tls(address));
        }
        Ok(Address::Loopback(address))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::Loopback(address) => write!(f, "http://{address}"),
            Address::Tls(address) => write!(f, "https://{address}"),
        }
    }
}

/// Where an agent listens, and its clients look for it, unless told otherwise: below `XDG_RUNTIME_DIR` if that is set, else in a directory of
/// this user's below `/tmp`.
#[must_use]
pub fn default_socket(runtime_dir: Option<PathBuf>, user: u32) -> PathBuf {
    let directory =
        runtime_dir.map_or_else(|| PathBuf::from(format!("/tmp/tenure-{user}")), |dir| dir.join("tenure"));
    directory.join("agent.sock")
}

/// How much an agent bears of its clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Connections at a time, at all addresses together. For a further one, that of a stranger is closed, or else that of a client that may only
    /// look, which has waited for longest. Without such, the further one is closed at once.
    pub connections: usize,
    /// Connections at a time that have shown no token where one is asked for, at all addresses together. For a further one, that which has waited for
    /// longest is closed.
    pub strangers: usize,
    /// Leases that clients have at a time, and requests that wait for one.
    pub leases: usize,
    /// Bytes of a request's body.
    pub body: usize,
    /// How long a request may take to arrive, an idle connection may stay, and a client may take none of what is sent to it.
    pub patience: Duration,
}

impl Default for Limits {
    /// 1,024 connections, all of them of strangers if nobody else comes, 100,000 leases, 64 KiB, 30 s.
    fn default() -> Limits {
        Limits {
            connections: 1024,
            strangers: 1024,
            leases: 100_000,
            body: 64 * 1024,
            patience: Duration::from_secs(30),
        }
    }
}

#[cfg(test)]
mod tests {
    //! Plan: each kind of address, what is refused with what remedy, and the default socket.
    use super::*;

    #[test]
    fn addresses_are_read_and_shown() {
        for (text, shown) in [
            ("unix:/run/t.sock", "unix:/run/t.sock"),
            ("127.0.0.1:80", "http://127.0.0.1:80"),
            ("127.9.9.9:1", "http://127.9.9.9:1"),
            ("[::1]:8080", "http://[::1]:8080"),
            ("localhost:7", "http://127.0.0.1:7"),
            ("0.0.0.0:80", "https://0.0.0.0:80"),
            ("[::]:80", "https://[::]:80"),
            ("10.0.0.1:80", "https://10.0.0.1:80"),
            ("[::ffff:127.0.0.1]:80", "https://[::ffff:127.0.0.1]:80"),
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), shown);
        }
        let local = "127.0.0.1:7".parse::<Address>().unwrap().with_tls();
        assert_eq!(local.to_string(), "https://127.0.0.1:7");
        let socket = "unix:/run/t.sock".parse::<Address>().unwrap();
        assert_eq!(socket.clone().with_tls(), socket);
        for (text, remedy) in [
            ("unix:", "write unix:/run"),
            ("/run/t.sock", "write unix:PATH"),
            ("example.org:80", "write unix:PATH"),
            ("127.0.0.1", "write unix:PATH"),
            ("", "write unix:PATH"),
        ] {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(error.contains(remedy), "{text}: {error}");
        }
    }

    #[test]
    fn the_default_socket_is_in_a_directory_of_its_own() {
        assert_eq!(
            default_socket(Some("/run/user/7".into()), 7).to_str(),
            Some("/run/user/7/tenure/agent.sock")
        );
        assert_eq!(default_socket(None, 7).to_str(), Some("/tmp/tenure-7/agent.sock"));
    }
}
