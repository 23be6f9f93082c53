//! What `work --joblog` writes, and where, by the real binary on real files.
//!
//! Plan: names of any bytes; a pipe that is read late, and one that nobody reads, while leases are renewed; a disk that is full for a while, a reader that goes
//! away; a unit that is withdrawn.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{Bench, Process, Ran, wait_until};
use std::process::Stdio;

fn work<'a>(more: &[&'a str], command: &[&'a str]) -> Vec<&'a str> {
    [&["work", "--name", "j", "--retries", "0", "--joblog", "log"], more, &["--"], command].concat()
}

#[test]
fn a_command_is_logged_byte_for_byte() {
    let bench = Bench::new();
    std::fs::write(bench.path("list"), b"a\xff\n\xfe\n").unwrap();
    let ran = bench.run(&work(&["-p", "1", "--from", "list"], &["true", "x\ty"]));
    assert_eq!(ran.code, 0, "{ran:?}");
    let log = std::fs::read(bench.path("log")).unwrap();
    let ends: Vec<&[u8]> = log.split(|byte| *byte == b'\n').collect();
    for (line, end) in [(1, b"\ttrue x\\ty a\xff".as_slice()), (2, b"\ttrue x\\ty \xfe")] {
        assert!(ends[line].ends_with(end), "{}", ends[line].escape_ascii());
    }
}

#[test]
fn a_pipe_that_is_not_read_holds_up_no_lease_and_no_end() {
    let bench = Bench::new();
    nix::unistd::mkfifo(&bench.path("log"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    // A lease that is not renewed is lost in that time.
    let ran = bench.run(&work(&["--ttl", "500ms", "a"], &["sh", "-c", "sleep 1.5; echo ended"]));
    assert_eq!((ran.code, ran.out.as_str()), (0, "ended\n"), "{ran:?}");
    for told in ["--joblog log: can't be opened yet", "--joblog log: 1 line could not be written in time"] {
        assert!(ran.err.contains(told), "{ran:?}");
    }
    // One that is read late has all.
    let script = "touch began; until [ -e go ]; do sleep 0.01; done";
    let mut late: Process = bench
        .tenure(&work(&["b"], &["sh", "-c", script]))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
        .into();
    wait_until("the command to begin", || bench.path("began").exists());
    let mut reader = std::process::Command::new("cat");
    let reader = bench.settle(reader.arg("log").stdout(Stdio::piped())).spawn().unwrap();
    bench.write("go", "");
    assert_eq!(late.wait(), 0);
    let read = Ran::of(reader.wait_with_output().unwrap());
    assert!(read.out.starts_with("Seq\t") && read.out.lines().count() == 2, "{read:?}");
}

#[test]
fn a_disk_that_is_full_for_a_while_costs_no_line() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path("small")).unwrap();
    // Each line has more bytes than a page, of which a part may be free.
    let script = format!(
        "mount -t tmpfs -o size=64k none small && \
         exec \"$TENURE\" work --name j --timeout 30s --retries 0 -p 1 --joblog small/log a b c d e -- sh -c ' \
         [ $1 != a ] || cat /dev/zero > small/rest 2> /dev/null; [ $1 != e ] || rm small/rest; \
         [ $1 = e ] || exit 0; until [ $(wc -l < small/log) = 5 ]; do sleep 0.01; done; cp small/log kept' {} {{}}",
        "x".repeat(5000)
    );
    let ran = bench.run_with_mounts(&script);
    assert!(ran.code == 0 && ran.err.contains("lines wait for room") && !ran.err.contains("lost"), "{ran:?}");
    let kept = bench.read("kept");
    let ends: Vec<&str> = kept.lines().skip(1).map(|line| line.rsplit(' ').next().unwrap()).collect();
    assert_eq!(ends, ["a", "b", "c", "d"]);
    assert!(kept.lines().all(|line| line.split('\t').count() == 9), "each line is whole: {kept}");
}

#[test]
fn what_a_reader_that_goes_away_has_not_read_is_counted() {
    let bench = Bench::new();
    nix::unistd::mkfifo(&bench.path("log"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let mut reader = std::process::Command::new("sh");
    let mut reader = bench.settle(reader.args(["-c", "head -n 2 log; touch gone"])).spawn().unwrap();
    let script = "[ $1 = a ] || until [ -e gone ]; do sleep 0.01; done";
    let ran = bench.run(&work(&["-p", "1", "a", "b", "c"], &["sh", "-c", script, "x"]));
    assert!(reader.wait().unwrap().success());
    for told in ["it is not gone on with", "--joblog log: 2 lines could not be written, and are lost"] {
        assert!(ran.code == 0 && ran.err.contains(told), "{ran:?}");
    }
}

#[test]
fn a_unit_that_is_withdrawn_has_failed_and_has_a_line() {
    let bench = Bench::new();
    let process = bench.start(&work(&["u"], &["sh", "-c", "touch begun; sleep 100"]));
    wait_until("it to run", || bench.path("begun").exists());
    assert_eq!(bench.run(&["revoke", "work/j/u", "--yes"]).code, 0);
    assert_eq!({ process }.wait(), 1);
    let log = bench.read("log");
    let columns: Vec<&str> = log.lines().nth(1).unwrap().split('\t').collect();
    assert_eq!((columns[0], columns[6], columns[7]), ("1", "76", "0"), "{log}");
}
