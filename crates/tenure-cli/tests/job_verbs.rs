//! `work ls`, `status`, `retry` and `rm`, by the real binary on real files.
//!
//! Plan: what is told of a job while it runs, after units have failed, and of one that isn't there; failed units tried again, all
//! of them and some; a job that is removed is run again, and not while somebody works on it, nor if somebody has come since it was asked;
//! the dead are ended before; records that vanish under a worker, or are damaged, or held and damaged, or a newer version's; a unit that is called as a verb; a job of more units than a page.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{Bench, Process, Ran, wait_until};
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use tenure::store::{Attachment, Nonce, Tenure};
use tenure::{Clock, Fence, HolderId, Key, Metadata, Ttl, Value};

/// A job of three units, of which those fail that are in the file `bad`.
const NIGHT: [&str; 12] =
    ["work", "--name", "night", "--retries", "1", "--backoff", "1ms", "a", "b", "c", "--", "sh"];
const SCRIPT: [&str; 2] = ["-c", "echo {} >> log; ! grep -q {} bad || exit 7"];

fn night(bench: &Bench, bad: &str) -> i32 {
    bench.write("bad", bad);
    bench.run(&[&NIGHT[..], &SCRIPT].concat()).code
}

#[test]
fn a_job_is_listed_and_its_failed_units_are_told_with_their_exit_codes() {
    let bench = Bench::new();
    bench.write("bad", "b");
    let ran = bench.run(&[&NIGHT[..], &SCRIPT].concat());
    assert!(
        ran.code == 1 && ran.err.ends_with("with --retry-failed, or by: tenure work retry night\n"),
        "{ran:?}"
    );
    let jobs = bench.run(&["work", "ls", "--json"]).json()["jobs"].clone();
    assert_eq!((jobs[0]["job"].as_str(), jobs[0]["units"].as_u64()), (Some("night"), Some(3)));
    let status = bench.run(&["work", "status", "night", "--json"]).json();
    let told = |field: &str| status[field].as_u64().unwrap();
    assert_eq!((told("done"), told("failed"), told("waiting"), told("running")), (2, 1, 0, 0), "{status}");
    let failed = &status["failed_units"][0];
    assert_eq!((failed["unit"].as_str(), failed["exit"].as_i64()), (Some("b"), Some(7)), "{status}");
    assert_eq!(failed["attempts"], 2);
    assert!(failed["host"].is_string() && failed["finished"].is_string(), "{status}");
    let ran = bench.run(&["work", "status", "night"]);
    assert!(ran.code == 0 && ran.out.contains("units    3: 2 done (66%), 1 failed"), "{ran:?}");
    assert!(ran.out.contains("b: exit 7, on "), "{ran:?}");
    for listed in
        [vec!["work", "ls", "--store", "sqlite:leases.db"], vec!["work", "--store", "sqlite:leases.db", "ls"]]
    {
        assert!(bench.run(&listed).out.contains("night"), "{listed:?}");
    }
    for verb in ["status", "retry", "rm"] {
        let ran = bench.run(&["work", verb, "day"]);
        assert!(ran.code == 66 && ran.err.contains("there is no job \"day\""), "{ran:?}");
    }
}

