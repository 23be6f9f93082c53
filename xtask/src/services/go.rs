//! Go, from Debian's backports where it is missing, and what is built with it here: the peers that benches compare with, one program of ours
//! in `bench/peers/go`. Its modules come from Go's module proxy by the versions and checksums that lie beside it.

use super::maven::source;
use super::package::Unpacked;
use super::workshop;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The variable that tells benches where the program is.
pub(super) const VARIABLE: &str = "TENURE_BENCH_GO_PEERS";

pub(super) fn program() -> Result<PathBuf, String> {
    Ok(workshop()?.join("go-peers"))
}

/// The release's own is too old to fetch what the modules ask for: a newer Go, from the module proxy.
const GO: Unpacked = Unpacked {
    program: "go",
    // A topic since 1.23; all since 1.21 can fetch a newer one.
    call: &["help", "telemetry"],
    folder: "usr/lib/go-1.23/bin",
    packages: &["golang-1.23-go", "golang-1.23-src"],
    suite: "bookworm-backports",
};

/// Has Go.
pub(super) fn need() -> Result<(), String> {
    GO.fetch()
}

/// What programs need to find it, and to let it fetch a newer one.
pub(super) fn environment() -> Result<[(&'static str, OsString); 2], String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folder = GO.path()?.parent().map(PathBuf::from).unwrap_or_default();
    // Before the one that is of no use.
    let folders = Some(folder).filter(|folder| folder.is_absolute()).into_iter();
    let folders = folders.chain(std::env::split_paths(&path));
    let path = std::env::join_paths(folders).map_err(|error| format!("PATH: {error}"))?;
    Ok([("PATH", path), ("GOTOOLCHAIN", "auto".into())])
}

/// Has it built. Go itself knows whether anything has changed.
pub(super) fn build() -> Result<(), String> {
    need()?;
    let output = Command::new(GO.path()?)
        .envs(environment()?)
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
