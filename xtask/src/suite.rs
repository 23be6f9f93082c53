//! The tests of the workspace: built by cargo, and run side by side as `cargo test` runs them one after another.
//!
//! The tests of a package are one program, because each program costs seconds to link and tens of megabytes. Its files are run side by side, as if each were a
//! program.

mod jobs;

use crate::again;
use crate::lanes::{FinishedJob, LaneJob, Lanes, Placement};
use crate::program::{Program, artifacts};
use crate::report::{failed_tests, failures, reasons, result, slowest, told};
use crate::services::RunningServers;
use crate::step::{self, CheckStep};
use crate::workspace::built;
#[cfg(test)]
pub(crate) use jobs::named;
use jobs::{in_order, job};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

/// Long enough for a clean build on a slow machine.
const BUILD_LIMIT: Duration = Duration::from_secs(60 * 60);

/// What has been built for tests.
#[derive(Debug, Default)]
pub(crate) struct Suite {
    programs: RefCell<Vec<Program>>,
    /// The tests that passed at their second run only, by program. Without it, there is no second run.
    unsteady: Option<RefCell<Vec<String>>>,
    /// Tests that are not run.
    left_out: &'static [&'static str],
}

impl Suite {
    /// One that runs what fails once more, where `again` allows it.
    pub(crate) fn with_a_second_run() -> Suite {
        Suite { unsteady: Some(RefCell::default()), ..Suite::default() }
    }

    /// One that leaves these tests out.
    pub(crate) fn without(left_out: &'static [&'static str]) -> Suite {
        Suite { left_out, ..Suite::default() }
    }

    /// A step that builds tests, which `cargo test` would run with these words, and everything else that it builds with them. Each of
    /// `examples` must be among it.
    pub(crate) fn build(
        self: &Rc<Suite>,
        name: impl Into<String>,
        words: &[String],
        examples: &[&str],
    ) -> CheckStep {
        let suite = Rc::clone(self);
        let told = ["--no-run", "--message-format", "json-render-diagnostics"].map(str::to_owned);
        let mut command = step::cargo_command(&[words, &told].concat());
        let examples: Vec<String> = examples.iter().map(|&example| example.to_owned()).collect();
        let shown = step::shown(&command);
        CheckStep::check(name, move || {
            println!("{shown}");
            let told = folder().join("built.json");
            let error = |error| format!("{}: {error}", told.display());
            let file = std::fs::create_dir_all(folder()).and_then(|()| std::fs::File::create(&told));
            command.stdout(file.map_err(error)?);
            step::run_within(command, BUILD_LIMIT, &[])?;
            let told = std::fs::read_to_string(&told).map_err(error)?;
            let (programs, made) = artifacts(&told)?;
            if programs.is_empty() {
                return Err("cargo built no tests".into());
            }
            if let Some(example) = examples.iter().find(|example| !made.contains(example)) {
                return Err(format!("cargo did not build the example {example}"));
            }
            let mut files = Vec::new();
            for program in programs {
                files.extend(program.files()?.into_iter().filter_map(|file| file.without(suite.left_out)));
            }
            let mut all = suite.programs.borrow_mut();
            // What an earlier build has, too, is run as it was built last. Nothing of one build takes another's place.
            all.retain(|before| !files.iter().any(|file| file.name == before.name));
            all.extend(files);
            Ok(())
        })
    }

    /// A step that runs all that has been built, with these environment variables and what is no test. It fails if one of them does.
    pub(crate) fn run(
        self: &Rc<Suite>,
        name: impl Into<String>,
        environment: Environment,
        on: Cores,
        beside: Beside,
    ) -> CheckStep {
        let suite = Rc::clone(self);
        CheckStep::check(name, move || {
            let programs = in_order(suite.programs.borrow().clone());
            let mut jobs: Vec<LaneJob> =
                programs.iter().map(|program| job(program, &environment, on)).collect();
            let Beside { chores, filling, together, servers } = beside;
            for (place, steps) in
                [(Placement::Beside, chores), (Placement::Filling, filling), (Placement::Together, together)]
            {
                for step in steps {
                    jobs.push(step.job(place)?);
                }
            }
            let asked = jobs.len();
            let served = servers.map(|servers| (servers.processor(), servers));
            let lanes = Lanes {
                count: on.lanes(),
                computing: on.count(),
                folder: folder(),
                with_stops: on == Cores::Stopped,
            };
            println!("{} at once, and {} that compute", lanes.count, lanes.computing);
            let done = lanes.run(jobs, |done| print!("{}", told(done)));
            if done.len() != asked {
                return Err(format!(
                    "{} of {asked} jobs were never run: the lanes have lost them",
                    asked - done.len()
                ));
            }
            let served = served.and_then(|(before, servers)| servers.processor()?.checked_sub(before?));
            print!("\n{}{}{}", slowest(&done, served), kept(), reasons(&done));
            let done = suite.run_again(&lanes, &programs, done, |program| job(program, &environment, on));
            failures(&done)
        })
    }

    /// What became of them in the end.
    fn run_again(
        &self,
        lanes: &Lanes,
        programs: &[Program],
        done: Vec<FinishedJob>,
        job: impl Fn(&Program) -> LaneJob,
    ) -> Vec<FinishedJob> {
        let Some(unsteady) = &self.unsteady else { return done };
        let failed = done.iter().filter(|done| result(done).is_err());
        let failed = failed.map(|done| (&*done.name, failed_tests(&done.output).collect()));
        let again = again::programs(programs, failed);
        let jobs = again.iter().map(|program| LaneJob { place: Placement::Alone, ..job(program) }).collect();
        let mut second = lanes.run(jobs, |done| print!("\n==> a second run, alone:\n{}", told(done)));
        second.retain(|done| result(done).is_ok());
        for passed in &second {
            let tests = again.iter().find(|program| program.name == passed.name).map(|program| &program.only);
            unsteady
                .borrow_mut()
                .extend(tests.into_iter().flatten().map(|test| format!("{}: {test}", passed.name)));
        }
        let is_mended =
            |first: &FinishedJob| second.iter().any(|passed| passed.name == again::name(&first.name));
        done.into_iter().filter(|first| !is_mended(first)).collect()
    }

    /// A step that says which tests passed at their second run only.
    pub(crate) fn unsteady(self: &Rc<Suite>) -> CheckStep {
        let suite = Rc::clone(self);
        CheckStep::check("tests that failed once are told", move || {
            let tests = suite.unsteady.as_ref().map(|tests| tests.take()).unwrap_or_default();
            print!("{}", again::told(&tests));
            Ok(())
        })
    }
}

