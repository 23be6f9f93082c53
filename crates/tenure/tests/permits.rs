//! Semaphores, readers and writers, and fair locks, in simulated time. Plan: as many hold permits as there are, in the order of their
//! asking; a guard of permits is a guard like others; what can't be had is said; the dead are out of the way in time; holding costs what a
//! session costs; whoever goes away while waiting leaves nothing behind; a least time is kept, also by a stop; permits
//! that are spread over records are as many as there are.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{Process, TTL, World, settle, slow_down, timed};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tenure::permits::{SemaphoreLedger, key};
use tenure::store::{Expect, Nonce, Outcome, Record, Write};
use tenure::{AcquireError, BodyError, ErrorKind, Held, LeaseError, Leases, Loss, Metadata, Store};
use tenure_store::Fault;

async fn ledger(process: &Process, name: &str) -> SemaphoreLedger {
    let stored = process.leases.store().read(&key(name).unwrap()).await.unwrap();
    SemaphoreLedger::of(&stored.unwrap().record).unwrap()
}

#[tokio::test(start_paused = true)]
async fn s8_as_many_hold_permits_as_there_are_and_the_next_comes_when_one_is_given_up() {
    let world = World::new();
    let processes: Vec<Process> = (0..4).map(|_| world.process()).collect();
    let mut guards = Vec::new();
    for process in &processes[..3] {
        guards.push(process.leases.semaphore("s", 3).acquire().await.unwrap());
    }
    let refused = processes[3].leases.semaphore("s", 3).try_acquire().await.unwrap_err();
    let AcquireError::Held(Some(by)) = refused else { panic!("{refused}") };
    assert_eq!(by.holder, *processes[0].leases.holder());
    let fourth = processes[3].leases.clone();
    let waits = tokio::spawn(async move { fourth.semaphore("s", 3).acquire().await.unwrap() });
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(!waits.is_finished() && guards.iter().all(|guard| guard.is_held()));
    let seen = processes[0].leases.semaphore("s", 3).peek().await.unwrap();
    assert_eq!((seen.permits, seen.holders.len(), seen.queue.len()), (3, 3, 1));
    assert_eq!(seen.queue[0].holder, *processes[3].leases.holder());
    assert_eq!(processes[0].leases.shared("unused").peek().await.unwrap(), SemaphoreLedger::default());
    let fences: Vec<_> = guards.iter().map(|guard| guard.fence()).collect();
    assert!(fences.is_sorted() && fences[0] < fences[2]);
    assert!(guards.remove(1).release().await);
    let (fourth, took) = timed(waits).await;
    let fourth = fourth.unwrap();
    assert!(fourth.is_held() && fourth.fence() > fences[2] && took < Duration::from_secs(1), "{took:?}");
    assert!(fourth.remaining() <= TTL && fourth.key().as_str() == "semaphore/s");
}

