//! Which units are one job, and what becomes of a job that is given again, by the real binary on real files.
//!
//! Plan: jobs without a name, in two directories, with two lists; a second night, with and without a name;
//! processes that start together; a list that has grown; failed and damaged units of an earlier run; running anew, alone,
//! beside others, for a part of the units, and on a store that can't be written.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{Bench, Ran, wait_until};
use std::io::Write;
use std::process::{Command, Stdio};

const LOG: [&str; 4] = ["--", "sh", "-c", "echo {} >> $LOG"];

impl In<'_> {
    fn run(&self, arguments: &[&str]) -> Ran {
        self.run_with(arguments, b"")
    }

    fn run_with(&self, arguments: &[&str], input: &[u8]) -> Ran {
        let mut child = self.command(arguments).stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        Ran::of(child.wait_with_output().unwrap())
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.bench.tenure(&[&["work"], arguments].concat());
        command.current_dir(self.bench.path(self.directory)).env("LOG", self.bench.path("log"));
        command.env("TENURE_STORE", format!("sqlite:{}", self.bench.store().display()));
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

/// A directory of a bench, whose store is shared by all of them.
struct In<'a> {
    bench: &'a Bench,
    directory: &'static str,
}

fn within<'a>(bench: &'a Bench, directory: &'static str) -> In<'a> {
    std::fs::create_dir_all(bench.path(directory)).unwrap();
    In { bench, directory }
}

fn logged(bench: &Bench) -> Vec<String> {
    let mut lines: Vec<String> = bench.read("log").lines().map(str::to_owned).collect();
    lines.sort_unstable();
    std::fs::write(bench.path("log"), "").unwrap();
    lines
}

/// The name that `work` has given a job, as it is told.
fn name_of(ran: &Ran) -> String {
    let (_, rest) = ran.err.split_once("--join --name ").unwrap_or_else(|| panic!("{ran:?}"));
    rest.lines().next().unwrap().to_owned()
}

#[test]
fn the_same_list_in_another_directory_is_another_job() {
    let bench = Bench::new();
    let (one, other) = (within(&bench, "one"), within(&bench, "other"));
    let first = one.run_with(&LOG, b"a\nb\n");
    assert_eq!((first.code, logged(&bench)), (0, vec!["a".to_owned(), "b".to_owned()]), "{first:?}");
    let second = other.run_with(&LOG, b"a\nb\n");
    assert_eq!((second.code, logged(&bench).len()), (0, 2), "{second:?}");
    assert_ne!(name_of(&first), name_of(&second));
    // From elsewhere it is joined by its name, as is told.
    let joined = other.run(&[&["--join", "--name", &name_of(&first)], &LOG[..]].concat());
    assert_eq!((joined.code, logged(&bench).len()), (0, 0), "{joined:?}");
    assert!(joined.err.contains("2 units (0 new, 2 settled already)"), "{joined:?}");
}

#[test]
fn a_second_night_with_the_same_list_says_that_all_was_done_and_fails_unless_it_has_a_name() {
    let bench = Bench::new();
    let here = within(&bench, "here");
    assert_eq!(here.run_with(&LOG, b"a\nb\n").code, 0);
    let again = here.run_with(&LOG, b"b\na\n");
    assert_eq!(again.code, 73, "a cron job that skips its work is noticed: {again:?}");
    for text in ["all 2 given units were done before, the last at 2", " ago)", "--fresh", "--name"] {
        assert!(again.err.contains(text), "{text}: {again:?}");
    }
    assert_eq!(logged(&bench), ["a", "b"]);
    let another = here.run_with(&LOG, b"a\nb\nc\n");
    assert_eq!((another.code, logged(&bench)), (0, vec!["c".to_owned()]), "it has grown: {another:?}");
    assert!(another.err.contains("3 units (1 new, 2 settled already)"), "{another:?}");
    let typed = here.run(&[&["a", "b"], &LOG[..]].concat());
    assert_eq!((typed.code, logged(&bench).len()), (0, 2), "typed units are another job: {typed:?}");

    let named = [&["--name", "j", "a"], &LOG[..]].concat();
    assert_eq!((here.run(&named).code, logged(&bench).len()), (0, 1));
    let again = here.run(&named);
    assert_eq!((again.code, logged(&bench).len()), (0, 0), "asked for by name, that is success: {again:?}");
    assert!(again.err.contains("the given unit was done before"), "{again:?}");
    let quiet = here.run(&[&["-q", "--name", "j", "a"], &LOG[..]].concat());
    assert_eq!((quiet.code, quiet.err.as_str()), (0, ""), "nothing is wrong");
    let quiet = here.run_with(&[&["-q"], &LOG[..]].concat(), b"a\nb\nc\n");
    assert!(quiet.code == 73 && quiet.err.contains("done before"), "that is why it fails: {quiet:?}");
}

