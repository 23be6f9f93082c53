//! A second run of tests that failed, alone: on a busy machine, one on real time may have failed for no other reason.
//!
//! It is told at the end of the run, and is a fault of the test or of what it tests, to be mended. `soak` runs nothing again.

use crate::program::Program;

/// So many programs at the most. Where more of them fail, it is hardly by chance.
const MOST: usize = 3;

/// The programs with what is run again, of all programs and those that failed, with their failed tests.
pub(crate) fn programs<'a>(
    all: &[Program],
    failed: impl Iterator<Item = (&'a str, Vec<&'a str>)>,
) -> Vec<Program> {
    let again = failed.map(|(name, tests)| {
        let program = all.iter().find(|program| program.name == name)?;
        let may = !tests.is_empty() && !program.is_on_simulated_time();
        let only = tests.into_iter().map(str::to_owned).collect();
        may.then(|| Program { name: self::name(name), only, ..program.clone() })
    });
    // One that may not be run again fails the run, whatever becomes of the others.
    let again: Option<Vec<Program>> = again.collect();
    again.filter(|programs| programs.len() <= MOST).unwrap_or_default()
}

/// What a program is called in its second run, whose output is kept beside the first one's.
pub(crate) fn name(program: &str) -> String {
    format!("{program} again")
}

/// For who reads the end of a run.
pub(crate) fn told(tests: &[String]) -> String {
    match tests {
        [] => "none\n".into(),
        tests => format!(
            "These passed at their second run only. Mend them: `cargo xtask soak` counts them as failures.\n    {}\n",
            tests.join("\n    ")
        ),
    }
}

#[cfg(test)]
mod tests {
    //! Plan: which failed tests are run again, and which are not.
    use super::*;

    fn program(name: &str) -> Program {
        let only = vec!["f::a".into(), "f::b".into()];
        Program { name: name.into(), path: "/p".into(), folder: "/f".into(), many: false, only }
    }

    fn again(failed: &[(&'static str, &[&'static str])]) -> Vec<String> {
        let names =
            ["tenure-cli::run", "tenure-cli::work", "tenure-agent::f", "tenure::f", "tenure-sim::fleet"];
        let failed = failed.iter().map(|(name, tests)| (*name, tests.to_vec()));
        let programs = programs(&names.map(program), failed);
        programs.iter().map(|program| format!("{}: {}", program.name, program.only.join(" "))).collect()
    }

    #[test]
    fn a_few_tests_on_real_time_are_run_again() {
        let run = ("tenure-cli::run", &["f::b"][..]);
        assert_eq!(again(&[]), [""; 0]);
        assert_eq!(again(&[run]), ["tenure-cli::run again: f::b"]);
        let work = ("tenure-cli::work", &["f::a"][..]);
        let agent = ("tenure-agent::f", &["f::a"][..]);
        assert_eq!(again(&[run, work, agent]).len(), 3);
        let none = [""; 0];
        assert_eq!(
            again(&[run, work, agent, ("tenure::f", &["f::a"])]),
            none,
            "so many do not fail by chance"
        );
        assert_eq!(
            again(&[run, ("tenure-sim::fleet", &["f::a"])]),
            none,
            "simulated time is the same everywhere"
        );
        assert_eq!(again(&[run, ("tenure-cli::work", &[])]), none, "it ended without a word of a test");
        assert_eq!(again(&[run, ("lints", &[])]), none, "a chore");
    }

    #[test]
    fn a_reader_is_told() {
        assert_eq!(told(&[]), "none\n");
        let told = told(&["a: b".into(), "a: c".into()]);
        assert!(told.contains("second run only") && told.ends_with("\n    a: b\n    a: c\n"), "{told}");
    }
}