#[test]
fn units_with_damaged_records_are_named_with_what_is_wrong() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["work", "--name", "j", "a", "b", "c", "--", "true"]).code, 0);
    bench.sql("UPDATE tenure_record SET record = x'00' WHERE key = 'work/j/a'");
    bench.plant("work/j/b", None, Metadata::new());
    let status = bench.run(&["work", "status", "j"]);
    assert!(status.out.contains("\ndamaged\n  work/j/a: foreign or damaged"), "{status:?}");
    assert!(status.out.contains("\n  work/j/b: the record is not one of a job's unit\n"), "{status:?}");
    assert!(status.out.contains("tenure rm --damaged KEY\n"), "{status:?}");
    let status = bench.run(&["work", "status", "j", "--json"]).json();
    let keys: Vec<&str> = status["damaged_units"]
        .as_array()
        .unwrap()
        .iter()
        .map(|unit| unit["key"].as_str().unwrap())
        .collect();
    assert_eq!((keys, &status["damaged"]), (vec!["work/j/a", "work/j/b"], &2.into()), "{status}");
    assert!(status["damaged_units"][0]["problem"].as_str().unwrap().contains("damaged record"), "{status}");
    let few = bench.run(&["work", "status", "j", "--most", "1"]);
    assert!(few.out.contains("… and 1 more; see --most") && !few.out.contains("work/j/b"), "{few:?}");
    // What only a newer version knows is not advised to be removed.
    assert_eq!(bench.run(&["work", "--name", "k", "a", "--", "true"]).code, 0);
    let asleep = Metadata::from([("status".to_owned(), Value::from("asleep"))]);
    bench.plant("work/k/a", None, asleep);
    let newer = bench.run(&["work", "status", "k"]);
    assert!(newer.out.contains("work/k/a: ") && newer.out.contains("upgrade it"), "{newer:?}");
    assert!(!newer.out.contains("rm --damaged"), "{newer:?}");
    assert!(newer.out.contains("units    1: 0 done (0%), 1 that this version can't read\n"), "{newer:?}");
    assert!(newer.out.contains("\nnot read by this version\n  work/k/a: the unit has "), "{newer:?}");
    let status = bench.run(&["work", "status", "k", "--json"]).json();
    assert_eq!((&status["damaged"], &status["damaged_units"][0]["newer"]), (&1.into(), &true.into()));
    let ran = bench.run(&["work", "--name", "k", "a", "--", "true"]);
    assert!(ran.code == 1 && ran.err.contains(", 1 that this version can't read; here 0 done"), "{ran:?}");
    assert!(ran.err.contains("  not read by this version: a\n"), "{ran:?}");
    // Where it is a mistake, the way out is the one that is told.
    assert!(newer.out.contains("remove the whole job (`tenure work rm`)"), "{newer:?}");
    assert_eq!(bench.run(&["work", "rm", "k", "--yes"]).code, 0);
    assert_eq!(bench.run(&["show", "work/k/a"]).code, 66);
}

#[test]
fn units_whose_records_are_not_read_are_told_by_what_they_are_wherever_their_job_is() {
    let bench = Bench::new();
    let work = |more: &[&str]| bench.run(&[&["work", "--name", "j"][..], more, &["--", "true"]].concat());
    assert_eq!(work(&["a", "b", "c"]).code, 0);
    bench.sql("UPDATE tenure_record SET record = x'00' WHERE key = 'work/j/b'");
    bench.sql("UPDATE tenure_record SET record = x'5402a0' WHERE key = 'work/j/c'");
    let ran = work(&["d"]);
    assert!(ran.err.contains("4 units (1 new, 1 settled already, 2 that can't be read)"), "{ran:?}");
    assert!(ran.err.contains("work/j/b: foreign or damaged record: the record is "), "{ran:?}");
    assert!(ran.err.contains("work/j/c: the record has layout version 2"), "{ran:?}");
    let listed = bench.run(&["work", "ls"]);
    let told = "job \"j\": 1 with a damaged record, 1 that this version can't read; `tenure work status`";
    assert!(listed.err.contains(told), "{listed:?}");
    let rm = || bench.run(&["work", "rm", "j", "--yes", "--json"]);
    let ran = rm();
    let told = ["removed", "left", "damaged", "newer"].map(|field| ran.json()[field].as_u64());
    assert_eq!((ran.code, told), (65, [2, 2, 2, 1].map(Some)), "{ran:?}");
    let is_told = ["1 unit with a damaged record", "1 unit that this version can't read", "rm --damaged KEY"];
    assert!(is_told.iter().all(|what| ran.err.contains(what)), "{ran:?}");
    // Nothing is advised that is refused.
    assert_eq!(bench.run(&["rm", "--damaged", "work/j/b", "--yes"]).code, 0);
    let ran = rm();
    assert!(ran.code == 65 && !ran.err.contains("damaged") && ran.err.contains("newer tenure"), "{ran:?}");
}

