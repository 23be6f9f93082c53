//! `serve`, checked.

use super::ttl;
use crate::args;
use crate::exit::{self, Failure};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tenure_agent::{Access, Address, Certificate, Limits, Secret, default_socket};

/// `serve`.
#[derive(Debug)]
pub(crate) struct ServeConfig {
    /// Where to listen, and who may do what there.
    pub(crate) places: Vec<(Address, Access)>,
    /// For those with TLS.
    pub(crate) certificate: Option<Certificate>,
    pub(crate) ttl: Duration,
    pub(crate) limits: Limits,
    /// Files of tokens and of the key that every user of this host can read.
    pub(crate) exposed: Vec<PathBuf>,
}

impl args::serve::ServeArgs {
    /// Reads the tokens, and the certificate with its key; nothing else.
    pub(crate) fn validated(self) -> Result<ServeConfig, Failure> {
        let ttl = ttl(self.ttl)?;
        if self.max_leases == 0 || self.max_connections == 0 {
            return Err(Failure::usage("--max-leases and --max-connections must allow one at least"));
        }
        let mut addresses =
            self.listen.iter().map(|text| text.parse()).collect::<Result<Vec<Address>, _>>()?;
        if addresses.is_empty() {
            addresses.push(Address::Unix(socket()));
        }
        let full = token(self.token_file.as_deref(), "TENURE_TOKEN")?;
        let read = token(self.read_token_file.as_deref(), "TENURE_READ_TOKEN")?;
        if full.is_some() && full == read {
            return Err(Failure::usage("the token that may look is the one that may do all; choose another"));
        }
        let secrets = [&self.token_file, &self.read_token_file, &self.tls_key].into_iter().flatten();
        let exposed = secrets.filter(|file| is_exposed(file)).cloned().collect();
        let certificate = certificate(self.tls_cert.zip(self.tls_key))?;
        if certificate.is_some() {
            addresses = addresses.into_iter().map(Address::with_tls).collect();
        }
        for address in &addresses {
            check(address, certificate.is_some(), full.is_some() || read.is_some())?;
        }
        if certificate.is_some() && !addresses.iter().any(|address| matches!(address, Address::Tls(_))) {
            return Err(Failure::usage(
                "no Unix socket speaks TLS; add --listen IP:PORT, or leave out --tls-cert and --tls-key",
            ));
        }
        let places = addresses.into_iter().map(|address| {
            let mut access = Access::default();
            access.is_open = matches!(address, Address::Unix(_));
            (access.full, access.read) = (full.clone(), read.clone());
            access.hosts = hosts(&address);
            access.certificate = certificate.clone().filter(|_| matches!(address, Address::Tls(_)));
            (address, access)
        });
        let places = places.collect();
        let mut limits = Limits::default();
        (limits.leases, limits.connections) = (self.max_leases, self.max_connections);
        Ok(ServeConfig { places, certificate, ttl, limits, exposed })
    }
}

impl args::serve::ReadyArgs {
    pub(crate) fn socket(&self) -> Result<PathBuf, Failure> {
        let Some(text) = &self.address else { return Ok(socket()) };
        match text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            Some(path) => Ok(path.into()),
            None => Err(Failure::usage(format!(
                "{text:?} is no Unix socket: write unix:PATH; at an address of the network, ask for /readyz with a token"
            ))),
        }
    }
}

/// Whether it is where an agent listens if nothing is said, and the system has no directory for this user alone.
pub(crate) fn is_in_tmp(socket: &Path) -> bool {
    socket == default_socket(None, rustix::process::geteuid().as_raw())
}

/// Where an agent listens if nothing is said.
fn socket() -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty());
    default_socket(runtime.map(Into::into), rustix::process::geteuid().as_raw())
}