#[test]
fn who_is_started_at_the_same_time_with_the_same_list_joins() {
    let bench = Bench::new();
    let here = within(&bench, "here");
    let list: String = (0..100).map(|n| format!("{n}\n")).collect();
    let mut children: Vec<_> =
        (0..3).map(|_| here.command(&LOG).stdin(Stdio::piped()).spawn().unwrap()).collect();
    for child in &mut children {
        child.stdin.take().unwrap().write_all(list.as_bytes()).unwrap();
    }
    let all: Vec<Ran> =
        children.into_iter().map(|child| Ran::of(child.wait_with_output().unwrap())).collect();
    // Also those for which nothing was left.
    assert!(all.iter().all(|ran| ran.code == 0), "{all:?}");
    assert_eq!(logged(&bench).len(), 100, "each unit was run once");
}

#[test]
fn a_list_in_a_file_is_the_same_job_when_it_has_grown() {
    let bench = Bench::new();
    let (here, other) = (within(&bench, "here"), within(&bench, "other"));
    bench.write("here/list", "a\nb\n");
    let from = |path| [&["--from", path], &LOG[..]].concat();
    assert_eq!((here.run(&from("list")).code, logged(&bench).len()), (0, 2));
    bench.write("here/list", "a\nb\nc\n");
    let grown = here.run(&from("list"));
    assert_eq!((grown.code, logged(&bench)), (0, vec!["c".to_owned()]), "{grown:?}");
    assert!(grown.err.contains("3 units (1 new, 2 settled already)"), "{grown:?}");
    assert_eq!(here.run(&from("./../here/list")).code, 73, "the same file by another path");
    let pairs = here.run(&[&["-n", "2"], &from("list")[..]].concat());
    assert_eq!(
        (pairs.code, logged(&bench)),
        (0, vec!["a b".into(), "c".into()]),
        "so many a command: {pairs:?}"
    );
    assert_eq!((other.run(&from("../here/list")).code, logged(&bench).len()), (0, 3), "another directory");
    // What is read from a pipe has no path that would be found again.
    let script =
        format!("exec {} work --from <(echo p) -- sh -c 'echo {{}} >> $LOG'", env!("CARGO_BIN_EXE_tenure"));
    for code in [0, 73] {
        let mut bash = Command::new("bash");
        bash.args(["-c", &script]).current_dir(bench.path("here")).env("LOG", bench.path("log"));
        let ran = Ran::of(
            bash.env("TENURE_STORE", format!("sqlite:{}", bench.store().display())).output().unwrap(),
        );
        assert_eq!(ran.code, code, "{ran:?}");
    }
    assert_eq!(logged(&bench), ["p"]);
}

/// Gives units on standard input, each once the one before it is logged.
fn run_slowly(here: &In<'_>, more: &[&str], units: &[&str]) -> Ran {
    let mut child = here.command(&[more, &LOG[..]].concat()).stdin(Stdio::piped()).spawn().unwrap();
    let mut list = child.stdin.take().unwrap();
    for unit in units {
        list.write_all(format!("{unit}\n").as_bytes()).unwrap();
        let log = here.bench.path("log");
        let is_logged =
            || std::fs::read_to_string(&log).unwrap_or_default().lines().any(|line| line == *unit);
        wait_until("the unit to run before the list is over", is_logged);
    }
    drop(list);
    Ran::of(child.wait_with_output().unwrap())
}

