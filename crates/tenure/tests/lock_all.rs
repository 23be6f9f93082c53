//! Several keys at once, in simulated time. Plan: all or none; who waits holds none; no two wait for each other; one deadline for all;
//! the loss of one is the loss of all; one longest and one least time; a body ends before any is given up; who waits for ever waits for
//! trouble with the store to pass, whichever key it befalls, and nobody else does: patience is kept whatever the store does.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{TTL, World, slow_down, timed};
use std::time::Duration;
use tenure::store::{Expect, Nonce, Outcome, Record, Write};
use tenure::{AcquireError, BodyError, Fence, Held, Key, Loss, Store};
use tenure_store::Fault;

#[tokio::test(start_paused = true)]
async fn all_are_had_or_none() {
    let world = World::new();
    let (a, b) = (world.process(), world.process());
    let one = a.leases.acquire("k2").await.unwrap();
    let refused = b.leases.lock_all(["k3", "k1", "k2"]).try_acquire().await.unwrap_err();
    assert!(matches!(refused, AcquireError::Held(Some(by)) if by.holder == *a.leases.holder()));
    for key in ["k1", "k3"] {
        a.leases.try_acquire(key).await.unwrap().release().await;
    }
    one.release().await;
    let all = b.leases.lock_all(["k3", "k1", "k2"]).try_acquire().await.unwrap();
    assert!(all.is_held() && all.remaining() <= TTL);
    let keys: Vec<String> = all.fences().map(|(key, _)| key.to_string()).collect();
    assert_eq!(keys, ["k1", "k2", "k3"]);
    for key in ["k1", "k2", "k3"] {
        assert!(a.leases.try_acquire(key).await.is_err());
    }
    assert!(all.release().await);
    assert_eq!(all_free(&a.leases).await, 3);
}

