//! What comes from Debian's packages, installed where it is missing and we may.

use std::process::{Command, Stdio};

pub(super) fn succeeds(program: &str, args: &[&str]) -> bool {
    let quiet = Command::new(program).args(args).stdout(Stdio::null()).stderr(Stdio::null()).status();
    quiet.is_ok_and(|status| status.success())
}

pub(super) fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n")
}

/// Has `program`, which answers when it is called with `version`.
pub(super) fn need(program: &str, version: &str, package: &str) -> Result<(), String> {
    if succeeds(program, &[version]) {
        return Ok(());
    }
    if is_root() && succeeds("apt-get", &["--version"]) {
        println!("{program} is missing: apt-get install {package}");
        let installed = succeeds("apt-get", &["update"])
            && succeeds("apt-get", &["install", "-y", "--no-install-recommends", package]);
        if installed && succeeds(program, &[version]) {
            return Ok(());
        }
    }
    Err(format!("{program} is missing, and tests need it: apt-get install {package}"))
}
