//! `tenure hold`, by the real binary, and by programs in other languages.
//!
//! Plan: what is told, field by field: of a lease that is had, prolonged, asked for, withdrawn, lost and given back; the end of standard
//! input, of standard output, and a signal give it back; a key that is held is refused, and who does not want it any more does not wait;
//! its longest time; the words without --json; the examples in Python and shell do what they say.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{Bench, Process, Ran, full_pipe, now_ms, wait_until};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use tenure::clock::boottime;

/// A holder that is listened to.
struct Holder {
    process: Child,
    output: BufReader<ChildStdout>,
}

impl Holder {
    fn start(bench: &Bench, arguments: &[&str]) -> Holder {
        let mut command = bench.tenure(&[&["hold"], arguments].concat());
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        Holder { process, output }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// The next event of this kind; the lease may be prolonged meanwhile.
    fn event(&mut self, name: &str) -> Value {
        loop {
            let line = self.line();
            let event: Value =
                serde_json::from_str(&line).unwrap_or_else(|_| panic!("no {name:?}, but {line:?}"));
            if event["event"] == name {
                return event;
            }
            assert_eq!(event["event"], "extended", "in place of {name}: {event}");
        }
    }

    fn end(mut self) -> i32 {
        drop(self.process.stdin.take());
        crate::common::shell_status(self.process.wait().unwrap())
    }
}

fn boot_ms() -> u64 {
    u64::try_from(boottime().as_millis()).unwrap()
}

#[test]
fn what_becomes_of_a_lease_is_told_field_by_field() {
    let bench = Bench::new();
    let (boot, wall) = (boot_ms(), now_ms());
    let mut holder = Holder::start(&bench, &["k", "--json", "--ttl", "2s"]);
    let acquired = holder.event("acquired");
    let number = |event: &Value, name: &str| event[name].as_u64().unwrap();
    assert_eq!(
        (&acquired["key"], number(&acquired, "fence")),
        (&"k".into(), bench.show("k")["fence"].as_u64().unwrap())
    );
    assert!(acquired["holder"].as_str().unwrap().len() > 10, "{acquired}");
    let left = number(&acquired, "remaining_ms");
    assert!(left > 0 && left < 2000, "{acquired}");
    let deadline = chrono::DateTime::parse_from_rfc3339(acquired["deadline"].as_str().unwrap()).unwrap();
    let deadline = deadline.timestamp_millis();
    assert!(deadline >= wall && deadline <= now_ms() + 2000, "{acquired}");
    let until = number(&acquired, "deadline_boottime_ms");
    assert!(until > boot && until < boot_ms() + 2000, "{acquired}");
    let extended = holder.event("extended");
    assert!(number(&extended, "deadline_boottime_ms") > until && extended["fence"] == acquired["fence"]);
    assert_eq!(bench.run(&["hold", "k", "--try", "--json"]).code, 75);
    // The end of its input gives it back.
    drop(holder.process.stdin.take());
    assert_eq!(holder.event("released")["key"], "k");
    assert_eq!((holder.end(), bench.state("k")), (0, "vacant".to_owned()));
}

#[test]
fn a_loss_and_its_reason_are_told() {
    let bench = Bench::new();
    let mut holder = Holder::start(&bench, &["k", "--json", "--ttl", "2s"]);
    holder.event("acquired");
    assert_eq!(bench.run(&["revoke", "k", "--yes"]).code, 0);
    assert_eq!(holder.event("asked")["ask"], "revoke");
    let lost = holder.event("lost");
    assert!(lost["reason"].as_str().unwrap().contains("withdrawn") && lost["loss"] == "revoked", "{lost}");
    assert_eq!(holder.end(), 76);
    let mut holder = Holder::start(&bench, &["long", "--json", "--max", "300ms", "--ttl", "1h"]);
    let deadline = holder.event("acquired")["deadline_boottime_ms"].as_u64().unwrap();
    let lost = holder.event("lost");
    assert!(lost["reason"].as_str().unwrap().contains("as long as it may"), "{lost}");
    assert_eq!(lost["loss"], "overran");
    assert!(boot_ms() >= deadline);
    assert_eq!(holder.end(), 76);
    // Nobody waits for the end of its ttl.
    assert_eq!(bench.state("long"), "vacant");
    // The store is gone, and nobody prolongs it.
    let mut holder = Holder::start(&bench, &["kept", "--json", "--ttl", "2s"]);
    let deadline = holder.event("acquired")["deadline_boottime_ms"].as_u64().unwrap();
    bench.move_store("leases.db", "away");
    let lost = holder.event("lost");
    // What a renewal says depends on whether it was under way: the store is gone, has not answered, or has not been asked.
    assert!(lost["reason"].as_str().unwrap().contains(" in time"), "{lost}");
    assert!(["unreachable", "expired"].contains(&lost["loss"].as_str().unwrap()), "{lost}");
    assert!(boot_ms() >= deadline, "{lost}");
    assert_eq!(holder.end(), 76);
}

#[test]
fn who_is_signalled_or_has_no_reader_any_more_gives_it_back() {
    let bench = Bench::new();
    let mut holder = Holder::start(&bench, &["k", "--json"]);
    holder.event("acquired");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(holder.process.id().cast_signed()), Signal::SIGTERM)
        .unwrap();
    holder.event("released");
    assert_eq!((holder.end(), bench.state("k")), (143, "vacant".to_owned()));
    let mut holder = Holder::start(&bench, &["k", "--json", "--ttl", "1s"]);
    holder.event("acquired");
    let Holder { mut process, output } = holder;
    drop(output);
    assert_eq!(crate::common::shell_status(process.wait().unwrap()), 0);
    assert_eq!(bench.state("k"), "vacant");
}

