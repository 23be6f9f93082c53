//! Plan: how leases of ranges end, in simulated time. What a body has passed on believes no longer than the body's lease lasts,
//! however that ends (S1, S5); fences grow (S2); the end is told in time, without the store (S5); a guard without a body is given
//! up, dropped, or left to expire (S6); a section that is stopped ends its bodies first, and gives back what nobody waits for. Of real
//! time is what a runtime's end does to whoever waits for the end of a lease on another one.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{World, settle, timed};
use std::time::Duration;
use tenure::range::{KeyRange, RangeLease, RangeSet, Section};
use tenure::{AcquireError, AnyStore, BodyError, ErrorKind, Fence, Loss};
use tenure_store::Fault;
use tokio::sync::oneshot;

const SPAN: Duration = Duration::from_secs(10);

fn keys() -> RangeSet {
    KeyRange::new(0u64, 10u64).unwrap().into()
}

fn section(world: &World) -> Section {
    Section::builder(AnyStore::new(world.memory.clone()), "s").clock(world.clock.clone()).start().unwrap()
}

async fn is_free(section: &Section) -> bool {
    settle().await;
    section.list().await.unwrap().is_empty()
}

/// Runs a body that passes its lease on, and ends as `body` does.
async fn passed_on<F, Fut>(section: &Section, body: F) -> (RangeLease, Result<(), BodyError<()>>)
where
    F: FnOnce(RangeLease) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    let (sender, passed) = oneshot::channel();
    let result = section
        .try_with_lease(keys(), SPAN, move |lease| {
            assert!(lease.is_held() && !lease.cancelled().is_cancelled());
            assert!(sender.send(lease.clone()).is_ok());
            body(lease)
        })
        .await;
    (passed.await.unwrap(), result)
}

#[tokio::test(start_paused = true)]
async fn s1_nobody_believes_in_ranges_that_are_given_up() {
    let world = World::new();
    let (a, b) = (section(&world), section(&world));
    let (returned, result) = passed_on(&a, |_| async {}).await;
    assert!(result.is_ok());
    let (panicked, result) = passed_on(&a, |_| async { panic!("on purpose") }).await;
    assert!(matches!(result, Err(BodyError::Panicked(_))));
    let (aborted, result) = passed_on(&a, |_| std::future::pending()).await;
    assert!(matches!(result, Err(BodyError::Interrupted { .. })));
    for old in [returned, panicked, aborted] {
        assert!(is_free(&b).await && !old.is_held() && old.cancelled().is_cancelled(), "{old:?}");
        assert!(old.remaining().is_zero() && old.held_for().is_zero());
    }
}

#[tokio::test(start_paused = true)]
async fn s1_belief_ends_before_the_ranges_are_given_up() {
    let world = World::new();
    let (faults, line) = world.line();
    let a = Section::builder(AnyStore::new(line), "s").clock(world.clock.clone()).start().unwrap();
    let guard = a.try_acquire(keys(), SPAN).await.unwrap();
    assert!(guard.is_held());
    let (caller, line) = (a.clone(), faults.clone());
    let (sender, passed) = oneshot::channel();
    let body = tokio::spawn(async move {
        let more = KeyRange::new(20u64, 30u64).unwrap();
        let body = |lease: RangeLease| async move {
            // What gives the ranges up never reaches the store.
            line.always(Fault::Hang);
            sender.send(lease).is_ok()
        };
        caller.try_with_lease(more, SPAN, body).await
    });
    let lease = passed.await.unwrap();
    settle().await;
    assert!(!lease.is_held() && lease.cancelled().is_cancelled() && !body.is_finished());
}

#[tokio::test(start_paused = true)]
async fn s2_fences_grow_from_lease_to_lease() {
    let world = World::new();
    let (a, b) = (section(&world), section(&world));
    let mut last = Fence(0);
    for (n, section) in [&a, &b, &a, &a, &b].into_iter().enumerate() {
        let guard = section.try_acquire(keys(), SPAN).await.unwrap();
        assert!(guard.fence() > last, "{n}: {:?} after {last:?}", guard.fence());
        last = guard.fence();
        if n % 2 == 0 {
            guard.lapse().await
        } else {
            drop(guard)
        }
        // What was left to expire is collected then.
        tokio::time::sleep(SPAN * 11 / 10).await;
    }
}

