//! What becomes of what the commands of `work` write, by the real binary on real files.
//!
//! Plan: outputs in one piece, tagged, in order, saved, logged; a reader that goes away, or stands still; what is told; where output can't be caught, or not
//! all of it, or not written out. (What waits for its turn: `work_order.rs`.)
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]
#![allow(clippy::disallowed_methods, reason = "real processes are measured by real time")]

use crate::common::{Bench, Process, Ran, full_pipe, now_ms, wait_until, work};
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

#[test]
fn what_a_command_writes_stays_in_one_piece() {
    let bench = Bench::new();
    // All four are at work at the same time, and write half lines in turn.
    let script = "touch at.{}; while [ $(ls at.* | wc -l) -lt 4 ]; do sleep 0.01; done; \
                  for n in 1 2 3 4 5; do printf {}; sleep 0.02; printf \"{}\\n\"; done";
    let ran = bench.run(&work(&["-p", "4", "a", "b", "c", "d"], &["sh", "-c", script]));
    let mut pieces: Vec<String> =
        ran.out.lines().collect::<Vec<_>>().chunks(5).map(|lines| lines.join(" ")).collect();
    pieces.sort();
    let whole = |unit: &str| vec![unit.repeat(2); 5].join(" ");
    assert_eq!(pieces, ["a", "b", "c", "d"].map(whole), "{ran:?}");
    let ran = bench.run(&work(&["-u", "--fresh", "-p", "4", "a", "b", "c", "d"], &["sh", "-c", script]));
    assert_eq!(ran.out.len(), 4 * 5 * 3, "it passes through: {ran:?}");
}

#[test]
fn outputs_come_in_the_order_of_the_units_with_tags_on_each_line() {
    let bench = Bench::new();
    // Each waits for the one that is after it.
    let script =
        "echo {#}; printf 'x {}' >&2; while [ {} != c ] && [ ! -e $(($1+1)) ]; do sleep 0.01; done; touch $1";
    let command = ["sh", "-c", script, "sh", "{#}"];
    let ran = bench.run(&work(&["-k", "--tag", "-p", "3", "b", "a", "c"], &command));
    assert_eq!((ran.code, ran.out.as_str()), (0, "b\t1\na\t2\nc\t3\n"), "{ran:?}");
    for line in ["b\tx b\n", "a\tx a\n", "c\tx c\n"] {
        assert!(ran.err.contains(line), "{ran:?}");
    }
}

#[test]
fn outputs_whose_turn_has_not_come_may_be_more_than_files_are_usually_open() {
    let limited = |limit: &str, script: &str| {
        let bench = Bench::new();
        let units: String = (1..=120).map(|n| format!("{n}\n")).collect();
        bench.write("units", &units);
        let line = format!("ulimit {limit} -n 128; exec \"$@\"");
        let mut shell = std::process::Command::new("sh");
        let tenure = env!("CARGO_BIN_EXE_tenure");
        let more = ["-k", "-p", "2", "--from", "units"];
        bench.settle(shell.args(["-c", &line, "sh", tenure]).args(work(&more, &["sh", "-c", script])));
        shell.env("TENURE_STORE", "sqlite:leases.db").stdin(Stdio::null());
        (units, Ran::of(shell.output().unwrap()))
    };
    // The first one waits for the last one.
    let script = "echo {}; if [ {} = 1 ]; then until [ -e 120 ]; do sleep 0.05; done; fi; touch {}";
    let large = format!("{script}; printf %3000s >&2");
    let (units, ran) = limited("-S", &large);
    assert_eq!((ran.code, ran.out), (0, units), "{}", ran.err);
    // A little of each takes no file.
    let (units, ran) = limited("", script);
    assert_eq!((ran.code, ran.out), (0, units), "{}", ran.err);
    let (_, ran) = limited("", &large);
    assert_eq!((ran.code, ran.err.contains("ulimit -n")), (70, true), "{ran:?}");
}

