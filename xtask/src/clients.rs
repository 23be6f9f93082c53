//! Clients in other languages, against the agent that has been built with the tests.

use crate::step::Step;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Where they are, from the workspace's root.
const CLIENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../clients");

/// They wait out some ttls of seconds, and pip fetches what it builds with.
const LIMIT: Duration = Duration::from_secs(10 * 60);

/// The tests of each, with this command line.
pub(crate) fn checks(program: &Path) -> Vec<Step> {
    let mut python = Command::new("python3");
    python.arg("tests/test_client.py").current_dir(Path::new(CLIENTS).join("python"));
    let step = Step::command("client for Python", python).within(LIMIT);
    vec![step.env("TENURE_PROGRAM", &program.display().to_string())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tests_that_are_run_are_there() {
        assert!(Path::new(CLIENTS).join("python/tests/test_client.py").is_file());
        let shown: Vec<String> = checks(Path::new("/t")).iter().map(ToString::to_string).collect();
        assert!(shown.len() == 1 && shown[0].starts_with("client for Python: TENURE_PROGRAM="), "{shown:?}");
        assert!(shown[0].ends_with("test_client.py"), "{shown:?}");
    }
}
