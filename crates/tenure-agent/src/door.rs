//! Where an agent listens.

use crate::certificate::Certificate;
use crate::config::Address;
use crate::directory::open_to_others;
use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tokio::net::{TcpListener, UnixListener};

/// Why an address can't be listened at.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Another agent has the socket.
    #[error("another agent listens at {0}; stop it, or name another socket")]
    Taken(String),
    /// Others could put a socket of theirs in its place.
    #[error(
        "no socket can be in {0}: a directory of this user's own is needed, that nobody else can write to, nor to those above it; name a socket in \
         another one"
    )]
    Unsafe(String),
    /// There is something that is no socket.
    #[error("{0} is there already and is no socket; name another path")]
    NoSocket(String),
    /// Other hosts reach it, and there is no certificate.
    #[error("{0} can be reached from other hosts, so a certificate and its key are needed")]
    NoCertificate(String),
    /// The system says no.
    #[error("{0}: {1}")]
    Io(String, #[source] std::io::Error),
}

/// An address that is listened at.
#[derive(Debug)]
pub struct Door {
    pub(crate) listener: AgentListener,
    address: Address,
}

#[derive(Debug)]
pub(crate) enum AgentListener {
    Unix {
        listener: UnixListener,
        path: PathBuf,
        /// Nobody else removes the socket while this is locked.
        _lock: File,
    },
    Tcp(TcpListener),
    Tls(TcpListener, Certificate),
}

impl Drop for Door {
    fn drop(&mut self) {
        if let AgentListener::Unix { path, .. } = &self.listener {
            // Whoever comes next removes it otherwise.
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Door {
    /// Listens there. A Unix socket's directory is made if it is missing, and a socket that nobody listens at any more is removed. The certificate is
    /// for addresses with TLS alone.
    ///
    /// # Errors
    /// When another agent listens there, the directory is not safe, a certificate is missing, or the system says no.
    pub async fn open(address: Address, certificate: Option<&Certificate>) -> Result<Door, ServeError> {
        let named = |error| ServeError::Io(address.to_string(), error);
        let listener = match &address {
            Address::Unix(path) => unix(path)?,
            Address::Loopback(at) => AgentListener::Tcp(TcpListener::bind(at).await.map_err(named)?),
            Address::Tls(at) => {
                let certificate =
                    certificate.ok_or_else(|| ServeError::NoCertificate(address.to_string()))?;
                AgentListener::Tls(TcpListener::bind(at).await.map_err(named)?, certificate.clone())
            }
        };
        let address = match &listener {
            // The port that was given for port 0.
            AgentListener::Tcp(tcp) => Address::Loopback(tcp.local_addr().map_err(named)?),
            AgentListener::Tls(tcp, _) => Address::Tls(tcp.local_addr().map_err(named)?),
            AgentListener::Unix { .. } => address,
        };
        Ok(Door { listener, address })
    }

    /// Listens there, whoever can reach it.
    pub(crate) async fn open_to_all(address: SocketAddr) -> Result<Door, ServeError> {
        let named = |error| ServeError::Io(format!("http://{address}"), error);
        let tcp = TcpListener::bind(address).await.map_err(named)?;
        let address = Address::Loopback(tcp.local_addr().map_err(named)?);
        Ok(Door { listener: AgentListener::Tcp(tcp), address })
    }

    /// Shows a new certificate once there is one, for as long as it is polled.
    pub(crate) async fn follow_certificate(&self) {
        if let AgentListener::Tls(_, certificate) = &self.listener {
            certificate.follow().await;
        }
    }

    /// Where that is.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }
}

fn unix(path: &Path) -> Result<AgentListener, ServeError> {
    let named = |error| ServeError::Io(path.display().to_string(), error);
    // Before anything is made; the system's own words name no remedy.
    std::os::unix::net::SocketAddr::from_pathname(path).map_err(|error| {
        named(std::io::Error::new(
            error.kind(),
            "no socket may have such a path; name one of 100 bytes at most",
        ))
    })?;
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if !directory.exists() {
        std::fs::DirBuilder::new().mode(0o700).create(directory).map_err(named)?;
    }
    if let Some(open) = open_to_others(directory).map_err(named)? {
        let directory = directory.display();
        let text = format!("{directory}, since others can write to {}, or own it", open.display());
        return Err(ServeError::Unsafe(text));
    }
    let mut side = path.as_os_str().to_owned();
    side.push(".lock");
    let lock = private_file(side.as_ref()).map_err(named)?;
    lock.set_permissions(std::fs::Permissions::from_mode(0o600)).map_err(named)?;
    if lock.try_lock().is_err() {
        return Err(ServeError::Taken(path.display().to_string()));
    }
    match path.symlink_metadata() {
        Ok(found) if found.file_type().is_socket() => std::fs::remove_file(path).map_err(named)?,
        Ok(_) => return Err(ServeError::NoSocket(path.display().to_string())),
        Err(_) => {}
    }
    // From its first moment on nobody else can connect.
    let former = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
    let listener = UnixListener::bind(path);
    rustix::process::umask(former);
    Ok(AgentListener::Unix { listener: listener.map_err(named)?, path: path.to_owned(), _lock: lock })
}

/// The file, which is made if it is missing. Whoever could open it in its first moment could lock it, and keep the agent away.
fn private_file(path: &Path) -> std::io::Result<File> {
    File::options().create(true).append(true).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    //! Plan: the lock's mode as it is made, before it is set. What listens, and where it may not, are tests of the command line.
    use super::*;

    #[test]
    fn the_lock_is_its_user_s_alone_from_its_first_moment_on() {
        let directory = tempfile::tempdir().unwrap();
        let lock = private_file(&directory.path().join("agent.sock.lock")).unwrap();
        assert_eq!(lock.metadata().unwrap().permissions().mode() & 0o077, 0);
    }
}
