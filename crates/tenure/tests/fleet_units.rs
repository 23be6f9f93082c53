//! Plan: what users do with the units that they have, and what they are answered, in simulated time: each answer goes to who
//! asked, also when several ask at once or give up asking (S4); what outsiders write stays; nothing is written after the end
//! (S3); a unit whose end is refused goes to another (L3); units that nobody takes up, handles that are dropped; a change that was
//! made but not told is told by the next attempt; what may go on is told from what comes next by its fence (S2).

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]

use crate::common::{TTL, World, settle};
use std::time::Duration;
use tenure::fleet::{Assignment, Event, Fleet, NewUnit, Status, Verdict, Worker};
use tenure::store::{Expect, Nonce, Write};
use tenure::{AnyStore, ErrorKind, Fence, HolderId, LeaseError, Loss, Metadata, Value};
use tenure_store::{Fault, FaultyStore, MemoryStore, Store};

fn fleet(world: &World, store: AnyStore, instance: u64) -> Fleet {
    Fleet::with_clock(store, "test", world.clock.clone()).unwrap().instance(instance)
}

async fn create(world: &World, units: usize) -> Fleet {
    let fleet = fleet(world, AnyStore::new(world.memory.clone()), 99);
    fleet.create_all((0..units).map(|n| NewUnit::named(format!("u{n}")))).await.unwrap();
    fleet
}

fn join(world: &World, n: u64) -> (Worker, FaultyStore<MemoryStore>) {
    let (faults, store) = world.line();
    let fleet = fleet(world, AnyStore::new(store), n);
    let holder = HolderId::new(format!("w{n}")).unwrap();
    (fleet.join().ttl(TTL).drain_time(TTL / 4).holder(holder).instance(n).start().unwrap(), faults)
}

async fn assigned(worker: &Worker) -> Assignment {
    match worker.next().await {
        Some(Event::Assigned(assignment)) => assignment,
        other => panic!("{other:?}"),
    }
}

