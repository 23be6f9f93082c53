//! Plan: a worker and whoever looks from outside see who plans, who stands by, which plan was told last and when; the planner says how many
//! units move and why. As metrics, the same.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use crate::common::{TTL, World};
use std::collections::BTreeMap;
use std::time::Duration;
use tenure::fleet::{Cause, Fleet, NewUnit, Role, Verdict, Worker};
use tenure::{AnyStore, HolderId};

fn fleet(world: &World, instance: u64) -> Fleet {
    Fleet::with_clock(AnyStore::new(world.memory.clone()), "planned", world.clock.clone())
        .unwrap()
        .instance(instance)
}

/// A worker that lets go of its units as soon as it is asked to.
fn join(world: &World, n: u64) -> Worker {
    let holder = HolderId::new(format!("w{n}")).unwrap();
    let worker =
        fleet(world, n).join().ttl(TTL).drain_time(TTL / 4).holder(holder).instance(n).start().unwrap();
    let works = worker.clone();
    tokio::spawn(async move {
        works
            .run(|unit| async move {
                unit.cancelled().await;
                Verdict::Again
            })
            .await;
    });
    worker
}

/// Waits, in simulated time, for no longer than many ttls.
async fn until(what: &str, mut done: impl FnMut() -> bool) {
    for _ in 0..10_000 {
        if done() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{what}");
}

#[tokio::test(start_paused = true)]
async fn workers_and_whoever_looks_know_who_plans_who_stands_by_and_which_plan_was_told_when() {
    let world = World::new();
    let outside = fleet(&world, 99);
    assert_eq!(outside.planning().await.unwrap(), None);
    outside.create_all((0..4).map(|n| NewUnit::named(format!("u{n}")))).await.unwrap();
    let first = join(&world, 1);
    until("it to plan", || first.planning().0 == Role::Planner && first.held().len() == 4).await;
    assert_eq!(first.summary().moves, BTreeMap::from([(Cause::Vacant, 4)]));
    let second = join(&world, 2);
    until("the other to stand by", || second.planning().0 == Role::Standby && second.held().len() == 2).await;
    until("all to be told", || {
        second.planning().1 == first.planning().1 && first.planning().1.plan.is_some()
    })
    .await;
    let seen = outside.planning().await.unwrap().unwrap();
    assert_eq!(seen, first.planning().1);
    assert_eq!(seen.holder(outside.name()), Some(first.holder().clone()));
    assert_eq!(seen.standbys.iter().collect::<Vec<_>>(), [second.holder()]);
    let age = |told: tenure::Wall| tenure::Clock::now(&*world.clock).wall.since(told);
    assert!(age(seen.told.unwrap()) < TTL * 2, "{seen:?}");
    first.stop().await;
    until("the standby to plan", || second.planning().0 == Role::Planner && second.held().len() == 4).await;
    assert!(second.planning().1.standbys.is_empty() || second.planning().1.plan.is_none());
}

#[cfg(feature = "metrics")]
#[test]
fn metrics_say_who_plans_what_moves_and_why_and_how_units_came_and_went() {
    let page = crate::common::measured(async |counts| {
        let world = World::new();
        let outside = fleet(&world, 99);
        outside.create_all((0..4).map(|n| NewUnit::named(format!("u{n}")))).await.unwrap();
        let first = join(&world, 1);
        until("it to have all", || first.held().len() == 4).await;
        let shows = |counts: &metrics_exporter_prometheus::PrometheusHandle, line: &str| {
            counts.render().lines().any(|shown| shown.starts_with("tenure_fleet_") && shown.contains(line))
        };
        // Workers of one process are told apart by a number, and other tests may have some.
        let numbers = || {
            let page = counts.render();
            let of = |line: &str| {
                let rest = line.strip_prefix("tenure_fleet_planner{fleet=\"planned\",worker=\"")?;
                rest.split('"').next().map(str::to_owned)
            };
            page.lines().filter_map(of).collect::<Vec<String>>()
        };
        let zero = numbers().remove(0);
        let one = std::cell::OnceCell::new();
        let of = |name: &str, worker: usize, reason: &str, value: &str| {
            let reason = if reason.is_empty() { String::new() } else { format!(",reason=\"{reason}\"") };
            let worker = if worker == 0 { &zero } else { one.get().unwrap() };
            format!("tenure_fleet_{name}{{fleet=\"planned\",worker=\"{worker}\"{reason}}} {value}")
        };
        assert!(shows(&counts, &of("planner", 0, "", "1")) && shows(&counts, &of("standby", 0, "", "0")));
        let second = join(&world, 2);
        until("what moves to be shown", || shows(&counts, &of("planned_moves", 0, "join", "2"))).await;
        until("it to be even", || second.held().len() == 2).await;
        let is_other = |number: &String| *number != zero;
        until("the other's metrics", || numbers().iter().any(is_other)).await;
        one.set(numbers().into_iter().find(is_other).unwrap()).unwrap();
        until("nothing to move", || shows(&counts, &of("planned_moves", 0, "join", "0"))).await;
        until("the other to stand by", || shows(&counts, &of("standby", 1, "", "1"))).await;
        assert!(shows(&counts, &of("assigned_total", 0, "vacant", "4")));
        assert!(shows(&counts, &of("drained_total", 0, "moved", "2")));
        assert!(shows(&counts, &of("assigned_total", 1, "passed", "2")));
        let number = first.planning().1.plan.unwrap();
        assert!(shows(&counts, &of("plan", 0, "", &number.to_string())));
        let told = first.planning().1.told.unwrap().0 as f64 / 1000.0;
        assert!(shows(&counts, &of("plan_told_seconds", 1, "", &told.to_string())));
        first.leave().await;
        until("the other to plan", || shows(&counts, &of("planner", 1, "", "1"))).await;
        second.stop().await;
    })
    .render();
    let planners = page.lines().filter(|line| line.starts_with("tenure_fleet_planner{"));
    assert!(planners.clone().count() == 2 && planners.clone().all(|line| line.ends_with(" 0")), "{page}");
}
