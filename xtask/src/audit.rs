//! `cargo xtask audit`: what must hold before a release. Its tools take minutes to build, so it is no part of `test`.

use crate::step::{CheckStep, cargo, forget_package};
use crate::workspace::{ALL_STORES, built};
use std::process::Command;

/// Installed where they are missing, in the version that the project's configuration was written for.
const TOOLS: [(&str, &str); 2] = [("deny", "0.20.2"), ("machete", "0.9.2")];

/// The oldest Rust that the manifests promise. Nothing else is built with it.
const OLDEST_RUST: &str = env!("CARGO_PKG_RUST_VERSION");

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
        CheckStep::command(format!("Rust {OLDEST_RUST}"), install_oldest()),
        CheckStep::command(format!("libraries and programs with Rust {OLDEST_RUST}"), check_with_oldest()),
    ]);
    steps
}

fn install_oldest() -> Command {
    let mut rustup = Command::new("rustup");
    rustup.args(["toolchain", "install", OLDEST_RUST, "--profile", "minimal", "--no-self-update"]);
    rustup
}

/// What users build. Tests may need more, as they are built here alone.
fn check_with_oldest() -> Command {
    let mut check = Command::new("rustup");
    check.args(["run", OLDEST_RUST, "cargo", "check", "--workspace", "--locked"]);
    check.args(["--features", &format!("tenure-cli/{ALL_STORES}")]);
    // Our own cargo is of the other toolchain, and so is what it has built.
    check.env_remove("CARGO").env("CARGO_TARGET_DIR", built().join("oldest-rust"));
    forget_package(&mut check);
    check
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_rust_is_the_one_that_users_are_told() {
        let told = include_str!("../../README.md");
        assert!(told.contains(&format!("Rust {OLDEST_RUST} or later")), "{OLDEST_RUST}");
    }
}
