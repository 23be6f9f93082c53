//! The peers in Go that benches compare with: one program of ours in `bench/peers/go`, whose modules come from Go's module proxy by the
//! versions and checksums that lie beside it.

use super::maven::source;
use super::package::succeeds;
use super::workshop;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The variable that tells benches where the program is.
pub(super) const VARIABLE: &str = "TENURE_BENCH_GO_PEERS";

pub(super) fn program() -> Result<PathBuf, String> {
    Ok(workshop()?.join("go-peers"))
}

/// Has it built. Go itself knows whether anything has changed.
pub(super) fn build() -> Result<(), String> {
    // Debian's own is too old for the modules.
    if !succeeds("go", &["version"]) {
        return Err("go is missing, and benches compare with programs in Go: install Go 1.26 or newer".into());
    }
    let output = Command::new("go")
        .args(["build", "-o"])
        .arg(program()?)
        .arg(".")
        .current_dir(source("../bench/peers/go"))
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("go did not start: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("go build: {}", String::from_utf8_lossy(&output.stderr)))
}