#[test]
fn outputs_are_saved_and_runs_are_logged() {
    let bench = Bench::new();
    let more = ["--results", "out", "--joblog", "log", "d/x", "y"];
    let ran = bench.run(&work(&more, &["sh", "-c", "echo {}; echo bad >&2; [ {} = y ] || exit 3"]));
    assert_eq!((ran.code, ran.out.lines().count()), (1, 2), "{ran:?}");
    let read = |name: &str| bench.read(&format!("out/{name}"));
    assert_eq!([read("y/stdout"), read("y/stderr"), read("y/status")], ["y\n", "bad\n", "0\n"]);
    assert_eq!([read("d%2Fx/stdout"), read("d%2Fx/status")], ["d/x\n", "3\n"]);
    let log = bench.read("log");
    assert!(
        log.starts_with("Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n"),
        "{log}"
    );
    let line = log.lines().find(|line| line.ends_with("[ d/x = y ] || exit 3")).unwrap();
    let columns: Vec<&str> = line.split('\t').collect();
    assert_eq!((columns.len(), columns[5], columns[6], columns[7]), (9, "4", "3", "0"), "{log}");
    let failed = &bench.run(&["work", "status", "j", "--json"]).json()["failed_units"][0];
    assert_eq!(failed["output"], "bad");
    bench.run(&work(&["--joblog", "log", "z"], &["true"]));
    assert_eq!(bench.read("log").matches("Seq").count(), 1, "it is added to");
}

#[test]
fn what_is_saved_and_logged_does_not_wait_for_the_turn_of_its_output() {
    let bench = Bench::new();
    // The first one goes on once it sees both of the second one.
    let script =
        "until [ $1 = b ] || { [ -e out/b/status ] && grep -q 'sh b$' log; }; do sleep 0.01; done; echo $1";
    let more = ["-k", "-p", "2", "--timeout", "30s", "--results", "out", "--joblog", "log", "a", "b"];
    let ran = bench.run(&work(&more, &["sh", "-c", script, "sh", "{}"]));
    assert_eq!((ran.code, ran.out.as_str()), (0, "a\nb\n"), "{ran:?}");
    assert_eq!(["a", "b"].map(|unit| bench.read(&format!("out/{unit}/stdout"))), ["a\n", "b\n"]);
}

#[test]
fn the_log_numbers_units_in_the_order_in_which_they_were_given() {
    let bench = Bench::new();
    // The first one ends last.
    let script = "[ {} != c ] || until grep -q 'touch b$' log && grep -q 'touch a$' log; do sleep 0.01; done; touch {}";
    let ran = bench.run(&work(&["-p", "3", "--joblog", "log", "c", "b", "a"], &["sh", "-c", script]));
    assert_eq!(ran.code, 0, "{ran:?}");
    let log = bench.read("log");
    let numbers = ["c", "b", "a"].map(|unit| {
        let line = log.lines().find(|line| line.ends_with(&format!("touch {unit}"))).unwrap();
        line.split('\t').next().unwrap()
    });
    assert_eq!(numbers, ["1", "2", "3"], "{log}");
    assert!(log.trim_end().ends_with("touch c"), "{log}");
}

#[test]
fn the_log_has_the_slot_and_the_number_that_each_command_was_given() {
    let bench = Bench::new();
    // Neither goes on before both have begun, so both slots are taken.
    let script = "touch begun.{}; for n in a b; do while [ ! -e begun.$n ]; do sleep 0.01; done; done; echo $TENURE_SLOT {%} > out.{}";
    let ran = bench.run(&work(&["-p", "2", "--joblog", "log", "a", "b"], &["sh", "-c", script, "{#}/{%}"]));
    assert_eq!(ran.code, 0, "{ran:?}");
    for (unit, number) in [("a", 1), ("b", 2)] {
        let out = bench.read(&format!("out.{unit}"));
        let (slot, same) = out.trim().split_once(' ').unwrap();
        assert_eq!(slot, same);
        let log = bench.read("log");
        let line = log.lines().find(|line| line.contains(&format!("> out.{unit} "))).unwrap();
        assert!(line.ends_with(&format!("echo $TENURE_SLOT {slot} > out.{unit} {number}/{slot}")), "{log}");
    }
    let slots: std::collections::BTreeSet<String> = ["out.a", "out.b"].map(|out| bench.read(out)).into();
    assert_eq!(slots.len(), 2, "{slots:?}");
}

