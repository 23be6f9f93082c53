//! The names of metrics, which people's dashboards and alarms depend on, in simulated time. Plan: what is documented is exported, with a
//! description, and nothing else is; labels have few values; what alarms look at is there before anything has happened. What renews itself is
//! measured, whatever it is, and what nears its end shows. What is dropped shows in no gauge. Who waits is in `metrics_waits.rs`.
#![allow(clippy::unwrap_used, reason = "a test")]

use crate::common::{TTL, TestStore, World, measured, measured_in_buckets, settle};
use metrics_exporter_prometheus::PrometheusHandle;
use std::collections::BTreeSet;
use std::time::Duration;
use tenure::fleet::{Fleet, Worker};
use tenure::range::{KeyRange, Section};
use tenure::{AnyStore, Candidate, Guard, Loss};
use tenure_store::Fault;

/// The names in the table of the crate's page.
fn documented() -> BTreeSet<&'static str> {
    let page = include_str!("../src/lib.rs");
    page.lines().filter_map(|line| line.strip_prefix("//! | `tenure_")?.split('`').next()).collect()
}

/// What a metric without labels shows now.
pub(crate) fn value(counts: &PrometheusHandle, name: &str) -> String {
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
        assert_eq!(value(&counts, "tenure_leases_waiting{kind=\"lock\"}"), "1");
        assert!(guard.release().await);
        drop(waits.await.unwrap().unwrap());
        settle().await;
        let candidate = process.leases.candidate().key("e").start().unwrap();
        candidate.elected().await.unwrap();
        candidate.stop().await;
        let ranges = Section::builder(AnyStore::new(world.memory.clone()), "s").clock(world.clock.clone());
        let section = ranges.start().unwrap();
        let whole = || "0_10".parse::<KeyRange>().unwrap();
        let parts = section.try_acquire(whole(), TTL).await.unwrap();
        assert!(section.try_acquire(whole(), TTL).await.is_err());
        assert!(parts.release().await);
        let expired = section.try_acquire(whole(), TTL).await.unwrap();
        tokio::time::sleep(TTL * 2).await;
        drop(expired);
        let lost = process.leases.acquire("lost").await.unwrap();
        assert_eq!(value(&counts, "tenure_leases_held{kind=\"lock\"}"), "1");
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
        "tenure_leases_acquired_total{kind=\"lock\"} 3",
        "tenure_leases_acquired_total{kind=\"leadership\"} 1",
        "tenure_leases_acquired_total{kind=\"permit\"} 0",
        "tenure_leases_released_total{kind=\"lock\"} 2",
        "tenure_leases_released_total{kind=\"leadership\"} 1",
        "tenure_leases_held{kind=\"lock\"} 0",
        "tenure_leases_waiting{kind=\"lock\"} 0",
        "tenure_lease_hold_seconds_count{kind=\"lock\"} 3",
        "tenure_range_leases_held 0",
        "tenure_range_leases_waiting 0",
        "tenure_range_lease_hold_seconds_count 2",
        "tenure_range_lease_wait_seconds_count 2",
        "tenure_range_leases_acquired_total 2",
        "tenure_range_leases_ended_total{how=\"released\"} 1",
        "tenure_range_leases_ended_total{how=\"expired\"} 1",
        "tenure_leaderships_begun_total 1",
        "tenure_leaderships_ended_total{cause=\"stopping\"} 1",
        "tenure_leases_lost_total{kind=\"lock\",reason=\"unreachable\"} 1",
        "tenure_store_failures_total{kind=\"unavailable\"}",
        "operation=\"write\",outcome=\"answered\"",
    ] {
        assert!(page.contains(line), "{line}: {page}");
    }
}