#[test]
fn s1_a_signal_gives_nothing_away_that_its_reader_may_believe_in_until_it_says_so() {
    let bench = Bench::new();
    let hold = ["k", "--json", "--until-eof", "--ttl", "3s"];
    let send = |holder: &Holder, signal: Signal| {
        let id = nix::unistd::Pid::from_raw(holder.process.id().cast_signed());
        nix::sys::signal::kill(id, signal).unwrap();
    };
    let deadline = |event: &Value| event["deadline_boottime_ms"].as_u64().unwrap();
    // The reader is done soon.
    let mut holder = Holder::start(&bench, &hold);
    holder.event("acquired");
    send(&holder, Signal::SIGTERM);
    assert_eq!(holder.event("asked")["ask"], "revoke");
    assert_eq!(bench.state("k"), "held");
    drop(holder.process.stdin.take());
    holder.event("released");
    assert_eq!(holder.end(), 0);
    // It is never done.
    let mut holder = Holder::start(&bench, &hold);
    let until = deadline(&holder.event("acquired"));
    send(&holder, Signal::SIGTERM);
    holder.event("asked");
    holder.event("released");
    assert!(boot_ms() >= until);
    assert_eq!((holder.end(), bench.state("k")), (143, "vacant".to_owned()));
    // It is told twice.
    let mut holder = Holder::start(&bench, &hold);
    let until = deadline(&holder.event("acquired"));
    send(&holder, Signal::SIGTERM);
    holder.event("asked");
    // What comes within 50 ms of the first is taken for an echo.
    std::thread::sleep(std::time::Duration::from_millis(60));
    send(&holder, Signal::SIGHUP);
    holder.event("released");
    assert!(boot_ms() < until);
    assert_eq!(holder.end(), 129);
}

#[test]
fn a_lease_that_nobody_wants_any_more_is_told_of_before_its_end() {
    let bench = Bench::new();
    // Which of both came first was a matter of chance.
    for n in 0..20 {
        let ran = bench.run(&["hold", &n.to_string(), "--json", "--try"]);
        let events: Vec<Value> = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let names: Vec<&str> = events.iter().filter_map(|event| event["event"].as_str()).collect();
        assert_eq!((ran.code, names), (0, vec!["acquired", "released"]), "{ran:?}");
    }
}

