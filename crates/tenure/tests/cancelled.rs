//! Who is told by `cancelled()`, in simulated time. Plan: whoever was given it is told once nothing is held any more: of a guard that is dropped, released, left to
//! expire or made plain data, of several keys, permits, leaderships and jobs' locks; and of what a body knows, once the body has returned or panicked.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{TTL, World};
use std::sync::{Arc, Mutex};
use tenure::election::Locker;
use tenure::{Cancelled, Guard, Held, Leases, Metadata};
use tenure_store::Fault;

async fn guard(leases: &Leases, key: &str) -> (Guard, Cancelled) {
    let guard = leases.lock(key).ttl(TTL).try_acquire().await.unwrap();
    let cancelled = guard.cancelled();
    assert!(!cancelled.is_cancelled());
    (guard, cancelled)
}

#[tokio::test(start_paused = true)]
async fn s6_whoever_has_the_word_of_a_guard_is_told_when_it_is_given_up() {
    let world = World::new();
    let leases = world.process().leases;
    let (dropped, told) = guard(&leases, "dropped").await;
    let waits = tokio::spawn(told.clone());
    drop(dropped);
    assert!(told.is_cancelled());
    waits.await.unwrap();
    let (released, told) = guard(&leases, "released").await;
    assert!(released.release().await && told.is_cancelled());
    let (left, told) = guard(&leases, "left with").await;
    assert!(left.release_with(Metadata::new()).await.unwrap() && told.is_cancelled());
    let (lapsed, told) = guard(&leases, "lapsed").await;
    lapsed.lapse().await;
    assert!(told.is_cancelled());
    let (passed, told) = guard(&leases, "passed on").await;
    passed.into_token().await.unwrap();
    assert!(told.is_cancelled());
    // Its record stays for a while, but whoever had it has it no more.
    let kept = leases.lock("kept").at_least_for(TTL).try_acquire().await.unwrap();
    let told = kept.cancelled();
    drop(kept);
    assert!(told.is_cancelled());
    let permit = leases.semaphore("s", 2).acquire().await.unwrap();
    let told = permit.cancelled();
    drop(permit);
    assert!(told.is_cancelled());
    let lock = Locker::new(leases).try_lock("job").await.unwrap().unwrap();
    let told = lock.cancelled();
    assert!(lock.release().await);
    assert!(told.is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn s6_whoever_has_the_word_of_several_keys_is_told_when_they_are_given_up() {
    let world = World::new();
    let leases = world.process().leases;
    for how in ["dropped", "released", "lapsed"] {
        let guards = leases.lock_all([format!("{how}/a"), format!("{how}/b")]).acquire().await.unwrap();
        let (all, one) = (guards.cancelled(), guards.iter().next().unwrap().cancelled());
        assert!(!all.is_cancelled() && !one.is_cancelled());
        match how {
            "dropped" => drop(guards),
            "released" => assert!(guards.release().await),
            _ => guards.lapse().await,
        }
        assert!(all.is_cancelled() && one.is_cancelled(), "{how}");
    }
}

/// What a body hands to others.
#[derive(Clone, Default)]
struct HandedOn(Arc<Mutex<Option<Cancelled>>>);

impl HandedOn {
    fn hand(&self, held: &Held) {
        assert!(!held.cancelled().is_cancelled());
        *self.0.lock().unwrap() = Some(held.cancelled());
    }

    fn is_told(&self) -> bool {
        self.0.lock().unwrap().take().unwrap().is_cancelled()
    }
}

#[tokio::test(start_paused = true)]
async fn s6_whom_a_body_hands_the_word_to_is_told_when_the_body_has_ended() {
    let world = World::new();
    let process = world.process();
    let leases = &process.leases;
    let candidate = leases.candidate().key("led").start().unwrap();
    candidate.elected().await.unwrap();
    for panics in [false, true] {
        let handed = HandedOn::default();
        let body = |how: &'static str| {
            let handed = handed.clone();
            async move |held: Held| {
                handed.hand(&held);
                assert!(!panics, "on purpose, {how}");
            }
        };
        assert_eq!(leases.lock("k").with_lease(body("alone")).await.is_err(), panics);
        assert!(handed.is_told());
        assert_eq!(leases.lock_all(["a", "b"]).with_lease(body("all")).await.is_err(), panics);
        assert!(handed.is_told());
        assert_eq!(candidate.run_while_leader(body("led")).await.is_err(), panics);
        assert!(handed.is_told());
        let tick = leases.once_every(format!("tick-{panics}"), TTL);
        let body = body("tick");
        let ran = tick.run(|held| async move {
            body(held).await;
            Ok::<_, String>(())
        });
        assert_eq!(ran.await.is_err(), panics);
        assert!(handed.is_told());
        let blocks = handed.clone();
        let blocking = leases.lock("k").with_lease_blocking(move |held| {
            blocks.hand(&held);
            assert!(!panics, "on purpose, blocking");
        });
        assert_eq!(blocking.await.is_err(), panics);
        assert!(handed.is_told());
    }
}

#[tokio::test(start_paused = true)]
async fn s6_whoever_has_the_word_of_a_leadership_is_told_when_that_ends() {
    let world = World::new();
    let process = world.process();
    let candidate = process.leases.candidate().key("led").start().unwrap();
    assert!(candidate.cancelled().is_cancelled(), "it does not lead yet");
    for how in ["resigned", "lost", "stopped"] {
        candidate.elected().await.unwrap();
        let told = candidate.cancelled();
        let waits = tokio::spawn(told.clone());
        tokio::time::sleep(TTL).await;
        assert!(!told.is_cancelled() && !waits.is_finished(), "{how}");
        match how {
            "resigned" => assert!(candidate.resign().await),
            "lost" => {
                process.faults.always(Fault::Hang);
                tokio::time::sleep(TTL).await;
                process.faults.always(Fault::None);
            }
            _ => candidate.stop().await,
        }
        assert!(told.is_cancelled(), "{how}");
        waits.await.unwrap();
    }
    assert!(candidate.cancelled().is_cancelled());
}