#[test]
fn a_list_on_standard_input_has_a_job_before_it_is_over_and_is_the_same_job_the_next_time() {
    let bench = Bench::new();
    let (here, other) = (within(&bench, "here"), within(&bench, "other"));
    let first = run_slowly(&here, &[], &["a", "b", "c"]);
    assert_eq!(first.code, 0, "{first:?}");
    assert!(first.err.contains("the same command here, with units on standard input, joins it"), "{first:?}");
    // As slow as the first one: what was logged before is there at once, so it is the pause that tells.
    let again = slow(&here, &["a", "b", "c"]);
    assert_eq!((again.code, logged(&bench).len()), (73, 3), "nothing was run: {again:?}");
    assert!(again.err.contains("all 3 given units were done before, the last at 2"), "{again:?}");
    let grown = slow(&here, &["a", "d"]);
    assert_eq!((grown.code, logged(&bench)), (0, vec!["d".to_owned()]), "{grown:?}");
    assert_eq!(name_of(&first), name_of(&grown));
    let anew = here.run_with(&[&["--fresh"], &LOG[..]].concat(), b"a\nb\n");
    assert_eq!((anew.code, logged(&bench)), (0, vec!["a".into(), "b".into()]), "{anew:?}");
    let pairs = here.run_with(&[&["-n", "2"], &LOG[..]].concat(), b"a\nb\n");
    assert_eq!((pairs.code, logged(&bench)), (0, vec!["a b".to_owned()]), "so many a command: {pairs:?}");
    assert_eq!((other.run_with(&LOG, b"a\n").code, logged(&bench).len()), (0, 1), "another directory");
}

/// The same, in two parts that are far enough from each other for the list not to be waited for.
fn slow(here: &In<'_>, units: &[&str]) -> Ran {
    let mut child = here.command(&LOG).stdin(Stdio::piped()).spawn().unwrap();
    let mut list = child.stdin.take().unwrap();
    let (first, rest) = units.split_first().unwrap();
    list.write_all(format!("{first}\n").as_bytes()).unwrap();
    let mut told = std::io::BufReader::new(child.stderr.take().unwrap());
    let mut err = String::new();
    while !err.contains("joins it") {
        assert!(std::io::BufRead::read_line(&mut told, &mut err).unwrap() > 0, "{err}");
    }
    list.write_all(rest.join("\n").as_bytes()).unwrap();
    drop(list);
    std::io::Read::read_to_string(&mut told, &mut err).unwrap();
    Ran { err, ..Ran::of(child.wait_with_output().unwrap()) }
}

#[test]
fn an_interrupted_list_on_standard_input_is_gone_on_with() {
    let bench = Bench::new();
    let here = within(&bench, "here");
    let mut child = here.command(&[&["-p", "1"], &LOG[..]].concat()).stdin(Stdio::piped()).spawn().unwrap();
    let mut list = child.stdin.take().unwrap();
    list.write_all(b"a\n").unwrap();
    let jobs = || bench.run(&["work", "ls", "--json"]);
    wait_until("the first unit to be done", || bench.store().exists() && jobs().out.contains("\"done\": 1"));
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(child.id().cast_signed()),
        nix::sys::signal::Signal::SIGINT,
    )
    .unwrap();
    assert_eq!(Ran::of(child.wait_with_output().unwrap()).code, 130, "it does not wait for the list's end");
    drop(list);
    let ran = here.run_with(&LOG, b"a\nb\n");
    assert_eq!((ran.code, logged(&bench)), (0, vec!["a".into(), "b".into()]), "{ran:?}");
}

#[test]
fn a_file_as_standard_input_is_the_same_job_as_that_file() {
    let bench = Bench::new();
    let here = within(&bench, "here");
    bench.write("here/list", "a\nb\n");
    let redirected = |path: &str| {
        let list = std::fs::File::open(bench.path(path)).unwrap();
        Ran::of(here.command(&LOG).stdin(list).output().unwrap())
    };
    let first = redirected("here/list");
    assert_eq!((first.code, logged(&bench).len()), (0, 2), "{first:?}");
    assert!(first.err.contains("here, with units from the same file, joins it"), "{first:?}");
    assert_eq!(here.run(&[&["--from", "list"], &LOG[..]].concat()).code, 73);
    bench.write("here/list2", "a\n");
    assert_eq!((redirected("here/list2").code, logged(&bench).len()), (0, 1), "another file");
    assert_eq!((here.run_with(&LOG, b"a\n").code, logged(&bench).len()), (0, 1), "a pipe is no file");
}

#[test]
fn a_job_that_nothing_names_is_an_error() {
    let bench = Bench::new();
    let here = within(&bench, "here");
    let ran = here.run(&LOG);
    assert_eq!(ran.code, 64, "{ran:?}");
    assert!(ran.err.contains("no units are given") && ran.err.contains("--name"), "{ran:?}");
    let ran = here.run(&[&["--join"], &LOG[..]].concat());
    assert_eq!((ran.code, ran.err.contains("--name")), (64, true), "{ran:?}");
    assert!(!bench.store().exists());
}