#[test]
fn who_reads_no_more_ends_the_work_quietly() {
    for more in [["-p", "2"], ["-p", "1"]] {
        let bench = Bench::new();
        let list: String = (0..300).map(|n| format!("{n}\n")).collect();
        bench.write("list", list);
        let mut command =
            bench.tenure(&work(&[&more[..], &["--from", "list"]].concat(), &["sh", "-c", "echo {}"]));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut reader = BufReader::new(child.stdout.take().unwrap());
        reader.read_line(&mut String::new()).unwrap();
        drop(reader);
        let ran = Ran::of(child.wait_with_output().unwrap());
        assert_eq!(ran.code, 128 + 13, "{ran:?}");
        assert!(!ran.err.contains("failed") && !ran.err.contains("roken pipe"), "{ran:?}");
        let status = bench.run(&["work", "status", "j", "--json"]).json();
        assert_eq!((status["failed"].as_u64(), status["running"].as_u64()), (Some(0), Some(0)), "{status}");
    }
}

#[test]
fn who_does_not_read_what_commands_write_holds_up_no_signal() {
    for script in ["touch ran.{}; yes error | head -c 300000 >&2", "touch ran.{}; yes | head -c 300000"] {
        let bench = Bench::new();
        let ((_unread, err), (_unread_either, out)) = (full_pipe(), full_pipe());
        let mut command = bench.tenure(&work(&["-p", "2", "--json", "a", "b"], &["sh", "-c", script]));
        let mut child: Process = command.stdin(Stdio::null()).stdout(out).stderr(err).spawn().unwrap().into();
        let done = || bench.run(&["work", "ls", "--json"]).out.contains("\"done\": 2");
        wait_until("both to run", || {
            ["a", "b"].iter().all(|unit| bench.path(&format!("ran.{unit}")).exists())
        });
        wait_until("both results: they wait for no reader", done);
        child.signal(Signal::SIGTERM);
        wait_until("it to end", || !child.is_running());
        assert_eq!(child.wait(), 143);
    }
}

#[test]
fn who_does_not_read_what_commands_write_holds_up_nothing_that_is_told_elsewhere() {
    let bench = Bench::new();
    let (_unread, out) = full_pipe();
    let units: Vec<String> = (1..=30).map(|n| n.to_string()).collect();
    let units: Vec<&str> = units.iter().map(String::as_str).collect();
    let mut command = bench.tenure(&work(&[&["-v", "-p", "4"], &units[..]].concat(), &["echo", "{}"]));
    let told = std::fs::File::create(bench.path("told")).unwrap();
    let began = now_ms();
    let mut child: Process = command.stdin(Stdio::null()).stdout(out).stderr(told).spawn().unwrap().into();
    wait_until("all to be told", || bench.read("told").matches("exit 0").count() == 30);
    // A quarter of a second for each line of 60 makes 15 seconds.
    assert!(now_ms() - began < 8_000, "{}", now_ms() - began);
    child.signal(Signal::SIGTERM);
    assert_eq!(child.wait(), 143);
}

#[test]
fn who_has_told_tenure_to_stop_is_not_told_of_who_reads_no_more() {
    let bench = Bench::new();
    let script = "case {} in a) echo out a;; b) trap 'sleep 0.5; echo late; exit 1' TERM; touch begun; while :; do sleep 0.05; done;; esac";
    let mut command = bench.tenure(&work(&["-p", "2", "a", "b"], &["sh", "-c", script]));
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    let mut child = Process::from(child);
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    wait_until("the other one to run", || bench.path("begun").exists());
    child.signal(Signal::SIGTERM);
    drop(reader);
    assert_eq!((line.as_str(), child.wait()), ("out a\n", 143));
}