#[test]
fn who_is_signalled_while_its_input_ends_says_that_it_gave_it_back() {
    let bench = Bench::new();
    for n in 0..10 {
        let mut holder = Holder::start(&bench, &[&n.to_string(), "--json"]);
        holder.event("acquired");
        let id = nix::unistd::Pid::from_raw(holder.process.id().cast_signed());
        drop(holder.process.stdin.take());
        nix::sys::signal::kill(id, Signal::SIGTERM).unwrap();
        holder.event("released");
        // Which of both came first is a matter of chance.
        assert!([0, 143].contains(&holder.end()));
    }
}

#[test]
fn who_does_not_want_it_any_more_does_not_wait() {
    let bench = Bench::new();
    let mut holder = Holder::start(&bench, &["k"]);
    let line = holder.line();
    assert!(line.starts_with("acquired k with fence "), "{line}");
    let waits = Holder::start(&bench, &["k"]);
    assert_eq!(waits.end(), 75);
    assert_eq!(holder.end(), 0);
}

#[test]
fn no_time_at_all_is_refused_by_the_options_name() {
    let bench = Bench::new();
    let ran = bench.run(&["hold", "--max", "0", "k"]);
    assert!(ran.code == 64 && ran.err.contains("--max 0s") && !bench.path("leases.db").exists(), "{ran:?}");
}

/// Where the examples are.
fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

