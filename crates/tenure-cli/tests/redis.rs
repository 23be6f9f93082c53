//! The command line on Redis, which `cargo xtask services up` starts.
//!
//! Plan: a namespace begins with its first use, and one that was never used is not taken for an empty one; every check of
//! `crate::common::every_store` holds on it, and a job on a cluster; doctor tells what can lose leases.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::remote::{Remote, told, well};

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
    for arguments in [&["ls"][..], &["doctor"]] {
        let ran = namespace.run(arguments);
        assert!(ran.code == 64 && ran.err.contains("never used"), "{ran:?}");
    }
    assert_eq!(namespace.run(&["run", "k", "--", "true"]).code, 0);
    assert_eq!(namespace.run(&["ls"]).code, 0);
    assert!(well(&namespace.run(&["doctor"])));
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