#[test]
fn a_damaged_record_that_somebody_holds_is_not_advised_to_be_removed() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["work", "--name", "j", "a", "b", "--", "true"]).code, 0);
    let (holder, since) = (HolderId::new("who").unwrap(), tenure::clock::system().now().wall);
    let tenure = Tenure::new(Nonce(7), holder, Ttl::clamped(600_000), since);
    bench.plant("work/j/a", Some(tenure), Metadata::new());
    let status = bench.run(&["work", "status", "j"]).out;
    let advice = "\ntake such a record from its holder: tenure release KEY\n";
    assert!(status.contains("\ndamaged, and held\n  work/j/a: ") && status.contains(advice), "{status}");
    assert!(!status.contains("rm --damaged"), "{status}");
    assert_eq!(bench.run(&["rm", "--damaged", "work/j/a", "--yes"]).code, 64);
    // Of two, each is told with what helps.
    bench.plant("work/j/b", None, Metadata::new());
    let status = bench.run(&["work", "status", "j"]).out;
    let (free, held) = status.split_once("\ndamaged, and held\n").unwrap();
    assert!(free.contains("\ndamaged\n  work/j/b: "), "{status}");
    assert!(free.ends_with(": tenure rm --damaged KEY"), "{status}");
    assert!(held.contains("work/j/a: ") && !held.contains("rm --damaged"), "{status}");
    // As it is advised.
    assert_eq!(bench.run(&["release", "--now", "--yes", "work/j/a"]).code, 0);
    assert_eq!(bench.run(&["rm", "--damaged", "work/j/a", "--yes"]).code, 0);
}

#[test]
fn a_unit_that_waits_to_be_tried_again_is_told_with_why_it_failed_and_when_it_is_due() {
    let bench = Bench::new();
    let script = "[ $1 = new ] && sleep 600; echo why >&2; exit 7";
    let base =
        ["work", "--name", "j", "-p", "2", "--backoff", "1m", "old", "new", "--", "sh", "-c", script, "x"];
    let mut worker = bench.start(&base);
    let told = || bench.run(&["work", "status", "j"]).out;
    wait_until("it to have failed", || told().contains("to be tried again\n"));
    let told = told();
    let (_, rest) = told.split_once("to be tried again\n").unwrap();
    let lines: Vec<&str> = rest.lines().collect();
    assert!(
        lines[0].starts_with("  old: exit 7, on ") && lines[0].contains(", 1 attempt, again in "),
        "{told}"
    );
    assert_eq!(lines[1..], ["    | why"], "what was never tried is none of them");
    assert!(told.contains("1 running, 1 waiting"), "{told}");
    worker.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(worker.wait(), 143);
    assert!(bench.run(&["work", "status", "j"]).out.contains(", 2 waiting\n"));
}

#[test]
fn a_unit_may_be_typed_as_it_is_shown() {
    let bench = Bench::new();
    let words = ["work", "--name", "j", "--retries", "0", "-n", "2", "a", "b", "c", "--", "false"];
    assert_eq!(bench.run(&words).code, 1);
    let told = bench.run(&["work", "status", "j"]).out;
    assert!(told.contains(r"  a\nb: exit 1"), "{told}");
    let ran = bench.run(&["work", "retry", "j", r"a\nb", "--json"]);
    assert!(ran.code == 0 && ran.json()["retried"] == 1, "{ran:?}");
    let ran = bench.run(&["work", "retry", "j", r"a\nc"]);
    assert!(ran.code == 66 && ran.err.contains("has no unit"), "{ran:?}");
}

#[test]
fn what_is_said_to_try_failed_units_again_can_be_typed_so() {
    let bench = Bench::new();
    for name in ["plain", "my job", "it's $HOME"] {
        assert_eq!(bench.run(&["work", "--name", name, "--retries", "0", "a", "--", "false"]).code, 1);
        let told = bench.run(&["work", "status", name]).out;
        let hint = told.lines().find_map(|line| line.strip_prefix("try them again: tenure ")).unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("\"$0\" {hint}"), env!("CARGO_BIN_EXE_tenure")]);
        let ran = Ran::of(bench.settle(&mut shell).env("TENURE_STORE", "sqlite:leases.db").output().unwrap());
        assert_eq!(ran.code, 0, "{hint}: {ran:?}");
        assert_eq!(bench.run(&["work", "status", name, "--json"]).json()["failed"], 0, "{hint}");
    }
}