/// A program with the real binary in its PATH.
fn beside(bench: &Bench, program: &str) -> Command {
    let binaries = Path::new(env!("CARGO_BIN_EXE_tenure")).parent().unwrap();
    let search = format!("{}:{}", binaries.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new(program);
    command.env("PATH", search).env("TENURE_STORE", format!("sqlite:{}", bench.store().display()));
    command
}

/// Runs an example.
fn example(bench: &Bench, program: &str, name: &str) -> String {
    let mut command = beside(bench, program);
    command.arg(examples().join(name)).arg("nightly");
    let output = command.output().unwrap_or_else(|error| panic!("this test needs {program}: {error}"));
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn programs_in_python_and_shell_hold_a_lease() {
    let bench = Bench::new();
    let said = example(&bench, "sh", "hold.sh");
    assert!(said.starts_with("working with fence 1") && said.contains(r#""event":"released""#), "{said}");
    wait_until("it is given back", || bench.state("nightly") == "vacant");
    let said = example(&bench, "python3", "hold.py");
    assert!(said.starts_with("working with fence 1") && said.contains("held: True"), "{said}");
    assert_eq!(bench.state("nightly"), "vacant");
}

#[test]
fn programs_without_a_key_tell_their_usage() {
    let bench = Bench::new();
    for (program, name) in [("sh", "hold.sh"), ("python3", "hold.py")] {
        let ran = Ran::of(beside(&bench, program).arg(examples().join(name)).output().unwrap());
        assert!(ran.code != 0 && ran.err.contains(&format!("usage: {name} KEY")), "{ran:?}");
    }
}

#[test]
fn the_program_in_shell_tells_a_loss_by_its_status() {
    let bench = Bench::new();
    let script = std::fs::read_to_string(examples().join("hold.sh")).unwrap();
    // Somebody takes it amid the commands.
    let (before, after) = script.split_once("# The end of its input").unwrap();
    bench.write("hold.sh", format!("{before}tenure release nightly --now --yes > released\n# {after}"));
    let ran = Ran::of(
        beside(&bench, "sh").arg("hold.sh").arg("nightly").current_dir(bench.path("")).output().unwrap(),
    );
    assert!(ran.code == 76 && ran.out.contains(r#""event":"lost""#), "{ran:?}");
}

#[test]
fn the_program_in_python_knows_its_fence_and_its_lease_until_it_is_over() {
    let bench = Bench::new();
    let program = "\
import subprocess, sys, time
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import hold
heard = []
class Watched(hold.Lease):
    def hear(self, line):
        super().hear(line)
        heard.append(line)
lease = Watched('nightly')
fence = lease.fence
subprocess.run(['tenure', 'revoke', 'nightly', '--yes'], check=True, stdout=subprocess.DEVNULL)
while not any('asked' in line for line in heard): time.sleep(0.01)
print(lease.fence == fence, lease.is_held())
lease.release()
while not any('released' in line or 'lost' in line for line in heard): time.sleep(0.01)
print(lease.fence == fence, lease.is_held())
";
    let ran = beside(&bench, "python3").args(["-c", program]).arg(examples()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "True True\nTrue False\n", "{ran:?}");
}

#[test]
fn the_program_in_shell_leaves_nothing_behind_however_it_ends() {
    let bench = Bench::new();
    let temporary = bench.path("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let left = || std::fs::read_dir(&temporary).unwrap().count();
    let script = || {
        let mut command = beside(&bench, "sh");
        command.arg(examples().join("hold.sh")).arg("nightly").env("TMPDIR", &temporary);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let nowhere = script().env("TENURE_STORE", "sqlite:/nonexistent/leases.db").status().unwrap();
    assert_eq!((nowhere.code(), left()), (Some(75), 0));
    assert_eq!((script().status().unwrap().code(), left()), (Some(0), 0));
    let mut holder = Holder::start(&bench, &["nightly", "--json"]);
    holder.event("acquired");
    for (signal, status) in [(Signal::SIGTERM, 143), (Signal::SIGHUP, 129)] {
        let mut waits: Process = script().spawn().unwrap().into();
        let has_pipes = || {
            let mut folders = std::fs::read_dir(&temporary).unwrap();
            folders.next().is_some_and(|folder| folder.unwrap().path().join("out").exists())
        };
        wait_until("its pipes", has_pipes);
        // A shell that is just about to read hears of a signal only at the next one.
        let mut looks = 0;
        wait_until("it to end", || {
            if looks % 50 == 0 {
                waits.signal(signal);
            }
            looks += 1;
            !waits.is_running()
        });
        assert_eq!((waits.wait(), left()), (status, 0));
    }
    assert_eq!(holder.end(), 0);
    let folder = temporary.as_os_str().as_encoded_bytes();
    let is_left = || {
        let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
        let mut environments =
            processes.filter_map(|process| std::fs::read(process.path().join("environ")).ok());
        environments.any(|environment| environment.windows(folder.len()).any(|part| part == folder))
    };
    wait_until("all of its processes to end", || !is_left());
}

#[test]
fn who_is_not_read_holds_its_lease_no_longer_than_it_is_wanted() {
    let bench = Bench::new();
    let (_unread, full) = full_pipe();
    let mut command = bench.tenure(&["hold", "k", "--json"]);
    let mut holder: Process = command.stdin(Stdio::piped()).stdout(full).spawn().unwrap().into();
    let is_held = || bench.store().exists() && bench.run(&["show", "k", "--json"]).out.contains("\"held\"");
    wait_until("the lease", is_held);
    holder.signal(Signal::SIGTERM);
    assert_eq!(holder.wait(), 143);
    assert_eq!(bench.show("k")["state"], "vacant");

    let (_unread, full) = full_pipe();
    let mut command = bench.tenure(&["hold", "k", "--json"]);
    command.stdin(Stdio::piped()).stdout(full).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    wait_until("the lease", is_held);
    drop(child.stdin.take());
    let ran = Ran::of(child.wait_with_output().unwrap());
    assert!(ran.code == 70 && ran.err.contains("standard output was not read"), "{ran:?}");
    assert_eq!(bench.show("k")["state"], "vacant");
}

#[test]
fn a_loss_that_only_the_release_finds_is_told() {
    let bench = Bench::new();
    let mut holder = Holder::start(&bench, &["k", "--json", "--ttl", "60s"]);
    holder.event("acquired");
    assert_eq!(bench.run(&["release", "k", "--now", "--yes"]).code, 0);
    drop(holder.process.stdin.take());
    let lost = holder.event("lost");
    assert!(lost["reason"].as_str().unwrap().contains("was found"), "{lost}");
    assert!(lost.get("loss").is_none(), "nothing more is known: {lost}");
    assert_eq!(holder.end(), 76);
}