#[test]
fn what_is_to_be_saved_is_not_done_before_it_is() {
    let bench = Bench::new();
    let units = ["a", "b", "c"];
    // Whoever writes to a pipe waits for a reader, as for a disk that stands still.
    std::fs::create_dir_all(bench.path("kept/a")).unwrap();
    nix::unistd::mkfifo(&bench.path("kept/a/stdout"), Mode::S_IRWXU).unwrap();
    let more = [&["--results", "kept", "-p", "2"], units.as_slice()].concat();
    let command = work(&more, &["sh", "-c", "echo {} >> ran; echo ={}="]);
    let mut child = bench.start(&command);
    wait_until("all to be run", || bench.read("ran").lines().count() == 3);
    // Who reads slowly is waited for so long.
    std::thread::sleep(std::time::Duration::from_millis(1500));
    let saved = || units.iter().filter(|unit| bench.path(&format!("kept/{unit}/status")).exists()).count();
    let counts = || {
        let status = bench.run(&["work", "status", "j", "--json"]).json();
        (status["done"].as_u64().unwrap() as usize, status["running"].as_u64().unwrap())
    };
    let (done, running) = counts();
    assert!(done <= saved() && done < 3 && running > 0, "{done} done, {running} run, {} saved", saved());
    child.signal(Signal::SIGTERM);
    assert_eq!(child.wait(), 143);
    let (done, running) = counts();
    assert!(done <= saved() && running == 0, "{done} done, {running} run, {} saved", saved());
    std::fs::remove_file(bench.path("kept/a/stdout")).unwrap();
    let again = bench.run(&command);
    assert_eq!((again.code, saved()), (0, 3), "{again:?}");
    assert_eq!(bench.read("kept/a/stdout"), "=a=\n");
}

#[test]
fn who_has_lost_a_unit_saves_nothing_over_what_the_next_run_has_saved() {
    let bench = Bench::new();
    let of = |whose: &'static str| work(&["--results", "kept", "--ttl", "2s", "u"], &["sh", "-c", whose]);
    let mut first = bench.start(&of("echo half; touch begun; while :; do sleep 0.05; done"));
    wait_until("it to begin", || bench.path("begun").exists());
    bench.stop(&[first.id()]);
    let second = bench.run(&of("echo whole"));
    assert_eq!((second.code, second.out.as_str()), (0, "whole\n"), "{second:?}");
    first.signal(Signal::SIGCONT);
    assert_eq!(first.wait(), 0);
    let saved = ["stdout", "status"].map(|name| bench.read(&format!("kept/u/{name}")));
    assert_eq!(saved, ["whole\n", "0\n"]);
}

#[test]
fn what_is_saved_is_done_though_nobody_reads_it() {
    for order in [&[][..], &["-k"]] {
        let bench = Bench::new();
        let (_unread, out) = full_pipe();
        let more = [&["--results", "kept", "-p", "2"], order, &["a", "b", "c"]].concat();
        let mut program = bench.tenure(&work(&more, &["sh", "-c", "echo ={}="]));
        let mut child: Process =
            program.stdin(Stdio::null()).stdout(out).stderr(Stdio::null()).spawn().unwrap().into();
        let done = || bench.run(&["work", "ls", "--json"]).out.contains("\"done\": 3");
        wait_until("all to be done", done);
        let saved = ["a", "b", "c"].map(|unit| bench.read(&format!("kept/{unit}/stdout")));
        assert_eq!(saved, ["=a=\n", "=b=\n", "=c=\n"]);
        child.signal(Signal::SIGTERM);
        assert_eq!(child.wait(), 143);
    }
}