#[test]
fn who_works_on_a_job_and_what_runs_is_told_and_such_a_job_is_not_removed() {
    let bench = Bench::new();
    bench.write("go", "");
    let mut worker = bench.start(&[
        "work",
        "--name",
        "j",
        "--parallel",
        "2",
        "x",
        "y",
        "z",
        "--",
        "sh",
        "-c",
        "while [ -e go ]; do sleep 0.05; done; :",
    ]);
    wait_until("two to run", || {
        bench.store().exists() && bench.run(&["work", "status", "j", "--json"]).out.contains("\"running\": 2")
    });
    let status = bench.run(&["work", "status", "j", "--json"]).json();
    assert_eq!(
        (status["waiting"].as_u64(), status["workers"][0]["pid"].as_u64()),
        (Some(1), Some(worker.id().into()))
    );
    assert_eq!(status["workers"][0]["units"], 2, "{status}");
    let ran = bench.run(&["work", "rm", "j", "--yes"]);
    assert!(ran.code == 75 && ran.err.contains(&format!("pid {}", worker.id())), "{ran:?}");
    std::fs::remove_file(bench.path("go")).unwrap();
    assert_eq!(worker.wait(), 0);
    assert_eq!(bench.run(&["work", "status", "j", "--json"]).json()["done"], 3);
}

#[test]
fn the_list_of_records_tells_how_units_ended() {
    let bench = Bench::new();
    let job = ["work", "--name", "j", "--retries", "0", "good", "bad", "--", "test", "{}", "=", "good"];
    let ran = bench.run(&job);
    assert!(ran.code == 1 && ran.err.contains("failed: bad: exit 1, 1 attempt"), "{ran:?}");
    let states = || {
        let listing = bench.run(&["ls", "--all", "work/"]).out;
        let row = |line: &str| {
            line.split("  ").map(str::trim).filter(|it| !it.is_empty()).nth(1).map(str::to_owned)
        };
        listing.lines().skip(1).filter_map(row).collect::<Vec<_>>()
    };
    assert_eq!(states(), ["vacant (failed)", "vacant (done)"]);
    assert_eq!(bench.run(&["work", "retry", "j"]).code, 0);
    assert_eq!(states(), ["vacant (pending)", "vacant (done)"]);
    assert_eq!(bench.show("work/j/good")["job"]["status"], "done");
}

#[test]
fn a_unit_that_is_withdrawn_is_said_to_be_and_has_failed() {
    let bench = Bench::new();
    let job = [
        "work",
        "--name",
        "j",
        "--ttl",
        "3s",
        "--retries",
        "0",
        "u",
        "--",
        "sh",
        "-c",
        "echo $$ > pid; exec sleep 600",
    ];
    let mut command = bench.tenure(&job);
    let work =
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    bench.await_number("pid");
    assert_eq!(bench.run(&["revoke", "work/j/u", "--yes"]).code, 0);
    let ran = crate::common::Ran::of(work.wait_with_output().unwrap());
    assert!(ran.code == 1 && ran.err.contains("u: the lease was withdrawn"), "{ran:?}");
    assert!(ran.err.contains("failed: u: exit 76, 1 attempt"), "{ran:?}");
}

#[test]
fn failed_units_are_tried_again_all_of_them_or_some() {
    let bench = Bench::new();
    assert_eq!(night(&bench, "b\nc"), 1);
    let ran = bench.run(&["work", "retry", "night", "a"]);
    assert!(ran.code == 66 && ran.err.contains("none of these units"), "{ran:?}");
    let ran = bench.run(&["work", "retry", "night", "q"]);
    assert!(ran.code == 66 && ran.err.contains("no unit \"q\""), "{ran:?}");
    assert_eq!(bench.run(&["work", "retry", "night", "b", "--json"]).json()["retried"], 1);
    bench.write("log", "");
    assert_eq!(night(&bench, "c"), 1, "c has failed as before");
    assert_eq!(bench.read("log"), "b\n");
    assert_eq!(bench.run(&["work", "retry", "night"]).code, 0);
    bench.write("log", "");
    assert_eq!((night(&bench, ""), bench.read("log").as_str()), (0, "c\n"));
}

#[test]
fn a_job_that_was_removed_is_run_again() {
    let bench = Bench::new();
    assert_eq!(night(&bench, ""), 0);
    let ran = bench.run(&["work", "rm", "night"]);
    assert!(ran.code == 64 && ran.err.contains("--yes"), "{ran:?}");
    assert_eq!(bench.run(&["work", "rm", "night", "--yes", "--json"]).json()["removed"], 3);
    assert!(bench.run(&["work", "ls"]).err.contains("there are no jobs"));
    bench.write("log", "");
    assert_eq!((night(&bench, ""), bench.read("log").lines().count()), (0, 3));
}

