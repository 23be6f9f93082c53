//! Programs of tests as jobs: which of them begin first, beside what each runs, and how many tests it must tell of.

use super::Cores;
use crate::command;
use crate::lanes::{LaneJob, Placement, TestCount};
use crate::program::Program;
use crate::step;
use std::time::Duration;

/// The longest waits for some two minutes; what takes many times as long hangs.
const PROGRAM_LIMIT: Duration = Duration::from_secs(30 * 60);

/// The same for what computes, which has what all others leave of the cores: the simulator's five minutes took it 24 on a busy machine.
const COMPUTING_LIMIT: Duration = Duration::from_secs(75 * 60);

/// What runs while nothing else does: it asserts how soon something happens, or asks cargo, which would wait for chores.
const ALONE: [&str; 7] = [
    "tenure-cli::dashboard",
    "tenure-cli::dashboard_large",
    "tenure-cli::run",
    "tenure-cli::serve",
    "tenure::own_thread",
    "tenure::own_thread_servers",
    "xtask::bin/xtask",
];

/// What leaves processes behind that others would find. It runs apart from them, or alone where it can't.
const LEAVES_PROCESSES: [&str; 4] =
    ["tenure-cli::kill", "tenure-cli::runaway", "tenure-cli::stuck", "tenure-cli::watchdog"];

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

/// Those that take long before the others.
pub(super) fn in_order(mut programs: Vec<Program>) -> Vec<Program> {
    let place =
        |program: &Program| FIRST.iter().position(|first| *first == program.name).unwrap_or(FIRST.len());
    programs.sort_by_key(place);
    programs
}

pub(super) fn job(program: &Program, environment: &[(&'static str, String)], on: Cores) -> LaneJob {
    let mut command = on.command(&program.path);
    if !program.only.is_empty() {
        command.arg("--exact").args(&program.only);
    }
    step::forget_package(&mut command);
    command.current_dir(&program.folder).env("CARGO_MANIFEST_DIR", &program.folder);
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    let name = program.name.as_str();
    let leaves_processes = LEAVES_PROCESSES.contains(&name);
    // What is stopped at random is the first process, which would be none of the test's.
    let is_apart = leaves_processes && on != Cores::Stopped && command::can_be_apart();
    let (place, limit) = if is_apart {
        command = command::apart(&command);
        (Placement::Shared, PROGRAM_LIMIT)
    } else if leaves_processes || ALONE.contains(&name) {
        (Placement::Alone, PROGRAM_LIMIT)
    } else if program.is_on_simulated_time() {
        command = command::idle(&command);
        (Placement::Computing, COMPUTING_LIMIT)
    } else {
        (Placement::Shared, PROGRAM_LIMIT)
    };
    let tests = Some(match program.only.len() {
        0 => TestCount::Some,
        tests => TestCount::Exactly(tests),
    });
    LaneJob { name: program.name.clone(), command, place, limit: limit * on.times(), tests }
}

/// The tests in folders `tests` that are named here, by their packages and names.
#[cfg(test)]
pub(crate) fn named() -> impl Iterator<Item = (&'static str, &'static str)> {
    ALONE
        .iter()
        .chain(&LEAVES_PROCESSES)
        .chain(&FIRST)
        .filter_map(|name| name.split_once("::"))
        .filter(|(_, name)| !name.starts_with("bin/"))
}

#[cfg(test)]
mod tests {
    //! Plan: what takes long begins first, what computes has its lanes, what is sensitive is alone, and what leaves processes behind is apart; the
    //! environment; the number of tests.
    use super::*;
    use std::path::Path;

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
        assert_eq!(jobs[0].place, Placement::Computing);
        assert_eq!(jobs[0].command.get_current_dir(), Some(Path::new("/f")));
        let has = |name: &str, value: &str| {
            jobs[0].command.get_envs().any(|(n, v)| n == name && v.is_some_and(|v| v == value))
        };
        assert!(has("A", "b") && has("CARGO_MANIFEST_DIR", "/f"));
        assert_eq!(jobs[0].tests, Some(TestCount::Some));
        let of_a_file = Program { only: vec!["a::b".into()], ..programs[0].clone() };
        assert_eq!(job(&of_a_file, &[], Cores::All).tests, Some(TestCount::Exactly(1)));
        assert_eq!(
            step::shown(&job(&of_a_file, &[], Cores::All).command),
            "CARGO_MANIFEST_DIR='/f' chrt --idle 0 /p --exact a::b"
        );
        let leaves = job(&program("tenure-cli::kill"), &[], Cores::All);
        let (place, program_of) = match command::can_be_apart() {
            true => (Placement::Shared, "unshare"),
            false => (Placement::Alone, "/p"),
        };
        assert_eq!((leaves.place, leaves.command.get_program().to_str()), (place, Some(program_of)));
        assert_eq!(job(&program("tenure-cli::kill"), &[], Cores::Stopped).place, Placement::Alone);
        let on_one = job(&programs[1], &[], Cores::One).command;
        assert_eq!(step::shown(&on_one), "CARGO_MANIFEST_DIR='/f' taskset --cpu-list 0 /p");
    }
}
