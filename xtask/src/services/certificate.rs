//! A certificate for the name `localhost`, which is its own authority.

use crate::command::run;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The files of a certificate and of its key, in a server's folder.
pub(super) struct ServerCertificate {
    pub(super) file: PathBuf,
    pub(super) key: PathBuf,
}

impl ServerCertificate {
    /// The one in this folder.
    pub(super) fn of(folder: &Path) -> ServerCertificate {
        ServerCertificate { file: folder.join("server.crt"), key: folder.join("server.key") }
    }

    /// Makes it, by the user whom `openssl` runs as.
    pub(super) fn make(folder: &Path, mut openssl: Command) -> Result<ServerCertificate, String> {
        let certificate = ServerCertificate::of(folder);
        openssl
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"])
            .args(["-days", "30", "-subj", "/CN=tenure test server"])
            .args(["-addext", "subjectAltName=DNS:localhost"])
            .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout"])
            .arg(&certificate.key)
            .arg("-out")
            .arg(&certificate.file);
        run(&mut openssl).map(|_| certificate)
    }
}
