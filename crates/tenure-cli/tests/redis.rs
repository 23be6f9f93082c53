//! The command line on Redis, which `cargo xtask services up` starts.
//!
//! Plan: a namespace begins with its first use, and one that was never used is not taken for an empty one; run, ls, show, a fence that
//! grows; one that waits and is woken; an election; ranges; a job shared by two processes on a cluster; a killed holder's key is taken
//! over; doctor; what is wrong with the URL is said without secrets.

mod common;

use common::remote::{Remote, is_refused_without_secrets, told};
use common::wait_for;
use nix::sys::signal::Signal;

/// A namespace that was never used.
fn namespace(name: &str) -> Remote {
    at("TENURE_TEST_REDIS", name)
}

fn at(variable: &str, name: &str) -> Remote {
    Remote::at(format!("{}?namespace=cli-{name}-{}", told(variable), std::process::id()))
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
    namespace("run").runs_commands_under_a_lease();
}

#[test]
fn who_waits_is_woken_and_a_killed_holder_is_succeeded() {
    let namespace = namespace("wait");
    let holder =
        namespace.start(&["run", "k", "--ttl", "2s", "--", "sh", "-c", "echo $$ > held; exec sleep 600"]);
    namespace.bench.await_number("held");
    let waiter =
        namespace.start(&["run", "k", "--ttl", "2s", "--wait", "10m", "--", "sh", "-c", "echo $$ > taken"]);
    holder.signal(Signal::SIGKILL);
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
    first.signal(Signal::SIGTERM);
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
    at("TENURE_TEST_REDIS_CLUSTER", "work").shares_a_job();
}

#[test]
fn what_is_wrong_is_said_without_secrets() {
    let server = told("TENURE_TEST_REDIS");
    let with_login = server.replace("//", "//nobody:hush@");
    for (url, says) in [
        ("redis://u:hush@127.0.0.1:1", "is a Redis server listening there"),
        ("redis://u:hush@localhost?nmaespace=x", "nmaespace"),
        ("redis://u:hush@db.example", "plain=accept"),
        (&with_login, "password is wrong"),
    ] {
        is_refused_without_secrets(url, says);
    }
}
