//! All events and spans, as the tables of the documentation have them: names, levels, messages and fields, which people's alarms depend on.
//! A program of its own: its subscriber is that of the whole process.
//!
//! Plan: each test brings about every event of one table, and compares what was told with the table; what a field says is what people read, and
//! no value in the form of the language; of trouble with a fleet only so much is told.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

mod common;

use common::events::{EventLog, documented, table};
use common::{Process, TTL, World, settle};
use std::sync::OnceLock;
use std::time::Duration;
use tenure::fleet::{Event, Fleet, NewUnit, Unit, Verdict, Worker};
use tenure::range::{KeyRange, Section};
use tenure::store::{Changes, Listed, Outcome, Write};
use tenure::{AnyStore, Candidate, Clock as _, HolderId, Key, Leases, MemoryStore, Store, StoreError};
use tenure_store::{Fault, FaultyStore};

/// Takes down what all tests of this program bring about.
fn event_log() -> &'static EventLog {
    static EVENT_LOG: OnceLock<EventLog> = OnceLock::new();
    EVENT_LOG.get_or_init(|| {
        let event_log = EventLog::default();
        tracing::subscriber::set_global_default(event_log.clone()).unwrap();
        event_log
    })
}

/// Waits, in whatever time there is, until an event of this name has come.
async fn until_told(name: &str) {
    for _ in 0..10_000 {
        if !event_log().named(name).is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{name} is not told: {:#?}", event_log().of("tenure::fleet"));
}

/// A store that tells of no changes, takes no `refused`, and can't read what is `unreadable`.
#[derive(Clone)]
struct Odd(FaultyStore<MemoryStore>);

impl Store for Odd {
    tenure_store::pass_on!(0: capabilities, id, read, read_many, write_many, remove, image, mend);

    async fn write(&self, write: Write) -> Result<Outcome, StoreError> {
        if write.key.as_str() == "refused" {
            return Err(StoreError::foreign("not one of ours"));
        }
        self.0.write(write).await
    }
    async fn list(&self, prefix: &str, after: Option<&Key>, limit: usize) -> Result<Vec<Listed>, StoreError> {
        let mut page = self.0.list(prefix, after, limit).await?;
        for listed in page.iter_mut().filter(|listed| listed.key.as_str().ends_with("unreadable")) {
            listed.stored = Err(StoreError::foreign("cut off"));
        }
        Ok(page)
    }
    fn changed(&self, _: &str) -> Result<Changes, StoreError> {
        Err(StoreError::unavailable("no hints today"))
    }
}

#[tokio::test(start_paused = true)]
async fn events_of_leases_and_of_the_store_are_those_of_the_crates_page() {
    let event_log = event_log();
    let world = World::new();
    let Process { leases, faults, .. } = world.process();
    assert!(leases.acquire("given").await.unwrap().release().await);
    let overran = leases.lock("overran").at_most_for(TTL).acquire().await.unwrap();
    overran.lost().await;
    let lost = leases.lock("lost").ttl(TTL).acquire().await.unwrap();
    faults.always(Fault::Refuse);
    lost.lost().await;
    faults.always(Fault::None);
    leases.acquire("lost").await.unwrap().release().await;
    // Hints are wanted by whoever waits.
    let odd = Leases::builder(Odd(faults.clone())).clock(world.clock.clone()).start().unwrap();
    let held = leases.acquire("waited for").await.unwrap();
    assert!(odd.acquire_within("waited for", TTL / 10).await.is_err());
    assert!(held.release().await);
    let page = include_str!("../src/lib.rs");
    // What is left when the last handle goes shows in real time, on a thread of tenure's own.
    std::thread::spawn(|| {
        let faults = FaultyStore::new(MemoryStore::new("left", tenure::clock::system()));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let leases = Leases::builder(faults.clone()).linger(Duration::from_millis(1)).start().unwrap();
            let _guard = leases.acquire("left").await.unwrap();
            faults.always(Fault::Hang);
        });
    })
    .join()
    .unwrap();
    for (target, begins) in [("tenure::lease", "lease"), ("tenure::store", "store.")] {
        assert_eq!(table(&event_log.of(target)), documented(page, begins), "{target}");
    }
    let me = leases.holder().as_str();
    let of_key = |name: &str, key: &str| {
        let all = event_log.named(name);
        all.into_iter().find(|told| told.says("key") == key && told.says("holder") == me).unwrap()
    };
    assert_eq!(of_key("lease.lost", "lost").says("fence"), lost.fence().to_string());
    let reason = "the store could not be reached in time (store unavailable: injected fault: refused)";
    assert_eq!(of_key("lease.lost", "lost").says("reason"), reason);
    assert_eq!(of_key("lease.lost", "lost").says("loss"), "unreachable");
    let failing = of_key("store.failing", "lost");
    assert_eq!(
        (failing.says("operation"), failing.says("reason")),
        ("renew", "store unavailable: injected fault: refused")
    );
}

