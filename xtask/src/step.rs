//! A step of a chore, and a run of steps in order: stop at the first failure, say how long each took, count.
#![allow(clippy::disallowed_methods, reason = "chores take real time, and that is what is shown")]

use crate::command::nice;
use crate::lanes::{LaneJob, Placement};
use crate::processor_time::{of_children, of_children_since};
use std::fmt;
use std::io::Write;
use std::process::Command;
use std::time::{Duration, Instant};

/// Long enough for a clean build on a slow machine; a step that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(30 * 60);

type Check = Box<dyn FnOnce() -> Result<(), String>>;

enum StepWork {
    Command(Command),
    Check(Check),
}

/// One thing to do, under a name.
pub(crate) struct CheckStep {
    name: String,
    work: StepWork,
    limit: Duration,
    /// What a command may exit with besides 0.
    passes_with: &'static [i32],
    /// Whether the next steps are run if this one fails.
    goes_on: bool,
}

impl CheckStep {
    /// Runs cargo with the given arguments.
    pub(crate) fn cargo(name: impl Into<String>, args: &[impl AsRef<std::ffi::OsStr>]) -> CheckStep {
        CheckStep::command(name, cargo_command(args))
    }

    /// Runs a program.
    pub(crate) fn command(name: impl Into<String>, command: Command) -> CheckStep {
        CheckStep::of(name.into(), StepWork::Command(command))
    }

    /// Something that the chore finds out by itself.
    pub(crate) fn check(
        name: impl Into<String>,
        check: impl FnOnce() -> Result<(), String> + 'static,
    ) -> CheckStep {
        CheckStep::of(name.into(), StepWork::Check(Box::new(check)))
    }

    fn of(name: String, work: StepWork) -> CheckStep {
        CheckStep { name, work, limit: LIMIT, passes_with: &[], goes_on: false }
    }

    /// With an environment variable. A check has none and stays as it is.
    pub(crate) fn env(mut self, name: &str, value: &str) -> CheckStep {
        if let StepWork::Command(command) = &mut self.work {
            command.env(name, value);
        }
        self
    }

    /// Failed if it takes longer than this.
    pub(crate) fn within(self, limit: Duration) -> CheckStep {
        CheckStep { limit, ..self }
    }

    /// The next steps are run also if it fails.
    pub(crate) fn and_go_on(self) -> CheckStep {
        CheckStep { goes_on: true, ..self }
    }

    /// These exit codes of a command are no failure either.
    pub(crate) fn passes_with(self, codes: &'static [i32]) -> CheckStep {
        CheckStep { passes_with: codes, ..self }
    }

    /// The same as a job of a place for what is no program of tests: a chore beside the tests has a low priority.
    ///
    /// # Errors
    /// A check runs in this process, and can be none.
    pub(crate) fn job(self, place: Placement) -> Result<LaneJob, String> {
        let CheckStep { name, work: StepWork::Command(command), limit, .. } = self else {
            return Err(format!("{} is a check, which can't run beside others", self.name));
        };
        let command = if place == Placement::Beside { nice(&command) } else { command };
        Ok(LaneJob { name, command, place, limit, tests: None })
    }

    fn run(self) -> Result<(), String> {
        match self.work {
            StepWork::Check(check) => check(),
            StepWork::Command(command) => run_within(command, self.limit, self.passes_with),
        }
    }
}

impl fmt::Display for CheckStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)?;
        let StepWork::Command(command) = &self.work else { return Ok(()) };
        write!(f, ": {}", shown(command))
    }
}

/// A command as it can be typed.
pub(crate) fn shown(command: &Command) -> String {
    let set = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
    let set = set.map(|(name, value)| format!("{}='{}' ", name.to_string_lossy(), value.to_string_lossy()));
    let program = command.get_program().to_string_lossy();
    let args = command.get_args().map(|arg| format!(" {}", arg.to_string_lossy()));
    let program = program.rsplit('/').next().unwrap_or(&program);
    format!("{}{program}{}", set.collect::<String>(), args.collect::<String>())
}

/// Cargo with the given arguments.
pub(crate) fn cargo_command(args: &[impl AsRef<std::ffi::OsStr>]) -> Command {
    let mut command = Command::new(cargo());
    command.args(args);
    forget_package(&mut command);
    command
}

