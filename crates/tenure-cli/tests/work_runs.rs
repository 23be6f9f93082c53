//! Which commands `work` runs, and when, by the real binary on real files.
//!
//! Plan: parts of a unit's name and its number in the command; the order of runs; names of any bytes, lines that are none, several units in one, long ones in what is told, and what is shown of those that no key can have; a list that
//! goes on; a command that runs for too long; slots, pauses between starts, a load; a halt, at once, soon, and by a share; a long run after short ones; units that are lost together; what bad values
//! are told, before anything is made.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]
#![allow(clippy::disallowed_methods, reason = "real processes are measured by real time")]

use crate::common::{Bench, Ran, is_alive, shell_status, wait_until, work};
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

#[test]
fn units_are_run_in_the_order_in_which_they_were_given() {
    let bench = Bench::new();
    let units: Vec<String> = (0..300).rev().map(|n| format!("u{n}")).collect();
    bench.write("list", units.join("\n"));
    let ran = bench.run(&work(&["-p", "1", "--from", "list"], &["echo"]));
    assert_eq!(ran.out.lines().collect::<Vec<_>>(), units);
}

#[test]
fn parts_of_a_name_and_its_number_go_into_the_command() {
    let bench = Bench::new();
    let ran =
        bench.run(&work(&["-k", "d/a.b.c", "e"], &["echo", "{#}", "{.}", "{/}", "{//}", "{/.}", "<{}>"]));
    assert_eq!(ran.out, "1 d/a.b a.b.c d a.b <d/a.b.c>\n2 e e . e <e>\n");
}

#[test]
fn a_command_that_runs_for_too_long_has_failed() {
    let bench = Bench::new();
    let ran = bench.run(&work(&["--timeout", "200ms", "a"], &["sh", "-c", "echo begun; sleep 600"]));
    assert!(ran.code == 1 && ran.err.contains("a: stopped after 200ms (--timeout)"), "{ran:?}");
    let failed = &bench.run(&["work", "status", "j", "--json"]).json()["failed_units"][0];
    assert_eq!(failed["exit"], 124);
    // Many end well when they are told to end, in the middle of their work.
    let bench = Bench::new();
    let polite = "trap \"exit 0\" TERM; touch begun; while :; do sleep 0.02; done";
    let ran = bench.run(&work(&["--timeout", "1s", "a"], &["sh", "-c", polite]));
    assert!(ran.code == 1 && bench.read("begun").is_empty() && bench.path("begun").exists(), "{ran:?}");
    let failed = &bench.run(&["work", "status", "j", "--json"]).json()["failed_units"][0];
    assert_eq!(failed["exit"], 124);
}

#[test]
fn units_that_are_known_before_their_line_comes_have_numbers_of_their_own() {
    let bench = Bench::new();
    // Two are left of an earlier run.
    let ran = bench.run(&work(&["-p", "1", "--halt", "now,fail=1", "1", "2", "3"], &["false"]));
    assert_eq!(ran.code, 1, "{ran:?}");
    let mut command = bench.tenure(&work(&["-k", "-p", "1"], &["echo", "{#}", "{}"]));
    let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut list = process.stdin.take().unwrap();
    list.write_all(b"4\n").unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    // What is left may be begun before its line has come.
    let mut told: Vec<String> = vec![lines.next().unwrap().unwrap()];
    list.write_all(b"2\n3\n5\n").unwrap();
    drop(list);
    told.extend(lines.map(Result::unwrap));
    assert_eq!(shell_status(process.wait().unwrap()), 0, "what had failed is not given");
    let numbers: Vec<&str> = told.iter().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(numbers, ["1", "2", "3", "4"], "{told:?}");
}

#[test]
fn starts_are_so_far_apart() {
    let bench = Bench::new();
    let began = std::time::Instant::now();
    let ran = bench.run(&work(&["--delay", "300ms", "-p", "4", "a", "b", "c"], &["true"]));
    // When a command begins is the machine's business; when the last one may end is not.
    assert!(ran.code == 0 && began.elapsed() >= std::time::Duration::from_millis(600), "{ran:?}");
}

