//! Plan: what tasks that are run for units may decide, and what becomes of units when a worker's handles are dropped, in
//! simulated time; the names and labels of metrics, which people's dashboards and alarms depend on.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use crate::common::{TTL, World, measured, measured_in_buckets, settle};
use metrics_exporter_prometheus::PrometheusBuilder;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tenure::fleet::{AtStop, Event, Fleet, NewUnit, Status, Unit, Verdict, Worker};
use tenure::{AnyStore, HolderId, Metadata, Value};
use tenure_store::Fault;
use tokio::task::JoinHandle;

fn fleet(world: &World, instance: u64) -> Fleet {
    Fleet::with_clock(AnyStore::new(world.memory.clone()), "test", world.clock.clone())
        .unwrap()
        .instance(instance)
}

async fn create(world: &World, units: usize) -> Fleet {
    let fleet = fleet(world, 99);
    fleet.create_all((0..units).map(|n| NewUnit::named(format!("u{n}")))).await.unwrap();
    fleet
}

fn name(n: u64) -> HolderId {
    HolderId::new(format!("w{n}")).unwrap()
}

fn join(world: &World, n: u64, at_stop: AtStop) -> Worker {
    let worker =
        fleet(world, n).join().ttl(TTL).drain_time(TTL / 4).holder(name(n)).instance(n).at_stop(at_stop);
    worker.start().unwrap()
}

