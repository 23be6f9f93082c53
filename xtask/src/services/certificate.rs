//! A certificate for the name `localhost`, which is its own authority.

use std::path::Path;
use std::process::{Command, Stdio};

/// Makes one, with its key.
pub(super) fn certify(mut openssl: Command, key: &Path, certificate: &str) -> Result<(), String> {
    let made = openssl
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"])
        .args(["-days", "30", "-subj", "/CN=tenure test server", "-addext", "subjectAltName=DNS:localhost"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout"])
        .arg(key)
        .args(["-out", certificate])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("openssl did not start: {error}"))?;
    if made.status.success() {
        return Ok(());
    }
    Err(format!("openssl: {}: {}", made.status, String::from_utf8_lossy(&made.stderr)))
}