#[test]
fn what_is_not_started_soon_is_left_to_others() {
    let bench = Bench::new();
    let script = "touch ran.{}; until [ -e end ]; do sleep 0.02; done";
    let mut slow =
        bench.start(&work(&["--delay", "1h", "-p", "4", "a", "b", "c", "d"], &["sh", "-c", script]));
    let ran =
        || ["a", "b", "c", "d"].iter().filter(|unit| bench.path(&format!("ran.{unit}")).exists()).count();
    wait_until("its first unit to run", || ran() == 1);
    let mut other = bench.start(&work(&["-p", "4", "a", "b", "c", "d"], &["sh", "-c", script]));
    wait_until("the other one to run the rest", || ran() == 4);
    bench.write("end", "");
    assert_eq!((slow.wait(), other.wait()), (0, 0));
}

#[test]
fn a_halt_stops_what_runs_or_waits_for_it() {
    for (halt, slow_is_done) in [("now,fail=1", 0), ("soon,fail=1", 1)] {
        let bench = Bench::new();
        // The second one fails once the first one runs; the third one is never begun.
        let script = "case {} in a) touch go; for n in 1 2 3 4; do sleep 0.1; done;; b) while [ ! -e go ]; do sleep 0.01; done; exit 1;; \
                      c) echo begun;; esac";
        let ran = bench.run(&work(&["--halt", halt, "-p", "2", "a", "b", "c"], &["sh", "-c", script]));
        assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{ran:?}");
        let status = bench.run(&["work", "status", "j", "--json"]).json();
        assert_eq!(status["done"], slow_is_done, "{halt}: {status}");
        assert_eq!((status["failed"].as_u64(), status["running"].as_u64()), (Some(1), Some(0)), "{status}");
    }
    let bench = Bench::new();
    let ran = bench.run(&work(&["--halt", "soon,success=2", "-p", "1", "a", "b", "c", "d"], &["echo"]));
    assert_eq!((ran.code, ran.out.as_str()), (0, "a\nb\n"), "{ran:?}");
    // Nor does it hide what fails, or can't be written, while it is waited for.
    let bench = Bench::new();
    let script = "case $1 in a) while [ ! -e go ]; do sleep 0.01; done;; b) touch go; sleep 1; exit 1;; esac";
    let more = ["--halt", "soon,success=1", "-p", "2", "a", "b"];
    let ran = bench.run(&work(&more, &["sh", "-c", script, "sh", "{}"]));
    assert_eq!(ran.code, 1, "{ran:?}");
    // Nor does it hide a line that is none.
    let bench = Bench::new();
    bench.write("units", format!("a\n{}\nb\n", "x".repeat(5000)));
    let ran = bench.run(&work(&["--halt", "soon,success=1", "-p", "1", "--from", "units"], &["echo"]));
    assert_eq!((ran.code, ran.out.as_str()), (1, "a\n"), "{ran:?}");
}

#[test]
fn a_name_may_be_any_bytes_and_a_line_that_is_none_is_left_out_and_counted() {
    let bench = Bench::new();
    let long = "x".repeat(4096);
    bench.write("list", [b"a\xffb\n".as_slice(), long.as_bytes(), b"\nc\0d\nsha256-0\n"].concat());
    let script = "printf '%s' \"$1\" | wc -c; yes error | head -c 2000 | tr '\\n' ' ' >&2; case $1 in x*) exit 1;; esac";
    let more = ["-k", "-p", "2", "--from", "list"];
    let ran = bench.run(&work(&more, &["sh", "-c", script, "sh", "{}"]));
    assert_eq!((ran.code, ran.out.as_str()), (1, "3\n4096\n8\n"), "{ran:?}");
    assert!(
        ran.err.contains(
            "line 3 of list: the unit \"c\\u{0}d\" holds a NUL, which no argument can; it is left out"
        ),
        "{ran:?}"
    );
    assert!(ran.err.contains(&format!("failed: {long}")), "{ran:?}");
    let failed = &bench.run(&["work", "status", "j", "--json"]).json()["failed_units"][0];
    assert_eq!((failed["unit"].as_str(), failed["unit_hex"].as_str()), (Some(long.as_str()), None));
    // The longest name, and the most that is kept of an output, in one record.
    assert!(failed["output"].as_str().is_some_and(|output| output.len() > 1000), "{failed}");
    let ran = bench.run(&work(&["--tag", "--from", "list", "--fresh"], &["sh", "-c", "echo ok # {/}"]));
    assert_eq!((ran.code, ran.out.lines().count()), (1, 3), "done, but for the line that is none: {ran:?}");
    assert!(ran.out.contains("a\\xffb\tok\n"), "{ran:?}");
    let status = bench.run(&["work", "status", "j", "--json"]).json();
    assert_eq!((status["done"].as_u64(), status["damaged"].as_u64()), (Some(3), Some(0)), "{status}");
}