#[tokio::test(start_paused = true)]
async fn s5_the_end_of_leased_ranges_is_told_in_time_without_the_store() {
    let world = World::new();
    let (faults, line) = world.line();
    let a = Section::builder(AnyStore::new(line), "s").clock(world.clock.clone()).start().unwrap();
    let guard = a.try_acquire(KeyRange::new(20u64, 30u64).unwrap(), SPAN).await.unwrap();
    let (sender, told) = oneshot::channel();
    let body = a.try_with_lease(keys(), SPAN, move |lease| async move {
        let (why, after) = timed(lease.cancelled()).await;
        assert!(sender.send((why, after, lease.is_held())).is_ok());
    });
    let (result, told) = tokio::join!(body, async {
        settle().await;
        faults.always(Fault::Hang);
        told.await.unwrap()
    });
    let ((), after, was_held) = told;
    assert!(was_held && after < SPAN * 8 / 10, "told while it was still held: {after:?}");
    assert!(matches!(result, Err(BodyError::Interrupted { why: Loss::Overran, .. })), "{result:?}");
    let ((why, left), _) = timed(async { (guard.lost().await, guard.remaining()) }).await;
    assert_eq!((why, left, guard.is_held()), (Loss::Overran, Duration::ZERO, false));
    let told = result.unwrap_err().to_string();
    assert_eq!(told, "the lease ended while the body ran: it was held for as long as it may be");
}

#[tokio::test(start_paused = true)]
async fn s6_a_guard_is_given_up_dropped_or_left_to_expire() {
    let world = World::new();
    let (a, b) = (section(&world), section(&world));
    let guard = a.try_acquire(keys(), SPAN).await.unwrap();
    assert_eq!(guard.set(), &keys());
    let nothing = b.try_acquire(keys(), SPAN).await.unwrap_err();
    assert_eq!(nothing, AcquireError::Held(None));
    assert!(guard.is_held() && guard.release().await && is_free(&b).await);
    drop(a.try_acquire(keys(), SPAN).await.unwrap());
    assert!(is_free(&b).await);
    let ((), took) = timed(a.try_acquire(keys(), SPAN).await.unwrap().lapse()).await;
    assert!(took.is_zero() && !is_free(&b).await);
    tokio::time::sleep(SPAN * 9 / 10).await;
    let early = b.try_acquire(keys(), SPAN).await;
    assert!(matches!(early, Err(AcquireError::Held(None))), "others must wait for its whole time");
    tokio::time::sleep(SPAN * 2 / 10).await;
    assert!(b.try_acquire(keys(), SPAN).await.unwrap().is_held());
    assert!(is_free(&b).await);
    drop(a.try_acquire(keys(), SPAN).await.unwrap().lapse());
    assert!(!is_free(&b).await, "whether anybody waits for that or not");
}

