//! Plan: the library's fleet in simulated time: units come and go as events or as tasks; what is done for a unit ends before it
//! goes (S6); loss is told without the store (S5); a deposed or deleted unit's writes change nothing (S3); the catalogue; what
//! it costs (C1); bad input. (The machine's own behaviour is tested in the core, and under faults in the simulator.)

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use crate::common::{TTL, TestStore, World, settle, timed};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tenure::fleet::{Event, Fleet, NewUnit, Reason, Status, Verdict, Worker};
use tenure::{AnyStore, HolderId, LeaseError, Loss, Metadata, Value};
use tenure_store::{Fault, FaultyStore, MemoryStore};

const INTERVAL: Duration = TTL.checked_div(3).unwrap();

struct Member {
    worker: Worker,
    faults: FaultyStore<MemoryStore>,
    store: TestStore,
}

fn fleet(world: &World, store: AnyStore, instance: u64) -> Fleet {
    Fleet::with_clock(store, "test", world.clock.clone()).unwrap().instance(instance)
}

fn outside(world: &World) -> Fleet {
    fleet(world, AnyStore::new(world.memory.clone()), 99)
}

fn member(world: &World, n: u64) -> Member {
    let (faults, store) = world.line();
    let fleet = fleet(world, AnyStore::new(store.clone()), n);
    let holder = HolderId::new(format!("w{n}")).unwrap();
    let worker = fleet.join().ttl(TTL).drain_time(TTL / 4).holder(holder).instance(n).start().unwrap();
    Member { worker, faults, store }
}

async fn create(world: &World, units: usize) -> Fleet {
    let fleet = outside(world);
    fleet.create_all((0..units).map(|n| NewUnit::named(format!("u{n:03}")))).await.unwrap();
    fleet
}