#[test]
fn a_name_that_is_no_text_is_told_from_one_that_looks_like_it() {
    let bench = Bench::new();
    bench.write("list", b"a\xffb\na\\xffb\n");
    let arguments = work(&["--from", "list", "--json"], &["false"]);
    let document = bench.run(&arguments).json();
    let status = bench.run(&["work", "status", "j", "--json"]).json();
    for document in [document, status] {
        let failed = document["failed_units"].as_array().unwrap();
        let mut names: Vec<_> =
            failed.iter().map(|of| (of["unit"].as_str().unwrap(), of["unit_hex"].as_str())).collect();
        names.sort_unstable();
        assert_eq!(names, [(r"a\xffb", None), (r"a\xffb", Some("61ff62"))]);
    }
}

#[test]
fn a_name_that_stands_in_the_record_is_tried_again_by_that_name() {
    let bench = Bench::new();
    let long = "y".repeat(1000);
    let ran = bench.run(&work(&["-p", "2", &long], &["sh", "-c", "yes | head -c 3000 >&2; exit 1"]));
    assert_eq!(ran.code, 1, "{ran:?}");
    let failed = &bench.run(&["work", "status", "j", "--json"]).json()["failed_units"][0];
    assert_eq!((failed["unit"].as_str(), failed["unit_hex"].as_str()), (Some(long.as_str()), None));
    assert_eq!(bench.run(&["work", "retry", "j", &long]).code, 0);
    assert_eq!(bench.run(&work(&["--join"], &["sh", "-c", "[ ${#1} = 1000 ]", "sh", "{}"])).code, 0);
}

#[test]
fn several_units_go_into_one_command() {
    let bench = Bench::new();
    let ran = bench.run(&work(&["-k", "-n", "2", "a", "b", "c"], &["echo", "{}", "<{}>"]));
    assert_eq!(ran.out, "a b <a b>\nc <c>\n");
    for name in ["-L", "--max-args"] {
        let again = bench.run(&work(&["--fresh", "-k", name, "2", "a", "b", "c"], &["echo", "{}", "<{}>"]));
        assert_eq!(again.out, ran.out, "{name}");
    }
    let status = bench.run(&["work", "status", "j", "--json"]).json();
    assert_eq!(status["units"], 2);
    // A list that has grown by less than a group makes another one.
    let told = "1 name in other groups of this job, too, such as \"c\"";
    let grown = bench.run(&work(&["-k", "-n", "2", "a", "b", "c", "d"], &["echo"]));
    assert!(grown.out == "c d\n" && grown.err.contains(told), "{grown:?}");
    let again = bench.run(&work(&["-k", "-n", "2", "a", "b", "c", "d", "e"], &["echo"]));
    assert!(again.out == "e\n" && !again.err.contains("name in other"), "{again:?}");
}

#[test]
fn a_load_above_the_limit_holds_back_all_but_one() {
    let bench = Bench::new();
    let busy = || {
        let told = std::fs::read_to_string("/proc/loadavg").unwrap();
        told.split(' ').next().unwrap().parse::<f64>().unwrap() >= 0.01
    };
    wait_until("the machine to have something to do", busy);
    let script = "echo begins >> log; sleep 0.3; echo ends >> log";
    let ran = bench.run(&work(&["-p", "3", "--load", "0.001", "a", "b", "c"], &["sh", "-c", script]));
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(bench.read("log"), "begins\nends\n".repeat(3));
}