/// `cargo run` tells us which package we are; our children are none: cargo-machete would take it for its own, and `ring`, with all that
/// stands on it, would be built again after each cargo that a person has called.
pub(crate) fn forget_package(command: &mut Command) {
    let is_ours = |name: &str| ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|ours| name.starts_with(ours));
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_ours(&name.to_string_lossy())) {
        command.env_remove(name);
    }
}

/// The cargo that started us, so that a chore runs under one toolchain from end to end.
pub(crate) fn cargo() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Runs a program to its end, which must come in time.
pub(crate) fn run_within(mut command: Command, limit: Duration, passes_with: &[i32]) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = command.spawn().map_err(|error| format!("{program} did not start: {error}"))?;
    let start = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) if status.code().is_some_and(|code| passes_with.contains(&code)) => {
                return Ok(());
            }
            Ok(Some(status)) => return Err(status.to_string()),
            Ok(None) if start.elapsed() < limit => std::thread::sleep(Duration::from_millis(10)),
            Ok(None) => {
                let killed = child.kill().and_then(|()| child.wait());
                let also =
                    killed.err().map_or(String::new(), |error| format!(", and can't be killed: {error}"));
                return Err(format!("not done after {} s{also}", limit.as_secs()));
            }
            Err(error) => return Err(format!("{program} was lost: {error}")),
        }
    }
}

/// The columns of a table for what something took, and what its commands took of all cores.
pub(crate) fn columns(took: Duration, processor: Option<Duration>) -> String {
    let processor = processor.map_or("?".to_owned(), |time| format!("{:.1}", time.as_secs_f64()));
    format!("{:>8.1} s {processor:>8} s", took.as_secs_f64())
}

/// What became of one step.
#[derive(Debug)]
struct StepOutcome {
    name: String,
    took: Duration,
    /// What its commands took of all cores, where the system tells.
    processor: Option<Duration>,
    result: Result<(), String>,
}

/// What became of the steps.
#[derive(Debug)]
pub(crate) struct StepsReport {
    run: Vec<StepOutcome>,
    not_run: Vec<String>,
}

impl StepsReport {
    pub(crate) fn is_pass(&self) -> bool {
        self.run.iter().all(|step| step.result.is_ok()) && self.not_run.is_empty()
    }
}

impl fmt::Display for StepsReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n      took  processor")?;
        for StepOutcome { name, took, processor, result } in &self.run {
            let what = if result.is_ok() { "passed " } else { "FAILED " };
            writeln!(f, "{}  {what}  {name}", columns(*took, *processor))?;
        }
        for name in &self.not_run {
            writeln!(f, "{:>21}  not run  {name}", "")?;
        }
        // Whoever has the end of a long output only is to find out from it what to look at.
        for StepOutcome { name, result, .. } in &self.run {
            if let Err(error) = result {
                writeln!(f, "{name}: {error}")?;
            }
        }
        let passed = self.run.iter().filter(|step| step.result.is_ok()).count();
        let took: Duration = self.run.iter().map(|step| step.took).sum();
        let failed = self.run.len() - passed;
        writeln!(f, "{passed} passed, {failed} failed in {:.1} minutes", took.as_secs_f64() / 60.0)
    }
}

/// Runs the steps in order until one fails, unless that one goes on.
pub(crate) fn run(steps: Vec<CheckStep>) -> StepsReport {
    let mut report = StepsReport { run: Vec::new(), not_run: Vec::new() };
    let mut steps = steps.into_iter();
    for step in steps.by_ref() {
        println!("\n==> {step}");
        // What a step prints itself goes straight to the terminal, and must come after this. That the terminal is
        // gone is no reason to stop.
        let _ = std::io::stdout().flush();
        let (name, goes_on, start, before) = (step.name.clone(), step.goes_on, Instant::now(), of_children());
        let result = step.run();
        let took = start.elapsed();
        let processor = of_children_since(before);
        let passed = result.is_ok();
        match &result {
            Ok(()) => println!("<== {name}: passed in {:.1} s", took.as_secs_f64()),
            Err(error) => println!("<== {name}: FAILED after {:.1} s: {error}", took.as_secs_f64()),
        }
        report.run.push(StepOutcome { name, took, processor, result });
        if !(passed || goes_on) {
            break;
        }
    }
    report.not_run = steps.map(|step| step.name).collect();
    report
}

