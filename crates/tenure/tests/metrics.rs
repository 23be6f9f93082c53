//! The names of metrics, which people's dashboards and alarms depend on, in simulated time. Plan: what is documented is exported, with a
//! description, and nothing else is; labels have few values; what alarms look at is there before anything has happened.
#![allow(clippy::unwrap_used, reason = "a test")]

use crate::common::{TTL, World, measured, settle};
use metrics_exporter_prometheus::PrometheusHandle;
use std::collections::BTreeSet;
use tenure::range::{KeyRange, Section};
use tenure::{AnyStore, Loss, StoreError};
use tenure_store::Fault;

/// The names in the table of the crate's page.
fn documented() -> BTreeSet<&'static str> {
    let page = include_str!("../src/lib.rs");
    page.lines().filter_map(|line| line.strip_prefix("//! | `tenure_")?.split('`').next()).collect()
}

/// What a metric without labels shows now.
fn value(counts: &PrometheusHandle, name: &str) -> String {
    let page = counts.render();
    let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_default().to_owned()
}

#[test]
fn what_is_documented_is_exported_with_a_description() {
    let counts = measured(async |counts| {
        let world = World::new();
        let process = world.process();
        let guard = process.leases.acquire("k").await.unwrap();
        tokio::time::sleep(TTL * 2).await;
        let waits = tokio::spawn(process.leases.lock("k").acquire_within(TTL));
        settle().await;
        assert_eq!(value(&counts, "tenure_leases_waiting"), "1");
        assert!(guard.release().await);
        drop(waits.await.unwrap().unwrap());
        settle().await;
        let candidate = process.leases.candidate().key("e").start().unwrap();
        candidate.elected().await.unwrap();
        candidate.stop().await;
        let ranges = Section::builder(AnyStore::new(world.memory.clone()), "s").clock(world.clock.clone());
        let section = ranges.start().unwrap();
        let whole = || "0_10".parse::<KeyRange>().unwrap();
        let parts = section.acquire(whole(), TTL).await.unwrap();
        assert!(section.acquire(whole(), TTL).await.unwrap().parts().is_empty());
        assert!(parts.release().await);
        let expired = section.acquire(whole(), TTL).await.unwrap();
        tokio::time::sleep(TTL * 2).await;
        drop(expired);
        let lost = process.leases.acquire("lost").await.unwrap();
        assert_eq!(value(&counts, "tenure_leases_held"), "1");
        process.faults.always(Fault::Refuse);
        lost.lost().await;
        tokio::time::sleep(TTL).await;
    });
    let page = counts.render();
    let described = page.lines().filter_map(|line| line.strip_prefix("# HELP tenure_")?.split(' ').next());
    let exported = page.lines().filter_map(|line| line.strip_prefix("# TYPE tenure_")?.split(' ').next());
    assert_eq!(exported.collect::<BTreeSet<_>>(), documented(), "{page}");
    assert!(described.collect::<BTreeSet<_>>().is_superset(&documented()), "{page}");
    for line in [
        "tenure_leases_acquired_total 4",
        "tenure_leases_released_total 3",
        "tenure_leases_held 0",
        "tenure_leases_waiting 0",
        "tenure_lease_hold_seconds_count 4",
        "tenure_range_leases_acquired_total 2",
        "tenure_range_leases_ended_total{how=\"released\"} 1",
        "tenure_range_leases_ended_total{how=\"expired\"} 1",
        "tenure_leaderships_begun_total 1",
        "tenure_leaderships_ended_total{cause=\"stopping\"} 1",
        "tenure_leases_lost_total{reason=\"unreachable\"} 1",
        "tenure_store_failures_total{kind=\"unavailable\"}",
        "operation=\"write\",outcome=\"answered\"",
        "tenure_session_remaining_seconds_count",
        "tenure_session_renewal_seconds_count",
    ] {
        assert!(page.contains(line), "{line}: {page}");
    }
}