#[test]
fn nothing_more_is_started_while_many_outputs_wait_for_who_reads_them() {
    let bench = Bench::new();
    let (mut unread, out) = full_pipe();
    let units: String = (1..=300).map(|n| format!("{n}\n")).collect();
    bench.write("units", &units);
    let more = ["-p", "2", "--ttl", "2s", "--from", "units"];
    let mut command = bench.tenure(&work(&more, &["sh", "-c", "echo {} >> ran; echo ={}="]));
    let mut child: Process =
        command.stdin(Stdio::null()).stdout(out).stderr(Stdio::null()).spawn().unwrap().into();
    let ran = || bench.read("ran").lines().count();
    // 32 and one for each slot, and those that had begun by then.
    wait_until("many to wait", || ran() >= 34);
    let mut before = 0;
    wait_until("no more to be started", || {
        std::thread::sleep(std::time::Duration::from_millis(500));
        std::mem::replace(&mut before, ran()) == ran()
    });
    assert!(ran() <= 40, "{}", ran());
    // Who reads on gets the rest. The end of it comes once nobody has the pipe any more.
    drop(command);
    let mut all = String::new();
    unread.read_to_string(&mut all).unwrap();
    assert_eq!((child.wait(), ran(), all.matches('=').count()), (0, 300, 600));
}

#[test]
fn a_directory_for_results_that_can_not_be_written_is_told_before_anything_is_run() {
    let bench = Bench::new();
    let ran = bench.run(&work(&["--results", "/proc", "a"], &["touch", "ran"]));
    assert!(ran.code == 64 && ran.err.contains("--results /proc: can't be written"), "{ran:?}");
    assert!(!bench.path("ran").exists());
    let ran = bench.run(&work(&["--results", "out", "a"], &["echo"]));
    assert_eq!(ran.code, 0, "{ran:?}");
    let left: Vec<_> =
        std::fs::read_dir(bench.path("out")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["a"], "nothing is left of the try");
}

#[test]
fn as_much_is_told_as_is_asked_for() {
    let bench = Bench::new();
    let ran = bench.run(&work(&["-q", "a"], &["true"]));
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
    let ran = bench.run(&work(&["-q", "b"], &["false"]));
    assert!(ran.code == 1 && ran.err.contains("failed: b"), "{ran:?}");
    let ran = bench.run(&work(&["-v", "c"], &["true"]));
    assert!(ran.err.contains("c: starts\n") && ran.err.contains("c: exit 0, in "), "{ran:?}");
}

#[test]
fn where_output_can_not_be_caught_the_directory_is_told_and_not_the_command() {
    let bench = Bench::new();
    let command = work(&["-p", "2", "a", "b"], &["echo"]);
    let ran = Ran::of(bench.tenure(&command).env("TMPDIR", bench.path("gone")).output().unwrap());
    assert_eq!((ran.code, ran.err.contains("command not found")), (64, false), "{ran:?}");
    assert!(ran.err.contains("gone/tenure-") && ran.err.contains("set TMPDIR to a directory"), "{ran:?}");
    assert!(!bench.path("leases.db").exists(), "before anything is made: {ran:?}");
    let ran = bench.run(&command);
    assert_eq!((ran.code, ran.out.lines().count()), (0, 2), "no attempt was counted: {ran:?}");
}

/// Some commands don't notice that what they write is lost.
#[test]
fn a_unit_whose_output_was_cut_off_by_a_full_disk_is_not_done() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path("small")).unwrap();
    // One loses the end of its output, and the other one all of it.
    bench.write(
        "writes",
        "await() { until [ -e $1 ]; do sleep 0.01; done; }
         case $1 in
         a) head -c 300000 /dev/zero 2> /dev/null; touch a.full; await b.done;;
         b) await a.full; echo b 2> /dev/null; touch b.done;;
         esac; exit 0",
    );
    let script = "mount -t tmpfs -o size=200k none small && export TMPDIR=$PWD/small && \
                  exec \"$TENURE\" work --name j -p 2 a b -- sh writes {}";
    let ran = bench.run_with_mounts(script);
    assert_eq!(ran.code, 70, "{ran:?}");
    assert!(ran.err.contains("small is full: the output of ") && ran.err.contains("set TMPDIR"), "{ran:?}");
    // Where there is room they are run once more, and all is there.
    let again = bench.run(&work(&["-p", "2", "a", "b"], &["sh", "-c", "echo $1", "x"]));
    let mut lines: Vec<&str> = again.out.lines().collect();
    lines.sort_unstable();
    assert_eq!((again.code, lines), (0, vec!["a", "b"]), "{again:?}");
    assert!(ran.out.is_empty(), "a part of an output went out: {} bytes", ran.out.len());
}