/// What runs with the tests and is none, and what serves them.
#[derive(Default)]
pub(crate) struct Beside {
    /// What the compiler does while tests wait.
    pub(crate) chores: Vec<CheckStep>,
    /// What mostly waits.
    pub(crate) filling: Vec<CheckStep>,
    /// What mostly waits, and bears no compiler beside it.
    pub(crate) together: Vec<CheckStep>,
    /// Their processor time is told.
    pub(crate) servers: Option<Rc<RunningServers>>,
}

/// Environment variables.
pub(crate) type Environment = Vec<(&'static str, String)>;

/// What the programs run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cores {
    All,
    /// All of them on the same one.
    One,
    /// All, where programs that share them are stopped at random.
    Stopped,
}

impl Cores {
    /// Half as many again as there are cores: a program runs as many tests at once as there are cores, and most of them wait.
    fn lanes(self) -> usize {
        self.count() + self.count().div_ceil(2)
    }

    fn count(self) -> usize {
        match self {
            Cores::All | Cores::Stopped => std::thread::available_parallelism().map_or(2, usize::from),
            Cores::One => 1,
        }
    }

    /// How many times as long a program may take.
    fn times(self) -> u32 {
        if self == Cores::One { 3 } else { 1 }
    }

    fn command(self, program: &Path) -> Command {
        match self {
            Cores::All | Cores::Stopped => Command::new(program),
            Cores::One => {
                let mut command = Command::new("taskset");
                command.args(["--cpu-list", "0"]).arg(program);
                command
            }
        }
    }
}

/// Where the programs' output is kept.
fn folder() -> PathBuf {
    built().join("tests")
}