#[tokio::test(start_paused = true)]
async fn events_of_elections_are_those_of_their_page() {
    let event_log = event_log();
    let world = World::new();
    let (a, b) = (world.process(), world.process());
    let lead = |process: &Process| process.leases.candidate().key("led").start().unwrap();
    let first = lead(&a);
    let fence = first.elected().await.unwrap().fence;
    let second = lead(&b);
    tokio::time::sleep(TTL).await;
    assert_eq!(&second.leader().unwrap().holder, a.leases.holder());
    assert!(first.resign().await);
    second.elected().await.unwrap();
    first.stop().await;
    second.stop().await;
    let odd = Leases::builder(Odd(a.faults.clone())).clock(world.clock.clone()).start().unwrap();
    let refused = odd.candidate().key("refused").start().unwrap();
    tokio::time::sleep(TTL).await;
    refused.stop().await;
    let named = |process: &Process| {
        let builder = Candidate::builder(AnyStore::new(process.store.clone())).clock(world.clock.clone());
        builder.key("named").holder("pod-1").start().unwrap()
    };
    let (one, other) = (named(&a), named(&b));
    tokio::time::sleep(TTL * 3).await;
    assert_ne!(one.is_leader(), other.is_leader());
    let namesakes = event_log.named("election.namesake");
    assert!(namesakes.len() == 1 && namesakes[0].says("holder") == "pod-1", "{namesakes:?}");
    one.stop().await;
    other.stop().await;
    let told = event_log.of("tenure::election");
    assert_eq!(table(&told), documented(include_str!("../src/election/mod.rs"), "election."));
    let of = |name: &str, holder: &HolderId| {
        let mut all = event_log.named(name).into_iter();
        all.find(|told| told.says("key") == "led" && told.says("holder") == holder.as_str()).unwrap()
    };
    let (mine, fence) = (a.leases.holder(), fence.to_string());
    assert_eq!(of("election.elected", mine).says("fence"), fence);
    for name in ["election.step_down", "election.ended"] {
        assert_eq!((of(name, mine).says("fence"), of(name, mine).says("reason")), (&*fence, "it resigned"));
    }
    let seen: Vec<_> = event_log.named("election.leader");
    let by_second = seen.iter().filter(|told| told.says("holder") == b.leases.holder().as_str());
    let leaders: Vec<_> = by_second.map(|told| (told.says("leader"), told.says("fence"))).collect();
    assert!(leaders.contains(&(mine.as_str(), &*fence)) && leaders.contains(&("", "")), "{leaders:?}");
    // That nobody leads is told where somebody did.
    let by_first = seen.iter().filter(|told| told.says("holder") == mine.as_str());
    let by_first: Vec<_> = by_first.map(|told| told.says("leader")).collect();
    assert_eq!(by_first, ["", b.leases.holder().as_str()]);
    assert_eq!(leaders[0].0, mine.as_str());
    assert_eq!(
        event_log.named("election.failing")[0].says("reason"),
        "foreign or damaged record: not one of ours"
    );
}

#[tokio::test(start_paused = true)]
async fn events_of_ranges_are_those_of_their_page() {
    let event_log = event_log();
    let world = World::new();
    let section = Section::builder(world.memory.clone(), "told").clock(world.clock.clone()).start().unwrap();
    let whole = || "0_10".parse::<KeyRange>().unwrap();
    let first = section.try_acquire(whole(), TTL).await.unwrap();
    // Who is given nothing has nothing to give up.
    assert!(section.try_acquire(whole(), TTL).await.is_err());
    assert!(first.release().await);
    let late = section.try_acquire(whole(), TTL).await.unwrap();
    let fence = late.fence().to_string();
    late.lost().await;
    drop(late);
    let told = event_log.of("tenure::range");
    assert_eq!(table(&told), documented(include_str!("../src/range/mod.rs"), "range."));
    assert_eq!(told.len(), 4, "{told:?}");
    let expired = &event_log.named("range.expired")[0];
    assert_eq!((expired.says("key"), expired.says("fence")), ("section/told", &*fence));
    assert_eq!(expired.says("holder"), section.holder().as_str());
}

