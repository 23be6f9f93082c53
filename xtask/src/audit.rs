//! `cargo xtask audit`: what must hold before a release. Its tools take minutes to build, so it is no part of `test`.

use crate::step::{CheckStep, cargo};
use std::process::Command;

/// Installed where they are missing, in the version that the project's configuration was written for.
const TOOLS: [(&str, &str); 2] = [("deny", "0.20.2"), ("machete", "0.9.2")];

/// The steps.
pub(crate) fn steps() -> Vec<CheckStep> {
    let mut steps: Vec<CheckStep> = TOOLS
        .into_iter()
        .map(|(tool, version)| CheckStep::check(format!("cargo-{tool}"), move || have(tool, version)))
        .collect();
    steps.extend([
        // Not `advisories`: its database is not on crates.io.
        CheckStep::cargo("licences, bans, sources", &["deny", "check", "licenses", "bans", "sources"]),
        CheckStep::cargo("unused dependencies", &["machete"]),
        // The tree as it is, committed or not: nothing is uploaded.
        CheckStep::cargo("packages", &["publish", "--dry-run", "--workspace", "--allow-dirty"]),
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