#[test]
fn leases_are_labelled_by_the_longest_prefix_that_is_named_and_never_by_their_key() {
    let counts = measured(async |counts| {
        let world = World::new();
        let (faults, line) = world.line();
        let builder = world.builder(&line).metrics_by_prefix(["orders/", "orders/eu/"]);
        let leases = builder.start().unwrap();
        let dropped = leases.acquire("orders/secret-1").await.unwrap();
        let waits = tokio::spawn(leases.lock("orders/secret-1").acquire_within(TTL));
        settle().await;
        assert_eq!(value(&counts, "tenure_leases_waiting{prefix=\"orders/\"}"), "1");
        drop(dropped);
        assert!(waits.await.unwrap().unwrap().release().await);
        let candidate = leases.candidate().key("orders/eu/secret-2").start().unwrap();
        candidate.elected().await.unwrap();
        candidate.stop().await;
        let token = leases.lock("secret-3").ttl(TTL).acquire().await.unwrap().into_token().await.unwrap();
        let adopted = leases.adopt(&token).await.unwrap();
        let lost = leases.acquire("secret-4").await.unwrap();
        assert_eq!(value(&counts, "tenure_leases_held{prefix=\"other\"}"), "2");
        assert!(adopted.release().await);
        faults.always(Fault::Refuse);
        lost.lost().await;
        tokio::time::sleep(TTL).await;
    });
    let page = counts.render();
    for line in [
        "tenure_leases_acquired_total{prefix=\"orders/\"} 2",
        "tenure_leases_acquired_total{prefix=\"orders/eu/\"} 1",
        "tenure_leases_acquired_total{prefix=\"other\"} 3",
        "tenure_leases_released_total{prefix=\"orders/\"} 2",
        "tenure_leases_released_total{prefix=\"orders/eu/\"} 1",
        "tenure_leases_released_total{prefix=\"other\"} 1",
        "tenure_leases_lost_total{reason=\"unreachable\",prefix=\"orders/\"} 0",
        "tenure_leases_lost_total{reason=\"unreachable\",prefix=\"other\"} 1",
        "tenure_leases_held{prefix=\"orders/\"} 0",
        "tenure_leases_held{prefix=\"orders/eu/\"} 0",
        "tenure_leases_held{prefix=\"other\"} 0",
        "tenure_leases_waiting{prefix=\"orders/\"} 0",
        "tenure_lease_hold_seconds_count{prefix=\"orders/\"} 2",
        "tenure_lease_hold_seconds_count{prefix=\"other\"} 3",
        "tenure_lease_wait_seconds_count{prefix=\"orders/\"} 2",
    ] {
        assert!(page.lines().any(|shown| shown == line), "{line}: {page}");
    }
    assert!(!page.contains("secret"), "a key is no label: {page}");
    let of_leases =
        page.lines().filter(|line| line.starts_with("tenure_lease_") || line.starts_with("tenure_leases_"));
    let bare: Vec<&str> = of_leases.filter(|line| !line.contains("prefix=\"")).collect();
    assert!(bare.is_empty(), "all of them have the label: {bare:?}");
    let crate_page = include_str!("../src/lib.rs");
    assert!(crate_page.contains("has the label `prefix`"), "the label is documented");
}

#[test]
fn each_reason_of_a_loss_is_documented_and_there_from_the_start() {
    let page = include_str!("../src/lib.rs");
    let row = page.lines().find(|line| line.contains("`tenure_leases_lost_total`")).unwrap();
    let shown = measured(async |_| drop(World::new().process())).render();
    let unreachable = Loss::Unreachable(StoreError::unavailable("down"));
    let failures = page.lines().find(|line| line.contains("`tenure_store_failures_total`")).unwrap();
    let kinds: Vec<&str> = failures.split("`kind`: ").nth(1).unwrap().split('`').skip(1).step_by(2).collect();
    assert_eq!(kinds.len(), 5, "{failures}");
    for kind in kinds {
        let line = format!("tenure_store_failures_total{{kind=\"{kind}\"}} 0\n");
        assert!(shown.contains(&line), "{line}: {shown}");
    }
    for loss in [
        Loss::Expired,
        unreachable,
        Loss::Taken(None),
        Loss::Deleted,
        Loss::Revoked,
        Loss::Released,
        Loss::Overran,
    ] {
        let name = loss.name();
        assert!(row.contains(&format!("`{name}`")), "{loss:?}: {row}");
        assert!(shown.contains(&format!("tenure_leases_lost_total{{reason=\"{name}\"}} 0\n")), "{shown}");
    }
}