fn fleet(store: impl Store, world: &World) -> Fleet {
    Fleet::with_clock(AnyStore::new(store), "told", world.clock.clone()).unwrap().instance(99)
}

/// One worker, all of whose tasks do as their units' names say.
async fn work(fleet: &Fleet, ttl: Duration) -> (Worker, tokio::task::JoinHandle<()>) {
    let worker = fleet.join().ttl(ttl).drain_time(ttl / 4).instance(1).start().unwrap();
    let control = worker.clone();
    let running = tokio::spawn(async move {
        let body = |unit: Unit| async move {
            match unit.name() {
                "failing" => return Err("no such file"),
                "panicking" => panic!("out of range"),
                "elsewhere" => return Ok(Verdict::HandTo(HolderId::new("nobody").unwrap())),
                _ => unit.cancelled().await,
            }
            // It comes after the unit was told to go, and is told all the same.
            if unit.name() == "late" { Err("no space left") } else { Ok(Verdict::Again) }
        };
        control.run(body).await;
    });
    (worker, running)
}

#[tokio::test(start_paused = true)]
async fn events_and_spans_of_fleets_are_those_of_their_page() {
    let event_log = event_log();
    let world = World::new();
    let faults = FaultyStore::new(world.memory.clone());
    let fleet = fleet(Odd(faults.clone()), &world);
    let names = ["steady", "late", "failing", "panicking", "elsewhere", "unreadable"];
    fleet.create_all(names.map(NewUnit::named)).await.unwrap();
    fleet.create(NewUnit::named("picky").needs("gpu")).await.unwrap();
    // More than are named.
    fleet.create_all((0..13).map(|n| NewUnit::named(format!("too-{n}")).needs("gpu"))).await.unwrap();
    let (worker, running) = work(&fleet, TTL).await;
    for name in ["fleet.rests", "fleet.uncovered", "fleet.unreadable", "fleet.panicked", "fleet.not_let_go"] {
        until_told(name).await;
    }
    fleet.revoke("late").await.unwrap();
    until_told("fleet.draining").await;
    tokio::time::sleep(TTL * 2).await;
    // Tasks end before their units are lost; what nobody lets go of is lost.
    let kept = fleet.join().ttl(TTL).instance(2).start().unwrap();
    let kept_by = kept.holder().clone();
    let unit = loop {
        match kept.next().await.unwrap() {
            Event::Assigned(assignment) if assignment.name() == "steady" => break assignment,
            Event::Assigned(assignment) => drop(assignment),
            _ => {}
        }
        worker.leave().await;
    };
    faults.always(Fault::Hang);
    until_told("fleet.lost").await;
    faults.always(Fault::None);
    drop((unit, kept));
    running.await.unwrap();
    // A task that blocks its thread can't be ended. Time is real there.
    std::thread::spawn(stuck).join().unwrap();
    let (old, refused) = refused(&world).await;
    let told = event_log.of("tenure::fleet");
    assert_eq!(table(&told), documented(include_str!("../src/fleet/mod.rs"), "fleet."));
    let spans = told.iter().filter(|told| told.is_span);
    let spans: std::collections::BTreeSet<String> = spans
        .map(|span| {
            format!(
                "{} {}: {}",
                span.level,
                span.name,
                span.fields.keys().cloned().collect::<Vec<_>>().join(" ")
            )
        })
        .collect();
    assert_eq!(Vec::from_iter(spans), ["info unit: fence fleet holder key", "info worker: fleet holder"]);
    let of_unit = |name: &str, unit: &str| {
        let (key, mut all) = (format!("fleet/told/unit/{unit}"), event_log.named(name).into_iter());
        all.find(|told| told.says("key") == key).unwrap_or_else(|| panic!("{name} of {unit}"))
    };
    for (name, unit, reason) in [
        ("fleet.failed", "failing", "no such file"),
        ("fleet.failed", "late", "no space left"),
        ("fleet.uncovered", "picky", "no worker has its labels"),
        ("fleet.unreadable", "unreadable", "foreign or damaged record: cut off"),
        ("fleet.draining", "late", "it was withdrawn"),
    ] {
        assert_eq!(of_unit(name, unit).says("reason"), reason, "{name}");
    }
    let lost = of_unit("fleet.lost", "steady");
    assert!(lost.says("reason").starts_with("the store could not be reached in time"), "{lost:?}");
    assert_eq!(lost.says("holder"), kept_by.as_str());
    assert!(of_unit("fleet.panicked", "panicking").says("reason").contains("out of range"));
    assert!(of_unit("fleet.not_let_go", "elsewhere").says("reason").contains("nobody"));
    let refusals = event_log.named("fleet.refused");
    assert_eq!((refusals[0].says("reason"), refusals[0].says("holder")), (&*old, refused.as_str()));
    let mut roles = event_log.named("fleet.role").into_iter();
    let plans =
        roles.find(|told| told.says("holder") == worker.holder().as_str() && told.says("role") == "planner");
    assert_eq!(plans.unwrap().says("planner"), worker.holder().as_str());
    assert!(event_log.named("fleet.planned").iter().any(|told| told.says("causes") == "5 vacant"));
}