#[test]
fn what_failed_in_an_earlier_run_fails_a_later_one_only_if_that_was_given_it() {
    let bench = Bench::new();
    let here = within(&bench, "here");
    let script = "echo {} >> $LOG; [ {} != bad ]";
    let work = |units: &[&str]| {
        here.run(&[&["--name", "j", "--retries", "0", "--json"], units, &["--", "sh", "-c", script]].concat())
    };
    assert_eq!(work(&["bad", "broken"]).code, 1);
    bench.sql("UPDATE tenure_record SET record = x'00' WHERE key = 'work/j/broken'");
    let later = work(&["good"]);
    assert_eq!(later.code, 0, "{later:?}");
    let summary = later.json();
    assert_eq!(
        (&summary["failed"], &summary["damaged"], &summary["failed_before"]),
        (&1.into(), &1.into(), &2.into())
    );
    assert!(later.err.contains("2 of these an earlier run's"), "{later:?}");
    assert_eq!(work(&["good", "bad"]).code, 1, "it was given");
    assert_eq!(work(&["good", "broken"]).code, 1, "it was given");
    assert_eq!(here.run(&["--name", "j", "--join", "--", "true"]).code, 1, "all were");
    // One that fails meanwhile counts, whoever gave it.
    assert_eq!(
        here.run(&["--name", "j", "--retries", "0", "--retry-failed", "other", "--", "sh", "-c", script])
            .code,
        1
    );
}

#[test]
fn what_is_given_is_run_anew_when_that_is_asked_for() {
    let bench = Bench::new();
    let here = within(&bench, "here");
    let script = "echo {} $TENURE_FENCE >> $LOG; [ {} != bad ]";
    let work = |more: &[&str]| {
        here.run(&[&["--name", "j", "--retries", "0"], more, &["--", "sh", "-c", script]].concat())
    };
    assert_eq!(work(&["a", "b", "bad"]).code, 1);
    let first = logged(&bench);
    let again = work(&["--fresh", "a", "bad", "new"]);
    assert_eq!(again.code, 1, "{again:?}");
    assert!(again.err.contains("2 units to be run anew"), "{again:?}");
    let second = logged(&bench);
    let names = |lines: &[String]| {
        lines.iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&second), ["a", "bad", "new"], "what is given, and nothing else");
    let fence = |line: &str| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap();
    assert!(fence(&second[0]) > fence(&first[0]), "{first:?} {second:?}");
    assert_eq!(
        (work(&["--fresh", "--join"]).code, names(&logged(&bench))),
        (1, vec!["a".into(), "b".into(), "bad".into(), "new".into()]),
        "all of the job"
    );
    let unnamed = [&["--fresh", "x"], &LOG[..]].concat();
    assert_eq!((here.run(&unnamed).code, here.run(&unnamed).code, logged(&bench).len()), (0, 0, 2));
}

#[test]
fn a_list_without_a_unit_runs_nothing() {
    let bench = Bench::new();
    let here = within(&bench, "here");
    let job = ["--name", "j"];
    assert_eq!(here.run(&[&job[..], &["a", "b"], &LOG].concat()).code, 0);
    assert_eq!(logged(&bench).len(), 2);
    for list in [String::new(), "\n\n".to_owned(), "x".repeat(5000)] {
        bench.write("here/list", &list);
        let piped = here.run_with(&[&["--fresh"], &job[..], &LOG].concat(), list.as_bytes());
        let file = here.run(&[&["--fresh", "--from", "list"], &job[..], &LOG].concat());
        // What others have left open is not what its writer has asked for.
        let joins = here.run(&[&["--from", "list"], &job[..], &LOG].concat());
        let mut input = here.command(&[&["--fresh"], &job[..], &LOG].concat());
        input.stdin(std::fs::File::open(bench.path("here/list")).unwrap());
        for ran in [piped, file, joins, Ran::of(input.output().unwrap())] {
            let is_told = ran.err.contains("no units are given") && ran.err.contains("--join");
            assert!(ran.code == 64 && is_told, "{ran:?}");
        }
        assert_eq!(logged(&bench), [""; 0]);
    }
    // All of the job is meant by who has no list.
    let mut none = here.command(&[&["--fresh"], &job[..], &LOG].concat());
    let ran = Ran::of(none.stdin(Stdio::null()).output().unwrap());
    assert_eq!((ran.code, logged(&bench).len()), (0, 2), "{ran:?}");
    assert_eq!(here.run(&[&["--fresh", "--join"], &job[..], &LOG].concat()).code, 0);
    assert_eq!(logged(&bench).len(), 2);
    // Nothing is run anew then.
    assert_eq!((here.run(&[&job[..], &LOG].concat()).code, logged(&bench).len()), (0, 0));
}