#[tokio::test(start_paused = true)]
async fn s6_a_stopped_section_ends_its_bodies_and_then_gives_their_ranges_up() {
    let world = World::new();
    let (a, b) = (section(&world), section(&world));
    let (other, looking) = (a.clone(), b.clone());
    let body = tokio::spawn(async move {
        other
            .try_with_lease(keys(), SPAN, |lease| async move {
                lease.cancelled().await;
                tokio::time::sleep(SPAN / 20).await;
                assert!(lease.is_held() && !is_free(&looking).await, "not before the body's end");
                7
            })
            .await
    });
    settle().await;
    let ((), took) = timed(a.stop()).await;
    assert!(took >= SPAN / 20 && took < SPAN / 4, "{took:?}");
    let result = body.await.unwrap();
    assert!(matches!(result, Err(BodyError::Interrupted { why: Loss::Stopped, value: Some(7) })));
    assert!(is_free(&b).await);
    a.stop().await;
    let refused = a.try_acquire(keys(), SPAN).await.unwrap_err();
    assert_eq!(refused, AcquireError::Stopped);
    assert!(!refused.to_string().contains("leases"), "{refused}");
    for refused in [a.list().await.unwrap_err(), a.reclaim().await.unwrap_err()] {
        assert!(refused.kind() == ErrorKind::Invalid && refused.to_string().contains("stopped"), "{refused}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stopped_section_gives_back_a_claim_that_nobody_waits_for() {
    let world = World::new();
    let b = section(&world);
    let (faults, line) = world.line();
    let a = Section::builder(AnyStore::new(line), "s").clock(world.clock.clone()).start().unwrap();
    // It lands, but the answer is lost.
    faults.inject([Fault::None, Fault::LoseAnswer, Fault::LoseRequest]);
    let claim =
        tokio::time::timeout(Duration::from_millis(1), a.try_acquire(keys(), Duration::from_secs(3600)));
    assert!(claim.await.is_err(), "nobody waits any more");
    let ((), took) = timed(a.stop()).await;
    assert!(took < SPAN && is_free(&b).await, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_result_is_not_kept_back_by_a_store_that_is_down_at_the_release() {
    let world = World::new();
    let (faults, store) = world.line();
    let a = Section::builder(AnyStore::new(store), "s").clock(world.clock.clone()).start().unwrap();
    let down = faults.clone();
    let (result, after) = timed(a.try_with_lease(keys(), SPAN, move |_| async move {
        down.always(Fault::Refuse);
        42
    }))
    .await;
    assert_eq!(result.unwrap(), 42);
    assert!(after <= Duration::from_millis(1_500), "{after:?}");
    faults.always(Fault::None);
    tokio::time::sleep(SPAN / 4).await;
    assert!(is_free(&section(&world)).await, "given up in the background, before its time is over");
}

#[tokio::test(start_paused = true)]
async fn whoever_works_on_ranges_without_a_body_is_told_of_their_end() {
    let world = World::new();
    let a = section(&world);
    let guard = a.try_acquire(keys(), SPAN).await.unwrap();
    let (first, second) = (guard.cancelled(), guard.cancelled());
    assert!(!first.is_cancelled());
    let ((), after) = timed(first).await;
    assert!(after >= SPAN / 2 && after <= SPAN && !guard.is_held(), "{after:?}");
    second.await;
    guard.release().await;
    let guard = a.try_acquire(keys(), SPAN).await.unwrap();
    let cancelled = guard.cancelled();
    guard.release().await;
    assert!(cancelled.is_cancelled(), "it was given up");
}

#[test]
fn s5_who_waits_on_one_runtime_is_told_though_another_has_ended() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let section = Section::new(tenure::memory(), "s").unwrap();
    let (a, b) = (runtime(), runtime());
    let guard = a.block_on(section.try_acquire(keys(), Duration::from_millis(500))).unwrap();
    let told = {
        let _there = a.enter();
        guard.cancelled()
    };
    drop(a);
    assert!(guard.is_held() && !told.is_cancelled());
    b.block_on(async { tokio::time::timeout(Duration::from_secs(20), told).await }).unwrap();
    assert!(!guard.is_held(), "not before the end");
    // Where there is no runtime at all, too.
    let others = KeyRange::new(20u64, 30u64).unwrap();
    let guard = b.block_on(section.try_acquire(others, Duration::from_secs(20))).unwrap();
    let told = guard.cancelled();
    assert!(guard.is_held() && !told.is_cancelled());
    drop(guard);
    assert!(told.is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_for_ranges_outlasts_trouble_with_the_store_and_is_told_of_it_in_the_end() {
    let world = World::new();
    let (faults, store) = world.line();
    let a = Section::builder(AnyStore::new(store), "s").clock(world.clock.clone()).start().unwrap();
    let short = SPAN / 10;
    faults.always(Fault::Refuse);
    let passes = async {
        tokio::time::sleep(SPAN * 3).await;
        faults.always(Fault::None);
    };
    let (waits, ()) = tokio::join!(timed(a.lock(keys(), short).acquire_within(SPAN * 9)), passes);
    let (got, took) = waits;
    assert!(got.unwrap().release().await);
    assert!(took >= SPAN * 3 && took < SPAN * 3 + Duration::from_secs(3), "{took:?}");
    faults.always(Fault::Refuse);
    let (none, took) = timed(a.lock(keys(), short).acquire_within(SPAN * 2)).await;
    let is_told = matches!(&none, Err(AcquireError::Store(error)) if error.kind() == ErrorKind::Unavailable);
    assert!(is_told && took >= SPAN * 2 && took < SPAN * 3, "{none:?} {took:?}");
    // Who does not wait hears of it at once.
    let (none, took) = timed(a.try_acquire(keys(), short)).await;
    assert!(none.is_err() && took < short, "{none:?} {took:?}");
}
