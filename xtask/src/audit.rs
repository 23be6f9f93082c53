//! `cargo xtask audit`: what must hold before a release. Its tools take minutes to build, so it is no part of `test`.

use crate::step::{Step, cargo};
use std::process::Command;

/// Installed where they are missing, in the version that the project's configuration was written for.
const TOOLS: [(&str, &str); 2] = [("deny", "0.20.2"), ("machete", "0.9.2")];

/// The steps.
pub(crate) fn steps() -> Vec<Step> {
    let mut steps: Vec<Step> = TOOLS
        .into_iter()
        .map(|(tool, version)| Step::check(format!("cargo-{tool}"), move || have(tool, version)))
        .collect();
    steps.extend([
        // Not `advisories`: its database is not on crates.io.
        Step::cargo("licences, bans, sources", &["deny", "check", "licenses", "bans", "sources"]),
        Step::cargo("unused dependencies", &["machete"]),
        // The tree as it is, committed or not: nothing is uploaded.
        Step::cargo("packages", &["publish", "--dry-run", "--workspace", "--allow-dirty"]),
    ]);
    steps
}

/// Any version that is there will do.
fn have(tool: &str, version: &str) -> Result<(), String> {
    let found = Command::new(cargo()).args([tool, "--version"]).output();
    if found.is_ok_and(|output| output.status.success()) {
        return Ok(());
    }
    let package = format!("cargo-{tool}@{version}");
    let status = Command::new(cargo())
        .args(["install", "--locked", &package])
        .status()
        .map_err(|error| format!("cargo did not start: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("cargo install {package}: {status}")) }
}