#[test]
fn units_are_run_before_the_list_has_ended() {
    let bench = Bench::new();
    let mut command = bench.tenure(&work(&["-k", "-p", "2"], &["sh", "-c", "touch ran.{}; echo {#} {}"]));
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut list = child.stdin.take().unwrap();
    for unit in ["b", "a", "c"] {
        list.write_all(format!("{unit}\n").as_bytes()).unwrap();
        wait_until("the unit to run", || bench.path(&format!("ran.{unit}")).exists());
    }
    list.write_all(b"a\nx\0y\nlast").unwrap();
    drop(list);
    let ran = Ran::of(child.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.out.as_str()), (1, "1 b\n2 a\n3 c\n4 last\n"), "{ran:?}");
    assert!(
        ran.err.contains("line 5 of standard input: ") && ran.err.contains("4 of 4 units done"),
        "{ran:?}"
    );
}

#[test]
fn units_that_are_lost_together_are_told_in_one_line_and_are_no_takeovers() {
    let bench = Bench::new();
    let script = "echo $$ > pid.{}; while [ ! -e go ]; do sleep 0.05; done";
    let more = ["--ttl", "2s", "-p", "4", "--json", "a", "b", "c", "d"];
    let mut command = bench.tenure(&work(&more, &["sh", "-c", script]));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pids = ["a", "b", "c", "d"].map(|unit| bench.await_number(&format!("pid.{unit}")));
    bench.stop(&[child.id()]);
    wait_until("the watchdogs to end what it runs", || pids.iter().all(|pid| !is_alive(*pid)));
    bench.write("go", "");
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(child.id().cast_signed()),
        nix::sys::signal::Signal::SIGCONT,
    )
    .unwrap();
    let ran = Ran::of(child.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.err.matches("being lost").count()), (0, 1), "{ran:?}");
    assert!(ran.err.contains(" and 3 more: the leases were being lost"), "{ran:?}");
    let here = &ran.json()["here"];
    assert_eq!((here["taken_over"].as_u64(), here["done"].as_u64()), (Some(0), Some(4)), "{ran:?}");
}

#[test]
fn bad_values_name_the_option_and_the_remedy() {
    let bench = Bench::new();
    for (more, told) in [
        (["--halt", "now"], "--halt now: write never, or now or soon"),
        (["--load", "0"], "--load must be a number above 0, as in 3.5"),
        (["--timeout", "0"], "--timeout 0 would stop each command at once"),
        (["--max-args", "0"], "--max-args 0 gives no command a unit"),
        (["--delay", "soon"], "write it as in 500ms, 30s, 5m, 1h30m or 1d"),
        (["--progress", "often"], "possible values: auto, never"),
        (["--joblog", "no/such"], "--joblog no/such: can't be written"),
        (["--results", "/dev/null/x"], "--results /dev/null/x: can't be made"),
    ] {
        let ran = bench.run(&work(&[&more[..], &["u"]].concat(), &["true"]));
        assert!(ran.code == 64 && ran.err.contains(told), "{ran:?}");
        assert!(!bench.path("leases.db").exists(), "before anything is made: {ran:?}");
    }
}

#[test]
fn no_two_units_run_in_one_slot_at_a_time() {
    let bench = Bench::new();
    // A slot is a directory that only one can make.
    let script = "mkdir slot.{%} && [ {%} = $TENURE_SLOT ] && [ {%} -le 3 ] && sleep 0.02 && rmdir slot.{%}";
    let units: Vec<String> = (0..30).map(|n| format!("u{n}")).collect();
    let units: Vec<&str> = units.iter().map(String::as_str).collect();
    let base = ["work", "--name", "j", "-p", "3", "--retries", "0"];
    let ran = bench.run(&[&base[..], &units, &["--", "sh", "-c", script]].concat());
    assert_eq!(ran.code, 0, "{ran:?}");
}

#[test]
fn a_share_of_failures_halts_it() {
    let bench = Bench::new();
    let units: Vec<String> = (0..40).map(|n| format!("u{n:02}")).collect();
    let units: Vec<&str> = units.iter().map(String::as_str).collect();
    let base = ["work", "--name", "j", "-p", "1", "--retries", "0", "--halt", "soon,fail=50%", "--json"];
    // All but the first fail: the half is there with the second, and counts from the third failure on.
    let script = "echo {} >> ran; n=$(wc -l < ran); [ $n -le 1 ]";
    let ran = bench.run(&[&base[..], &units, &["--", "sh", "-c", script]].concat());
    assert_eq!((ran.code, ran.json()["here"]["failures"].as_u64()), (1, Some(3)), "{ran:?}");
}

