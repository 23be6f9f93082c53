//! The command line as users have it, for the benches that run it.

use crate::Trouble;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

/// What `TENURE_PROGRAM` names; otherwise a release build of it, made where it is missing.
///
/// # Errors
/// It can't be built.
pub fn build() -> Result<PathBuf, Trouble> {
    build_with(&["--no-default-features"])
}

/// The same with these options of cargo, which name its features.
///
/// # Errors
/// It can't be built.
pub fn build_with(features: &[&str]) -> Result<PathBuf, Trouble> {
    if let Some(program) = std::env::var_os("TENURE_PROGRAM") {
        return Ok(program.into());
    }
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--release", "-p", "tenure-cli"])
        .args(features)
        .status()?;
    if !status.success() {
        return Err("the command line could not be built".into());
    }
    // This program is target/PROFILE/deps/work-…, and its profile another than that of the command line.
    let exe = std::env::current_exe()?;
    let target = exe.ancestors().nth(3).ok_or("no target directory")?;
    Ok(target.join("release").join("tenure"))
}

/// Runs it to its end, and returns the most memory that it had at a time, in bytes.
///
/// # Errors
/// It can't be started, or fails.
pub fn peak_of(command: &mut Command) -> Result<u64, Trouble> {
    const STEP: Duration = Duration::from_millis(2);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
    let place = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    loop {
        let status = std::fs::read_to_string(&place).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        peak = kib.map_or(peak, |kib| kib << 10);
        match child.try_wait()? {
            Some(status) if status.success() => return Ok(peak),
            Some(status) => return Err(format!("{command:?}: {status}").into()),
            None => std::thread::sleep(STEP),
        }
    }
}
