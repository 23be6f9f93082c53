//! Leases as plain data, and what is left with their holders. Plan: to another process and back; refused elsewhere, after
//! the end, and when tampered with; what can't become one is given up; mail is shown at the next renewal, bounded, and harmless to the dead.

use crate::common::{TTL, World, settle, timed};
use std::sync::Arc;
use std::time::Duration;
use tenure::store::{Expect, Outcome, Write};
use tenure::{AnyStore, Key, LeaseError, LeaseToken, Leases, MemoryStore, Metadata, Request, Store as _};
use tenure_store::Fault;

#[tokio::test(start_paused = true)]
async fn a_lease_passes_through_plain_data_to_another_process_with_its_fence() {
    for is_attached in [true, false] {
        let world = World::new();
        let (a, b, c) = (world.process(), world.process(), world.process());
        let lock = a.leases.lock("k").metadata(Metadata::from([("n".to_owned(), 1.into())]));
        let guard = if is_attached { lock } else { lock.ttl(TTL) }.try_acquire().await.unwrap();
        let fence = guard.fence();
        let json = serde_json::to_string(&guard.into_token().await.unwrap()).unwrap();
        // The process that made it may go: the lease stands.
        a.leases.stop().await;
        let mut token: LeaseToken = serde_json::from_str(&json).unwrap();
        assert_eq!((token.key().as_str(), token.fence()), ("k", fence));
        for _ in 0..10 {
            tokio::time::sleep(TTL * 2 / 3).await;
            token = b.leases.refresh(&token).await.unwrap();
            assert!(c.leases.try_acquire("k").await.is_err());
        }
        let guard = b.leases.adopt(&token).await.unwrap();
        assert_eq!((guard.fence(), guard.metadata().len(), guard.is_held()), (fence, 1, true));
        tokio::time::sleep(TTL * 5).await;
        assert!(guard.is_held(), "it renews itself now");
        let token = guard.into_token().await.unwrap();
        assert!(c.leases.give_back(&token).await.unwrap());
        let next = c.leases.try_acquire("k").await.unwrap();
        assert!(next.fence() > fence);
        for late in [b.leases.refresh(&token).await.err(), b.leases.adopt(&token).await.err()] {
            assert!(matches!(late, Some(LeaseError::NotOurs(Some(_)))), "{late:?}");
        }
        assert!(!b.leases.give_back(&token).await.unwrap());
        assert!(next.is_held());
    }
}

#[tokio::test(start_paused = true)]
async fn a_token_expires_like_a_lease() {
    let world = World::new();
    let (a, b) = (world.process(), world.process());
    let token = a.leases.try_acquire("k").await.unwrap().into_token().await.unwrap();
    let (taken, after) = timed(b.leases.acquire("k")).await;
    assert!(taken.is_ok() && after >= TTL && after <= TTL * 115 / 100, "{after:?}");
    assert!(matches!(a.leases.refresh(&token).await, Err(LeaseError::NotOurs(_))));
}

#[tokio::test(start_paused = true)]
async fn other_metadata_of_a_token_is_written_by_its_next_use() {
    let world = World::new();
    let (a, b) = (world.process(), world.process());
    let step = |n: i64| Metadata::from([("step".to_owned(), n.into())]);
    let written = async || b.leases.peek("k").await.unwrap().unwrap().metadata;
    let token = a.leases.lock("k").metadata(step(1)).acquire().await.unwrap().into_token().await.unwrap();
    let token = token.with_metadata(step(2));
    assert_eq!((token.metadata(), written().await), (&step(2), step(1)), "not yet");
    let token = b.leases.refresh(&token).await.unwrap();
    assert_eq!((token.metadata(), written().await), (&step(2), step(2)));
    let guard = b.leases.adopt(&token.with_metadata(step(3))).await.unwrap();
    assert_eq!((guard.metadata(), written().await), (&step(3), step(3)));
}

/// It is begun, and nobody waits for it.
async fn drop_once_begun(what: impl Future) {
    let mut what = std::pin::pin!(what);
    assert!(futures_util::poll!(&mut what).is_pending());
    settle().await;
}

#[tokio::test(start_paused = true)]
async fn a_change_is_not_answered_by_an_earlier_one_whose_future_was_dropped() {
    let step = |n: i64| Metadata::from([("step".to_owned(), n.into())]);
    for (is_attached, is_late) in [(true, false), (true, true), (false, false), (false, true)] {
        let world = World::new();
        let (a, b) = (world.process(), world.process());
        let written = async || b.leases.peek("k").await.unwrap().unwrap().metadata;
        let lock = a.leases.lock("k");
        let mut guard = if is_attached { lock } else { lock.ttl(TTL) }.try_acquire().await.unwrap();
        a.faults.inject([Fault::Held]);
        drop_once_begun(guard.update(step(1))).await;
        if is_late {
            // Its answer is there, and nobody has looked at it yet.
            a.faults.go_on();
        }
        let error = guard.update(step(2)).await.unwrap_err();
        assert!(error.to_string().contains("under way"), "{error}");
        a.faults.go_on();
        settle().await;
        assert_eq!(written().await, step(1));
        guard.update(step(3)).await.unwrap();
        assert_eq!((guard.metadata(), written().await), (&step(3), step(3)));
    }
}