#[test]
fn calls_that_no_driver_makes_are_measured_too() {
    let counts = measured(async |counts| {
        let world = World::new();
        let process = world.process();
        let failures = "tenure_store_failures_total{kind=\"unavailable\"}";
        process.leases.list("").await.unwrap();
        assert_eq!(value(&counts, failures), "0");
        process.faults.always(Fault::Refuse);
        process.leases.list("").await.unwrap_err();
        process.leases.peek("k").await.unwrap_err();
        assert_eq!(value(&counts, failures), "2");
    });
    let page = counts.render();
    for (operation, outcome) in [("list", "answered"), ("list", "unavailable"), ("read", "unavailable")] {
        let line = format!("operation=\"{operation}\",outcome=\"{outcome}\"");
        assert!(page.contains(&line), "{line}: {page}");
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
        assert_eq!(value(&counts, "tenure_leases_waiting{kind=\"lock\",prefix=\"orders/\"}"), "1");
        drop(dropped);
        assert!(waits.await.unwrap().unwrap().release().await);
        let candidate = leases.candidate().key("orders/eu/secret-2").start().unwrap();
        candidate.elected().await.unwrap();
        candidate.stop().await;
        let token = leases.lock("secret-3").ttl(TTL).acquire().await.unwrap().into_token().await.unwrap();
        let adopted = leases.adopt(&token).await.unwrap();
        let lost = leases.acquire("secret-4").await.unwrap();
        assert_eq!(value(&counts, "tenure_leases_held{kind=\"lock\",prefix=\"other\"}"), "2");
        assert!(adopted.release().await);
        faults.always(Fault::Refuse);
        lost.lost().await;
        tokio::time::sleep(TTL).await;
    });
    let page = counts.render();
    for line in [
        "tenure_leases_acquired_total{kind=\"lock\",prefix=\"orders/\"} 2",
        "tenure_leases_acquired_total{kind=\"leadership\",prefix=\"orders/eu/\"} 1",
        "tenure_leases_acquired_total{kind=\"lock\",prefix=\"other\"} 3",
        "tenure_leases_released_total{kind=\"lock\",prefix=\"orders/\"} 2",
        "tenure_leases_released_total{kind=\"leadership\",prefix=\"orders/eu/\"} 1",
        "tenure_leases_released_total{kind=\"lock\",prefix=\"other\"} 1",
        "tenure_leases_lost_total{kind=\"lock\",reason=\"unreachable\",prefix=\"orders/\"} 0",
        "tenure_leases_lost_total{kind=\"lock\",reason=\"unreachable\",prefix=\"other\"} 1",
        "tenure_leases_held{kind=\"lock\",prefix=\"orders/\"} 0",
        "tenure_leases_held{kind=\"leadership\",prefix=\"orders/eu/\"} 0",
        "tenure_leases_held{kind=\"lock\",prefix=\"other\"} 0",
        "tenure_leases_waiting{kind=\"lock\",prefix=\"orders/\"} 0",
        "tenure_lease_hold_seconds_count{kind=\"lock\",prefix=\"orders/\"} 2",
        "tenure_lease_hold_seconds_count{kind=\"lock\",prefix=\"other\"} 3",
        "tenure_lease_wait_seconds_count{kind=\"lock\",prefix=\"orders/\"} 2",
        "tenure_lease_wait_seconds_count{kind=\"leadership\",prefix=\"orders/eu/\"} 1",
    ] {
        assert!(page.lines().any(|shown| shown == line), "{line}: {page}");
    }
    assert!(!page.contains("secret"), "a key is no label: {page}");
    let of_leases = page.lines().filter(|line| {
        ["tenure_lease_", "tenure_leases_", "tenure_permits_"].iter().any(|name| line.starts_with(name))
    });
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
    let failures = page.lines().find(|line| line.contains("`tenure_store_failures_total`")).unwrap();
    let kinds: Vec<&str> = failures.split("`kind`: ").nth(1).unwrap().split('`').skip(1).step_by(2).collect();
    assert_eq!(kinds.len(), 5, "{failures}");
    for kind in kinds {
        let line = format!("tenure_store_failures_total{{kind=\"{kind}\"}} 0\n");
        assert!(shown.contains(&line), "{line}: {shown}");
    }
    for name in Loss::COUNTED {
        assert!(row.contains(&format!("`{name}`")), "{name}: {row}");
        assert!(
            shown.contains(&format!("tenure_leases_lost_total{{kind=\"permit\",reason=\"{name}\"}} 0\n")),
            "{shown}"
        );
    }
}

/// The counters of a table: all of them are to be there from the start.
fn counters(page: &str) -> BTreeSet<&str> {
    page.lines()
        .filter(|line| line.contains("| counter |"))
        .filter_map(|line| line.split('`').nth(1))
        .collect()
}

#[test]
fn each_counter_is_there_before_anything_has_happened() {
    let shown = measured(async |_| {
        let world = World::new();
        let process = world.process();
        let section = process.leases.section("s").start().unwrap();
        let fleet = Fleet::with_clock(AnyStore::new(world.memory.clone()), "f", world.clock.clone())
            .unwrap()
            .instance(1);
        let worker = fleet.join().ttl(TTL).start().unwrap();
        let observer = process.leases.candidate().key("e").observe().unwrap();
        settle().await;
        drop((section, worker, observer));
    })
    .render();
    let pages = [include_str!("../src/lib.rs"), include_str!("../src/fleet/mod.rs")];
    let named: BTreeSet<&str> = pages.into_iter().flat_map(counters).collect();
    assert!(named.len() >= 12, "{named:?}");
    for name in named {
        let lines: Vec<&str> = shown.lines().filter(|line| line.starts_with(name)).collect();
        assert!(
            !lines.is_empty() && lines.iter().all(|line| line.ends_with(" 0")),
            "{name}: {lines:?}: {shown}"
        );
    }
}

