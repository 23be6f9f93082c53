//! The command line on Redis, which `cargo xtask services up` starts.
//!
//! Plan: a namespace begins with its first use, and one that was never used is not taken for an empty one; run, ls, show, a fence that
//! grows; one that waits and is woken; an election; ranges; a job shared by two processes on a cluster; a killed holder's key is taken
//! over; doctor; what is wrong with the URL is said without secrets.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that can't go on fails")]

mod common;

use common::{Bench, Ran, wait_for};
use std::process::Stdio;

struct Namespace {
    bench: Bench,
    url: String,
}

fn told(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| {
        panic!(
            "{variable} does not say where Redis listens: `cargo xtask services up` starts it and prints that"
        )
    })
}

/// A namespace that was never used.
fn namespace(name: &str) -> Namespace {
    at("TENURE_TEST_REDIS", name)
}

fn at(variable: &str, name: &str) -> Namespace {
    let url = format!("{}?namespace=cli-{name}-{}", told(variable), std::process::id());
    Namespace { bench: Bench::new(), url }
}

impl Namespace {
    fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.bench.tenure(arguments).env("TENURE_STORE", &self.url).output().unwrap())
    }

    fn start(&self, arguments: &[&str]) -> common::Process {
        let mut command = self.bench.tenure(arguments);
        command.env("TENURE_STORE", &self.url).stdout(Stdio::null()).stderr(Stdio::null());
        common::Process::from(command.spawn().unwrap())
    }
}

#[test]
fn a_namespace_begins_with_its_first_use() {
    let namespace = namespace("new");
    for arguments in [&["ls"][..], &["doctor"]] {
        let ran = namespace.run(arguments);
        assert!(ran.code != 0 && ran.err.contains("never used"), "{ran:?}");
    }
    assert_eq!(namespace.run(&["run", "k", "--", "true"]).code, 0);
    assert_eq!(namespace.run(&["ls"]).code, 0);
    let ran = namespace.run(&["doctor"]);
    assert!(ran.code == 0 && ran.out.contains("written, read back and removed"), "{ran:?}");
    assert!(ran.out.contains("appendfsync everysec") && ran.out.contains("fences protect"), "{ran:?}");
}

#[test]
fn a_command_runs_under_a_lease() {
    let namespace = namespace("run");
    let fence = |ran: &Ran| ran.out.trim().parse::<u64>().unwrap_or_else(|_| panic!("{ran:?}"));
    let first = namespace.run(&["run", "k", "--", "sh", "-c", "echo $TENURE_FENCE"]);
    let second = namespace.run(&["run", "k", "--", "sh", "-c", "echo $TENURE_FENCE; exit 7"]);
    assert_eq!((first.code, second.code), (0, 7), "{first:?} {second:?}");
    assert!(fence(&second) > fence(&first));
    let looking = format!("{} show k --json", env!("CARGO_BIN_EXE_tenure"));
    let held = namespace.run(&["run", "k", "--", "sh", "-c", &looking]);
    assert_eq!(held.json()["state"], "held", "{held:?}");
    let tried = format!("{} run k --try -- true; echo $?", env!("CARGO_BIN_EXE_tenure"));
    let ran = namespace.run(&["run", "k", "--", "sh", "-c", &tried]);
    assert_eq!(ran.out, "75\n", "held by another: {ran:?}");
    let listing = namespace.run(&["ls", "--all", "--json"]).json();
    assert!(listing["leases"].as_array().is_some_and(|leases| !leases.is_empty()), "{listing}");
}

#[test]
fn who_waits_is_woken_and_a_killed_holder_is_succeeded() {
    let namespace = namespace("wait");
    let holder =
        namespace.start(&["run", "k", "--ttl", "2s", "--", "sh", "-c", "echo $$ > held; exec sleep 600"]);
    namespace.bench.await_number("held");
    let waiter =
        namespace.start(&["run", "k", "--ttl", "2s", "--wait", "10m", "--", "sh", "-c", "echo $$ > taken"]);
    holder.signal(nix::sys::signal::Signal::SIGKILL);
    namespace.bench.await_number("taken");
    drop(waiter);
}

#[test]
fn a_candidate_leads() {
    let namespace = namespace("elect");
    let first =
        namespace.start(&["elect", "k", "--ttl", "2s", "--", "sh", "-c", "echo 1 > one; exec sleep 600"]);
    assert_eq!(namespace.bench.await_number("one"), 1);
    let _second =
        namespace.start(&["elect", "k", "--ttl", "2s", "--", "sh", "-c", "echo 2 > two; exec sleep 600"]);
    first.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(namespace.bench.await_number("two"), 2);
    wait_for("a leader", || Some(namespace.run(&["leader", "k"])).filter(|ran| ran.code == 0));
}

#[test]
fn ranges_are_leased() {
    let namespace = namespace("range");
    let ran = namespace.run(&["range", "s", "0..100", "--", "sh", "-c", "echo $TENURE_RANGES"]);
    assert!(ran.code == 0 && !ran.out.trim().is_empty(), "{ran:?}");
}

#[test]
fn a_job_is_shared_on_a_cluster() {
    let namespace = at("TENURE_TEST_REDIS_CLUSTER", "work");
    let start = || {
        let arguments =
            ["work", "--name", "j", "--parallel", "4", "--", "sh", "-c", "echo $1 >> done.txt", "x", "{}"];
        let mut command = namespace.bench.tenure(&arguments);
        command.env("TENURE_STORE", &namespace.url).stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let units: String = (0..40).map(|n| format!("u{n}\n")).collect();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), units.as_bytes()).unwrap();
        child
    };
    for child in [start(), start()] {
        let ran = Ran::of(child.wait_with_output().unwrap());
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    let text = std::fs::read_to_string(namespace.bench.path("done.txt")).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!((text.lines().count(), lines.len()), (40, 40), "each unit was run once");
}

#[test]
fn what_is_wrong_is_said_without_secrets() {
    let bench = Bench::new();
    let server = told("TENURE_TEST_REDIS");
    let with_login = server.replace("//", "//nobody:hush@");
    for (url, says) in [
        ("redis://u:hush@127.0.0.1:1", "is a Redis server listening there"),
        ("redis://u:hush@localhost?nmaespace=x", "nmaespace"),
        ("redis://u:hush@db.example", "plain=accept"),
        (&with_login, "password is wrong"),
    ] {
        let ran =
            Ran::of(bench.tenure(&["run", "k", "--", "true"]).env("TENURE_STORE", url).output().unwrap());
        assert!(ran.code != 0 && ran.err.contains(says) && !ran.err.contains("hush"), "{ran:?}");
    }
}