async fn soon(mut done: impl FnMut() -> bool) {
    for _ in 0..(TTL.as_millis() / 5) {
        if done() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("not within two ttls");
}

async fn stands(fleet: &Fleet, unit: &str) -> (Status, Metadata) {
    let view = fleet.get(unit).await.unwrap().unwrap();
    (view.spec.status, view.fields)
}

fn fields(of: &[(&str, i64)]) -> Metadata {
    of.iter().map(|(name, value)| ((*name).to_owned(), Value::from(*value))).collect()
}

/// Sends it, and then nobody waits for it any more.
async fn forsake(future: impl Future) {
    tokio::select! {
        biased;
        _ = future => panic!("it should not be through yet"),
        () = std::future::ready(()) => {}
    }
}

#[tokio::test(start_paused = true)]
async fn l3_a_unit_whose_finish_is_refused_goes_to_another() {
    let world = World::new();
    let fleet = create(&world, 1).await;
    let (a, _) = join(&world, 1);
    let unit = assigned(&a).await;
    let (b, _) = join(&world, 2);
    tokio::time::sleep(TTL).await;
    let reserved = Metadata::from([("tenure".to_owned(), Value::Null)]);
    let error = unit.finish(Some(reserved.clone())).await.unwrap_err();
    assert!(error.to_string().contains("choose another name"), "{error}");
    let unit = assigned(&b).await;
    assert_eq!(stands(&fleet, "u0").await.0, Status::Open);
    let error = unit.update(reserved).await.unwrap_err().to_string();
    assert!(error.contains("choose another name") && unit.is_held(), "{error}");
    assert!(unit.finish(Some(fields(&[("end", 1)]))).await.unwrap());
    assert_eq!(stands(&fleet, "u0").await, (Status::Done, fields(&[("end", 1)])));
}

#[tokio::test(start_paused = true)]
async fn s4_the_answer_to_a_checkpoint_that_was_forsaken_is_nobody_elses() {
    let world = World::new();
    let fleet = create(&world, 1).await;
    let (a, faults) = join(&world, 1);
    let unit = assigned(&a).await;
    forsake(unit.checkpoint(1)).await;
    unit.checkpoint(2).await.unwrap();
    assert_eq!(stands(&fleet, "u0").await.1, fields(&[("checkpoint", 2)]));
    // The store does not answer the first one, which nobody waits for, for a while.
    faults.inject([Fault::Hang]);
    forsake(unit.checkpoint(3)).await;
    settle().await;
    forsake(unit.checkpoint(4)).await;
    unit.checkpoint(5).await.unwrap();
    assert_eq!(stands(&fleet, "u0").await.1, fields(&[("checkpoint", 5)]));
    assert_eq!(unit.last_checkpoint(), Some(Value::from(5)));
}

#[tokio::test(start_paused = true)]
async fn s4_finishing_is_answered_as_such_while_a_checkpoint_is_under_way() {
    let world = World::new();
    let fleet = create(&world, 2).await;
    let (a, _) = join(&world, 1);
    for _ in 0..2 {
        let unit = assigned(&a).await;
        let name = unit.name().to_owned();
        let clone = unit.unit().clone();
        // Both are on their way before either is answered.
        let (checkpoint, was_ours) = tokio::join!(clone.checkpoint(7), async {
            if name == "u0" { unit.finish(None).await.unwrap() } else { unit.release().await }
        });
        checkpoint.unwrap();
        assert!(was_ours, "{name}");
        let status = if name == "u0" { Status::Done } else { Status::Open };
        assert_eq!(stands(&fleet, &name).await, (status, fields(&[("checkpoint", 7)])));
    }
}

#[tokio::test(start_paused = true)]
async fn s3_what_was_let_go_of_is_not_written_any_more() {
    let world = World::new();
    create(&world, 2).await;
    let (a, faults) = join(&world, 1);
    for how in ["drained", "dropped"] {
        let assignment = assigned(&a).await;
        let unit = assignment.unit().clone();
        // If it were sent, it would take its time.
        faults.inject([Fault::Hang]);
        if how == "drained" {
            assignment.drained()
        } else {
            drop(assignment)
        }
        let refused = unit.checkpoint(1).await;
        assert!(matches!(refused, Err(LeaseError::Lost(Loss::Released))), "{how}: {refused:?}");
        tokio::time::sleep(TTL / 2).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_outsiders_write_stays_through_checkpoints_and_the_end() {
    let world = World::new();
    let fleet = create(&world, 1).await;
    let (a, _) = join(&world, 1);
    let unit = assigned(&a).await;
    unit.checkpoint(1).await.unwrap();
    let put = |name: &'static str| {
        let fleet = fleet.clone();
        async move { fleet.update("u0", |_, fields| drop(fields.insert(name.into(), 1.into()))).await.unwrap() }
    };
    put("x").await;
    unit.checkpoint(2).await.unwrap();
    let both = fields(&[("x", 1), ("checkpoint", 2)]);
    assert_eq!((stands(&fleet, "u0").await.1, unit.fields()), (both.clone(), both));
    put("y").await;
    assert!(unit.finish(None).await.unwrap());
    let all = fields(&[("x", 1), ("y", 1), ("checkpoint", 2)]);
    assert_eq!(stands(&fleet, "u0").await, (Status::Done, all));
}

#[tokio::test(start_paused = true)]
async fn units_that_nobody_takes_up_go_where_they_belong() {
    let world = World::new();
    create(&world, 4).await;
    let (idle, _) = join(&world, 1);
    soon(|| idle.held().len() == 4).await;
    let (busy, _) = join(&world, 2);
    let mut has = Vec::new();
    for _ in 0..2 {
        has.push(assigned(&busy).await);
    }
    let left = tokio::time::timeout(TTL * 2, idle.leave()).await;
    assert!(left.is_ok(), "it waits for somebody who does not listen");
    for _ in 0..2 {
        has.push(assigned(&busy).await);
    }
    assert!(idle.next().await.is_none(), "what was never had is not lost");
}

#[tokio::test(start_paused = true)]
async fn a_worker_leaves_when_its_handles_are_dropped_though_a_unit_is_remembered() {
    let world = World::new();
    create(&world, 1).await;
    let (a, _) = join(&world, 1);
    let assignment = assigned(&a).await;
    let unit = assignment.unit().clone();
    let (b, _) = join(&world, 2);
    drop(a);
    tokio::time::sleep(TTL * 2).await;
    assert!(unit.is_held(), "the assignment is there");
    drop(assignment);
    let _next = assigned(&b).await;
    soon(|| unit.loss().is_some() || !unit.is_held()).await;
    tokio::time::sleep(TTL * 2).await;
    assert_eq!(b.fleet().roster().await.unwrap().members.len(), 1, "only one is left");
}

#[tokio::test(start_paused = true)]
async fn l2_a_change_that_could_not_be_told_is_told_by_the_next_attempt() {
    let world = World::new();
    let outside = create(&world, 1).await;
    let (faults, store) = world.line();
    let other = fleet(&world, AnyStore::new(store), 98);
    let board = outside.name().board().unwrap();
    let generation = async || world.memory.read(&board).await.unwrap().map(|board| board.record.fence);
    for change in ["create", "pin", "weigh", "delete"] {
        let before: Option<Fence> = generation().await;
        let w1 = HolderId::new("w1").unwrap();
        let attempt = async |fleet: &Fleet| match change {
            "create" => fleet.create(NewUnit::named("x")).await.map(drop),
            "pin" => fleet.pin("x", Some(&w1)).await.map(drop),
            "weigh" => fleet.update("x", |spec, _| spec.weight = 7).await.map(drop),
            _ => fleet.delete("u0").await.map(drop),
        };
        // The change itself is made: what comes after it fails.
        let calls_before = usize::from(change != "create") + 1;
        faults.inject((0..calls_before).map(|_| Fault::None).chain([Fault::Refuse]));
        assert!(attempt(&other).await.is_err(), "{change}");
        assert_eq!(generation().await, before, "{change}");
        attempt(&other).await.unwrap();
        assert!(generation().await > before, "{change}: it was not told");
    }
}

#[tokio::test(start_paused = true)]
async fn what_only_a_newer_version_knows_of_a_unit_outlasts_changes_from_outside() {
    let world = World::new();
    let fleet = create(&world, 1).await;
    let key = fleet.key("u0").unwrap();
    let newer = ("colour".to_owned(), Value::from("red"));
    let mut stored = world.memory.read(&key).await.unwrap().unwrap();
    stored.record.nonce = Nonce(7);
    let own = Value::Map(Metadata::from([newer.clone()]));
    stored.record.metadata = Metadata::from([("tenure".to_owned(), own)]);
    let expect = Expect::Unchanged(stored.version);
    world.memory.write(Write { key: key.clone(), expect, record: stored.record }).await.unwrap();
    let own = async || match world.memory.read(&key).await.unwrap().unwrap().record.metadata.remove("tenure")
    {
        Some(Value::Map(own)) => own,
        other => panic!("{other:?}"),
    };
    assert!(fleet.pin("u0", HolderId::new("w1").ok().as_ref()).await.unwrap());
    assert_eq!(own().await, Metadata::from([newer.clone(), ("pin".to_owned(), Value::from("w1"))]));
    assert!(fleet.pin("u0", None).await.unwrap());
    assert_eq!(own().await, Metadata::from([newer.clone()]));
    assert!(fleet.delete("u0").await.unwrap());
    assert_eq!(own().await, Metadata::from([newer, ("status".to_owned(), Value::from("deleted"))]));
}

#[tokio::test(start_paused = true)]
async fn what_is_not_believed_in_is_not_listed_as_held() {
    let world = World::new();
    create(&world, 2).await;
    let (worker, faults) = join(&world, 1);
    let (first, second) = (assigned(&worker).await, assigned(&worker).await);
    assert_eq!(worker.held().len(), 2);
    faults.always(Fault::Hang);
    let (gone, stays) = (first.unit().clone(), second.name().to_owned());
    let _releasing = tokio::spawn(first.release());
    settle().await;
    assert!(!gone.is_held());
    assert_eq!(worker.held(), [(stays, second.fence())]);
    second.lapse();
    assert_eq!(worker.held(), []);
}

#[tokio::test(start_paused = true)]
async fn a_worker_whose_session_can_not_be_read_is_told_as_damaged() {
    let world = World::new();
    create(&world, 1).await;
    let (a, _) = join(&world, 1);
    let _held = assigned(&a).await;
    let (seen_by, store) = world.line();
    let seen = fleet(&world, AnyStore::new(store), 98);
    let roster = seen.roster().await.unwrap();
    assert_eq!((roster.members.len(), roster.damaged), (1, Vec::new()));
    seen_by.damage(seen.name().worker(a.holder()).unwrap());
    let roster = seen.roster().await.unwrap();
    let [(name, error)] = &roster.damaged[..] else { panic!("{roster:?}") };
    assert_eq!((name.as_str(), error.kind()), (a.holder().as_str(), ErrorKind::Foreign));
    assert_eq!(roster.members, []);
}

#[tokio::test(start_paused = true)]
async fn s2_a_worker_that_has_a_unit_again_that_may_be_worked_on_has_a_higher_fence() {
    let world = World::new();
    create(&world, 1).await;
    let (a, _) = join(&world, 1);
    let first = assigned(&a).await;
    let mut fence = first.fence();
    // It is nobody else's, so it rests here; what was done for it has ended.
    assert!(first.release().await);
    let released = assigned(&a).await;
    assert_eq!(released.fence(), fence);
    assert!(released.abandon().await);
    let abandoned = assigned(&a).await;
    assert!(abandoned.fence() > std::mem::replace(&mut fence, abandoned.fence()));
    drop(abandoned);
    let dropped = assigned(&a).await;
    assert!(dropped.fence() > std::mem::replace(&mut fence, dropped.fence()));
    drop(dropped);
    // A body that panics was in the midst of something.
    let (fences, mut began) = tokio::sync::mpsc::unbounded_channel();
    let runs = tokio::spawn(async move {
        a.run(move |unit| {
            let fences = fences.clone();
            async move {
                assert!(fences.send(unit.fence()).is_err(), "on purpose");
                Verdict::Again
            }
        })
        .await;
    });
    for _ in 0..2 {
        let next = began.recv().await.unwrap();
        assert!(next > std::mem::replace(&mut fence, next));
    }
    runs.abort();
}