#[tokio::test(start_paused = true)]
async fn l6_readers_and_writers_have_their_turns_and_a_writer_does_not_starve() {
    let world = World::new();
    let order = Arc::new(Mutex::new(String::new()));
    let first = world.process();
    let held = first.leases.shared("k").acquire().await.unwrap();
    let mut tasks = Vec::new();
    for who in ["r", "w", "r", "r", "w", "r"] {
        let (process, order) = (world.process(), Arc::clone(&order));
        tasks.push(tokio::spawn(async move {
            let asked = if who == "r" { process.leases.shared("k") } else { process.leases.exclusive("k") };
            let body = async move |_| {
                order.lock().unwrap().push_str(&format!("<{who}"));
                tokio::time::sleep(Duration::from_secs(3)).await;
                order.lock().unwrap().push_str(&format!("{who}>"));
            };
            asked.with_lease(body).await.unwrap();
            process.leases.stop().await;
        }));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    held.release().await;
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(*order.lock().unwrap(), "<rr><ww><r<rr>r><ww><rr>");
}

#[tokio::test(start_paused = true)]
async fn a_guard_of_permits_tells_its_loss_and_takes_no_metadata() {
    let world = World::new();
    let process = world.process();
    let mut guard = process.leases.fair_lock("k").acquire().await.unwrap();
    assert!(process.leases.held().iter().any(|(held, fence)| held == guard.key() && *fence == guard.fence()));
    let error = guard.update(Metadata::new()).await.unwrap_err();
    assert!(matches!(&error, LeaseError::Store(error) if error.kind() == ErrorKind::Invalid), "{error}");
    assert!(guard.is_held());
    process.faults.always(Fault::Refuse);
    let (loss, took) = timed(guard.lost()).await;
    assert!(matches!(loss, Loss::Unreachable(_)), "{loss}");
    assert!(!guard.is_held() && took < TTL, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn l5_the_permits_of_a_dead_process_are_granted_on_within_its_time() {
    let world = World::new();
    let (dead, waits) = (world.process(), world.process());
    let guard = dead.leases.exclusive("k").acquire().await.unwrap();
    let next = tokio::spawn({
        let leases = waits.leases.clone();
        async move { leases.shared("k").acquire().await.unwrap() }
    });
    tokio::time::sleep(TTL).await;
    assert!(guard.is_held() && !next.is_finished());
    dead.faults.always(Fault::Refuse);
    let (next, took) = timed(next).await;
    assert!(next.unwrap().is_held() && !guard.is_held());
    assert!(took <= TTL * 14 / 10, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn c1_a_thousand_permits_of_one_process_cost_what_its_session_costs() {
    let world = World::new();
    let process = world.process();
    let mut guards = Vec::new();
    for _ in 0..1000 {
        guards.push(process.leases.semaphore("s", 1000).acquire().await.unwrap());
    }
    process.store.take();
    tokio::time::sleep(TTL * 10).await;
    let counts = process.store.take();
    assert!((29..=31).contains(&counts.writes) && counts.reads <= counts.writes + 1, "{counts:?}");
    assert!(guards.iter().all(|guard| guard.is_held()));
}

#[tokio::test(start_paused = true)]
async fn c1_fair_pairs_of_one_process_take_a_write_each_way() {
    let world = World::new();
    let process = world.process();
    process.leases.fair_lock("k").acquire().await.unwrap().release().await;
    process.store.take();
    for _ in 0..10 {
        assert!(process.leases.fair_lock("k").acquire().await.unwrap().release().await);
    }
    assert_eq!(process.store.take().round_trips(), 20);
}

#[tokio::test(start_paused = true)]
async fn whoever_goes_away_while_it_waits_leaves_the_queue() {
    let world = World::new();
    let (holds, waits, last) = (world.process(), world.process(), world.process());
    let guard = holds.leases.exclusive("k").acquire().await.unwrap();
    let gone = tokio::time::timeout(Duration::from_secs(2), waits.leases.exclusive("k").acquire()).await;
    assert!(gone.is_err());
    settle().await;
    assert!(ledger(&holds, "k").await.queue.is_empty());
    let (late, took) = timed(waits.leases.exclusive("k").acquire_within(Duration::from_secs(3))).await;
    assert!(
        matches!(late, Err(AcquireError::Held(Some(_)))) && took < Duration::from_millis(3200),
        "{late:?}"
    );
    guard.release().await;
    assert!(last.leases.exclusive("k").try_acquire().await.unwrap().is_held());
}

#[tokio::test(start_paused = true)]
async fn several_permits_are_taken_at_once_and_who_barges_does_not_wait_behind_others() {
    let world = World::new();
    let (a, b, c) = (world.process(), world.process(), world.process());
    let two = a.leases.semaphore("s", 3).take(2).acquire().await.unwrap();
    let all = tokio::spawn({
        let leases = b.leases.clone();
        async move { leases.semaphore("s", 3).take(3).acquire().await.unwrap() }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(c.leases.semaphore("s", 3).try_acquire().await.is_err());
    let one = c.leases.semaphore("s", 3).barging(true).try_acquire().await.unwrap();
    one.release().await;
    two.release().await;
    assert!(all.await.unwrap().is_held());
}

#[tokio::test(start_paused = true)]
async fn permits_that_are_given_up_early_are_kept_for_their_least_time() {
    let world = World::new();
    let (process, rival) = (world.process(), world.process());
    let least = TTL / 2;
    let permits = || process.leases.semaphore("s", 1).at_least_for(least);
    let free = async || {
        settle().await;
        rival.leases.semaphore("s", 1).try_acquire().await.is_ok()
    };
    // A body's result is not kept back.
    let ((), took) = timed(async { permits().with_lease(async |_| ()).await.unwrap() }).await;
    assert_eq!(took, Duration::ZERO);
    tokio::time::sleep(least - Duration::from_millis(1)).await;
    assert!(!free().await);
    tokio::time::sleep(Duration::from_millis(2)).await;
    assert!(free().await);
    // Who waits for a release waits for that long; what was held for longer is free at once.
    let guard = permits().acquire().await.unwrap();
    let (released, took) = timed(guard.release()).await;
    assert!(released && took >= least && took < least + TTL / 10, "{took:?}");
    let guard = permits().acquire().await.unwrap();
    tokio::time::sleep(least).await;
    assert_eq!(timed(guard.release()).await, (true, Duration::ZERO));
    // A stop does not free them, nor are they kept for ever.
    drop(permits().acquire().await.unwrap());
    process.leases.stop().await;
    tokio::time::sleep(least).await;
    assert!(!free().await);
    tokio::time::sleep(TTL).await;
    assert!(free().await);
}

#[tokio::test(start_paused = true)]
async fn s8_permits_that_are_spread_over_records_are_as_many_as_there_are() {
    let world = World::new();
    let processes: Vec<Process> = (0..3).map(|_| world.process()).collect();
    let spread = |n: usize| processes[n % 3].leases.semaphore("s", 10).spread(4);
    let mut guards = Vec::new();
    for n in 0..10 {
        guards.push(spread(n).acquire().await.unwrap());
    }
    let mut records: Vec<&str> = guards.iter().map(|guard| guard.key().as_str()).collect();
    records.sort_unstable();
    let three = |n| [format!("semaphore/s/{n}"), format!("semaphore/s/{n}"), format!("semaphore/s/{n}")];
    let all = [0, 1, 2, 3].map(|n| three(n)[..if n < 2 { 3 } else { 2 }].to_vec()).concat();
    assert_eq!(records, all);
    assert!(matches!(spread(0).try_acquire().await, Err(AcquireError::Held(Some(_)))));
    let (refused, took) = timed(spread(1).acquire_within(TTL)).await;
    assert!(matches!(refused, Err(AcquireError::Held(_))) && took >= TTL && took < TTL * 2, "{took:?}");
    // Wherever one is given up, who waits has it within a turn through all records.
    for _ in 0..4 {
        let waits = tokio::spawn(spread(2).acquire());
        tokio::time::sleep(Duration::from_millis(300)).await;
        guards.remove(0).release().await;
        let (got, took) = timed(waits).await;
        assert!(took < Duration::from_secs(5), "{took:?}");
        guards.push(got.unwrap().unwrap());
    }
    drop(guards);
    settle().await;
    // Three at once fit into two of them.
    let over = |records| processes[0].leases.semaphore("s", 10).take(3).spread(records);
    let three = || over(4);
    let held = [three().acquire().await.unwrap(), three().acquire().await.unwrap()];
    assert!(held.iter().all(|guard| guard.is_held()) && three().try_acquire().await.is_err());
    assert_eq!(spread(1).with_lease(async |_| 7).await.unwrap(), 7);
    for (asked, says) in [
        (over(11), "choose from 1 to 10"),
        (over(0), "choose from 1 to 10"),
        (over(5), "no record has 3 permits"),
    ] {
        let error = asked.try_acquire().await.unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    let error = processes[0].leases.fair_lock("s").spread(2).acquire().await.unwrap_err().to_string();
    assert!(error.contains("only a semaphore can be spread"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_body_is_run_under_permits_or_not_at_all_by_each_of_the_six_ways() {
    let world = World::new();
    let process = world.process();
    let (spread, whole) =
        (|| process.leases.semaphore("s", 4).spread(2), || process.leases.semaphore("w", 1));
    let patience = Duration::from_secs(3);
    let is_held = async |held: Held| held.is_held();
    assert!(spread().with_lease(is_held).await.unwrap());
    assert!(spread().try_with_lease(is_held).await.unwrap());
    assert!(spread().with_lease_within(patience, is_held).await.unwrap());
    assert!(spread().with_lease_blocking(|held| held.is_held()).await.unwrap());
    assert!(spread().try_with_lease_blocking(|held| held.is_held()).await.unwrap());
    assert!(spread().with_lease_blocking_within(patience, |held| held.is_held()).await.unwrap());
    assert!(whole().try_with_lease_blocking(|held| held.is_held()).await.unwrap());
    assert!(whole().with_lease_blocking_within(patience, |held| held.is_held()).await.unwrap());
    let mut taken = vec![whole().acquire().await.unwrap()];
    for _ in 0..4 {
        taken.push(spread().acquire().await.unwrap());
    }
    let refused = |told: Result<(), BodyError<()>>| {
        assert!(matches!(told, Err(BodyError::Acquire(AcquireError::Held(_)))), "{told:?}");
    };
    refused(spread().try_with_lease(async |_| unreachable!("all are held")).await);
    refused(spread().with_lease_within(patience, async |_| unreachable!("all are held")).await);
    refused(spread().try_with_lease_blocking(|_| unreachable!("all are held")).await);
    refused(spread().with_lease_blocking_within(patience, |_| unreachable!("all are held")).await);
    refused(whole().try_with_lease_blocking(|_| unreachable!("it is held")).await);
    refused(whole().with_lease_blocking_within(patience, |_| unreachable!("it is held")).await);
}

#[tokio::test]
async fn what_can_never_be_had_is_refused_before_anything_is_asked() {
    let leases = Leases::new(tenure::memory()).unwrap();
    for (asked, says) in [
        (leases.semaphore("s", 0), "can't have 0 permits"),
        (leases.semaphore("s", 2).take(3), "it has 2"),
        (leases.semaphore("s", 2).take(0), "take 1 to 2"),
        (leases.semaphore("", 2), "can't be empty"),
        (leases.semaphore("s", 2).at_most_for(Duration::ZERO), "no time at all"),
        (
            leases.semaphore("s", 2).at_least_for(TTL).at_most_for(TTL / 2),
            "choose a longest time that is no shorter",
        ),
        (leases.semaphore("s", 2).grace(Duration::from_secs(60)), "a grace period"),
    ] {
        let error = asked.with_lease(async |_| ()).await.unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    assert!(leases.lock("semaphore/s").try_acquire().await.unwrap_err().to_string().contains("a semaphore"));
    leases.semaphore("t", 2).acquire().await.unwrap().release().await;
    let _held = leases.semaphore("t", 2).acquire().await.unwrap();
    let error = leases.semaphore("t", 3).acquire().await.unwrap_err().to_string();
    assert!(error.contains("has 2 permits as long as it is used, and not 3"), "{error}");
    leases.stop().await;
}

#[tokio::test(start_paused = true)]
async fn s6_a_body_under_permits_ends_before_they_are_granted_on() {
    let world = World::new();
    let (a, b) = (world.process(), world.process());
    let ended = Arc::new(Mutex::new(false));
    let body = tokio::spawn({
        let (leases, ended) = (a.leases.clone(), Arc::clone(&ended));
        async move {
            leases
                .fair_lock("k")
                .with_lease(async move |held| {
                    held.cancelled().await;
                    *ended.lock().unwrap() = true;
                })
                .await
        }
    });
    settle().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let next = tokio::spawn({
        let (leases, ended) = (b.leases.clone(), Arc::clone(&ended));
        async move {
            let guard = leases.fair_lock("k").acquire().await.unwrap();
            assert!(*ended.lock().unwrap());
            guard
        }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    a.faults.always(Fault::Refuse);
    assert!(body.await.unwrap().is_err());
    assert!(next.await.unwrap().is_held());
}

#[tokio::test(start_paused = true)]
async fn where_the_store_answers_all_along_spread_permits_that_are_out_are_told_to_be_held() {
    let world = World::new();
    let (process, other) = (world.process(), world.process());
    let mut out = Vec::new();
    for _ in 0..10 {
        out.push(other.leases.semaphore("s", 10).spread(10).acquire().await.unwrap());
    }
    // With its session up, one round of all records takes longer than most of these.
    process.leases.acquire("k").await.unwrap().release().await;
    slow_down(&process.faults, Duration::from_millis(40));
    for patience in [Duration::from_millis(150), Duration::from_millis(300), Duration::from_secs(2)] {
        let (result, took) =
            timed(process.leases.semaphore("s", 10).spread(10).acquire_within(patience)).await;
        let Err(AcquireError::Held(Some(by))) = &result else { panic!("{patience:?}: {result:?}") };
        assert!(by.holder == *other.leases.holder(), "{by:?}");
        assert!(took < patience + Duration::from_millis(300), "{took:?}");
    }
}

/// A record's one claim is put into it so often that there is no room for another.
async fn fill(world: &World, name: &str) {
    let key = key(name).unwrap();
    let stored = world.memory.read(&key).await.unwrap().unwrap();
    let mut ledger = SemaphoreLedger::of(&stored.record).unwrap();
    let one = ledger.holders[0].clone();
    let grants = (1..).map(|n| {
        let mut grant = one.clone();
        grant.ticket.id = Nonce(n);
        grant
    });
    ledger.holders.extend(grants.take(8000));
    while let Some(excess) = ledger.to_metadata().1.checked_sub(SemaphoreLedger::MAX_BYTES + 1) {
        ledger.holders.truncate(ledger.holders.len() - 1 - excess / 64);
    }
    let (metadata, _) = ledger.to_metadata();
    let record = Record { nonce: Nonce(77), metadata, ..stored.record };
    let write = Write { key, expect: Expect::Unchanged(stored.version), record };
    assert!(matches!(world.memory.write(write).await, Ok(Outcome::Won { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_record_that_is_full_is_passed_over_where_permits_are_spread() {
    let world = World::new();
    let spread = |process: &Process| process.leases.semaphore("s", 1 << 20).spread(2);
    let first = world.process();
    let _one = spread(&first).acquire().await.unwrap();
    let at = usize::from(world.memory.read(&key("s/0").unwrap()).await.unwrap().is_none());
    fill(&world, &format!("s/{at}")).await;
    let processes: Vec<Process> = (0..8).map(|_| world.process()).collect();
    let mut had = Vec::new();
    for process in &processes {
        had.push(spread(process).try_acquire().await.unwrap());
        had.push(spread(process).acquire_within(TTL).await.unwrap());
    }
    assert_eq!(ledger(&first, &format!("s/{}", 1 - at)).await.holders.len(), 16);
    fill(&world, &format!("s/{}", 1 - at)).await;
    let late = world.process();
    for result in [spread(&late).try_acquire().await, spread(&late).acquire_within(TTL).await] {
        let Err(AcquireError::Store(error)) = &result else { panic!("{result:?}") };
        assert!(error.to_string().contains("divide them among several semaphores"), "{error}");
    }
}