/// Whoever can reach it must be told apart, and may hear nothing of what others send.
fn check(address: &Address, has_certificate: bool, has_token: bool) -> Result<(), Failure> {
    let is_local = match address {
        Address::Unix(_) => return Ok(()),
        Address::Tls(at) => at.ip().is_loopback(),
        _ => true,
    };
    if !is_local && !has_certificate {
        return Err(Failure::usage(format!(
            "{address} can be reached from other hosts: name a certificate with --tls-cert, its key with --tls-key, and a token's file with \
             --token-file; or listen at unix:PATH or 127.0.0.1:PORT"
        )));
    }
    if !has_token {
        let who = if is_local { "every user of this host" } else { "whoever is on its network" };
        return Err(Failure::usage(format!(
            "{who} can reach {address}, so a token is needed: name its file with --token-file, or set TENURE_TOKEN"
        )));
    }
    Ok(())
}

fn certificate(files: Option<(PathBuf, PathBuf)>) -> Result<Option<Certificate>, Failure> {
    let Some((certificate, key)) = files else { return Ok(None) };
    let read = Certificate::read(certificate, key, tenure::clock::system());
    read.map(Some).map_err(|error| Failure::usage(error.to_string()))
}

/// What browsers and programs call it, beside the names of a certificate.
fn hosts(address: &Address) -> Vec<String> {
    match address {
        Address::Loopback(address) => {
            let ip = address.ip();
            vec!["localhost".to_owned(), if ip.is_ipv6() { format!("[{ip}]") } else { ip.to_string() }]
        }
        _ => Vec::new(),
    }
}

/// From the file if one is named, else from the environment. Neither it nor anything of it is in an error.
fn token(file: Option<&Path>, variable: &str) -> Result<Option<Secret>, Failure> {
    let (text, from) = match file {
        Some(file) => {
            let text = short_text(file)
                .map_err(|error| Failure::new(exit::USAGE, format!("{}: {error}", file.display())))?;
            (text, file.display().to_string())
        }
        None => match std::env::var(variable) {
            Ok(text) => (text, variable.to_owned()),
            Err(_) => return Ok(None),
        },
    };
    let secret = Secret::new(&text).map_err(|error| Failure::usage(format!("{from}: {error}")))?;
    Ok(Some(secret))
}

/// What a file holds, which may be a pipe. A device may have no end.
fn short_text(file: &Path) -> std::io::Result<String> {
    const MOST: u64 = 64 << 10;
    let mut text = String::new();
    std::fs::File::open(file)?.take(MOST + 1).read_to_string(&mut text)?;
    match text.len() as u64 > MOST {
        true => Err(std::io::Error::other("it holds more than 64 KiB, where a token is one line")),
        false => Ok(text),
    }
}

/// Whether every user of this host can read a file of a secret. It is told and not refused: Kubernetes mounts secrets so.
fn is_exposed(file: &Path) -> bool {
    const OTHERS_READ: u32 = 0o004;
    file.metadata().is_ok_and(|found| found.mode() & OTHERS_READ != 0)
}

#[cfg(test)]
mod tests {
    //! Plan: a file is exposed by its mode alone, which a link to it does not hide; a device without an end is no token's.
    use super::*;
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_file_that_is_no_token_s_is_refused_before_it_takes_all_memory() {
        for device in ["/dev/zero", "/dev/full"] {
            let error = token(Some(Path::new(device)), "TENURE_TEST_NONE").unwrap_err();
            assert!(error.text.contains(device) && error.text.contains("more than 64 KiB"), "{error}");
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        write(&file, "0123456789abcdef\n").unwrap();
        assert!(token(Some(&file), "TENURE_TEST_NONE").unwrap().is_some());
    }

    #[test]
    fn what_every_user_can_read_is_exposed() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("token"), folder.path().join("link"));
        write(&file, "").unwrap();
        symlink(&file, &link).unwrap();
        for (mode, is) in [(0o644, true), (0o604, true), (0o640, false), (0o600, false), (0o400, false)] {
            set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            assert_eq!((is_exposed(&file), is_exposed(&link)), (is, is), "{mode:o}");
        }
        assert!(!is_exposed(&folder.path().join("none")));
    }
}
