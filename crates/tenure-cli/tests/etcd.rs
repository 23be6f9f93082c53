//! The command line on etcd, which `cargo xtask services up` starts.
//!
//! Plan: nothing has to be made before, and every check of `crate::common::every_store` holds; doctor tells that ages aren't told, and what a
//! single member is; a killed holder's key is taken also by those who only try.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::remote::{Remote, told, well};
use crate::common::wait_for;

/// A prefix below which nothing is yet.
fn prefix(name: &str) -> Remote {
    Remote::at(format!("{}/cli/{name}-{}?timeout-ms=60000", told("TENURE_TEST_ETCD"), std::process::id()))
}

crate::every_store!(super::prefix);

#[test]
fn doctor_tells_what_the_cluster_is() {
    let ran = prefix("doctor").run(&["doctor"]);
    let told = [
        "silence is observed",
        "waiters are woken",
        "one member only",
        "alarms       none",
        "no time",
        "a change is told of",
    ];
    for told in told {
        assert!(well(&ran) && ran.out.contains(told), "{told}: {ran:?}");
    }
}

/// etcd tells no ages: the first try that finds the holder silent leaves what this host's clocks show, and a later one goes by that.
#[test]
fn l1_a_killed_holder_s_key_is_had_by_one_of_many_who_only_try() {
    let prefix = prefix("tried");
    let holds = "echo $TENURE_FENCE > first; sleep 1000";
    let first = prefix.start(&["run", "k", "--ttl", "2s", "--", "sh", "-c", holds]);
    let old = wait_for("a fence", || prefix.bench.read("first").trim().parse::<u64>().ok());
    first.die_with_its_host();
    // On a busy machine a try may fail for other reasons than that it is held.
    let fence = wait_for("a try that has it", || {
        let ran = prefix.run(&["run", "k", "--ttl", "2s", "--try", "--", "sh", "-c", "echo $TENURE_FENCE"]);
        (ran.code == 0).then(|| ran.out.trim().parse::<u64>().unwrap())
    });
    assert!(fence > old);
}
