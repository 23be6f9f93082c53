//! The peers in Rust that benches compare with: one program of ours in `bench/peers/rust`, which is a workspace of its own, with versions
//! and checksums of what it is built of.

use super::maven::source;
use super::workshop;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The variable that tells benches where the program is.
pub(super) const VARIABLE: &str = "TENURE_BENCH_RUST_PEERS";

fn folder() -> Result<PathBuf, String> {
    Ok(workshop()?.join("rust-peers"))
}

pub(super) fn program() -> Result<PathBuf, String> {
    Ok(folder()?.join("release/tenure-bench-peers"))
}

/// Has it built. Cargo itself knows whether anything has changed.
pub(super) fn build() -> Result<(), String> {
    let output = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--release", "--locked", "--target-dir"])
        .arg(folder()?)
        .current_dir(source("../bench/peers/rust"))
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cargo did not start: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("the peers in Rust: {}", String::from_utf8_lossy(&output.stderr)))
}
