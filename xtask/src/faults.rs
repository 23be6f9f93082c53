//! `cargo xtask faults`: faults on real servers, by the program `tenure-faults`, which has machines, servers and faults of its own.

use crate::command::is_root;
use crate::features::with_all_stores;
use crate::services::{self, RunningServers};
use crate::step::CheckStep;
use crate::workspace::{built, packages};
use std::process::Command;
use std::time::Duration;

/// Twenty episodes of each cell take some hours.
const LIMIT: Duration = Duration::from_secs(12 * 60 * 60);

/// Builds it as the tests of the workspace do, so that nothing is built twice, and runs it.
pub(crate) fn steps(options: &[String], servers: &RunningServers) -> Result<Vec<CheckStep>, String> {
    let mut steps = services::fetch_for_faults();
    // The tests of the program and those of the command line: with them, both are built.
    let tests = ["test", "--workspace", "--no-run", "--test", "said", "--test", "cli"];
    steps.push(with_all_stores("build", &tests, &packages()?));
    steps.push(run(options, servers)?.within(LIMIT));
    Ok(steps)
}

/// What every run has of it, after the tests, which have built it. What it needs has been fetched with all else that tests need.
pub(crate) fn share(servers: &RunningServers) -> Result<CheckStep, String> {
    run(&["--share".to_owned()], servers)
}

fn run(options: &[String], servers: &RunningServers) -> Result<CheckStep, String> {
    let program = built().join("debug/tenure-faults");
    let mut command = Command::new(&program);
    if !is_root() {
        // It makes namespaces and disks.
        command = Command::new("sudo");
        command.args(["-n", "-E"]).arg(&program);
    }
    command.args(options);
    servers.known_to(CheckStep::command("faults on real servers", command))
}

#[cfg(test)]
mod tests {
    //! Plan: the long run has the options that were given, after what it is built of; the share runs what the tests have built.
    use super::*;

    fn last(steps: &[CheckStep]) -> String {
        steps.last().map(ToString::to_string).unwrap_or_default()
    }

    #[test]
    fn options_reach_the_program() {
        let servers = RunningServers::new().unwrap();
        let steps = steps(&["--store".to_owned(), "redis".to_owned()], &servers).unwrap();
        assert!(last(&steps).ends_with("tenure-faults --store redis"), "{}", last(&steps));
        let built = steps[steps.len() - 2].to_string();
        assert!(built.contains("--no-run --test said --test cli --features"), "{built}");
    }

    #[test]
    fn the_share_builds_nothing() {
        let shown = share(&RunningServers::new().unwrap()).unwrap().to_string();
        assert!(shown.ends_with("tenure-faults --share"), "{shown}");
        assert!(shown.contains("TENURE_TEST_DYNAMODB_LIBRARY='"), "{shown}");
        assert!(shown.contains("TENURE_TEST_VALKEY_SERVER='"), "{shown}");
        assert!(!shown.contains("cargo"), "{shown}");
    }
}