#[test]
fn of_a_worker_that_is_dropped_no_gauge_stands() {
    let gauges = |page: &str| -> Vec<String> {
        let of_fleets =
            page.lines().filter(|line| line.starts_with("tenure_fleet_") && !line.contains("_total{"));
        let ours = of_fleets.filter(|line| !line.contains("_seconds_") && !line.contains("quantile"));
        ours.filter(|line| !line.ends_with(" 0")).map(str::to_owned).collect()
    };
    let ended = |by_runtime: bool| {
        let mut left = None;
        let counts = measured(async |counts| {
            let world = World::new();
            let fleet = Fleet::with_clock(AnyStore::new(world.memory.clone()), "f", world.clock.clone())
                .unwrap()
                .instance(1);
            fleet.create(tenure::fleet::NewUnit::named("u")).await.unwrap();
            let worker = fleet.join().ttl(TTL).start().unwrap();
            tokio::time::sleep(TTL * 2).await;
            let shown = gauges(&counts.render());
            assert!(
                shown.iter().any(|line| line == "tenure_fleet_planner{fleet=\"f\",worker=\"0\"} 1"),
                "{shown:?}"
            );
            if by_runtime {
                left = Some(worker);
            } else {
                drop(worker);
                tokio::time::sleep(TTL * 2).await;
            }
        });
        (counts, left)
    };
    let (counts, _) = ended(false);
    assert_eq!(gauges(&counts.render()), Vec::<String>::new(), "it has left");
    let (counts, left) = ended(true);
    assert_eq!(gauges(&counts.render()), Vec::<String>::new(), "its runtime has ended");
    assert!(left.unwrap().held().is_empty());
}

#[test]
fn of_leases_that_are_dropped_in_an_outage_no_gauge_stands() {
    let held = ["tenure_leases_held{kind=\"lock\"}", "tenure_permits_held"];
    let counts = measured(async |counts| {
        let process = World::new().process();
        let lock = process.leases.acquire("k").await.unwrap();
        let permit = process.leases.semaphore("s", 2).acquire().await.unwrap();
        assert_eq!(held.map(|name| value(&counts, name)), ["1", "1"]);
        process.faults.always(Fault::Hang);
        let gives_up = async { tokio::join!(lock.release(), permit.release()) };
        assert!(tokio::time::timeout(TTL / 10, gives_up).await.is_err());
        drop(process);
        tokio::time::sleep(TTL * 3).await;
    });
    assert_eq!(held.map(|name| value(&counts, name)), ["0", "0"]);
}

/// What the buckets of a histogram show: of how many it is told, and of how many that were no more than this.
pub(crate) fn buckets(page: &str, name: &str, labels: &str, most: &str) -> [usize; 2] {
    let count = |line: String| {
        let shown = page.lines().find_map(|shown| shown.strip_prefix(&line)?.strip_prefix(' '));
        shown.map_or(0, |count| count.parse().unwrap())
    };
    [count(format!("{name}_count{{{labels}}}")), count(format!("{name}_bucket{{{labels},le=\"{most}\"}}"))]
}

const LEFT: &str = "tenure_renewal_remaining_seconds";

