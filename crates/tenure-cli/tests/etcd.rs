//! The command line on etcd, which `cargo xtask services up` starts.
//!
//! Plan: nothing has to be made before; run, ls, show, a fence that grows; a job shared by two processes; a killed holder's key is
//! taken over by one that waits, and by those who only try; the next leader is elected at once; ranges; doctor; what is wrong with the
//! URL is said without secrets.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod common;

use common::remote::{Remote, is_refused_without_secrets, told};
use common::wait_for;
use nix::sys::signal::Signal;

/// A prefix below which nothing is yet.
fn prefix(name: &str) -> Remote {
    Remote::at(format!("{}/cli/{name}-{}", told("TENURE_TEST_ETCD"), std::process::id()))
}

#[test]
fn a_command_runs_under_a_lease() {
    prefix("run").runs_commands_under_a_lease();
}

#[test]
fn a_killed_holder_s_key_is_taken_by_one_that_waits() {
    let prefix = prefix("killed");
    let fence = |name: &str| wait_for("a fence", || prefix.bench.read(name).trim().parse::<u64>().ok());
    let holds = "echo $TENURE_FENCE > first; sleep 1000";
    let first = prefix.start(&["run", "k", "--ttl", "3s", "--", "sh", "-c", holds]);
    let old = fence("first");
    let takes = "echo $TENURE_FENCE > second";
    let mut waits = prefix.start(&["run", "k", "--ttl", "3s", "--wait", "1m", "--", "sh", "-c", takes]);
    first.signal(Signal::SIGKILL);
    assert!(fence("second") > old);
    assert_eq!(waits.wait(), 0);
}

/// etcd tells no ages: the first try that finds the holder silent leaves what this host's clocks show, and a later one goes by that.
#[test]
fn l1_a_killed_holder_s_key_is_had_by_one_of_many_who_only_try() {
    let prefix = prefix("tried");
    let holds = "echo $TENURE_FENCE > first; sleep 1000";
    let first = prefix.start(&["run", "k", "--ttl", "1s", "--", "sh", "-c", holds]);
    let old = wait_for("a fence", || prefix.bench.read("first").trim().parse::<u64>().ok());
    let tries = || prefix.run(&["run", "k", "--ttl", "1s", "--try", "--", "sh", "-c", "echo $TENURE_FENCE"]);
    assert_eq!(tries().code, 75, "it lives");
    first.signal(Signal::SIGKILL);
    let fence = wait_for("a try that is not refused", || {
        let ran = tries();
        assert!(ran.code == 0 || ran.code == 75, "{ran:?}");
        (ran.code == 0).then(|| ran.out.trim().parse::<u64>().unwrap())
    });
    assert!(fence > old);
}

#[test]
fn a_job_is_shared() {
    prefix("work").shares_a_job();
}

#[test]
fn one_leads_and_another_follows() {
    let prefix = prefix("elect");
    let script = "echo $TENURE_FENCE >> terms; while ! [ -e stop ]; do sleep 0.05; done; exit 7";
    let terms = |n: usize| {
        wait_for("the next term", || {
            let terms: Vec<u64> =
                prefix.bench.read("terms").lines().filter_map(|line| line.parse().ok()).collect();
            (terms.len() >= n).then_some(terms)
        })
    };
    let start = || prefix.start(&["elect", "e", "--ttl", "2s", "--", "sh", "-c", script]);
    let mut first = start();
    terms(1);
    let second = start();
    assert!(first.is_running());
    first.signal(Signal::SIGTERM);
    first.wait();
    let terms = terms(2);
    assert!(terms.len() == 2 && terms[1] > terms[0], "{terms:?}");
    prefix.bench.write("stop", "");
    let mut second = second;
    assert_eq!(second.wait(), 7, "its command's status is passed on");
}

#[test]
fn ranges_are_shared_out() {
    let prefix = prefix("range");
    let inner = format!("{} range s 0..30 -- cat", env!("CARGO_BIN_EXE_tenure"));
    let ran = prefix.run(&["range", "s", "10..20", "--", "sh", "-c", &inner]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "0_10\n20_30\n"), "{ran:?}");
}

#[test]
fn doctor_examines_the_store() {
    let ran = prefix("doctor").run(&["doctor"]);
    let told = ["written, read back and removed", "silence is observed", "waiters are woken"];
    assert!(ran.code == 0 && told.iter().all(|told| ran.out.contains(told)), "{ran:?}");
}

#[test]
fn what_is_wrong_is_said_without_secrets() {
    for (url, says) in [
        ("etcd://u:hush@127.0.0.1:1/p", "is etcd listening"),
        ("etcds://u:hush@127.0.0.1:1/p", "is etcd listening"),
        ("etcd://u:hush@10.0.0.7/p", "etcds: for TLS"),
        ("etcd://u:hush@localhost/p?prefxi=x", "prefxi"),
    ] {
        is_refused_without_secrets(url, says);
    }
}