/// A worker that comes to a fleet of another layout; whose that is, and who comes.
async fn refused(world: &World) -> (String, HolderId) {
    let fleet = Fleet::with_clock(AnyStore::new(world.memory.clone()), "older", world.clock.clone())
        .unwrap()
        .instance(98);
    common::older_worker(world, fleet.name()).await;
    let worker = fleet.join().ttl(TTL).instance(3).start().unwrap();
    let error = worker.joined().await.unwrap_err();
    (error.to_string(), worker.holder().clone())
}

fn stuck() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_all().build().unwrap();
    runtime.block_on(async {
        let fleet = Fleet::new(tenure::memory(), "stuck").unwrap();
        fleet.create(NewUnit::named("u")).await.unwrap();
        let worker =
            fleet.join().ttl(Duration::from_secs(1)).drain_time(Duration::from_millis(1)).start().unwrap();
        let (go_on, blocked) = std::sync::mpsc::channel::<()>();
        let blocked = std::sync::Arc::new(std::sync::Mutex::new(blocked));
        let control = worker.clone();
        let running = tokio::spawn(async move {
            let body = move |_| {
                let blocked = blocked.clone();
                async move {
                    // In place: what stands in line behind a blocked worker thread is not what this is about.
                    let _ = tokio::task::block_in_place(|| blocked.lock().unwrap().recv());
                    Verdict::Again
                }
            };
            control.run(body).await;
        });
        while worker.held().is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let leaving = worker.clone();
        let leaving = tokio::spawn(async move { leaving.leave().await });
        until_told("fleet.stuck").await;
        drop(go_on);
        leaving.await.unwrap();
        running.await.unwrap();
    });
}

