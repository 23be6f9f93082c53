//! S6: the body ends before the lease. Plan: normal end, loss, withdrawal, the caller going away, panics, bodies that don't
//! listen and bodies that can't be ended; bodies that block a thread; a suspend; belief that is suspended; grace periods that no lease could give.

use crate::common::{TTL, World, settle, timed};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;
use tenure::{AcquireError, BodyError, Clock as _, Held, Key, Leases, Loss, Request};
use tenure_store::Fault;

/// Sets a flag when it is dropped: the body is over.
struct Ended(Arc<AtomicBool>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn s6_a_body_that_returns_releases_the_lease() {
    let world = World::new();
    let (a, b) = (world.process(), world.process());
    let value =
        a.leases.lock("k").with_lease(|held| async move { (held.is_held(), held.fence()) }).await.unwrap();
    assert!(value.0);
    let guard = b.leases.try_acquire("k").await.unwrap();
    assert!(guard.fence() > value.1);
}

#[tokio::test(start_paused = true)]
async fn s6_on_loss_the_body_has_its_grace_and_ends_before_the_lease() {
    let world = World::new();
    let a = world.process();
    // The store hangs only after the lease is there.
    let faults = a.faults.clone();
    let lock = a.leases.lock("k").ttl(TTL).grace(Duration::from_secs(1));
    let (result, after) = timed(lock.with_lease(move |held| async move {
        faults.always(Fault::Hang);
        held.cancelled().await;
        (held.is_held(), held.remaining())
    }))
    .await;
    match result {
        Err(BodyError::Interrupted { value: Some((held, remaining)), .. }) => {
            assert!(held && remaining >= Duration::from_secs(1), "{remaining:?} left at the warning");
        }
        other => panic!("{other:?}"),
    }
    assert!(after < TTL * 2, "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn s6_a_body_that_does_not_listen_is_aborted_before_the_lease_ends() {
    let world = World::new();
    let a = world.process();
    let over = Arc::new(AtomicBool::new(false));
    let (faults, ended) = (a.faults.clone(), Ended(Arc::clone(&over)));
    let lock = a.leases.lock("k").ttl(TTL).grace(Duration::from_secs(1));
    let running = tokio::spawn(lock.with_lease(move |held| async move {
        let _ended = ended;
        faults.always(Fault::Hang);
        // It notes whether it was still running when the lease was over.
        while held.is_held() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        "ran on"
    }));
    while !over.load(Ordering::SeqCst) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    a.faults.always(Fault::None);
    let result = running.await.unwrap();
    assert!(matches!(result, Err(BodyError::Interrupted { value: None, .. })), "{result:?}");
}

#[tokio::test(start_paused = true)]
async fn s6_a_withdrawn_body_is_stopped_and_the_key_is_free_within_one_ttl() {
    for is_attached in [true, false] {
        let world = World::new();
        let (a, b) = (world.process(), world.process());
        let lock = a.leases.lock("k");
        let lock = if is_attached { lock } else { lock.ttl(TTL) };
        let running = tokio::spawn(lock.with_lease(|held| async move {
            held.cancelled().await;
            held.is_held()
        }));
        settle().await;
        b.leases.request("k", Request::Revoke).await.unwrap();
        let (guard, after) = timed(b.leases.acquire("k")).await;
        assert!(guard.unwrap().is_held() && after < TTL / 2, "{after:?}: stopped at the next renewal");
        match running.await.unwrap() {
            Err(BodyError::Interrupted { why: Loss::Revoked, value: Some(true) }) => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn s6_a_caller_that_goes_away_takes_the_body_with_it() {
    let world = World::new();
    let (a, b) = (world.process(), world.process());
    let over = Arc::new(AtomicBool::new(false));
    let ended = Ended(Arc::clone(&over));
    let lock = a.leases.lock("k");
    let caller = tokio::spawn(lock.with_lease(move |_| async move {
        let _ended = ended;
        std::future::pending::<()>().await;
    }));
    settle().await;
    caller.abort();
    let (guard, after) = timed(b.leases.acquire("k")).await;
    assert!(over.load(Ordering::SeqCst), "the body ended first");
    assert!(guard.unwrap().is_held() && after < TTL / 2, "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn s6_a_panic_is_told_and_releases_the_lease() {
    let world = World::new();
    let (a, b) = (world.process(), world.process());
    let lock = a.leases.lock("k");
    let result = lock
        .with_lease(|_| async {
            if true {
                panic!("on purpose")
            }
        })
        .await;
    assert!(matches!(result, Err(BodyError::Panicked(_))), "{result:?}");
    assert!(b.leases.try_acquire("k").await.is_ok());
}

/// Of a body whose future is never made.
#[allow(clippy::panic, reason = "what is tested is a panic")]
fn unmade() -> std::future::Ready<()> {
    panic!("on purpose, before the future is made")
}

#[tokio::test(start_paused = true)]
async fn s6_a_panic_before_the_bodys_future_is_made_is_told_as_any_other() {
    let world = World::new();
    let (a, b) = (world.process(), world.process());
    let result = a.leases.lock("k").with_lease(|_| unmade()).await;
    assert!(matches!(&result, Err(BodyError::Panicked(text)) if text.contains("on purpose")), "{result:?}");
    let result = a.leases.lock_all(["x", "y"]).with_lease(|_| unmade()).await;
    assert!(matches!(result, Err(BodyError::Panicked(_))), "{result:?}");
    let candidate = a.leases.candidate().key("led").start().unwrap();
    candidate.elected().await.unwrap();
    let result = candidate.run_while_leader(|_| unmade()).await;
    assert!(matches!(result, Err(BodyError::Panicked(_))), "{result:?}");
    assert!(candidate.is_leader());
    let section = a.leases.section("s").start().unwrap();
    let result =
        section.try_with_lease("0_10".parse::<tenure::range::KeyRange>().unwrap(), TTL, |_| unmade()).await;
    assert!(matches!(result, Err(BodyError::Panicked(_))), "{result:?}");
    settle().await;
    for key in ["k", "x", "y"] {
        assert!(b.leases.try_acquire(key).await.is_ok(), "{key} is free");
    }
}

#[tokio::test(start_paused = true)]
async fn s6_after_a_suspend_the_body_is_told_soon_after_waking() {
    let (world, ttl) = (World::new(), TTL * 6);
    let a = world.process();
    let lock = a.leases.lock("k").ttl(ttl);
    let running = tokio::spawn(lock.with_lease(|held| async move { held.cancelled().await }));
    tokio::time::sleep(TTL / 10).await;
    world.clock.suspend(ttl);
    let (result, after) = timed(running).await;
    assert!(matches!(result.unwrap(), Err(BodyError::Interrupted { .. })));
    assert!(after <= ttl / 20, "{after:?}");
}

/// A body that acts every millisecond, and counts that.
async fn acts(acted: Arc<AtomicU32>) {
    loop {
        acted.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn s6_a_body_does_not_run_on_when_nothing_of_its_lease_is_left() {
    let (world, acted) = (World::new(), Arc::new(AtomicU32::new(0)));
    let a = world.process();
    let (count, lock) = (Arc::clone(&acted), a.leases.lock("k").ttl(TTL));
    let running = tokio::spawn(lock.with_lease(move |held| async move {
        held.cancelled().await;
        // Told: from here on it acts as long as it is let.
        acts(count).await;
    }));
    tokio::time::sleep(TTL / 10).await;
    world.clock.suspend(TTL * 3);
    let result = running.await.unwrap();
    assert!(matches!(result, Err(BodyError::Interrupted { value: None, .. })), "{result:?}");
    // The token may wake it once before the abort reaches it.
    assert!(acted.load(Ordering::SeqCst) <= 1, "it acted {acted:?} times after the end of its lease");
}

#[tokio::test(start_paused = true)]
async fn a_result_is_not_kept_back_by_a_store_that_does_not_answer_the_release() {
    let world = World::new();
    let a = world.process();
    let (lock, faults) = (a.leases.lock("k").ttl(TTL * 10), a.faults.clone());
    let (result, after) = timed(lock.with_lease(move |_| async move {
        faults.always(Fault::Refuse);
        42
    }))
    .await;
    assert_eq!(result.unwrap(), 42);
    assert!(after <= Duration::from_millis(1_500), "{after:?}");
    // It goes on in the background, and the key is free long before its time is over.
    a.faults.always(Fault::None);
    let (got, after) = timed(world.process().leases.acquire_within("k", TTL * 20)).await;
    assert!(got.is_ok() && after < TTL * 5, "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn s6_a_grace_period_that_no_lease_could_give_is_refused_before_any_io() {
    let world = World::new();
    let a = world.process();
    for (ttl, grace) in [(None, Duration::MAX), (Some(TTL), TTL), (Some(TTL), TTL * 47 / 100)] {
        let lock = a.leases.lock("k").grace(grace);
        let lock = if let Some(ttl) = ttl { lock.ttl(ttl) } else { lock };
        match lock.with_lease(|_| async {}).await {
            Err(BodyError::Acquire(error)) => {
                assert!(error.to_string().contains("choose a shorter one"), "{error}");
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(a.store.take().round_trips(), 0);
    // With the longest that is allowed, a body runs through renewals.
    let lock = a.leases.lock("k").ttl(TTL).grace(TTL * 46 / 100);
    let (result, after) = timed(lock.with_lease(|_| tokio::time::sleep(TTL * 3))).await;
    assert!(result.is_ok() && after >= TTL * 3, "{result:?} {after:?}");
}

/// A body that blocks its thread can't be aborted. Time is real here, and short.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn s6_a_body_that_cannot_be_joined_leaves_the_lease_to_expire() {
    let store = tenure::memory();
    // It must not expire by itself before it is withdrawn, even if this process stands still for a second.
    let ttl = Duration::from_secs(3);
    let (a, b) = (tenure::Leases::new(store.clone()).unwrap(), tenure::Leases::new(store.clone()).unwrap());
    let (begun, begins) = tokio::sync::oneshot::channel();
    let (release, blocked) = std::sync::mpsc::channel::<()>();
    let lock = a.lock("k").ttl(ttl).grace(Duration::from_millis(20));
    let running = tokio::spawn(lock.with_lease(move |_| async move {
        begun.send(()).unwrap();
        // Blocks a whole worker thread until the test says so.
        // In place: what stands in line behind a blocked worker thread is not what this is about.
        let _ = tokio::task::block_in_place(|| blocked.recv_timeout(Duration::from_secs(60)));
    }));
    begins.await.unwrap();
    b.request("k", Request::Revoke).await.unwrap();
    let result = running.await.unwrap();
    assert!(matches!(result, Err(BodyError::Interrupted { value: None, .. })), "{result:?}");
    let standing = tenure::Store::read(&store, &"k".parse().unwrap()).await.unwrap().unwrap();
    assert!(standing.record.tenure.is_some(), "not released while the body may still act");
    assert!(b.acquire_within("k", ttl * 10).await.is_ok(), "free once it has expired");
    release.send(()).unwrap();
}

#[tokio::test]
async fn s6_a_blocking_body_is_joined_before_the_lease_is_given_up() {
    let store = tenure::memory();
    let (a, b) = (Leases::new(store.clone()).unwrap(), Leases::new(store).unwrap());
    let over = Arc::new(AtomicBool::new(false));
    let ended = Ended(Arc::clone(&over));
    let (began, begun) = tokio::sync::oneshot::channel();
    let body = move |held: Held| {
        let _ended = ended;
        began.send(()).unwrap();
        while !held.cancelled().is_cancelled() {
            std::thread::sleep(Duration::from_millis(1));
        }
        // Longer than its grace period: a future would be aborted by then.
        std::thread::sleep(Duration::from_millis(300));
        7
    };
    let running = tokio::spawn(a.lock("k").grace(Duration::from_millis(20)).with_lease_blocking(body));
    begun.await.unwrap();
    b.request(&Key::new("k").unwrap(), Request::Revoke).await.unwrap();
    let guard = b.acquire("k").await.unwrap();
    assert!(over.load(Ordering::SeqCst), "the next holder came before its end");
    match running.await.unwrap() {
        Err(BodyError::Interrupted { why: Loss::Revoked, value: Some(7) }) => {}
        other => panic!("{other:?}"),
    }
    guard.release().await;
    assert!(a.lock("k").with_lease_blocking(|held| held.is_held()).await.unwrap());
    assert!(a.lock("k").try_with_lease_blocking(|held| held.is_held()).await.unwrap());
    let _guard = b.try_acquire("k").await.unwrap();
    let short = Duration::from_millis(20);
    for refused in [
        a.lock("k").try_with_lease_blocking(|_| ()).await,
        a.lock("k").with_lease_blocking_within(short, |_| ()).await,
    ] {
        assert!(matches!(refused, Err(BodyError::Acquire(AcquireError::Held(_)))), "{refused:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn s6_a_body_that_may_not_wait_does_not_run_while_another_holds_the_key() {
    let world = World::new();
    let (a, b) = (world.process(), world.process());
    let guard = a.leases.acquire("k").await.unwrap();
    let runs = Arc::new(AtomicU32::new(0));
    let body = |held: Held| {
        let runs = Arc::clone(&runs);
        async move {
            assert!(held.is_held());
            runs.fetch_add(1, Ordering::SeqCst);
        }
    };
    let (tried, at_once) = timed(b.leases.lock("k").try_with_lease(body)).await;
    let (waited, later) = timed(b.leases.lock("k").with_lease_within(TTL, body)).await;
    for refused in [tried, waited] {
        assert!(matches!(refused, Err(BodyError::Acquire(AcquireError::Held(Some(_))))), "{refused:?}");
    }
    assert!(at_once < TTL / 10 && later >= TTL && later < TTL * 11 / 10, "{at_once:?}, {later:?}");
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    let frees = tokio::spawn(async move {
        tokio::time::sleep(TTL / 2).await;
        guard.release().await
    });
    b.leases.lock("k").with_lease_within(TTL, body).await.unwrap();
    assert!(frees.await.unwrap());
    b.leases.lock("k").try_with_lease(body).await.unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 2);
    for refused in [
        b.leases.lock("k").grace(TTL).try_with_lease(body).await,
        b.leases.lock("k").grace(TTL).with_lease_within(TTL, body).await,
    ] {
        let text = refused.unwrap_err().to_string();
        assert!(text.contains("a grace period of"), "{text}");
    }
}

#[test]
fn an_error_of_a_body_is_an_error_whatever_the_body_returns() {
    struct Plain;
    fn boxed(error: BodyError<Plain>) -> Box<dyn std::error::Error + Send + Sync> {
        error.into()
    }
    let error = boxed(BodyError::Interrupted { why: Loss::Revoked, value: Some(Plain) });
    assert_eq!(error.to_string(), "the lease ended while the body ran: it was withdrawn");
}

#[tokio::test(start_paused = true)]
async fn s6_a_body_whose_belief_is_suspended_is_told_in_time_and_has_its_grace() {
    let grace = Duration::from_secs(1);
    for is_attached in [true, false] {
        let world = World::new();
        let a = world.process();
        let lock = a.leases.lock("k").grace(grace);
        let lock = if is_attached { lock } else { lock.ttl(TTL) };
        let (begins, began) = tokio::sync::oneshot::channel();
        let clock = world.clock.clone();
        let running = tokio::spawn(lock.with_lease(move |held| async move {
            begins.send(held.clone()).unwrap();
            held.cancelled().await;
            let told = clock.held();
            // It winds up for almost as long as it may.
            tokio::time::sleep(grace * 9 / 10).await;
            told
        }));
        let held = began.await.unwrap();
        a.faults.always(Fault::Hang);
        world.clock.step_wall(Duration::from_secs(5));
        let sent = world.clock.held();
        while held.is_held() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let (suspended, before) = (world.clock.held().since(sent), world.clock.readings());
        assert!(suspended < TTL / 2, "{suspended:?}");
        let result = running.await.unwrap();
        let Err(BodyError::Interrupted { value: Some(told), .. }) = result else { panic!("{result:?}") };
        // It was acquired just before, and is believed in for 0.81 of the ttl.
        let left = (TTL * 818 / 1000).saturating_sub(told.since(sent));
        assert!(left >= grace && left < grace * 3 / 2, "{left:?} left when it was told");
        let readings = world.clock.readings() - before;
        assert!(readings < 1000, "{readings} readings of the clock");
    }
}

#[tokio::test(start_paused = true)]
async fn s6_a_stop_while_belief_is_suspended_leaves_bodies_their_grace() {
    let world = World::new();
    let a = world.process();
    let (begins, began) = tokio::sync::oneshot::channel();
    let running = tokio::spawn(a.leases.lock("k").with_lease(move |held| async move {
        begins.send(held.clone()).unwrap();
        held.cancelled().await;
        tokio::time::sleep(TTL / 10).await;
    }));
    let held = began.await.unwrap();
    a.faults.always(Fault::Hang);
    world.clock.step_wall(Duration::from_secs(5));
    while held.is_held() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let stopping = tokio::spawn(async move { a.leases.stop().await });
    let result = running.await.unwrap();
    assert!(matches!(result, Err(BodyError::Interrupted { value: Some(()), .. })), "{result:?}");
    stopping.abort();
}