#[tokio::test(start_paused = true)]
async fn what_can_not_become_plain_data_is_given_up_though_nobody_waits_for_that() {
    let world = World::new();
    let (a, b) = (world.process(), world.process());
    let permits = a.leases.exclusive("k").acquire().await.unwrap();
    let error = permits.into_token().await.unwrap_err();
    assert!(error.to_string().contains("semaphore"), "{error}");
    let mut changed = a.leases.acquire("k").await.unwrap();
    a.faults.inject([Fault::Held]);
    drop_once_begun(changed.update(Metadata::new())).await;
    drop_once_begun(changed.into_token()).await;
    a.faults.go_on();
    settle().await;
    assert!(b.leases.exclusive("k").try_acquire().await.is_ok());
    assert!(b.leases.try_acquire("k").await.is_ok());
    // One that could have become one, had somebody waited.
    drop_once_begun(a.leases.acquire("l").await.unwrap().into_token()).await;
    let (taken, after) = timed(b.leases.acquire("l")).await;
    assert!(taken.is_ok() && after <= TTL * 115 / 100, "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn a_token_of_another_store_or_a_damaged_one_is_refused_before_any_io() {
    let world = World::new();
    let a = world.process();
    let token = a.leases.try_acquire("k").await.unwrap().into_token().await.unwrap();
    let other = MemoryStore::new("other", Arc::clone(&world.clock) as Arc<dyn tenure::Clock>);
    let other = Leases::builder(AnyStore::new(other)).clock(world.clock.clone()).start().unwrap();
    let error = other.refresh(&token).await.unwrap_err();
    assert!(error.to_string().contains("belongs to the store test"), "{error}");
    let json = serde_json::to_value(&token).unwrap();
    a.store.take();
    let mut bad = json.clone();
    bad["key"] = "".into();
    assert!(serde_json::from_value::<LeaseToken>(bad).is_err());
    for (field, bad) in [("tenure", "xyz"), ("version", ""), ("holder", "")] {
        let mut json = json.clone();
        json[field] = bad.into();
        let token: LeaseToken = serde_json::from_value(json).unwrap();
        assert!(matches!(a.leases.adopt(&token).await, Err(LeaseError::Store(_))), "{field}");
    }
    for (field, bad) in [("ttl_ms", 0u64), ("ttl_ms", u64::MAX), ("fence", u64::MAX)] {
        let mut json = json.clone();
        json[field] = bad.into();
        let token: LeaseToken = serde_json::from_value(json).unwrap();
        assert!(a.leases.adopt(&token).await.is_err(), "{field} {bad}");
    }
    assert_eq!(a.store.take().round_trips(), 0);
}

#[tokio::test(start_paused = true)]
async fn mail_is_shown_at_the_next_renewal() {
    for is_attached in [true, false] {
        let world = World::new();
        let (a, b) = (world.process(), world.process());
        let lock = a.leases.lock("k");
        let guard = if is_attached { lock } else { lock.ttl(TTL) }.try_acquire().await.unwrap();
        b.leases.request("k", Request::HandOver).await.unwrap();
        b.leases.request("k", Request::HandOver).await.unwrap();
        let (ask, after) = timed(guard.asked()).await;
        assert_eq!(ask, Request::HandOver);
        assert!(after <= TTL / 3 + Duration::from_millis(50), "{after:?}");
        tokio::time::sleep(TTL * 3).await;
        assert!(guard.is_held() && !guard.is_revoked(), "a request is not an order");
        let again = tokio::time::timeout(TTL, guard.asked()).await;
        assert!(again.is_err(), "asked twice, shown once: {again:?}");
    }
}

/// The letter went to the session, which the lease was not attached to any more when it came there.
#[tokio::test(start_paused = true)]
async fn a_revocation_that_meets_a_lease_on_its_way_into_plain_data_follows_it() {
    let world = World::new();
    let (a, b) = (world.process(), world.process());
    let guard = a.leases.try_acquire("k").await.unwrap();
    // The key and the session are read; then it takes a while.
    b.faults.inject([Fault::None, Fault::None, Fault::Held]);
    let asks = tokio::spawn({
        let leases = b.leases.clone();
        async move { leases.request("k", Request::Revoke).await }
    });
    settle().await;
    let token = guard.into_token().await.unwrap();
    b.faults.go_on();
    asks.await.unwrap().unwrap();
    assert!(a.leases.refresh(&token).await.is_err(), "whoever has the token is told");
}

#[tokio::test(start_paused = true)]
async fn nobody_to_ask() {
    let world = World::new();
    let (a, b) = (world.process(), world.process());
    assert!(matches!(b.leases.request("k", Request::Revoke).await, Err(LeaseError::NotHeld)));
    let guard = a.leases.try_acquire("k").await.unwrap();
    assert!(guard.release().await);
    assert!(matches!(b.leases.request("k", Request::Revoke).await, Err(LeaseError::NotHeld)));
}

#[tokio::test(start_paused = true)]
async fn a_full_mailbox_is_said_and_emptied_by_the_next_renewal() {
    let world = World::new();
    let (a, b) = (world.process(), world.process());
    let mut guards = Vec::new();
    for n in 0..20 {
        guards.push(a.leases.try_acquire(format!("k{n}")).await.unwrap());
    }
    for n in 0..16 {
        b.leases.request(format!("k{n}"), Request::HandOver).await.unwrap();
    }
    let error = b.leases.request("k16", Request::HandOver).await.unwrap_err();
    assert!(error.to_string().contains("unread requests"), "{error}");
    tokio::time::sleep(TTL / 3 + Duration::from_millis(50)).await;
    b.leases.request("k16", Request::HandOver).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_lands_after_it_was_given_up_does_not_stay() {
    // The future is dropped while the claim's answer is on its way; the claim must be found and vacated.
    let world = World::new();
    let (a, b) = (world.process(), world.process());
    a.leases.begin_session();
    settle().await;
    a.faults.inject([Fault::LoseAnswer, Fault::Refuse, Fault::Refuse]);
    let claim = tokio::time::timeout(Duration::from_millis(1), a.leases.acquire("k")).await;
    assert!(claim.is_err());
    let (guard, after) = timed(b.leases.acquire("k")).await;
    assert!(guard.unwrap().is_held() && after < TTL / 2, "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn dropped_guards_and_dropped_leases_hand_back() {
    let world = World::new();
    let (a, b) = (world.process(), world.process());
    let guard = a.leases.try_acquire("k").await.unwrap();
    let other = a.leases.try_acquire("other").await.unwrap();
    drop(guard);
    settle().await;
    assert!(b.leases.try_acquire("k").await.is_ok());
    let session = a.leases.session_key().clone();
    drop(a.leases);
    settle().await;
    assert!(other.is_held(), "a guard keeps what it needs");
    drop(other);
    settle().await;
    assert!(b.leases.try_acquire("other").await.is_ok());
    let left = tenure::Store::read(&world.memory, &session).await.unwrap().unwrap();
    assert_eq!(left.record.tenure, None, "the session is given back last");
}

#[tokio::test(start_paused = true)]
async fn what_has_a_least_or_a_longest_time_is_given_up_instead_of_becoming_plain_data() {
    let world = World::new();
    let (a, b) = (world.process(), world.process());
    let limited = a.leases.lock("limited").at_most_for(TTL * 100).try_acquire().await.unwrap();
    let refused = limited.into_token().await.unwrap_err().to_string();
    assert!(refused.contains("a longest time"), "{refused}");
    settle().await;
    assert!(b.leases.try_acquire("limited").await.is_ok());
    let kept = a.leases.lock("kept").at_least_for(TTL * 3).try_acquire().await.unwrap();
    let refused = kept.into_token().await.unwrap_err().to_string();
    assert!(refused.contains("a least time"), "{refused}");
    let (got, after) = timed(b.leases.acquire("kept")).await;
    assert!(got.is_ok() && after > TTL * 2 && after < TTL * 4, "{after:?}");
    let over = a.leases.lock("over").at_least_for(TTL / 2).try_acquire().await.unwrap();
    tokio::time::sleep(TTL).await;
    assert!(over.into_token().await.is_ok(), "its least time is over");
}

#[tokio::test(start_paused = true)]
async fn what_nobody_could_use_does_not_become_plain_data() {
    let world = World::new();
    let a = world.process();
    assert!(a.leases.try_acquire("k").await.unwrap().release().await);
    let stored = world.memory.read(&Key::new("k").unwrap()).await.unwrap().unwrap();
    let key = Key::new("work/j/u").unwrap();
    let write = Write { key, expect: Expect::Absent, record: stored.record };
    assert!(matches!(world.memory.write(write).await, Ok(Outcome::Won { .. })));
    let unit = || a.leases.lock("work/j/u").keep_metadata(None);
    let error = unit().try_acquire().await.unwrap().into_token().await.unwrap_err();
    assert!(error.to_string().contains("a unit of a job"), "{error}");
    assert!(unit().acquire_within(TTL / 8).await.is_ok(), "it was given up");
}