#[test]
fn the_dead_are_ended_before_the_units_of_their_job_go() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["work", "--name", "j", "a", "--", "true"]).code, 0);
    let whose = Tenure::new(Nonce(7), HolderId::new("w").unwrap(), Ttl::clamped(100), tenure::Wall(0));
    let about = Metadata::from([("work".to_owned(), Value::from("j"))]);
    bench.plant("session/w", Some(whose.clone()), about);
    let fence = bench.show("session/w")["fence"].as_u64().unwrap();
    let on = Attachment { session: Key::new("session/w").unwrap(), fence: Fence(fence) };
    bench.plant("work/j/a", Some(Tenure { attachment: Some(on), ..whose }), Metadata::new());
    wait_until("it to be dead", || bench.run(&["work", "rm", "j", "--yes"]).code == 0);
    // A renewal of its that lands late is refused.
    let ended = bench.show("session/w");
    assert!(ended["state"] == "vacant" && ended["fence"] == fence + 1, "{ended}");
}

#[test]
fn a_job_is_not_removed_if_somebody_works_on_it_by_the_time_of_the_answer() {
    let bench = Bench::new();
    assert_eq!(night(&bench, ""), 0);
    let (pty, terminal) = pty_process::blocking::open().unwrap();
    let mut command = pty_process::blocking::Command::new(env!("CARGO_BIN_EXE_tenure"));
    command = command.args(["work", "rm", "night"]).current_dir(bench.path(".")).stderr(Stdio::piped());
    command = command.env("TENURE_STORE", "sqlite:leases.db").env("TENURE_CONFIG", "/dev/null");
    let mut remover = command.spawn(terminal).unwrap();
    let mut said = remover.stderr.take().unwrap();
    let mut asked = Vec::new();
    while !asked.ends_with(b"[y/N] ") {
        let mut byte = [0];
        said.read_exact(&mut byte).unwrap();
        asked.push(byte[0]);
    }
    // One at a time: most of them wait when the answer comes.
    let script = "touch began; while [ ! -e go ]; do sleep 0.01; done; echo {} >> later";
    let mut worker =
        bench.start(&["work", "--name", "night", "-p", "1", "n1", "n2", "n3", "--", "sh", "-c", script]);
    wait_until("the worker to begin", || bench.path("began").exists());
    (&pty).write_all(b"y\n").unwrap();
    let mut text = String::new();
    said.read_to_string(&mut text).unwrap();
    assert_eq!(remover.wait().unwrap().code(), Some(75), "{text}");
    assert!(text.contains(&format!("is being worked on, by pid {}", worker.id())), "{text}");
    bench.write("go", "");
    assert_eq!((worker.wait(), bench.read("later").lines().count()), (0, 3), "all that it was given");
    assert_eq!(bench.run(&["work", "status", "night", "--json"]).json()["units"], 6, "nothing was removed");
}

#[test]
fn units_that_are_done_are_kept_while_a_process_waits_for_more_of_their_job() {
    let bench = Bench::new();
    let ran = ["work", "--name", "stream", "--", "sh", "-c", "echo {} >> ran"];
    let mut streaming = bench.tenure(&ran);
    let mut streaming = streaming.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut list = streaming.stdin.take().unwrap();
    list.write_all(b"a\n").unwrap();
    wait_until("the first unit to be done", || {
        bench.path("ran").exists() && bench.run(&["work", "status", "stream", "--json"]).json()["done"] == 1
    });
    let gc = || bench.run(&["gc", "work/", "--older-than", "0s", "--yes", "--json"]).json();
    assert_eq!((gc()["removed"].as_u64(), gc()["kept_for_unfinished_jobs"].as_u64()), (Some(0), Some(1)));
    list.write_all(b"a\nb\n").unwrap();
    drop(list);
    assert!(streaming.wait().unwrap().success());
    assert_eq!(bench.read("ran"), "a\nb\n");
    assert_eq!(gc()["removed"].as_u64(), Some(2), "nobody is at it any more");
    // Whoever was killed there is not at it for long.
    let mut killed = bench.tenure(&[&ran[..2], &["stream", "--ttl", "1s"], &ran[3..]].concat());
    let mut killed = killed.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    killed.stdin.as_mut().unwrap().write_all(b"c\n").unwrap();
    // All others were removed.
    wait_until("the third unit to be done", || {
        bench.read("ran").ends_with("c\n")
            && bench.run(&["work", "status", "stream", "--json"]).json()["done"] == 1
    });
    killed.kill().unwrap();
    killed.wait().unwrap();
    wait_until("the killed process to be forgotten", || gc()["removed"].as_u64() == Some(1));
}