async fn soon(mut done: impl AsyncFnMut() -> bool) {
    for _ in 0..(TTL.as_millis() / 5) {
        if done().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("not within two ttls");
}

#[tokio::test(start_paused = true)]
async fn tasks_finish_with_fields_and_hand_their_units_to_whom_they_name() {
    let world = World::new();
    let fleet = create(&world, 3).await;
    let log: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
    // Who began to work on u0, and how many had when it was handed on.
    let began: Arc<Mutex<(Vec<String>, Option<usize>)>> = Arc::default();
    let workers: Vec<Worker> = (1..=3).map(|n| join(&world, n, AtStop::PassOn)).collect();
    for worker in &workers {
        let (worker, log, began) = (worker.clone(), Arc::clone(&log), Arc::clone(&began));
        tokio::spawn(async move {
            let me = worker.holder().to_string();
            let body = move |unit: Unit| {
                let (log, began, me) = (Arc::clone(&log), Arc::clone(&began), me.clone());
                async move {
                    if unit.name() == "u0" {
                        began.lock().unwrap().0.push(me.clone());
                    }
                    tokio::time::sleep(TTL).await;
                    if unit.name() == "u0" {
                        let (began, handed) = &mut *began.lock().unwrap();
                        handed.get_or_insert(began.len());
                    }
                    log.lock().unwrap().push((unit.name().to_owned(), me.clone()));
                    let fields = Metadata::from([("by".to_owned(), Value::from(me.as_str()))]);
                    let bad = Metadata::from([("tenure".to_owned(), Value::Null)]);
                    let tries = log.lock().unwrap().iter().filter(|(name, _)| name == unit.name()).count();
                    match (unit.name(), tries) {
                        // To the next in turn.
                        ("u0", 1) if me == "w3" => Verdict::HandTo(name(1)),
                        ("u0", 1) => Verdict::HandTo(name(if me == "w1" { 2 } else { 3 })),
                        ("u1", 1) => Verdict::HandTo(name(77)),
                        ("u2", 1) => Verdict::DoneWith(bad),
                        _ => Verdict::DoneWith(fields),
                    }
                }
            };
            worker.run(body).await;
        });
    }
    for _ in 0..1000 {
        tokio::time::sleep(TTL / 50).await;
        let units = fleet.list().await.unwrap().units;
        if units.iter().all(|unit| unit.spec.status == Status::Done) {
            break;
        }
    }
    let log = log.lock().unwrap().clone();
    for view in fleet.list().await.unwrap().units {
        let who: Vec<&str> =
            log.iter().filter(|(unit, _)| *unit == view.name).map(|(_, who)| &**who).collect();
        let [first, second] = who[..] else { panic!("{}: {who:?}", view.name) };
        assert_ne!(first, second, "{}: what can't be done as told goes to another", view.name);
        assert_eq!(
            (view.spec.status, view.fields.get("by")),
            (Status::Done, Some(&second.into())),
            "{}",
            view.name
        );
        if view.name == "u0" {
            let next = match first {
                "w1" => "w2",
                "w2" => "w3",
                _ => "w1",
            };
            // A plan that was made meanwhile may move it on from there.
            let (began, handed) = &*began.lock().unwrap();
            assert_eq!(began[handed.unwrap()], next, "{began:?}");
        }
    }
}

/// How often bodies have begun and ended, of those that end when they are told to.
#[derive(Clone, Default)]
struct Counted {
    begun: Arc<AtomicUsize>,
    ended: Arc<AtomicUsize>,
}

impl Counted {
    fn run(&self, worker: &Worker) -> JoinHandle<()> {
        let (worker, counted) = (worker.clone(), self.clone());
        let body = move |unit: Unit| {
            let counted = counted.clone();
            async move {
                counted.begun.fetch_add(1, SeqCst);
                unit.cancelled().await;
                counted.ended.fetch_add(1, SeqCst);
                Verdict::Again
            }
        };
        tokio::spawn(async move { worker.run(body).await })
    }

    fn at_work(&self) -> usize {
        self.begun.load(SeqCst) - self.ended.load(SeqCst)
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_was_told_to_end_has_not_failed() {
    for how in ["the store is away for a while", "another run begins", "its worker leaves"] {
        let world = World::new();
        let fleet = create(&world, 3).await;
        let (faults, store) = world.line();
        let joined =
            Fleet::with_clock(AnyStore::new(store), "test", world.clock.clone()).unwrap().instance(1);
        let worker = joined.join().ttl(TTL).drain_time(TTL / 4).holder(name(1)).instance(1).start().unwrap();
        let counted = Counted::default();
        let run = counted.run(&worker);
        soon(async || counted.at_work() == 3).await;
        if how == "the store is away for a while" {
            faults.always(Fault::Hang);
            soon(async || counted.at_work() == 0).await;
            faults.always(Fault::None);
        } else {
            // As beside a signal that is waited for.
            run.abort();
            settle().await;
        }
        if how == "another run begins" {
            drop(counted.run(&worker));
        }
        let other = (how == "its worker leaves").then(|| join(&world, 2, AtStop::PassOn));
        if let Some(other) = &other {
            drop(counted.run(other));
            worker.leave().await;
        }
        soon(async || counted.at_work() == 3).await;
        let units = fleet.list().await.unwrap().units;
        assert!(units.iter().all(|unit| !unit.spec.fails()), "{how}: {units:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_becomes_of_units_when_the_handles_are_dropped_can_be_chosen() {
    // Units go at once where nobody else is there, or only once the others had time to hear.
    for (at_stop, is_alone, expected) in [
        (AtStop::PassOn, false, false),
        (AtStop::PassOn, true, true),
        (AtStop::GiveUp, false, true),
        (AtStop::GiveUp, true, true),
    ] {
        let world = World::new();
        let fleet = create(&world, 1).await;
        let is_there =
            async |n| fleet.roster().await.unwrap().members.iter().any(|member| member.holder == name(n));
        let a = join(&world, 1, at_stop);
        let Some(Event::Assigned(assignment)) = a.next().await else { panic!() };
        let other = (!is_alone).then(|| join(&world, 2, AtStop::PassOn));
        if other.is_some() {
            soon(async || is_there(2).await && a.summary().workers == 2).await;
        }
        std::mem::drop(a);
        let unit = assignment.unit().clone();
        drop(assignment);
        settle().await;
        assert_eq!(!is_there(1).await, expected, "{at_stop:?}, alone: {is_alone}");
        assert!(!unit.is_held());
        soon(async || !is_there(1).await).await;
        soon(async || other.as_ref().is_none_or(|other| !other.held().is_empty())).await;
        let holder = fleet.get("u0").await.unwrap().unwrap().holder.map(|occupant| occupant.holder);
        assert_eq!(holder, other.is_some().then(|| name(2)));
    }
}

#[tokio::test(start_paused = true)]
async fn metrics_have_the_documented_names_and_tell_two_workers_of_one_process_apart() {
    let world = World::new();
    create(&world, 3).await;
    let recorder = PrometheusBuilder::new().build_recorder();
    let (a, b) = metrics::with_local_recorder(&recorder, || {
        (join(&world, 1, AtStop::PassOn), join(&world, 2, AtStop::PassOn))
    });
    soon(async || a.held().len() + b.held().len() == 3).await;
    settle().await;
    let page = recorder.handle().render();
    let (mut names, mut numbers) = (BTreeSet::new(), BTreeSet::new());
    for line in page.lines().filter(|line| line.starts_with("tenure_fleet_")) {
        let (name, labels) = line.split_once('{').unwrap();
        names.insert(name);
        let number = labels.strip_prefix("fleet=\"test\",worker=\"").and_then(|rest| rest.split('"').next());
        numbers.insert(number.unwrap().parse::<u64>().expect("a number and no name"));
    }
    let exported = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let exported: BTreeSet<&str> = exported.filter(|name| name.starts_with("tenure_fleet_")).collect();
    assert!(names.iter().all(|name| exported.iter().any(|known| name.starts_with(known))), "{names:?}");
    let documented = |kind: &str| -> BTreeSet<&str> {
        let rows = include_str!("../src/fleet/mod.rs").lines();
        let rows = rows.filter(|line| line.starts_with("//! | `tenure_fleet_") && line.contains(kind));
        rows.filter_map(|line| line.split('`').nth(1)).collect()
    };
    // A histogram is exported from its first figure on.
    let at_least = &documented("| counter |") | &documented("| gauge |");
    assert!(exported.is_superset(&at_least) && exported.is_subset(&documented("|")), "{exported:?}");
    // Workers of other tests, in this process, may have the least numbers.
    assert_eq!(numbers.len(), 2, "{page}");
    let shown = || {
        let page = recorder.handle().render();
        let held =
            page.lines().filter_map(|line| line.strip_prefix("tenure_fleet_held{")?.rsplit(' ').next());
        let mut held: Vec<usize> = held.map(|count| count.parse().unwrap()).collect();
        held.sort_unstable();
        held
    };
    let mut held = [a.held().len(), b.held().len()];
    held.sort_unstable();
    assert_eq!(shown(), held);
    let moves = || {
        recorder
            .handle()
            .render()
            .lines()
            .filter(|line| line.starts_with("tenure_fleet_moves{") && !line.ends_with(" 0"))
            .count()
    };
    assert_eq!(moves(), 0, "all have come that the plans gave");
    a.stop().await;
    assert_eq!(shown()[0], 0);
}

#[test]
fn units_that_are_lost_are_counted_by_reason_and_those_that_go_are_timed() {
    let page = measured_in_buckets(async |counts| {
        let world = World::new();
        create(&world, 2).await;
        let (faults, line) = world.line();
        let fleet = Fleet::with_clock(AnyStore::new(line), "test", world.clock.clone()).unwrap().instance(1);
        let worker = fleet.join().ttl(TTL).drain_time(TTL).start().unwrap();
        let page = counts.render();
        let lost = page.lines().filter(|line| line.starts_with("tenure_fleet_lost_total{"));
        let reasons: Vec<bool> =
            lost.map(|line| line.contains("reason=\"") && line.ends_with(" 0")).collect();
        assert_eq!(reasons, [true; 7], "each is there from the start: {page}");
        let mut held = Vec::new();
        while held.len() < 2 {
            if let Some(Event::Assigned(assignment)) = worker.next().await {
                held.push(assignment);
            }
        }
        tokio::time::sleep(TTL * 2).await;
        fleet.delete(held[0].name()).await.unwrap();
        while held[0].draining().is_none() {
            tokio::time::sleep(TTL / 100).await;
        }
        tokio::time::sleep(TTL / 5).await;
        held.remove(0).drained();
        tokio::time::sleep(TTL / 5).await;
        faults.always(Fault::Refuse);
        held[0].lost().await;
        settle().await;
    })
    .render();
    let shows = |name: &str, labels: &str, value: &str| {
        let fits = |line: &&str| line.starts_with(name) && line.contains(labels) && line.ends_with(value);
        assert!(page.lines().any(|line| fits(&line)), "{name} {labels} {value}: {page}");
    };
    shows("tenure_fleet_lost_total", "reason=\"unreachable\"", " 1");
    // One was asked for.
    shows("tenure_fleet_lost_total", "reason=\"taken\"", " 0");
    shows("tenure_fleet_hold_seconds_count", "", " 2");
    shows("tenure_fleet_hold_seconds_bucket", "le=\"10\"", " 0");
    shows("tenure_fleet_drain_seconds_count", "", " 1");
    shows("tenure_fleet_drain_seconds_bucket", "le=\"1\"", " 0");
    shows("tenure_fleet_drain_seconds_bucket", "le=\"5\"", " 1");
}

/// Tasks end before their units do, so in an outage nothing is lost while it is worked on.
#[test]
fn units_that_can_not_be_let_go_of_in_an_outage_are_lost() {
    let page = measured(async |_| {
        let world = World::new();
        create(&world, 2).await;
        let (faults, line) = world.line();
        let fleet = Fleet::with_clock(AnyStore::new(line), "test", world.clock.clone()).unwrap().instance(1);
        let worker = fleet.join().ttl(TTL).start().unwrap();
        let control = worker.clone();
        tokio::spawn(async move {
            control
                .run(|unit| async move {
                    unit.cancelled().await;
                    Verdict::Again
                })
                .await;
        });
        soon(async || worker.held().len() == 2).await;
        tokio::time::sleep(TTL).await;
        faults.always(Fault::Hang);
        tokio::time::sleep(TTL * 2).await;
    })
    .render();
    let lost = page.lines().find(|line| line.contains("lost_total") && line.contains("unreachable")).unwrap();
    assert!(lost.starts_with("tenure_fleet_") && lost.ends_with(" 2"), "{lost}");
}
