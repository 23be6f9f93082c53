//! The peers in Go that benches compare with: one program of ours in `bench/peers/go`, whose modules come from Go's module proxy by the
//! versions and checksums that lie beside it.

use super::maven::source;
use super::workshop;
use crate::command::succeeds;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The variable that tells benches where the program is.
pub(super) const VARIABLE: &str = "TENURE_BENCH_GO_PEERS";

pub(super) fn program() -> Result<PathBuf, String> {
    Ok(workshop()?.join("go-peers"))
}

/// Has Go. Debian's own is too old for the modules.
pub(super) fn need() -> Result<(), String> {
    if succeeds("go", &["version"]) {
        return Ok(());
    }
    Err("go is missing; the client for Go is built with it, and what benches compare with: install Go 1.26 or newer".into())
}

/// Has it built. Go itself knows whether anything has changed.
pub(super) fn build() -> Result<(), String> {
    need()?;
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