#[test]
fn a_unit_whose_record_vanishes_is_no_success_and_is_not_waited_for() {
    // At first they are free, and then wait for another attempt, so that nobody would ever find them by claiming them.
    for waiting in [false, true] {
        let bench = Bench::new();
        let job = |script: &str| {
            let base = ["work", "--name", "j", "-p", "1", "--backoff", "5m", "--json"];
            bench.tenure(&[&base[..], &["a", "b", "c", "--", "sh", "-c", script]].concat())
        };
        let script = if waiting { "[ {} = a ] || exit 1; " } else { "" };
        let script = format!("{script}touch began.{{}}; while [ ! -e go ]; do sleep 0.01; done");
        let to = |name: &str| std::fs::File::create(bench.path(name)).unwrap();
        let mut worker: Process = job(&script).stdout(to("out")).stderr(to("err")).spawn().unwrap().into();
        wait_until("the worker to begin", || bench.path("began.a").exists());
        if waiting {
            bench.write("go", "");
            let tried = || bench.run(&["work", "status", "j", "--json"]).json()["waiting"] == 2;
            wait_until("a to be done, and the others to wait", || {
                tried() && bench.show("work/j/c")["metadata"]["attempts"] == 1
            });
        }
        // As by a copy of the file that is older.
        bench.sql("DELETE FROM tenure_record WHERE key IN ('work/j/b', 'work/j/c')");
        bench.write("go", "");
        let ran = Ran { code: worker.wait(), out: bench.read("out"), err: bench.read("err") };
        assert_eq!(ran.code, 1, "{ran:?}");
        let told = ran.json();
        assert_eq!((&told["units"], &told["done"], &told["removed"]), (&1.into(), &1.into(), &2.into()));
        assert_eq!(told["removed_units"], serde_json::json!(["b", "c"]));
        assert!(ran.err.contains("1 of 1 unit done, 2 removed before they were done"), "{ran:?}");
        assert!(ran.err.contains("  removed: b\n") && ran.err.contains("if it is given again"), "{ran:?}");
        let again = Ran::of(job(":").output().unwrap());
        assert_eq!((again.code, &again.json()["done"]), (0, &3.into()), "given again: {again:?}");
    }
}

#[test]
fn a_word_before_a_command_is_a_unit_though_it_is_called_as_a_verb() {
    let bench = Bench::new();
    for unit in ["ls", "status", "rm", "retry"] {
        let ran = bench.run(&["work", unit, "--", "echo"]);
        assert_eq!((ran.code, ran.out), (0, format!("{unit}\n")), "{}", ran.err);
    }
}

#[test]
fn a_job_of_more_units_than_a_page_is_retried_and_removed_as_a_whole() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["work", "--name", "j", "--retries", "0", "u", "--", "false"]).code, 1);
    bench.sql(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2200) \
         INSERT INTO tenure_record SELECT 'work/j/u' || i, version, fence, tenure, ride_key, ride_fence, record, boot, written_ns \
         FROM n, tenure_record WHERE key = 'work/j/u'",
    );
    let some = bench.run(&["work", "retry", "j", "u7", "u2199", "--json"]).json();
    assert_eq!(some["retried"], 2);
    let absent = bench.run(&["work", "retry", "j", "u2201"]);
    assert!(absent.code == 66 && absent.err.contains("has no unit \"u2201\""), "{absent:?}");
    assert_eq!(bench.run(&["work", "retry", "j", "--json"]).json()["retried"], 2199);
    let none = bench.run(&["work", "retry", "j"]);
    assert!(none.code == 66 && none.err.contains("no unit of the job \"j\" has failed"), "{none:?}");
    let removed = bench.run(&["work", "rm", "j", "--yes", "--json"]).json();
    assert_eq!((&removed["removed"], &removed["left"]), (&2201.into(), &0.into()), "{removed}");
}
