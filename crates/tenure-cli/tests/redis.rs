//! The command line on Redis, which `cargo xtask services up` starts.
//!
//! Plan: a namespace begins with its first use, and one that was never used is not taken for an empty one; every check of
//! `crate::common::every_store` holds on it, and a job on a cluster; doctor tells what can lose leases; a server that does not answer, or is not there.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that can't go on fails")]
#![allow(clippy::disallowed_methods, reason = "real processes are measured by real time")]

use crate::common::Bench;
use crate::common::remote::{Remote, told, well};
use nix::sys::signal::Signal;
use std::net::TcpListener;
use std::time::{Duration, Instant};

/// A namespace that was never used.
fn namespace(name: &str) -> Remote {
    at("TENURE_TEST_REDIS", name)
}

fn at(variable: &str, name: &str) -> Remote {
    let name: String = name.chars().take(40).collect();
    Remote::at(format!("{}?namespace=cli-{name}-{}&timeout-ms=60000", told(variable), std::process::id()))
}

crate::every_store!(super::namespace);

#[test]
fn a_namespace_begins_with_its_first_use() {
    let namespace = namespace("new");
    let ran = namespace.run(&["ls"]);
    assert!(ran.code == 64 && ran.err.contains("never used"), "{ran:?}");
    // What can lose leases is told before there are any, and nothing is written for it.
    for arguments in [&["doctor"][..], &["doctor", "--read-only"], &["doctor", "--json"]] {
        let ran = namespace.run(arguments);
        assert!([0, 2].contains(&ran.code), "{ran:?}");
        for says in ["never used", "a primary", "durability", "clock offset"] {
            assert!(ran.out.contains(says), "{says}: {ran:?}");
        }
    }
    assert_eq!(namespace.run(&["ls"]).code, 64);
    assert_eq!(namespace.run(&["run", "k", "--", "true"]).code, 0);
    assert_eq!(namespace.run(&["ls"]).code, 0);
    assert!(well(&namespace.run(&["doctor"])));
}

/// Whoever connects waits for ever.
fn silent() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let store = format!("redis://{}/0?namespace=n&timeout-ms=60000", listener.local_addr().unwrap());
    (listener, store)
}

#[test]
fn a_signal_ends_the_wait_for_a_server_that_does_not_answer() {
    let (bench, (_silent, store)) = (Bench::new(), silent());
    for verb in [&["run", "k"][..], &["elect", "k"], &["work", "--name", "j", "u"], &["wait", "k"]] {
        let command = if verb[0] == "wait" { &[][..] } else { &["--", "true"] };
        let mut process = bench.start(&[&["--store", &store], verb, command].concat());
        process.await_signals();
        process.signal(Signal::SIGTERM);
        let began = Instant::now();
        assert_eq!(process.wait(), 143, "{verb:?}");
        assert!(began.elapsed() < Duration::from_secs(30), "{verb:?}");
    }
}

#[test]
fn nothing_is_known_of_a_key_whose_store_can_not_be_had() {
    let bench = Bench::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let store = format!("redis://{}/0?namespace=n", listener.local_addr().unwrap());
    drop(listener);
    let ran = bench.run(&["--store", &store, "wait", "k", "--timeout", "100ms"]);
    assert_eq!(ran.code, 69, "{ran:?}");
}

#[test]
fn doctor_tells_what_can_lose_leases() {
    let namespace = namespace("hazards");
    assert_eq!(namespace.run(&["run", "k", "--", "true"]).code, 0);
    let ran = namespace.run(&["doctor"]);
    for told in [
        "appendfsync everysec",
        "a primary",
        "no replicas",
        "maxmemory 0",
        "clock offset",
        "a change is told of",
    ] {
        assert!(ran.code == 2 && ran.out.contains(told), "{told}: {ran:?}");
    }
}

#[test]
fn a_job_is_shared_on_a_cluster_which_doctor_examines() {
    let clustered = at("TENURE_TEST_REDIS_CLUSTER", "cluster");
    crate::common::every_store::a_job_is_shared(&clustered);
    let ran = clustered.run(&["doctor"]);
    assert!(
        well(&ran) && ran.out.contains("a cluster's primary") && ran.out.contains("one winner each"),
        "{ran:?}"
    );
}
