//! The metrics of whoever waits, in simulated time. Plan: who waits is counted and timed, for whatever that is; so are permits.
#![allow(clippy::unwrap_used, reason = "a test")]

use crate::common::{Process, TTL, World, measured_in_buckets, settle};
use crate::metrics::{buckets, value};
use std::time::Duration;
use tenure::range::KeyRange;

#[test]
fn permits_are_counted_and_who_waits_for_spread_ones_waits_once() {
    let second = Duration::from_secs(1);
    let counts = measured_in_buckets(async |counts| {
        let world = World::new();
        let (a, b) = (world.process(), world.process());
        let shown = |name: &str| value(&counts, name);
        let two = a.leases.semaphore("plain", 3).take(2).acquire().await.unwrap();
        let all = a.leases.exclusive("alone").acquire().await.unwrap();
        assert_eq!(
            (shown("tenure_permits_held"), shown("tenure_leases_held{kind=\"permit\"}")),
            ("3".into(), "2".into())
        );
        let waits = tokio::spawn(b.leases.semaphore("plain", 3).take(2).acquire());
        settle().await;
        assert_eq!(shown("tenure_permits_waiting"), "2");
        assert!(two.release().await);
        drop(waits.await.unwrap().unwrap());
        assert!(all.release().await);
        settle().await;
        assert_eq!((shown("tenure_permits_held"), shown("tenure_permits_waiting")), ("0".into(), "0".into()));
        // Both records are taken, for many turns.
        let (first, other) = (
            a.leases.semaphore("wide", 2).spread(2).acquire().await.unwrap(),
            a.leases.semaphore("wide", 2).spread(2).acquire().await.unwrap(),
        );
        let waits = tokio::spawn(b.leases.semaphore("wide", 2).spread(2).acquire());
        for _ in 0..8 {
            tokio::time::sleep(second).await;
            assert_eq!(shown("tenure_leases_waiting{kind=\"permit\"}"), "1");
        }
        drop(other);
        let third = waits.await.unwrap().unwrap();
        drop((first, third));
        settle().await;
    });
    let page = counts.render();
    for line in
        ["tenure_leases_waiting{kind=\"permit\"} 0", "tenure_permits_held 0", "tenure_permits_waiting 0"]
    {
        assert!(page.lines().any(|shown| shown == line), "{line}: {page}");
    }
    // Six waits, of which the last took more than a second, and none of its turns is one.
    let waited = "tenure_lease_wait_seconds";
    assert_eq!(buckets(&page, waited, "kind=\"permit\"", "1"), [6, 5], "{page}");
    assert_eq!(buckets(&page, waited, "kind=\"permit\"", "10"), [6, 6], "{page}");
}

#[test]
fn candidates_and_who_wants_ranges_are_counted_and_timed_while_they_wait() {
    let counts = measured_in_buckets(async |counts| {
        let world = World::new();
        let (a, b) = (world.process(), world.process());
        let shown = |name: &str| value(&counts, name);
        let waiting = "tenure_leases_waiting{kind=\"leadership\"}";
        let lead = |process: &Process| process.leases.candidate().key("e").start().unwrap();
        let first = lead(&a);
        first.elected().await.unwrap();
        let second = lead(&b);
        let observer = b.leases.candidate().key("e").observe().unwrap();
        tokio::time::sleep(TTL * 2).await;
        assert_eq!(shown(waiting), "1", "one leads, and one only looks");
        first.stop().await;
        second.elected().await.unwrap();
        settle().await;
        assert_eq!(shown(waiting), "0");
        second.stop().await;
        observer.stop().await;
        let section = |process: &Process| process.leases.section("s").start().unwrap();
        let (mine, other) = (section(&a), section(&b));
        let whole = || "0_10".parse::<KeyRange>().unwrap();
        let parts = mine.try_acquire(whole(), TTL * 9).await.unwrap();
        assert_eq!(shown("tenure_range_leases_held"), "1");
        let waits = tokio::spawn({
            let other = other.clone();
            async move { other.lock(whole(), TTL * 9).all().acquire_within(TTL * 9).await }
        });
        tokio::time::sleep(TTL * 2).await;
        assert_eq!(shown("tenure_range_leases_waiting"), "1");
        assert!(parts.release().await);
        assert!(waits.await.unwrap().unwrap().release().await);
        assert!(other.lock(whole(), TTL).all().try_acquire().await.unwrap().release().await);
    });
    let page = counts.render();
    assert!(
        page.contains("\ntenure_range_leases_waiting 0\n") && page.contains("\ntenure_range_leases_held 0\n"),
        "{page}"
    );
    assert_eq!(buckets(&page, "tenure_lease_wait_seconds", "kind=\"leadership\"", "10"), [2, 1], "{page}");
    let ranges = |name: &str| {
        page.lines().filter(|line| line.starts_with(name)).map(str::to_owned).collect::<Vec<_>>()
    };
    for (name, short) in [("tenure_range_lease_wait_seconds", 2), ("tenure_range_lease_hold_seconds", 2)] {
        let lines = ranges(name);
        assert!(lines.contains(&format!("{name}_count 3")), "{lines:?}");
        assert!(lines.contains(&format!("{name}_bucket{{le=\"10\"}} {short}")), "{lines:?}");
    }
}
