//! The tests of the workspace: built by cargo, and run side by side as `cargo test` runs them one after another.
//!
//! The tests of a package are one program, because each program costs seconds to link and tens of megabytes. Its files are run side by side, as if each were a
//! program.

use crate::lanes::{FinishedJob, LaneJob, Lanes, Placement};
use crate::program::{Program, artifacts};
use crate::step::{self, CheckStep};
use crate::workspace::built;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

/// Long enough for a clean build on a slow machine.
const BUILD_LIMIT: Duration = Duration::from_secs(60 * 60);

/// The simulator computes for four minutes on a free core; what takes three times as long hangs.
const PROGRAM_LIMIT: Duration = Duration::from_secs(30 * 60);

/// How many of the slowest are shown.
const SLOWEST: usize = 15;

/// What runs while nothing else does: it asserts how soon something happens, or leaves processes
/// behind that others would find, or asks cargo, which would wait for chores.
const ALONE: [&str; 11] = [
    "tenure-cli::dashboard",
    "tenure-cli::dashboard_large",
    "tenure-cli::kill",
    "tenure-cli::run",
    "tenure-cli::runaway",
    "tenure-cli::serve",
    "tenure-cli::stuck",
    "tenure-cli::watchdog",
    "tenure::own_thread",
    "tenure::own_thread_servers",
    "xtask::bin/xtask",
];

/// What takes a minute or more begins first, so that nothing is left to run by itself at the end: what computes and what waits in
/// turn.
const FIRST: [&str; 9] = [
    "tenure-sim::promises",
    "tenure-sim::bugs",
    "tenure-dynamodb::processes",
    "tenure-dynamodb::episodes",
    "tenure-sim::sections",
    "tenure-kcl::coordinator",
    "tenure-sim::peers",
    "tenure-kcl::interop",
    "tenure-dynamodb::conformance",
];

/// What has been built for tests.
#[derive(Debug, Default)]
pub(crate) struct Suite {
    programs: RefCell<Vec<Program>>,
}

impl Suite {
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
            for program in programs {
                suite.programs.borrow_mut().extend(program.files()?);
            }
            Ok(())
        })
    }

    /// A step that runs all that has been built, with these environment variables, and these chores beside it. It fails if one
    /// of them does.
    pub(crate) fn run(
        self: &Rc<Suite>,
        name: impl Into<String>,
        environment: Environment,
        on: Cores,
        chores: Vec<CheckStep>,
    ) -> CheckStep {
        let suite = Rc::clone(self);
        CheckStep::check(name, move || {
            let programs = in_order(suite.programs.borrow().clone());
            let jobs = programs.iter().map(|program| job(program, &environment, on));
            let jobs = jobs.chain(chores.into_iter().filter_map(CheckStep::beside)).collect();
            let lanes = Lanes { count: on.lanes(), limit: PROGRAM_LIMIT * on.times(), folder: folder() };
            println!("{} at once", lanes.count);
            let done = lanes.run(jobs, |done| print!("{}", told(done)));
            print!("\n{}{}{}", slowest(&done), kept(), reasons(&done));
            failures(&done)
        })
    }
}

/// A step that runs these commands side by side, since most of their time is waiting. Each may take so long.
pub(crate) fn together(name: impl Into<String>, steps: Vec<CheckStep>, limit: Duration) -> CheckStep {
    CheckStep::check(name, move || {
        let jobs = steps.into_iter().filter_map(CheckStep::together).collect();
        let lanes = Lanes { count: Cores::All.lanes(), limit, folder: folder() };
        let done = lanes.run(jobs, |done| print!("{}", told(done)));
        print!("\n{}{}", slowest(&done), reasons(&done));
        failures(&done)
    })
}

/// Environment variables.
pub(crate) type Environment = Vec<(&'static str, String)>;

/// What the programs run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cores {
    All,
    /// All of them on the same one.
    One,
}

impl Cores {
    /// Half as many again as there are cores: a program runs as many tests at once as there are cores, and most of them wait.
    fn lanes(self) -> usize {
        let cores = match self {
            Cores::All => std::thread::available_parallelism().map_or(2, usize::from),
            Cores::One => 1,
        };
        cores + cores.div_ceil(2)
    }

    /// How many times as long a program may take.
    fn times(self) -> u32 {
        if self == Cores::One { 3 } else { 1 }
    }