async fn all_free(leases: &tenure::Leases) -> usize {
    let mut free = 0;
    for key in ["k1", "k2", "k3"] {
        if let Ok(guard) = leases.try_acquire(key).await {
            guard.release().await;
            free += 1;
        }
    }
    free
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_one_holds_none_of_the_others() {
    let world = World::new();
    let (a, b, c) = (world.process(), world.process(), world.process());
    let last = a.leases.acquire("k3").await.unwrap();
    let waits = tokio::spawn({
        let leases = b.leases.clone();
        async move { leases.lock_all(["k1", "k2", "k3"]).acquire().await.unwrap() }
    });
    tokio::time::sleep(Duration::from_secs(3)).await;
    for key in ["k1", "k2"] {
        c.leases.try_acquire(key).await.unwrap().release().await;
    }
    last.release().await;
    assert!(waits.await.unwrap().is_held());
}

#[tokio::test(start_paused = true)]
async fn many_that_want_overlapping_keys_all_come_to_their_turn() {
    let world = World::new();
    let mut tasks = Vec::new();
    for n in 0..8 {
        let process = world.process();
        tasks.push(tokio::spawn(async move {
            let keys = [["k1", "k2"], ["k2", "k3"], ["k3", "k1"]][n % 3];
            for _ in 0..5 {
                let all = process.leases.lock_all(keys).acquire().await.unwrap();
                tokio::time::sleep(Duration::from_millis(200)).await;
                assert!(all.release().await);
            }
        }));
    }
    let (_, took) = timed(async {
        for task in tasks {
            task.await.unwrap();
        }
    })
    .await;
    assert!(took < Duration::from_secs(120), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn there_is_one_deadline_for_all() {
    let world = World::new();
    let (a, b) = (world.process(), world.process());
    let _one = a.leases.acquire("k2").await.unwrap();
    let within = b.leases.lock_all(["k1", "k2"]).acquire_within(Duration::from_secs(4));
    let (late, took) = timed(within).await;
    assert!(matches!(late, Err(AcquireError::Held(Some(_)))), "{late:?}");
    assert!((3900..=4300).contains(&took.as_millis()), "{took:?}");
    assert!(a.leases.try_acquire("k1").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn trouble_that_passes_ends_no_wait_whichever_key_it_befalls() {
    for fault in [Fault::Refuse, Fault::LoseAnswer, Fault::LoseRequest] {
        // Each call of the attempt, the session's included, and one after it.
        for calls_before in 0..5 {
            let process = World::new().process();
            process.faults.inject((0..calls_before).map(|_| Fault::None).chain([fault]));
            let (all, took) = timed(process.leases.lock_all(["k1", "k2", "k3"]).acquire()).await;
            assert!(all.unwrap().is_held() && took < TTL, "{fault:?} after {calls_before}: {took:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn trouble_with_a_later_key_is_told_to_who_tries_and_outlasts_no_patience() {
    let world = World::new();
    let (faults, line) = world.line();
    let leases = world.builder(&line).store_patience(Duration::from_secs(5)).start().unwrap();
    let all = || leases.lock_all(["k1", "k2"]).ttl(TTL);
    let is_trouble = |error: AcquireError| matches!(&error, AcquireError::Store(error) if error.is_passing());
    faults.inject([Fault::None, Fault::Refuse]);
    assert!(is_trouble(all().try_acquire().await.unwrap_err()));
    faults.inject([Fault::None, Fault::Refuse]);
    let (told, took) = timed(all().acquire_within(TTL)).await;
    assert!(is_trouble(told.unwrap_err()) && took < TTL / 10, "{took:?}");
    faults.inject([Fault::None]);
    faults.always(Fault::Refuse);
    let (told, took) = timed(all().acquire()).await;
    assert!(is_trouble(told.unwrap_err()));
    assert!((Duration::from_secs(5)..TTL * 2).contains(&took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn the_loss_of_one_is_the_loss_of_all_and_ends_the_body_first() {
    let world = World::new();
    let a = world.process();
    let all = a.leases.lock_all(["k1", "k2"]).ttl(TTL).acquire().await.unwrap();
    a.leases.request("k2", tenure::Request::Revoke).await.unwrap();
    let (lost, took) = timed(all.lost()).await;
    assert_eq!(lost.0.as_str(), "k2");
    assert!(!all.is_held() && took <= TTL, "{took:?}");
    assert!(all.iter().next().unwrap().is_held(), "the other is still held, and of no use");
    assert!(!all.release().await);
    let body = a.leases.lock_all(["k1", "k2"]).ttl(TTL).with_lease(async |held| held.cancelled().await);
    let revoked = async {
        // What was withdrawn above is free a ttl later at the most.
        while a.leases.request("k1", tenure::Request::Revoke).await.is_err() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        std::future::pending::<()>().await;
    };
    let told = tokio::select! {
        told = body => told.unwrap_err(),
        () = revoked => unreachable!("it waits for ever"),
    };
    assert!(matches!(told, BodyError::Interrupted { value: Some(()), .. }), "{told}");
    assert!(a.leases.try_acquire("k1").await.is_ok());
    assert!(a.leases.try_acquire("k2").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn all_have_one_longest_time_and_one_least_time() {
    let world = World::new();
    let (a, b) = (world.process(), world.process());
    let long = TTL * 2;
    let all = || a.leases.lock_all(["k1", "k2", "k3"]);
    let endless = async |_| std::future::pending::<()>().await;
    let (told, took) = timed(all().at_most_for(long).grace(TTL / 10).with_lease(endless)).await;
    assert!(matches!(told, Err(BodyError::Interrupted { why: Loss::Overran, value: None })), "{told:?}");
    assert!(took >= long && took <= long + TTL / 5, "{took:?}");
    assert_eq!(all_free(&b.leases).await, 3);
    let guards = all().at_most_for(long).acquire().await.unwrap();
    let ((_, why), took) = timed(guards.lost()).await;
    assert!(why == Loss::Overran && took >= long && took <= long + TTL / 10, "{why} {took:?}");
    drop(guards);
    tokio::time::sleep(TTL * 2).await;
    // A body's result is not kept back by the least time.
    let ((), took) = timed(async { all().at_least_for(long).with_lease(async |_| ()).await.unwrap() }).await;
    assert!(took < TTL / 10, "{took:?}");
    tokio::time::sleep(long - TTL / 5).await;
    assert_eq!(all_free(&b.leases).await, 0);
    tokio::time::sleep(TTL / 4).await;
    assert_eq!(all_free(&b.leases).await, 3);
    // What is given back because another is held has not been held for any time.
    let other = b.leases.acquire("k2").await.unwrap();
    assert!(all().at_least_for(long).try_acquire().await.is_err());
    other.release().await;
    assert_eq!(all_free(&b.leases).await, 3);
}

#[tokio::test]
async fn no_key_and_a_key_twice_are_refused_before_anything_is_asked() {
    let leases = tenure::Leases::new(tenure::memory()).unwrap();
    for (keys, says) in [
        (vec![], "no key is named"),
        (vec!["a", "b", "a"], "a is named twice"),
        (vec!["a", "section/x"], "a section of ranges"),
    ] {
        let error = leases.lock_all(keys).try_acquire().await.unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    let spans = leases.lock_all(["a"]).at_least_for(TTL).at_most_for(TTL / 2);
    let error = spans.try_acquire().await.unwrap_err().to_string();
    assert!(error.contains("choose a longest time that is no shorter"), "{error}");
    leases.stop().await;
}

#[tokio::test]
async fn a_grace_period_that_is_too_long_is_refused_before_anything_is_asked() {
    let leases = tenure::Leases::new(tenure::memory()).unwrap();
    let all = leases.lock_all(["a", "b"]).ttl(TTL).grace(TTL);
    let refused = all.with_lease(async |_| unreachable!("it can't be ended in time")).await.unwrap_err();
    assert!(
        matches!(&refused, BodyError::Acquire(error) if error.to_string().contains("grace")),
        "{refused}"
    );
    let spans = leases.lock_all(["a"]).at_least_for(TTL).at_most_for(TTL / 2);
    let refused = spans.with_lease_blocking(|_| unreachable!("it contradicts itself")).await.unwrap_err();
    assert!(
        matches!(&refused, BodyError::Acquire(error) if error.to_string().contains("no shorter")),
        "{refused}"
    );
    assert!(leases.session_remaining().is_zero());
    leases.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_body_is_run_under_all_or_not_at_all_by_each_of_the_six_ways() {
    let world = World::new();
    let (a, b) = (world.process(), world.process());
    let all = || a.leases.lock_all(["k1", "k2"]);
    let other = b.leases.acquire("k2").await.unwrap();
    let patience = TTL / 4;
    let held = |told: Result<(), BodyError<()>>| {
        assert!(matches!(told, Err(BodyError::Acquire(AcquireError::Held(_)))), "{told:?}");
    };
    held(all().try_with_lease(async |_| unreachable!("k2 is held")).await);
    held(all().try_with_lease_blocking(|_| unreachable!("k2 is held")).await);
    let (told, took) = timed(all().with_lease_within(patience, async |_| unreachable!("k2 is held"))).await;
    held(told);
    assert!(took >= patience && took < patience * 2, "{took:?}");
    held(all().with_lease_blocking_within(patience, |_| unreachable!("k2 is held")).await);
    assert_eq!(all_free(&b.leases).await, 2, "nothing is kept of what was not had");
    other.release().await;
    assert!(all().try_with_lease(async |held| held.is_held()).await.unwrap());
    assert!(all().with_lease_within(patience, async |held| held.is_held()).await.unwrap());
    assert!(all().with_lease_blocking(|held| held.is_held()).await.unwrap());
    assert!(all().try_with_lease_blocking(|held| held.is_held()).await.unwrap());
    assert!(all().with_lease_blocking_within(patience, |held| held.is_held()).await.unwrap());
    assert!(a.leases.try_acquire("k1").await.is_ok() && a.leases.try_acquire("k2").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn patience_is_kept_though_the_store_goes_away_between_two_keys() {
    for at_least in [Duration::ZERO, TTL * 100] {
        let (world, patience) = (World::new(), Duration::from_secs(2));
        let process = world.process();
        process.faults.inject([Fault::None]);
        process.faults.always(Fault::Hang);
        let all = process.leases.lock_all(["k1", "k2"]).ttl(TTL).at_least_for(at_least);
        let (result, took) = timed(all.acquire_within(patience)).await;
        assert!(matches!(result, Err(AcquireError::Store(_))), "{result:?}");
        assert!(took >= patience && took < patience + patience / 4, "{took:?}");
        // What was had is given back once the store is there again.
        process.faults.always(Fault::None);
        let other = world.process();
        for key in ["k1", "k2"] {
            let got = other.leases.acquire_within(key, TTL).await;
            assert!(got.is_ok(), "{key}: {got:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_try_that_fails_waits_no_longer_than_a_moment_for_what_it_gives_back() {
    let world = World::new();
    let (process, other) = (world.process(), world.process());
    let _held = other.leases.acquire("k2").await.unwrap();
    // Both keys are asked for, and then it goes away.
    process.faults.inject([Fault::None, Fault::None]);
    process.faults.always(Fault::Hang);
    let (result, took) = timed(process.leases.lock_all(["k1", "k2"]).ttl(TTL).try_acquire()).await;
    assert!(result.is_err());
    assert!(took < Duration::from_secs(4), "{took:?}: a try, and a moment");
}

#[tokio::test(start_paused = true)]
async fn the_patience_for_permits_that_are_spread_is_kept_whatever_the_store_does() {
    let (world, patience) = (World::new(), Duration::from_secs(2));
    let process = world.process();
    process.leases.acquire("k").await.unwrap().release().await;
    process.faults.always(Fault::Hang);
    let spread = process.leases.semaphore("s", 4).spread(4);
    let (result, took) = timed(spread.acquire_within(patience)).await;
    assert!(matches!(result, Err(AcquireError::Store(_))), "{result:?}");
    assert!(took < patience + patience / 4, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn where_the_store_answers_all_along_the_end_of_patience_is_no_trouble_with_it() {
    let world = World::new();
    let (process, other) = (world.process(), world.process());
    slow_down(&process.faults, Duration::from_millis(20));
    let keys: Vec<String> = (100..500).map(|n| format!("k{n}")).collect();
    let patience = Duration::from_millis(500);
    let (result, took) = timed(process.leases.lock_all(&keys).acquire_within(patience)).await;
    assert!(matches!(result, Err(AcquireError::Held(None))), "nobody is in the way: {result:?}");
    assert!(took < patience * 2, "{took:?}");
    let _held = other.leases.acquire("k105").await.unwrap();
    let (result, took) = timed(process.leases.lock_all(&keys).acquire_within(patience)).await;
    let Err(AcquireError::Held(Some(by))) = &result else { panic!("{result:?}") };
    assert!(by.holder == *other.leases.holder() && took < patience * 2, "{by:?} {took:?}");
    // It was given back.
    for key in [&keys[0], &keys[4], &keys[6]] {
        let got = other.leases.acquire_within(key, TTL).await;
        assert!(got.is_ok(), "{key}: {got:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_under_several_keys_knows_all_fences_and_whether_all_are_held() {
    let world = World::new();
    let process = world.process();
    let (tell, told) = tokio::sync::oneshot::channel();
    let body = async move |held: Held| {
        tell.send(held).unwrap();
        std::future::pending::<()>().await;
    };
    let looks = async {
        let held = told.await.unwrap();
        let fences: Vec<(String, Fence)> =
            held.fences().map(|(key, fence)| (key.to_string(), fence)).collect();
        assert_eq!((fences[0].0.as_str(), fences[0].1), (held.key().as_str(), held.fence()));
        assert!(fences.len() == 2 && held.is_held() && !held.remaining().is_zero());
        // Somebody vacates the second one's record: its next renewal shows that.
        let key = Key::new("k2").unwrap();
        let stored = world.memory.read(&key).await.unwrap().unwrap();
        assert_eq!(stored.record.fence, fences[1].1);
        let record = Record { nonce: Nonce(9), tenure: None, ..stored.record };
        let write = Write { key, expect: Expect::Unchanged(stored.version), record };
        assert!(matches!(world.memory.write(write).await, Ok(Outcome::Won { .. })));
        held.cancelled().await;
        assert!(!held.is_held() && held.remaining().is_zero(), "the first one alone is of no use");
    };
    let all = process.leases.lock_all(["k2", "k1"]).ttl(TTL);
    let (result, ()) = tokio::join!(all.with_lease(body), looks);
    assert!(matches!(result, Err(BodyError::Interrupted { why: Loss::Released, .. })), "{result:?}");
}

#[tokio::test(start_paused = true)]
async fn a_least_time_that_is_no_whole_number_of_milliseconds_will_do() {
    let process = World::new().process();
    let least = Duration::from_secs(50) / 3;
    let one = process.leases.lock("one").at_least_for(least).try_acquire().await.unwrap();
    let several = process.leases.lock_all(["k1", "k2"]).at_least_for(least).try_acquire().await.unwrap();
    // It renews itself with a ttl of that length.
    assert!(one.remaining() > TTL && several.remaining() > TTL);
}