#[cfg(test)]
mod tests {
    //! Plan: all steps pass and are counted; the first failure stops the run, whether it is a check, a command's status,
    //! a command that does not exist or one that hangs; what was not run is said; the last line is the count.
    use super::*;

    fn passes(report: &StepsReport) -> Vec<(&str, bool)> {
        report.run.iter().map(|step| (step.name.as_str(), step.result.is_ok())).collect()
    }

    fn count(report: &StepsReport) -> String {
        let text = report.to_string();
        text.lines()
            .last()
            .and_then(|last| last.split_once(" in "))
            .map_or(text.clone(), |(count, _)| count.into())
    }

    fn shell(name: &str, script: &str) -> CheckStep {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        CheckStep::command(name, command)
    }

    #[test]
    fn passes_are_counted() {
        let report = run(vec![shell("one", "exit 0"), CheckStep::check("two", || Ok(()))]);
        assert!(report.is_pass());
        assert_eq!(passes(&report), [("one", true), ("two", true)]);
        assert_eq!(count(&report), "2 passed, 0 failed");
    }

    #[test]
    fn other_exit_codes_can_be_passes() {
        assert!(run(vec![shell("two", "exit 2").passes_with(&[2])]).is_pass());
        assert!(!run(vec![shell("three", "exit 3").passes_with(&[2])]).is_pass());
    }

    #[test]
    fn the_first_failure_stops_the_run() {
        let failures: [fn() -> CheckStep; 4] = [
            || shell("bad", "exit 3"),
            || CheckStep::check("bad", || Err("so it is".into())),
            || CheckStep::command("bad", Command::new("/no/such/program")),
            || shell("bad", "exec sleep 600").within(Duration::from_millis(50)),
        ];
        for failure in failures {
            let never =
                CheckStep::check("never", || -> Result<(), String> { unreachable!("runs after a failure") });
            let report = run(vec![shell("good", "exit 0"), failure(), never]);
            assert!(!report.is_pass());
            assert_eq!(passes(&report), [("good", true), ("bad", false)]);
            let text = report.to_string();
            assert!(text.contains("not run  never"), "{text}");
            let reason = text.lines().find(|line| line.starts_with("bad: ")).unwrap();
            assert!(reason.len() > "bad: ".len(), "{text}");
            assert_eq!(count(&report), "1 passed, 1 failed");
        }
    }

    #[test]
    fn a_failure_that_goes_on_is_told_and_fails_the_run_all_the_same() {
        let report = run(vec![shell("bad", "exit 3").and_go_on(), shell("good", "exit 0")]);
        assert!(!report.is_pass());
        assert_eq!(passes(&report), [("bad", false), ("good", true)]);
        assert_eq!(count(&report), "1 passed, 1 failed");
    }

    #[test]
    fn cargo_is_not_told_which_package_we_are() {
        // Cargo has told us, as it runs this.
        assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
        let command = cargo_command(&["build"]);
        let is_removed = |name: &str| command.get_envs().any(|(n, value)| n == name && value.is_none());
        assert!(is_removed("CARGO_MANIFEST_DIR"));
    }

    #[test]
    fn a_check_is_no_job_and_is_not_dropped_without_a_word() {
        let error = CheckStep::check("look", || Ok(())).job(Placement::Beside).map(|job| job.name);
        assert!(error.is_err_and(|error| error.starts_with("look is a check")));
        let job = shell("one", "exit 0").within(Duration::from_secs(7)).job(Placement::Filling).unwrap();
        assert_eq!(
            (job.name.as_str(), job.place, job.limit),
            ("one", Placement::Filling, Duration::from_secs(7))
        );
    }

    #[test]
    fn a_step_shows_what_can_be_typed() {
        let step = CheckStep::cargo("docs", &["doc", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings");
        assert_eq!(step.to_string(), "docs: RUSTDOCFLAGS='-D warnings' cargo doc --no-deps");
    }
}