    fn command(self, program: &Path) -> Command {
        match self {
            Cores::All => Command::new(program),
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

/// Those that take long before the others.
fn in_order(mut programs: Vec<Program>) -> Vec<Program> {
    let place =
        |program: &Program| FIRST.iter().position(|first| *first == program.name).unwrap_or(FIRST.len());
    programs.sort_by_key(place);
    programs
}

fn job(program: &Program, environment: &[(&'static str, String)], on: Cores) -> LaneJob {
    let mut command = on.command(&program.path);
    if !program.only.is_empty() {
        command.arg("--exact").args(&program.only);
    }
    step::forget_package(&mut command);
    command.current_dir(&program.folder).env("CARGO_MANIFEST_DIR", &program.folder);
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    let place = if ALONE.contains(&program.name.as_str()) { Placement::Alone } else { Placement::Shared };
    LaneJob { name: program.name.clone(), command, place }
}

/// Why a program has failed, if it has. One of tests that ends well without a word of them has not run them.
fn result(done: &FinishedJob) -> Result<(), String> {
    done.result.clone()?;
    let is_tests = matches!(done.place, Placement::Shared | Placement::Alone);
    if !is_tests || done.output.contains("test result: ok.") {
        Ok(())
    } else {
        Err("it told of no result".into())
    }
}

fn told(done: &FinishedJob) -> String {
    let result = result(done).err().map_or("passed".to_owned(), |error| format!("FAILED: {error}"));
    format!("\n--> {}: {result} in {:.1} s\n{}", done.name, done.took.as_secs_f64(), done.output.trim_start())
}

/// A table of what is no test, of the programs of tests that took longest, and of what all of them took.
fn slowest(done: &[FinishedJob]) -> String {
    let line = |name: &str, took: Duration, processor: Option<Duration>| {
        format!("{}  {name}\n", step::columns(took, processor))
    };
    let mut sorted: Vec<&FinishedJob> = done.iter().collect();
    sorted.sort_by_key(|done| std::cmp::Reverse(done.took));
    let (chores, tests): (Vec<&FinishedJob>, Vec<&FinishedJob>) =
        sorted.into_iter().partition(|done| matches!(done.place, Placement::Beside | Placement::Together));
    let rows = chores.into_iter().chain(tests.into_iter().take(SLOWEST));
    let rows = rows.map(|done| line(&done.name, done.took, done.processor));
    let took = done.iter().map(|done| done.took).sum();
    let processor = done.iter().map(|done| done.processor).sum();
    format!(
        "      took  processor  (with children, where these were waited for)\n{}{}",
        rows.collect::<String>(),
        line(&format!("all {} programs", done.len()), took, processor)
    )
}

/// Names every program that failed, with its tests.
fn failures(done: &[FinishedJob]) -> Result<(), String> {
    let failed: Vec<String> = done
        .iter()
        .filter_map(|done| {
            let error = result(done).err()?;
            let tests: String = failed_tests(&done.output).map(|test| format!("\n    {test}")).collect();
            Some(format!("{}: {error}{tests}", done.name))
        })
        .collect();
    if failed.is_empty() { Ok(()) } else { Err(format!("{} failed\n{}", failed.len(), failed.join("\n"))) }
}

/// What all that failed said: somewhere in the middle of a long output it is hard to find.
fn reasons(done: &[FinishedJob]) -> String {
    let failed = done.iter().filter(|done| result(done).is_err());
    failed.map(|done| format!("\n==> {} said:\n{}\n", done.name, said(&done.output))).collect()
}

/// What the failed tests of a program said, without the way to there; or the end of all that a program said that lists no tests.
fn said(output: &str) -> String {
    const MOST: usize = 100;
    const LAST: usize = 40;
    let of_tests = output.split_once("\nfailures:\n").and_then(|(_, rest)| rest.rsplit_once("\nfailures:\n"));
    let is_frame = |line: &str| {
        let line = line.trim_start();
        let number = line.split_once(": ").map_or("", |(number, _)| number);
        line.starts_with("at ") || !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    let lines: Vec<&str> = match of_tests {
        Some((said, _)) => said.trim().lines().filter(|line| !is_frame(line)).take(MOST).collect(),
        None => {
            let all: Vec<&str> = output.lines().collect();
            all[all.len().saturating_sub(LAST)..].to_vec()
        }
    };
    lines.join("\n")
}

/// What the last list of failures has.
fn failed_tests(output: &str) -> impl Iterator<Item = &str> {
    let list = output.rsplit_once("\nfailures:\n").map_or("", |(_, list)| list);
    list.lines().take_while(|line| line.starts_with("    ")).map(str::trim)
}

/// The tests in folders `tests` that are named here, by their packages and names.
#[cfg(test)]
pub(crate) fn named() -> impl Iterator<Item = (&'static str, &'static str)> {
    ALONE
        .iter()
        .chain(&FIRST)
        .filter_map(|name| name.split_once("::"))
        .filter(|(_, name)| !name.starts_with("bin/"))
}

/// The path of an example that has been built with the tests.
pub(crate) fn example(name: &str) -> PathBuf {
    built().join("debug/examples").join(name)
}

/// The path of a program that has been built with the tests.
pub(crate) fn program(name: &str) -> PathBuf {
    let path: &Path = &built().join("debug").join(name);
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    //! Plan: what takes long begins first, and what is sensitive is
    //! alone; the environment; what passes, and what only seems to; the failed tests' names; the table; a build that fails or lacks an
    //! example.
    use super::*;

    fn done(name: &str, seconds: u64, output: &str, result: Result<(), String>) -> FinishedJob {
        let (took, processor) = (Duration::from_secs(seconds), Some(Duration::from_millis(1500)));
        FinishedJob {
            name: name.into(),
            place: Placement::Shared,
            took,
            processor,
            output: output.into(),
            result,
        }
    }

    #[test]
    fn what_takes_long_begins_first_and_what_is_sensitive_is_alone() {
        let program = |name: &str| Program {
            name: name.into(),
            path: "/p".into(),
            folder: "/f".into(),
            many: false,
            only: vec![],
        };
        let programs = in_order(["a", "tenure-cli::run", "tenure-sim::promises", "b"].map(program).into());
        let names: Vec<&str> = programs.iter().map(|program| program.name.as_str()).collect();
        assert_eq!(names, ["tenure-sim::promises", "a", "tenure-cli::run", "b"]);
        let jobs: Vec<LaneJob> =
            programs.iter().map(|program| job(program, &[("A", "b".to_owned())], Cores::All)).collect();
        let alone: Vec<&str> =
            jobs.iter().filter(|job| job.place == Placement::Alone).map(|job| job.name.as_str()).collect();
        assert_eq!(alone, ["tenure-cli::run"]);
        assert_eq!(jobs[0].command.get_current_dir(), Some(Path::new("/f")));
        let has = |name: &str, value: &str| {
            jobs[0].command.get_envs().any(|(n, v)| n == name && v.is_some_and(|v| v == value))
        };
        assert!(has("A", "b") && has("CARGO_MANIFEST_DIR", "/f"));
        let of_a_file = Program { only: vec!["a::b".into()], ..programs[0].clone() };
        assert_eq!(
            step::shown(&job(&of_a_file, &[], Cores::All).command),
            "CARGO_MANIFEST_DIR='/f' p --exact a::b"
        );
        let on_one = job(&programs[0], &[], Cores::One).command;
        assert_eq!(step::shown(&on_one), "CARGO_MANIFEST_DIR='/f' taskset --cpu-list 0 /p");
    }

    #[test]
    fn every_failure_is_told_with_its_tests() {
        let passes = "test a ... ok\n\ntest result: ok. 1 passed\n";
        let list =
            "failures:\n\n---- b stdout ----\nno\n\nfailures:\n    b\n    c::d\n\ntest result: FAILED.\n";
        let all = [
            done("good", 1, passes, Ok(())),
            done("bad", 2, &format!("test b ... FAILED\n\n{list}"), Err("exit status: 101".into())),
            done("mute", 3, "", Ok(())),
        ];
        assert_eq!(
            failures(&all),
            Err("2 failed\nbad: exit status: 101\n    b\n    c::d\nmute: it told of no result".into())
        );
        assert_eq!(failures(&all[..1]), Ok(()));
        let told_at_the_end = reasons(&all);
        assert_eq!(told_at_the_end, "\n==> bad said:\n---- b stdout ----\nno\n\n==> mute said:\n\n");
        let backtrace = "x\nfailures:\n\n---- b stdout ----\nwaited\n   0: std::f\n      at ./a.rs:3\nscreen:\n$\n\nfailures:\n    b\n";
        assert_eq!(said(backtrace), "---- b stdout ----\nwaited\nscreen:\n$");
        let long: String = (0..99).map(|n| format!("{n}\n")).collect();
        assert_eq!(said(&long).lines().next(), Some("59"), "a chore's last lines");
        assert_eq!(told(&all[0]), format!("\n--> good: passed in 1.0 s\n{passes}"));
        assert!(told(&all[2]).starts_with("\n--> mute: FAILED: it told of no result in 3.0 s\n"));
        for place in [Placement::Beside, Placement::Together] {
            let chore = FinishedJob { place, ..done("lints", 0, "", Ok(())) };
            assert_eq!(result(&chore), Ok(()));
            assert!(slowest(&[chore]).contains("lints"));
        }
        let table = slowest(&all);
        let rows: Vec<&str> = table.lines().skip(1).map(str::trim).collect();
        assert_eq!(rows[0], "3.0 s      1.5 s  mute");
        assert_eq!(rows[3], "6.0 s      4.5 s  all 3 programs");
    }

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
        assert_eq!(build(&smallest, &[]), (true, 1));
    }
}