async fn wait_until(mut done: impl FnMut() -> bool) -> Duration {
    let (_, took) = timed(async {
        while !done() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    took
}

#[tokio::test(start_paused = true)]
async fn units_are_shared_out_as_events_and_each_goes_only_once_its_work_has_ended() {
    let world = World::new();
    create(&world, 4).await;
    let a = member(&world, 1);
    let mut held = BTreeMap::new();
    while held.len() < 4 {
        match a.worker.next().await.unwrap() {
            Event::Assigned(unit) => drop(held.insert(unit.name().to_owned(), unit)),
            other => panic!("{other:?}"),
        }
    }
    let b = member(&world, 2);
    for n in 0..2 {
        let Event::Draining { unit, reason, within } = a.worker.next().await.unwrap() else { panic!() };
        assert_eq!(reason, Reason::Moved(HolderId::new("w2").unwrap()));
        // What is left of it when it is heard: they were told to go at the same time.
        let gone = TTL / 8 * n;
        assert!(within > TTL / 5 - gone && within <= TTL / 4 - gone, "{within:?}");
        let assignment = held.remove(&unit).unwrap();
        assert!(
            assignment.is_held() && assignment.cancelled().is_cancelled() && assignment.draining().is_some()
        );
        // S6: until it is let go of, nobody else has it.
        tokio::time::sleep(TTL / 8).await;
        assert!(!b.worker.held().iter().any(|(name, _)| *name == unit));
        let fence = assignment.fence();
        assignment.drained();
        let Event::Assigned(next) = b.worker.next().await.unwrap() else { panic!() };
        assert!(next.name() == unit && next.fence() > fence);
        std::mem::forget(next);
    }
    assert_eq!((a.worker.held().len(), b.worker.held().len()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn s6_tasks_are_told_aborted_and_joined_before_their_units_go() {
    let world = World::new();
    create(&world, 2).await;
    let a = member(&world, 1);
    let running = Arc::new(Mutex::new(BTreeMap::<String, u32>::new()));
    let body = |running: Arc<Mutex<BTreeMap<String, u32>>>| {
        move |unit: tenure::fleet::Unit| {
            let running = Arc::clone(&running);
            async move {
                /// Counts itself out however it ends.
                struct Out(Arc<Mutex<BTreeMap<String, u32>>>, String);
                impl Drop for Out {
                    fn drop(&mut self) {
                        *self.0.lock().unwrap().get_mut(&self.1).unwrap() -= 1;
                    }
                }
                let name = unit.name().to_owned();
                {
                    let mut running = running.lock().unwrap();
                    let count = running.entry(name.clone()).or_default();
                    *count += 1;
                    assert_eq!(*count, 1, "{name} is worked on twice");
                }
                let _out = Out(running, name.clone());
                unit.cancelled().await;
                if name == "u000" {
                    // It does not listen, and has to be aborted.
                    std::future::pending::<()>().await;
                }
                Verdict::Again
            }
        }
    };
    let runs = [tokio::spawn({
        let (worker, body) = (a.worker.clone(), body(Arc::clone(&running)));
        async move { worker.run(body).await }
    })];
    wait_until(|| a.worker.held().len() == 2).await;
    let b = member(&world, 2);
    let worker = b.worker.clone();
    tokio::spawn({
        let body = body(Arc::clone(&running));
        async move { worker.run(body).await }
    });
    let took = wait_until(|| b.worker.held().len() == 1).await;
    assert!(took <= INTERVAL * 3 + TTL / 4, "{took:?}");
    a.worker.leave().await;
    for run in runs {
        run.await.unwrap();
    }
    wait_until(|| b.worker.held().len() == 2).await;
    settle().await;
    assert_eq!(running.lock().unwrap().values().sum::<u32>(), 2);
}

#[tokio::test(start_paused = true)]
async fn s5_a_worker_without_its_store_is_told_of_its_losses_in_time() {
    let world = World::new();
    create(&world, 3).await;
    let a = member(&world, 1);
    let mut held = Vec::new();
    for _ in 0..3 {
        let Event::Assigned(unit) = a.worker.next().await.unwrap() else { panic!() };
        held.push(unit);
    }
    a.faults.always(Fault::Hang);
    let (_, took) = timed(held[0].cancelled()).await;
    assert!(took <= TTL * 9 / 11 + Duration::from_millis(1), "{took:?}");
    assert!(held.iter().all(|unit| !unit.is_held()));
    for _ in 0..3 {
        let Event::Lost { loss, .. } = a.worker.next().await.unwrap() else { panic!() };
        assert!(matches!(loss, Loss::Unreachable(_)), "{loss:?}");
    }
    assert!(matches!(held[0].checkpoint(1).await, Err(LeaseError::Lost(_))));
}

#[tokio::test(start_paused = true)]
async fn l1_a_dead_workers_units_go_to_the_others_with_their_checkpoints() {
    let world = World::new();
    create(&world, 2).await;
    let a = member(&world, 1);
    for n in 0..2 {
        let Event::Assigned(unit) = a.worker.next().await.unwrap() else { panic!() };
        unit.checkpoint(n).await.unwrap();
        assert_eq!(unit.last_checkpoint(), Some(Value::from(n)));
        std::mem::forget(unit);
    }
    let b = member(&world, 2);
    // From the beginning on it can't be reached.
    a.faults.always(Fault::Hang);
    let (_, took) = timed(async {
        for _ in 0..2 {
            let Event::Assigned(unit) = b.worker.next().await.unwrap() else { panic!() };
            assert!(unit.last_checkpoint().is_some(), "{:?}", unit.fields());
            std::mem::forget(unit);
        }
    })
    .await;
    assert!(took <= TTL * 115 / 100, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn s3_a_deleted_units_owner_lets_go_and_can_not_bring_it_back() {
    let world = World::new();
    let fleet = create(&world, 1).await;
    let a = member(&world, 1);
    let Event::Assigned(unit) = a.worker.next().await.unwrap() else { panic!() };
    assert!(fleet.delete("u000").await.unwrap());
    assert!(!fleet.delete("u000").await.unwrap(), "twice");
    let Event::Draining { reason, .. } = a.worker.next().await.unwrap() else { panic!() };
    assert_eq!(reason, Reason::Closed(Status::Deleted));
    unit.checkpoint(7).await.unwrap();
    assert_eq!(fleet.get("u000").await.unwrap(), None, "its owner's write does not bring it back");
    let fence = unit.fence();
    assert!(fleet.create(NewUnit::named("u000")).await.is_err(), "not while its worker has it");
    unit.drained();
    // It is not held from then on, and let go of a moment later.
    assert!(a.worker.held().is_empty());
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert!(fleet.create(NewUnit::named("u000")).await.unwrap(), "a new one of this name");
    let Event::Assigned(unit) = a.worker.next().await.unwrap() else { panic!() };
    assert!(unit.fence() > fence && unit.fields().is_empty());
}

#[tokio::test(start_paused = true)]
async fn verdicts_decide_about_units_whose_tasks_return() {
    let world = World::new();
    let fleet = create(&world, 2).await;
    let (a, b) = (member(&world, 1), member(&world, 2));
    // Whoever is alone has to have another go itself.
    wait_until(|| [&a, &b].iter().all(|member| member.worker.held().len() == 1)).await;
    let tried = Arc::new(Mutex::new(Vec::new()));
    for member in [&a, &b] {
        let (worker, tried, me) = (member.worker.clone(), Arc::clone(&tried), member.worker.holder().clone());
        tokio::spawn(async move {
            let body = move |unit: tenure::fleet::Unit| {
                let (tried, me) = (Arc::clone(&tried), me.clone());
                async move {
                    let mut tried = tried.lock().unwrap();
                    tried.push((unit.name().to_owned(), me));
                    // The first who gets u000 fails at it.
                    let fails =
                        unit.name() == "u000" && tried.iter().filter(|(name, _)| name == "u000").count() == 1;
                    if fails { Err("no") } else { Ok(Verdict::Done) }
                }
            };
            worker.run(body).await;
        });
    }
    let done = |fleet: Fleet| async move {
        fleet.list().await.unwrap().units.iter().filter(|unit| unit.spec.status == Status::Done).count()
    };
    for _ in 0..2000 {
        if done(fleet.clone()).await == 2 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(done(fleet.clone()).await, 2);
    let tried = tried.lock().unwrap();
    let who: Vec<_> = tried.iter().filter(|(name, _)| name == "u000").map(|(_, who)| who.clone()).collect();
    assert_eq!(who.len(), 2);
    assert_ne!(who[0], who[1], "another has a go");
}

#[tokio::test(start_paused = true)]
async fn what_a_task_returns_after_it_was_told_to_end_does_not_make_its_unit_done() {
    let world = World::new();
    let fleet = create(&world, 3).await;
    for how in ["stop", "leave", "drop"] {
        let a = member(&world, how.len() as u64 * 7);
        let (worker, held) = (a.worker.clone(), a.worker.clone());
        let run = tokio::spawn(async move {
            worker
                .run(|unit| async move {
                    unit.cancelled().await;
                    Verdict::Again
                })
                .await
        });
        wait_until(|| held.held().len() == 3).await;
        match how {
            "stop" => a.worker.stop().await,
            "leave" => a.worker.leave().await,
            _ => run.abort(),
        }
        settle().await;
        tokio::time::sleep(TTL / 2).await;
        let open =
            fleet.list().await.unwrap().units.into_iter().filter(|unit| unit.spec.status == Status::Open);
        assert_eq!(open.count(), 3, "{how}");
    }
}

#[tokio::test(start_paused = true)]
async fn operators_pin_drain_and_withdraw() {
    let world = World::new();
    let fleet = create(&world, 4).await;
    let (a, b) = (member(&world, 1), member(&world, 2));
    for member in [&a, &b] {
        let worker = member.worker.clone();
        tokio::spawn(async move {
            worker
                .run(|unit| async move {
                    unit.cancelled().await;
                    Verdict::Again
                })
                .await;
        });
    }
    wait_until(|| a.worker.held().len() == 2 && b.worker.held().len() == 2).await;
    let unit = a.worker.held()[0].0.clone();
    let w2 = HolderId::new("w2").unwrap();
    assert!(fleet.pin(&unit, Some(&w2)).await.unwrap());
    wait_until(|| b.worker.held().iter().any(|(name, _)| *name == unit)).await;
    fleet.revoke(&b.worker.held()[0].0).await.unwrap();
    wait_until(|| b.worker.held().len() < 2).await;
    wait_until(|| a.worker.held().len() + b.worker.held().len() == 4).await;
    fleet.drain(&w2).await.unwrap();
    assert_eq!(fleet.roster().await.unwrap().members.len(), 2);
    wait_until(|| a.worker.held().len() == 4).await;
    assert!(b.worker.next().await.is_none(), "it has stopped");
    assert_eq!(fleet.roster().await.unwrap().members.len(), 1);
    assert!(matches!(fleet.drain(&w2).await, Err(LeaseError::NotHeld)));
}

#[tokio::test(start_paused = true)]
async fn c1_at_rest_a_worker_makes_one_write_and_one_read_in_each_interval() {
    let world = World::new();
    create(&world, 200).await;
    let (a, b) = (member(&world, 1), member(&world, 2));
    for member in [&a, &b] {
        let worker = member.worker.clone();
        tokio::spawn(async move {
            worker
                .run(|unit| async move {
                    unit.cancelled().await;
                    Verdict::Again
                })
                .await
        });
    }
    tokio::time::sleep(TTL * 4).await;
    let _ = a.store.take();
    tokio::time::sleep(INTERVAL * 30).await;
    let counts = a.store.take();
    assert!((29..=31).contains(&counts.writes) && (29..=31).contains(&counts.reads), "{counts:?}");
    // And one audit of three pages at the most: in ten ttls who plans lists everything.
    assert!(counts.lists <= 3 && counts.batches == 0, "{counts:?}");
}

#[tokio::test(start_paused = true)]
async fn the_catalogue_creates_once_lists_all_and_changes_what_is_held() {
    let world = World::new();
    let fleet = outside(&world);
    let fields = Metadata::from([("path".to_owned(), Value::from("/a"))]);
    assert!(fleet.create(NewUnit::named("x").weight(3).needs("gpu").fields(fields.clone())).await.unwrap());
    assert!(!fleet.create(NewUnit::named("x")).await.unwrap(), "idempotent");
    let x = fleet.get("x").await.unwrap().unwrap();
    assert_eq!((x.spec.weight, x.spec.needs.contains("gpu"), &x.fields), (3, true, &fields));
    let many = 2500;
    let created = fleet.create_all((0..many).map(|n| NewUnit::named(format!("m{n}")))).await.unwrap();
    assert_eq!((created, fleet.list().await.unwrap().units.len()), (many, many + 1));
    let changed = fleet.update("x", |spec, _| spec.weight = 5).await.unwrap().unwrap();
    assert_eq!(changed.spec.weight, 5);
    assert_eq!(fleet.update("y", |_, _| {}).await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn bad_input_is_refused_before_any_io_and_says_what_would_do() {
    let world = World::new();
    let (_, store) = world.line();
    let any = AnyStore::new(store.clone());
    for bad in ["", "a/b", &"x".repeat(129)] {
        let error = Fleet::new(any.clone(), bad).unwrap_err().to_string();
        assert!(error.contains("1 to 128 bytes and no '/'"), "{error}");
    }
    let fleet = fleet(&world, any, 1);
    let reserved = Metadata::from([("tenure".to_owned(), Value::Null)]);
    for (unit, says) in [
        (NewUnit::named(""), "can't be empty"),
        (NewUnit::named("x".repeat(600)), "limit is 512"),
        (NewUnit::named("x").weight(0), "1 to 2^53"),
        (NewUnit::named("x").fields(reserved.clone()), "choose another name"),
    ] {
        let error = fleet.create(unit).await.unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    let error = fleet.join().ttl(Duration::ZERO).start().unwrap_err().to_string();
    assert!(error.contains("minimum"), "{error}");
    let error = fleet.join().metadata(reserved).start().unwrap_err().to_string();
    assert!(error.contains("choose another name"), "{error}");
    assert_eq!(store.counts().round_trips(), 0);
}