/// Where to look for more than what was printed.
fn kept() -> String {
    let pictures = built().join("dashboard");
    format!(
        "kept: each program's output in {}, pictures of the dashboard in {}\n",
        folder().display(),
        pictures.display()
    )
}

/// The path of an example that has been built with the tests.
pub(crate) fn example(name: &str) -> PathBuf {
    built_in("debug").join("examples").join(name)
}

/// The path of a program that has been built with the tests.
pub(crate) fn program(name: &str) -> PathBuf {
    let path = built_in("debug").join(name);
    std::path::absolute(&path).unwrap_or(path)
}

/// The folder of what is built in a profile.
pub(crate) fn built_in(profile: &str) -> PathBuf {
    built().join(profile)
}

#[cfg(test)]
mod tests {
    //! Plan: a build that fails or lacks an example; a test that fails once, or always, and its second run.
    use super::*;

    #[test]
    fn a_build_that_fails_or_lacks_an_example_fails() {
        let suite = Rc::new(Suite::default());
        let build = |words: &[&str], examples: &[&str]| {
            let words: Vec<String> = words.iter().map(ToString::to_string).collect();
            let report = step::run(vec![suite.build("build", &words, examples)]);
            (report.is_pass(), suite.programs.take().len())
        };
        assert_eq!(build(&["test", "--package", "no-such-package"], &[]), (false, 0));
        let smallest = ["test", "--package", "xtask"];
        assert_eq!(build(&smallest, &["nowhere"]), (false, 0));
        // Its own tests, and those of each of two files in its folder `tests`.
        assert_eq!(build(&smallest, &[]), (true, 3));
        // What is built twice is run once.
        let words = smallest.map(str::to_owned);
        let twice = vec![suite.build("first", &words, &[]), suite.build("second", &words, &[])];
        assert!(step::run(twice).is_pass());
        assert_eq!(suite.programs.take().len(), 3);
    }

    /// What became of the program of a script, and the tests that passed at their second run only.
    fn run_twice(suite: Suite, name: &str, script: &str) -> (Vec<FinishedJob>, Vec<String>) {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = std::env::temp_dir().join(format!("tenure-suite-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("tests");
        std::fs::write(&path, format!("#!/bin/sh\n{script}")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let only = vec!["f::a".to_owned(), "f::b".to_owned()];
        let programs =
            [Program { name: "tenure-cli::f".into(), path, folder: folder.clone(), many: false, only }];
        let lanes = Lanes { count: 1, computing: 1, folder: folder.clone(), with_stops: false };
        let job = |program: &Program| job(program, &[], Cores::All);
        let done = lanes.run(programs.iter().map(job).collect(), |_| {});
        let done = suite.run_again(&lanes, &programs, done, job);
        std::fs::remove_dir_all(folder).unwrap();
        (done, suite.unsteady.map(RefCell::into_inner).unwrap_or_default())
    }

    #[test]
    fn a_test_that_fails_once_is_run_once_more_alone() {
        const FAILS: &str = "printf 'failures:\n\nfailures:\n    f::b\n\ntest result: FAILED.\n'; exit 101\n";
        let once =
            format!("test \"$*\" = '--exact f::b' && echo 'test result: ok. 1 passed' && exit\n{FAILS}");
        let (done, unsteady) = run_twice(Suite::with_a_second_run(), "once", &once);
        assert_eq!((failures(&done), unsteady), (Ok(()), vec!["tenure-cli::f again: f::b".to_owned()]));
        let (done, unsteady) = run_twice(Suite::with_a_second_run(), "always", FAILS);
        assert!(failures(&done).unwrap_err().contains("f::b") && unsteady.is_empty());
        // A name that is no test, such as one that a nested program printed.
        let gone = once.replace("1 passed", "0 passed");
        let (done, unsteady) = run_twice(Suite::with_a_second_run(), "gone", &gone);
        assert!(failures(&done).is_err() && unsteady.is_empty(), "no test passed at the second run");
        let (done, unsteady) = run_twice(Suite::default(), "soak", &once);
        assert!(failures(&done).is_err() && unsteady.is_empty(), "a soak runs nothing again");
    }
}