#[test]
fn a_long_run_after_short_ones_keeps_no_other_unit_from_other_processes() {
    let bench = Bench::new();
    let script = "touch begun.$1; [ $1 != b ] || until [ -e go ]; do sleep 0.02; done; touch ended.$1";
    let job = ["work", "--name", "j", "-p", "1", "a", "b", "c", "d", "e", "f", "--", "sh", "-c", script, "x"];
    let first = bench.start(&job);
    wait_until("the long run", || bench.path("begun.b").exists());
    let second = bench.start(&job);
    let has_run = |unit: &&str| bench.path(&format!("ended.{unit}")).exists();
    wait_until("the others to be run", || ["c", "d", "e", "f"].iter().all(has_run));
    bench.write("go", "");
    for mut work in [first, second] {
        assert_eq!(work.wait(), 0);
    }
}

#[test]
fn a_unit_with_a_long_name_is_told_by_that_and_not_by_its_digest() {
    let bench = Bench::new();
    let long = format!("/data/{}/17.gz", "part".repeat(200));
    assert_eq!(bench.run(&work(&[&long], &["true"])).code, 0);
    let listed = bench.run(&["ls", "--all", "work/", "--json"]).json();
    let key = listed["leases"][0]["key"].as_str().unwrap().to_owned();
    assert!(key.starts_with("work/j/sha256-"), "{listed}");
    let shown = bench.run(&["show", &key]).out;
    assert!(shown.contains(&format!("\nunit     {long}\n")), "{shown}");
    for document in [&listed["leases"][0], &bench.show(&key)] {
        let job = &document["job"];
        assert_eq!((job["unit"].as_str(), job["unit_name"].as_str()), (key.get(7..), Some(long.as_str())));
    }
    bench.sql("UPDATE tenure_record SET record = x'00' WHERE key LIKE 'work/j/sha256-%'");
    let ran = bench.run(&work(&[&long], &["true"]));
    let told = ran.err.lines().find(|line| line.contains("is left as it is")).unwrap();
    let is_named = told.starts_with("tenure: /data/part") && told.contains("part/17.gz: foreign");
    assert!(is_named && told.contains('…'), "{ran:?}");
}

#[test]
fn of_a_unit_whose_name_stands_in_its_record_no_innards_are_shown() {
    let bench = Bench::new();
    bench.write("list", b"\xff x\n");
    let ran = bench.run(&work(&["--from", "list"], &["false"]));
    assert!(ran.code == 1 && ran.err.contains("; here 0 done, 1 failed attempt, in "), "{ran:?}");
    let listed = bench.run(&["ls", "--all", "work/", "--json"]).json();
    let key = listed["leases"][0]["key"].as_str().unwrap().to_owned();
    let shown = bench.run(&["show", &key]).out;
    assert!(shown.contains("\nfield    status = \"failed\"\n"), "{shown}");
    assert!(!shown.contains("named-") && !shown.contains("\nfield    name = "), "{shown}");
    let job = &bench.show(&key)["job"];
    assert_eq!((job["unit_name"].as_str(), job["unit_hex"].as_str()), (Some(r"\xff x"), Some("ff2078")));
}

#[test]
fn a_unit_whose_lease_is_lost_is_told_with_the_reason() {
    let bench = Bench::new();
    let ran = bench.run(&[
        "work",
        "--name",
        "j",
        "u",
        "--",
        "sh",
        "-c",
        "[ -e lost ] || { touch lost; \"$0\" release work/j/u --now --yes; sleep 100; }",
        env!("CARGO_BIN_EXE_tenure"),
    ]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let says =
        "tenure: u: the lease is lost: it was released, and the command was stopped; the unit is run again";
    assert!(ran.err.contains(says) && !ran.err.contains("--ttl"), "{ran:?}");
}
