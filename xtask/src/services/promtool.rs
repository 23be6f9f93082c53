//! promtool, by which Prometheus reads alarms, from Debian's package. That is unpacked and not installed: a server of Prometheus comes with it.

use super::package::{succeeds, unpacked};
use super::workshop;
use std::path::PathBuf;

/// What the tests of `ops/` ask for.
pub(super) const VARIABLE: &str = "TENURE_TEST_PROMTOOL";

pub(super) fn fetch() -> Result<(), String> {
    let program = program()?;
    let works = || succeeds(&program.display().to_string(), &["--version"]);
    if works() {
        return Ok(());
    }
    let place = workshop()?.join("prometheus");
    // What was there does not work.
    let _ = std::fs::remove_dir_all(&place);
    unpacked(&["prometheus"], "bookworm", &place)?;
    if works() { Ok(()) } else { Err(format!("{} does not start", program.display())) }
}

/// Where it is, unless it is installed.
pub(super) fn program() -> Result<PathBuf, String> {
    const PROGRAM: &str = "promtool";
    if succeeds(PROGRAM, &["--version"]) {
        return Ok(PROGRAM.into());
    }
    Ok(workshop()?.join("prometheus/usr/bin").join(PROGRAM))
}