#[test]
fn a_unit_whose_output_could_not_be_written_out_is_not_done() {
    let bench = Bench::new();
    let command = work(&["-p", "2", "a", "b", "c"], &["sh", "-c", "echo out $1", "x"]);
    let mut full = bench.tenure(&command);
    full.stdout(std::fs::File::options().write(true).open("/dev/full").unwrap());
    let ran = Ran::of(full.output().unwrap());
    assert!(ran.code == 70 && ran.err.contains("standard output can't be written"), "{ran:?}");
    let again = bench.run(&command);
    let mut lines: Vec<&str> = again.out.lines().collect();
    lines.sort_unstable();
    assert_eq!((again.code, lines), (0, vec!["out a", "out b", "out c"]), "{again:?}");
}

#[test]
fn a_unit_whose_errors_could_not_be_written_out_is_not_done() {
    let bench = Bench::new();
    let script = ["sh", "-c", "echo err $1 >&2", "x"];
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    let ran = Ran::of(bench.tenure(&work(&["-p", "2", "a", "b"], &script)).stderr(full()).output().unwrap());
    assert_eq!(ran.code, 70);
    assert_eq!(bench.run(&["work", "status", "j", "--json"]).json()["done"], 0);
    let again = bench.run(&work(&["-p", "2", "a", "b"], &script));
    assert!(again.code == 0 && again.err.contains("err a\n") && again.err.contains("err b\n"), "{again:?}");
    // What nobody reads is not lost by that, and what is saved is not lost at all.
    let (reader, unread) = std::io::pipe().unwrap();
    drop(reader);
    let fresh = work(&["--fresh", "-p", "2", "a", "b"], &script);
    assert_eq!(Ran::of(bench.tenure(&fresh).stderr(unread).output().unwrap()).code, 0);
    let saved = work(&["--fresh", "--results", "out", "a", "b"], &script);
    assert_eq!(Ran::of(bench.tenure(&saved).stderr(full()).output().unwrap()).code, 0);
    assert_eq!(bench.read("out/b/stderr"), "err b\n");
}

#[test]
fn a_limit_on_the_size_of_files_is_told_as_a_full_disk_is() {
    let bench = Bench::new();
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "ulimit -f 0; exec \"$0\" run k -- true", env!("CARGO_BIN_EXE_tenure")]);
    let ran = Ran::of(bench.settle(&mut command).env("TENURE_STORE", "sqlite:leases.db").output().unwrap());
    assert!(ran.code == 69 && ran.err.contains("leases.db"), "{ran:?}");
    // What it starts is killed as it would be without it.
    assert_eq!(bench.run(&["run", "k", "--", "true"]).code, 0);
    let script = "ulimit -S -f 100; exec \"$0\" run k -- sh -c 'head -c 1000000 /dev/zero > large'";
    let mut command = std::process::Command::new("sh");
    command.args(["-c", script, env!("CARGO_BIN_EXE_tenure")]);
    let ran = Ran::of(bench.settle(&mut command).env("TENURE_STORE", "sqlite:leases.db").output().unwrap());
    assert_eq!(ran.code, 128 + nix::sys::signal::Signal::SIGXFSZ as i32, "{ran:?}");
}

#[test]
fn results_of_names_that_look_alike_are_kept_apart() {
    let bench = Bench::new();
    bench.write("list", b"\xff\n\\xff\n\x80\n\xc2\x80\n");
    let ran = bench.run(&work(&["--results", "out", "--from", "list"], &["echo"]));
    assert_eq!(ran.code, 0, "{ran:?}");
    let mut names: Vec<_> =
        std::fs::read_dir(bench.path("out")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["%80", "%C2%80", "%FF", "\\xff"]);
}