#[test]
fn nobody_waits_for_ever_to_run_units_anew_on_a_store_that_can_t_be_written() {
    let bench = Bench::new();
    let here = within(&bench, "here");
    let work = ["--fresh", "--name", "j", "a", "--", "true"];
    assert_eq!(here.run(&work).code, 0);
    let writer = rusqlite::Connection::open(bench.store()).unwrap();
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    let err = std::fs::File::create(bench.path("err")).unwrap();
    let mut worker: crate::common::Process = here.command(&work).stderr(err).spawn().unwrap().into();
    assert_eq!(worker.wait(), 69, "{}", bench.read("err"));
    let told = bench.read("err");
    assert!(told.contains("; trying on\n") && told.matches(": busy: ").count() == 2, "{told}");
    drop(writer);
    assert_eq!(here.run(&work).code, 0);
}

#[test]
fn who_finds_nothing_to_run_is_not_taken_for_one_who_is_at_work() {
    let bench = Bench::new();
    let here = within(&bench, "here");
    assert_eq!(here.run(&["a", "--", "true"]).code, 0);
    // It is over before its session may be there: some of so many left it behind.
    for _ in 0..12 {
        assert_eq!(here.run(&["a", "--", "true"]).code, 73);
        let sessions = bench.run(&["ls", "--all", "session/", "--json"]).json();
        let held = sessions["leases"].as_array().unwrap().iter().filter(|lease| lease["state"] == "held");
        assert_eq!(held.count(), 0, "{sessions}");
    }
}

#[test]
fn who_runs_another_command_for_the_units_of_a_job_is_told_by_whom_else_they_are_run() {
    let bench = Bench::new();
    let here = within(&bench, "here");
    let script = "touch begun; until [ -e go ]; do sleep 0.01; done";
    let start = |err: &str, more: &[&str], script: &str| -> crate::common::Process {
        let mut command = here.command(&[&["--name", "j"], more, &["a", "--", "sh", "-c", script]].concat());
        let err = std::fs::File::create(bench.path(err)).unwrap();
        command.stdout(Stdio::null()).stderr(err).spawn().unwrap().into()
    };
    let mut first = start("first", &[], script);
    wait_until("it to begin", || bench.path("here/begun").exists());
    let mut same = start("same", &["-p", "1"], script);
    let mut others = [start("other", &[], "true"), start("groups", &["-n", "2"], script)];
    let told = format!("pid {} runs another command", first.id());
    for err in ["other", "groups"] {
        wait_until("it to be told", || bench.read(err).contains(&told));
    }
    wait_until("it to join", || bench.read("same").contains("0 new"));
    bench.write("here/go", "");
    assert_eq!((first.wait(), same.wait(), others.each_mut().map(|other| other.wait())), (0, 0, [0, 0]));
    assert!(!bench.read("first").contains("another") && !bench.read("same").contains(&told));
}

#[test]
fn nothing_is_run_anew_beside_one_who_is_at_work_on_it() {
    let bench = Bench::new();
    let here = within(&bench, "here");
    let script = "echo {} >> $LOG; [ {} != slow ] || while [ ! -e go ]; do sleep 0.01; done";
    let base = ["--name", "j", "-p", "1", "done", "slow", "--", "sh", "-c", script];
    assert_eq!(here.run(&["--name", "j", "done", "--", "sh", "-c", script]).code, 0);
    let mut first: crate::common::Process = here.command(&base).spawn().unwrap().into();
    wait_until("the slow one to begin", || bench.read("log").ends_with("slow\n"));
    let refused = here.run(&[&["--fresh"], &base[..]].concat());
    assert_eq!(refused.code, 75, "{refused:?}");
    assert!(
        refused.err.contains("--fresh") && refused.err.contains(&format!("pid {}", first.id())),
        "{refused:?}"
    );
    assert_eq!(bench.show("work/j/done")["metadata"]["status"], "done", "nothing was touched");
    // Another job's workers are no matter.
    assert_eq!(here.run(&["--fresh", "--name", "k", "u", "--", "true"]).code, 0);
    bench.write("here/go", "");
    assert_eq!((first.wait(), logged(&bench).len()), (0, 2));
    assert_eq!(
        (here.run(&[&["--fresh"], &base[..]].concat()).code, logged(&bench)),
        (0, vec!["done".into(), "slow".into()])
    );
}
