//! The simulator, its tests and the core's, which compute. They are built once more, optimised, in a profile of their own; and with the deliberate
//! bugs, each of which is off unless a test switches it on. What ships has no bugs: both builds must have the same histories.

use crate::background::{self, AtFailure};
use crate::step::{CheckStep, cargo_command};
use crate::suite::{self, Suite};
use crate::workspace::built;
use std::path::PathBuf;
use std::process::Command;
use std::rc::Rc;

/// Its package.
pub(crate) const PACKAGE: &str = "tenure-sim";

/// The package of the machines that it steps, whose tests simulate fleets.
const CORE: &str = "tenure-core";

/// The profile, in the workspace's manifest. Cargo's folder for it has the same name.
pub(crate) const PROFILE: &str = "simulator";

/// The words of cargo for what is built in it. The features are the same whatever is built, so that the core is compiled once.
const WORDS: [&str; 6] =
    ["--profile", PROFILE, "--package", PACKAGE, "--features", "tenure-sim/bugs,tenure-core/serde"];

/// The example that is the simulator as a program.
pub(crate) const EXAMPLE: &str = "sim";

/// What both builds simulate, and for how many hours: some seconds of the build that is not optimised.
const SAME: [(&str, &str); 4] =
    [("all", "10"), ("sections-all", "2"), ("fleet-all", "0.5"), ("semaphores-all", "1")];

/// How a report names its history.
const HISTORY: &str = "history ";

/// Builds both packages' tests, which take the place of those that the workspace's build has. Their unit tests stay as they are, since they
/// take no time, and each library would be built once more for them. Then the example, of which `cargo test` would make a test.
pub(crate) fn builds(suite: &Rc<Suite>) -> [CheckStep; 2] {
    let [both, example] = all_words();
    [
        suite.build("build of the simulator, its tests and the core's", &both, &[]),
        CheckStep::cargo("build of the simulator as a program", &example),
    ]
}

/// The step that begins the same builds, and the one that waits for their end; the steps of the builds then find everything there. Each package is one unit of
/// code after another, so that they alone would leave a core idle.
pub(crate) fn build_beside() -> (CheckStep, CheckStep) {
    let commands = || {
        let [mut both, example] = all_words();
        both.push("--no-run".to_owned());
        Ok([both, example].map(|words| cargo_command(&words)).into())
    };
    let what = ["the simulator begins to be built", "the simulator is built"];
    background::steps(what, commands, built().join("tests").join("simulator.log"), AtFailure::Stop)
}

fn all_words() -> [Vec<String>; 2] {
    [words("test", &["--package", CORE, "--test", "*"]), words("build", &["--example", EXAMPLE])]
}

fn words(verb: &str, which: &[&str]) -> Vec<String> {
    [&[verb], &WORDS[..], which].concat().into_iter().map(str::to_owned).collect()
}

/// The simulator as a program, once it is built.
pub(crate) fn program() -> PathBuf {
    suite::built_in(PROFILE).join("examples").join(EXAMPLE)
}

/// Fails unless what ships, which has no bugs, has the histories of the build whose bugs are off.
pub(crate) fn is_the_same_without_bugs() -> CheckStep {
    CheckStep::check("the same histories without bugs", || {
        for (scenario, hours) in SAME {
            // On one thread: more of them would begin whole batches of worlds, far beyond these hours.
            let run =
                |mut simulator: Command| history(simulator.args(["--scenario", scenario, "--hours", hours]));
            let mut ships = Command::new(suite::program("tenure"));
            ships.arg("sim");
            let (ships, tested) = (run(ships)?, run(Command::new(program()))?);
            println!("{scenario}: {tested}");
            if ships != tested {
                return Err(format!(
                    "{scenario}: what ships has another {ships}; some place of a bug does more than to ask whether it is on"
                ));
            }
        }
        Ok(())
    })
}

/// The line of its report that has the hash of all that happened.
fn history(simulator: &mut Command) -> Result<String, String> {
    let name = simulator.get_program().to_string_lossy().into_owned();
    let output = simulator.output().map_err(|error| format!("{name}: {error}"))?;
    let told = String::from_utf8_lossy(&output.stdout);
    let history = told.lines().find(|line| line.starts_with(HISTORY));
    match history {
        Some(history) if output.status.success() => Ok(history.to_owned()),
        _ => Err(format!("{name} {}: {told}{}", output.status, String::from_utf8_lossy(&output.stderr))),
    }
}

#[cfg(test)]
mod tests {
    //! Plan: the words for cargo; the line of a history, and a simulator that fails or tells none.
    use super::*;

    #[test]
    fn it_is_built_with_its_profile_and_bugs() {
        assert_eq!(
            words("build", &["--example", EXAMPLE]).join(" "),
            "build --profile simulator --package tenure-sim --features tenure-sim/bugs,tenure-core/serde --example sim"
        );
    }

    #[test]
    fn a_history_is_that_of_a_run_that_passed() {
        let shell = |script: &str| history(Command::new("sh").args(["-c", script]));
        assert_eq!(shell("echo worlds 3; echo 'history  00ff'"), Ok("history  00ff".to_owned()));
        assert!(shell("echo worlds 3").is_err_and(|error| error.contains("worlds 3")));
        assert!(shell("echo 'history  00ff'; exit 1").is_err_and(|error| error.contains("exit status: 1")));
    }
}