#[test]
fn renewals_of_sessions_leases_and_workers_are_measured_and_what_nears_its_end_shows() {
    let counts = measured_in_buckets(async |_| {
        let world = World::new();
        let process = world.process();
        let attached = process.leases.acquire("attached").await.unwrap();
        tokio::time::sleep(TTL * 3).await;
        assert!(attached.release().await);
        process.leases.stop().await;
    });
    let page = counts.render();
    // Once in a third of a ttl, when 4.8 s of 8.2 s are left; one more ended the session.
    let [sessions, late] = buckets(&page, LEFT, "of=\"session\"", "1");
    assert!((8..=10).contains(&sessions) && late == 0, "{page}");
    assert_eq!(buckets(&page, LEFT, "of=\"session\"", "5"), [sessions, sessions]);
    assert_eq!(buckets(&page, "tenure_renewal_seconds", "of=\"session\"", "1"), [sessions, sessions]);
    assert!(!page.contains("of=\"lease\""), "{page}");
    for (what, of) in [(Holds::Lock, "lease"), (Holds::Candidate, "lease"), (Holds::Worker, "worker")] {
        let counts = measured_in_buckets(async |counts| {
            let world = World::new();
            let (faults, line) = world.line();
            let held = what.hold(&world, &line).await;
            tokio::time::sleep(TTL * 3).await;
            let least = format!("tenure_renewal_remaining_least_seconds{{of=\"{of}\"}}");
            let left: f64 = value(&counts, &least).parse().unwrap();
            assert!((4.8..8.2).contains(&left), "{what:?}: {left}");
            // Renewals are held up until almost nothing is left.
            faults.always(Fault::Held);
            while held.remaining() > TTL / 12 {
                tokio::time::sleep(TTL / 1000).await;
            }
            faults.always(Fault::None);
            faults.go_on();
            while held.remaining() < TTL / 2 {
                assert!(!held.remaining().is_zero(), "{what:?} is held");
                tokio::time::sleep(TTL / 1000).await;
            }
            let left: f64 = value(&counts, &least).parse().unwrap();
            assert!(left < 1.0, "{what:?}: {left}");
        });
        let page = counts.render();
        let labels = format!("of=\"{of}\"");
        let [all, late] = buckets(&page, LEFT, &labels, "1");
        assert!((9..=20).contains(&all) && late == 1, "{what:?}: {all}, {late}: {page}");
        // The one that was held up may have taken longer than a second.
        let [took, soon] = buckets(&page, "tenure_renewal_seconds", &labels, "1");
        assert!(took == all && soon + 1 >= all, "{what:?}: {took}, {soon}: {page}");
    }
}

/// What keeps itself.
#[derive(Debug, Clone, Copy)]
enum Holds {
    Lock,
    Candidate,
    Worker,
}

enum Held {
    Lock(Guard),
    Candidate(Candidate),
    Worker(Worker),
}

impl Holds {
    async fn hold(self, world: &World, line: &TestStore) -> Held {
        let store = AnyStore::new(line.clone());
        match self {
            Holds::Lock => {
                let leases = world.builder(line).start().unwrap();
                Held::Lock(leases.lock("k").ttl(TTL).acquire().await.unwrap())
            }
            Holds::Candidate => {
                let candidate = Candidate::builder(store).key("k").ttl(TTL).hold_every(TTL / 3);
                let candidate = candidate.clock(world.clock.clone()).start().unwrap();
                candidate.elected().await.unwrap();
                Held::Candidate(candidate)
            }
            Holds::Worker => {
                let fleet = Fleet::with_clock(store, "f", world.clock.clone()).unwrap().instance(1);
                let worker = fleet.join().ttl(TTL).start().unwrap();
                while !worker.is_valid() {
                    tokio::time::sleep(TTL / 1000).await;
                }
                Held::Worker(worker)
            }
        }
    }
}

impl Held {
    fn remaining(&self) -> Duration {
        match self {
            Held::Lock(guard) => guard.remaining(),
            Held::Candidate(candidate) => {
                candidate.leadership().map_or(Duration::ZERO, |term| term.valid_for)
            }
            Held::Worker(worker) => worker.remaining(),
        }
    }
}

/// A body ends before its lease does, so in an outage nothing is lost while it is held.
#[test]
fn what_can_not_be_given_up_is_lost_and_what_is_left_to_expire_is_not() {
    let counts = measured(async |_| {
        let world = World::new();
        for ttl in [None, Some(TTL)] {
            let process = world.process();
            let lock = process.leases.lock("k");
            let lock = if let Some(ttl) = ttl { lock.ttl(ttl) } else { lock };
            let faults = process.faults.clone();
            let ended = lock.with_lease(async move |held| {
                faults.always(Fault::Hang);
                held.cancelled().await;
            });
            assert!(ended.await.is_err());
            // It is tried again for as long as the lease may be there.
            tokio::time::sleep(TTL * 3).await;
        }
        let process = world.process();
        let guard = process.leases.lock("lapses").ttl(TTL).acquire().await.unwrap();
        guard.lapse().await;
        let kept = process.leases.lock("kept").at_least_for(TTL).acquire().await.unwrap();
        assert!(kept.is_held());
        process.leases.stop().await;
    });
    let page = counts.render();
    for (reason, count) in [("unreachable", 2), ("taken", 0), ("expired", 0)] {
        let line = format!("tenure_leases_lost_total{{kind=\"lock\",reason=\"{reason}\"}} {count}\n");
        assert!(page.contains(&line), "{line}: {page}");
    }
}