#[tokio::test(start_paused = true)]
async fn of_a_worker_that_is_dropped_it_is_told_that_it_has_stopped() {
    let world = World::new();
    let fleet = Fleet::with_clock(AnyStore::new(world.memory.clone()), "dropped", world.clock.clone())
        .unwrap()
        .instance(6);
    let worker = fleet.join().ttl(TTL).instance(6).start().unwrap();
    tokio::time::sleep(TTL).await;
    let me = worker.holder().clone();
    drop(worker);
    tokio::time::sleep(TTL).await;
    let told = event_log().named("fleet.stopped");
    assert_eq!(told.iter().filter(|told| told.says("holder") == me.as_str()).count(), 1, "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn of_a_fleet_that_can_not_be_looked_at_no_more_is_told_than_every_ten_seconds() {
    let world = World::new();
    let faults = FaultyStore::new(world.memory.clone());
    let fleet =
        Fleet::with_clock(AnyStore::new(faults.clone()), "quiet", world.clock.clone()).unwrap().instance(7);
    // Looks come once in a third of a second.
    let worker = fleet.join().ttl(Duration::from_secs(1)).instance(2).start().unwrap();
    tokio::time::sleep(TTL).await;
    faults.always(Fault::Refuse);
    tokio::time::sleep(TTL * 6).await;
    let me = worker.holder().as_str();
    let told = || event_log().named("fleet.failing").iter().filter(|told| told.says("holder") == me).count();
    assert!((5..=8).contains(&told()), "{} in a minute", told());
    faults.always(Fault::None);
    worker.stop().await;
    settle().await;
}

#[tokio::test(start_paused = true)]
async fn of_units_that_nobody_can_have_some_are_named_once_and_a_worker_that_leaves_warns_of_nothing() {
    let world = World::new();
    let fleet = Fleet::with_clock(AnyStore::new(world.memory.clone()), "left", world.clock.clone())
        .unwrap()
        .instance(5);
    fleet.create_all((0..20).map(|n| NewUnit::named(format!("u{n}")))).await.unwrap();
    fleet.create_all((0..13).map(|n| NewUnit::named(format!("too-{n}")).needs("gpu"))).await.unwrap();
    let join = |n| fleet.join().ttl(TTL).instance(n).start().unwrap();
    let (worker, next) = (join(3), join(4));
    let run = |worker: Worker| async move {
        worker.run(|unit| async move { Ok::<_, String>((unit.cancelled().await, Verdict::Again).1) }).await;
    };
    let running = [tokio::spawn(run(worker.clone())), tokio::spawn(run(next.clone()))];
    tokio::time::sleep(TTL * 4).await;
    worker.leave().await;
    tokio::time::sleep(TTL * 4).await;
    next.leave().await;
    for running in running {
        running.await.unwrap();
    }
    for worker in [worker, next] {
        let of = |name: &str| {
            event_log()
                .named(name)
                .into_iter()
                .filter(|told| told.says("holder") == worker.holder().as_str())
                .count()
        };
        let told = ["fleet.uncovered", "fleet.more_uncovered", "fleet.suspended"].map(of);
        assert!(told == [10, 1, 0] || told == [0; 3], "{told:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiters_look_that_fails_keeps_no_renewal_quiet() {
    let world = World::new();
    let Process { leases, faults, .. } = world.process();
    let rival = world.process();
    let _held = rival.leases.acquire("busy").await.unwrap();
    let kept = leases.lock("kept").ttl(TTL).acquire().await.unwrap();
    let waiting = tokio::spawn(leases.lock("busy").acquire_within(TTL * 10));
    // Some seconds before the renewal, a look of the waiter fails.
    settle().await;
    faults.always(Fault::Refuse);
    let me = leases.holder().clone();
    let told = move |operation: &str| {
        let all = event_log().named("store.failing").into_iter();
        let ours =
            all.filter(|told| told.says("holder") == me.as_str() && told.says("operation") == operation);
        ours.map(|told| told.says("key").to_owned()).collect::<Vec<_>>()
    };
    let mut looked = None;
    let begun = world.clock.held();
    let elapsed = || world.clock.held().since(begun);
    while told("renew").is_empty() {
        assert!(elapsed() < TTL / 2, "the first renewal that fails is told: {looked:?}");
        tokio::time::sleep(TTL / 1000).await;
        if looked.is_none() && !told("read").is_empty() {
            looked = Some(elapsed());
        }
    }
    assert!(told("renew").contains(&"kept".to_owned()), "{:?}", told("renew"));
    assert_eq!(told("read"), ["busy"], "looked at {looked:?}, and said once");
    assert!(looked.unwrap() < elapsed(), "{looked:?}");
    assert!(kept.is_held(), "there is time left");
    faults.always(Fault::None);
    waiting.abort();
}

#[tokio::test(start_paused = true)]
async fn of_many_leases_whose_renewals_fail_ten_are_named() {
    let world = World::new();
    let Process { leases, faults, .. } = world.process();
    let mut held = Vec::new();
    for n in 0..30 {
        held.push(leases.lock(format!("many/{n}")).ttl(TTL).acquire().await.unwrap());
    }
    faults.always(Fault::Refuse);
    // Each has failed several times by then.
    tokio::time::sleep(TTL * 7 / 10).await;
    let all = event_log().named("store.failing").into_iter();
    let renewals =
        all.filter(|told| told.says("key").starts_with("many/") && told.says("operation") == "renew");
    let named: Vec<String> = renewals.map(|told| told.says("key").to_owned()).collect();
    let distinct: std::collections::BTreeSet<&String> = named.iter().collect();
    assert_eq!((named.len(), distinct.len()), (10, 10), "{named:?}");
    faults.always(Fault::None);
}
