//! The promises, as a user of the library sees it: one named test or more for each promise that a lock can show.
//! The simulator proves the same of the machines under every fault; here it is shown that the driver keeps it up.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use crate::common::{Process, TTL, World, settle, timed};
use std::time::Duration;
use tenure::once::Ticked;
use tenure::store::{Expect, Write};
use tenure::{AcquireError, Key, LeaseError, Loss, Metadata, Request, Store};
use tenure_store::Fault;

fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

#[tokio::test(start_paused = true)]
async fn s1_another_gets_the_key_only_after_belief_has_ended() {
    let world = World::new();
    let (a, b) = (world.process(), world.process());
    let held = a.leases.try_acquire("k").await.unwrap();
    a.faults.always(Fault::Hang);
    let taken = tokio::spawn({
        let leases = b.leases.clone();
        async move { leases.acquire("k").await.unwrap() }
    });
    while !taken.is_finished() {
        let (before, now_taken) = (held.is_held(), taken.is_finished());
        assert!(!(before && now_taken), "both believe");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let taken = taken.await.unwrap();
    assert!(taken.is_held() && !held.is_held());
    assert!(taken.fence() > held.fence());
}

#[tokio::test(start_paused = true)]
async fn s2_fences_grow_through_release_expiry_and_deletion() {
    let world = World::new();
    let (a, b) = (world.process(), world.process());
    let mut last = tenure::Fence(0);
    for round in 0..12 {
        let leases = if round % 2 == 0 { &a.leases } else { &b.leases };
        let guard = leases.lock("k").ttl(TTL).acquire().await.unwrap();
        assert!(guard.fence() > last, "round {round}");
        last = guard.fence();
        match round % 3 {
            0 => assert!(guard.release().await),
            1 => guard.lapse().await,
            _ => {
                assert!(guard.release().await);
                let seen = world.memory.read(&key("k")).await.unwrap().unwrap();
                assert!(world.memory.remove(&key("k"), seen.version).await.unwrap());
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn s3_the_deposed_change_nothing() {
    let world = World::new();
    let (a, b) = (world.process(), world.process());
    let mut old = a.leases.lock("k").ttl(TTL).try_acquire().await.unwrap();
    a.faults.always(Fault::Hang);
    let new = b.leases.acquire("k").await.unwrap();
    a.faults.always(Fault::None);
    let before = world.memory.read(&key("k")).await.unwrap();
    assert!(matches!(old.update(Metadata::new()).await, Err(LeaseError::Lost(_))));
    assert!(!old.release().await, "it was lost already");
    let record = |stored: Option<tenure::store::Stored>| stored.map(|stored| stored.record);
    assert_eq!(record(world.memory.read(&key("k")).await.unwrap()), record(before));
    assert!(new.is_held());
}

#[tokio::test(start_paused = true)]
async fn s4_a_claim_whose_answer_is_lost_is_found_by_its_nonce() {
    let world = World::new();
    let process = world.process();
    process.faults.inject([Fault::LoseAnswer]);
    let guard = process.leases.lock("k").ttl(TTL).try_acquire().await.unwrap();
    let stored = world.memory.read(&key("k")).await.unwrap().unwrap();
    assert_eq!(stored.record.fence, guard.fence(), "won by the first write, not by a second one");
    assert_eq!(process.store.take().writes, 1);
}

#[tokio::test(start_paused = true)]
async fn s4_a_claim_whose_request_is_lost_is_made_again() {
    let world = World::new();
    let process = world.process();
    process.faults.inject([Fault::LoseRequest]);
    assert!(process.leases.lock("k").ttl(TTL).try_acquire().await.unwrap().is_held());
    assert_eq!(process.store.take().writes, 2);
}

#[tokio::test(start_paused = true)]
async fn s4_an_unknown_renewal_extends_nothing_until_it_is_resolved() {
    let world = World::new();
    let process = world.process();
    let guard = process.leases.lock("k").ttl(TTL).try_acquire().await.unwrap();
    process.faults.always(Fault::LoseAnswer);
    let (loss, after) = timed(guard.lost()).await;
    assert!(matches!(loss, Loss::Unreachable(_)), "{loss:?}");
    assert!(after <= TTL * 82 / 100, "{after:?}: the renewals landed, but nobody knew");
}

#[tokio::test(start_paused = true)]
async fn s5_after_a_suspend_loss_is_told_soon_after_waking() {
    let ttl = TTL * 6;
    for is_attached in [true, false] {
        let world = World::new();
        let (_, line) = world.line();
        let leases = world.builder(&line).session_ttl(ttl).start().unwrap();
        let lock = leases.lock("k");
        let guard = if is_attached { lock } else { lock.ttl(ttl) }.try_acquire().await.unwrap();
        let cancelled = guard.cancelled();
        let lost = tokio::spawn(async move { guard.lost().await });
        tokio::time::sleep(ttl / 60).await;
        world.clock.suspend(ttl);
        let (_, after) = timed(cancelled).await;
        assert!(after <= ttl / 20, "{after:?}, attached: {is_attached}");
        let (loss, after) = timed(lost).await;
        assert!(after <= ttl / 20 && loss.unwrap() == Loss::Expired, "{after:?}, attached: {is_attached}");
    }
}

#[tokio::test(start_paused = true)]
async fn s5_loss_is_told_by_the_deadline_though_the_store_hangs() {
    let world = World::new();
    let process = world.process();
    for ttl in [Some(TTL), None] {
        let lock = process.leases.lock(format!("{ttl:?}"));
        let guard = ttl.map_or(lock.clone(), |ttl| lock.ttl(ttl)).try_acquire().await.unwrap();
        process.faults.always(Fault::Hang);
        let token = guard.cancelled();
        let (loss, after) = timed(guard.lost()).await;
        assert!(matches!(loss, Loss::Unreachable(_)), "{loss:?}");
        assert!(after <= TTL * 82 / 100 && !guard.is_held() && guard.remaining().is_zero(), "{after:?}");
        settle().await;
        assert!(token.is_cancelled());
        process.faults.always(Fault::None);
    }
}

#[tokio::test(start_paused = true)]
async fn s5_each_loss_has_its_reason() {
    let world = World::new();
    let process = world.process();
    let tampered = |name: &'static str| process.leases.lock(name).ttl(TTL);

    let deleted = tampered("deleted").try_acquire().await.unwrap();
    let seen = world.memory.read(deleted.key()).await.unwrap().unwrap();
    world.memory.remove(deleted.key(), seen.version).await.unwrap();
    assert_eq!(deleted.lost().await, Loss::Deleted);

    let taken = tampered("taken").try_acquire().await.unwrap();
    let seen = world.memory.read(taken.key()).await.unwrap().unwrap();
    let mut record = seen.record.clone();
    record.fence.0 += 1;
    record.nonce.0 += 1;
    let tenure = record.tenure.as_mut().unwrap();
    (tenure.id, tenure.holder) = (record.nonce, "thief".parse().unwrap());
    let write = Write { key: taken.key().clone(), expect: Expect::Unchanged(seen.version), record };
    world.memory.write(write).await.unwrap();
    assert!(matches!(taken.lost().await, Loss::Taken(Some(by)) if by.holder.as_str() == "thief"));

    let revoked = tampered("revoked").try_acquire().await.unwrap();
    process.leases.request("revoked", Request::Revoke).await.unwrap();
    assert_eq!(revoked.lost().await, Loss::Revoked);

    let attached = process.leases.try_acquire("attached").await.unwrap();
    process.leases.stop().await;
    assert_eq!(attached.lost().await, Loss::Stopped);
}

#[tokio::test(start_paused = true)]
async fn s6_what_is_left_to_expire_is_so_though_nobody_waits_for_that() {
    let world = World::new();
    let (a, b) = (world.process(), world.process());
    let is_held = async |key: &str| {
        settle().await;
        matches!(b.leases.try_acquire(key).await, Err(AcquireError::Held(Some(_))))
    };
    drop(a.leases.lock("k").ttl(TTL).try_acquire().await.unwrap().lapse());
    assert!(is_held("k").await);
    drop(a.leases.lock_all(["x", "y"]).try_acquire().await.unwrap().lapse());
    assert!(is_held("x").await && is_held("y").await);
    let due = a.leases.clock().now().wall;
    let tick = |process: &Process| process.leases.once_per("job", due).at_least_once().wait(Duration::ZERO);
    let Ok(Ticked::Here(begun)) = tick(&a).begin().await else { panic!("nobody else runs it") };
    drop(begun.lapse());
    settle().await;
    let there = tick(&b).begin().await;
    assert!(matches!(there, Ok(Ticked::Busy(Some(_)))), "{there:?}");
}

#[tokio::test(start_paused = true)]
async fn l1_a_released_key_goes_to_its_waiter_by_one_push() {
    let world = World::new();
    let (a, b) = (world.process(), world.process());
    let guard = a.leases.try_acquire("k").await.unwrap();
    let waiter = tokio::spawn({
        let leases = b.leases.clone();
        async move { leases.acquire("k").await.unwrap() }
    });
    tokio::time::sleep(TTL).await;
    let (guard, after) = timed(async {
        guard.release().await;
        waiter.await.unwrap()
    })
    .await;
    assert!(guard.is_held() && after < Duration::from_millis(10), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn l1_a_dead_holders_key_is_taken_within_115_percent_of_the_ttl() {
    for is_attached in [true, false] {
        let world = World::new();
        let (a, b) = (world.process(), world.process());
        let lock = a.leases.lock("k");
        let held = if is_attached { lock } else { lock.ttl(TTL) }.try_acquire().await.unwrap();
        tokio::time::sleep(TTL / 2).await;
        a.faults.always(Fault::Hang);
        let (taken, after) = timed(b.leases.acquire("k")).await;
        assert!(taken.unwrap().is_held() && !held.is_held());
        assert!(after <= TTL * 115 / 100, "{after:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn l1_a_fresh_process_takes_a_long_dead_holders_key_at_first_sight() {
    let world = World::new();
    let a = world.process();
    let _held = a.leases.try_acquire("k").await.unwrap();
    a.faults.always(Fault::Hang);
    tokio::time::sleep(TTL * 2).await;
    let (taken, after) = timed(world.process().leases.try_acquire("k")).await;
    assert!(taken.is_ok() && after < Duration::from_millis(10), "{taken:?} {after:?}");
}

#[tokio::test(start_paused = true)]
async fn l1_trying_again_and_again_takes_a_dead_holders_key() {
    // Without the witnesses a process must see for itself; its tries add up (lock client #44, dynamolock #84).
    let world = World::new();
    let a = world.process();
    let _held = a.leases.try_acquire("k").await.unwrap();
    a.faults.always(Fault::Hang);
    let (_, line) = world.line();
    let leases = world.builder(&line).first_sight(false).start().unwrap();
    let (tries, after) = timed(async {
        let mut tries = 0;
        while leases.try_acquire("k").await.is_err() {
            tries += 1;
            tokio::time::sleep(TTL / 10).await;
        }
        tries
    })
    .await;
    assert!(tries >= 9 && after <= TTL * 14 / 10, "{tries} tries, {after:?}");
}

#[tokio::test(start_paused = true)]
async fn l4_a_holder_survives_every_other_renewal_failing() {
    let world = World::new();
    let process = world.process();
    let guard = process.leases.lock("k").ttl(TTL).try_acquire().await.unwrap();
    for fault in
        [Fault::Refuse, Fault::LoseAnswer, Fault::LoseRequest, Fault::Hang].into_iter().cycle().take(40)
    {
        process.faults.inject([fault, Fault::None]);
        tokio::time::sleep(TTL / 2).await;
        assert!(guard.is_held(), "after {fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn held_and_store_trouble_are_told_apart() {
    let world = World::new();
    let (a, b) = (world.process(), world.process());
    let guard = a.leases.try_acquire("k").await.unwrap();
    match b.leases.try_acquire("k").await {
        Err(AcquireError::Held(Some(by))) => {
            assert_eq!((&by.holder, by.fence), (a.leases.holder(), guard.fence()));
        }
        other => panic!("{other:?}"),
    }
    let (within, after) = timed(b.leases.acquire_within("k", Duration::from_secs(3))).await;
    assert!(matches!(within, Err(AcquireError::Held(Some(_)))), "{within:?}");
    assert!(after >= Duration::from_secs(3) && after < Duration::from_millis(3200), "{after:?}");
    b.faults.always(Fault::Refuse);
    assert!(matches!(b.leases.try_acquire("k").await, Err(AcquireError::Store(_))));
    b.faults.always(Fault::Hang);
    let (within, after) = timed(b.leases.acquire_within("k", Duration::from_secs(3))).await;
    assert!(matches!(within, Err(AcquireError::Store(_))), "{within:?}");
    assert!(after < Duration::from_millis(3200), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn s10_a_forced_release_takes_nobody_for_dead_at_first_sight_where_that_is_off() {
    for first_sight in [true, false] {
        let world = World::new();
        let dead = world.process();
        std::mem::forget(dead.leases.lock("k").ttl(TTL).acquire().await.unwrap());
        dead.faults.always(Fault::Hang);
        tokio::time::sleep(TTL * 2).await;
        let (_, line) = world.line();
        let leases = world.builder(&line).first_sight(first_sight).start().unwrap();
        let (forced, took) = timed(leases.release_by_force("k", |_, _| {})).await;
        assert!(forced.unwrap().vacated);
        assert_eq!(took >= TTL, !first_sight, "{took:?}");
    }
}
