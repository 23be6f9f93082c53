//! S6 for leaders: what runs while one leads has ended before the key is given up.
//!
//! Plan: a body that returns leaves the leadership alone; one that is told to stop ends first, on resignation, on stop, on loss
//! and on its caller's going; one that does not listen is aborted in time; one that can't be ended leaves the key to expire;
//! one that panics is told; several run at a time; whoever comes while they end waits without haste;
//! whoever waits while belief is suspended hears that it is back; no body begins that would have to end at once; a leadership that is being given up is no
//! answer to whoever waits for one; where one stands and who leads are told together.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{TTL, World, settle, timed};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tenure::election::Standing;
use tenure::{AnyStore, BodyError, Candidate, CandidateBuilder, Loss};
use tenure_store::{Fault, FaultyStore};

/// Counts the bodies that are alive.
#[derive(Clone, Default)]
struct Alive(Arc<AtomicUsize>);

impl Alive {
    fn enter(&self) -> Entered {
        self.0.fetch_add(1, Ordering::SeqCst);
        Entered(self.clone())
    }

    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

struct Entered(Alive);

impl Drop for Entered {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::SeqCst);
    }
}

type Faults = FaultyStore<tenure::MemoryStore>;

fn candidate(world: &World, set: impl FnOnce(CandidateBuilder) -> CandidateBuilder) -> (Candidate, Faults) {
    let (faults, store) = world.line();
    let builder = Candidate::builder(AnyStore::new(store)).clock(world.clock.clone());
    (set(builder).start().unwrap(), faults)
}

/// Two candidates, of which the first leads.
async fn pair(world: &World) -> (Candidate, Faults, Candidate) {
    let (first, faults) = candidate(world, |candidate| candidate);
    first.elected().await.unwrap();
    let (second, _) = candidate(world, |candidate| candidate);
    tokio::time::sleep(TTL).await;
    (first, faults, second)
}

#[tokio::test(start_paused = true)]
async fn s6_a_body_that_returns_leaves_the_leadership_alone() {
    let world = World::new();
    let (first, _) = candidate(&world, |candidate| candidate);
    for _ in 0..3 {
        let fence =
            first.run_while_leader(|held| async move { held.is_held().then(|| held.fence()) }).await.unwrap();
        assert_eq!(fence, first.leadership().map(|term| term.fence));
    }
}

#[tokio::test(start_paused = true)]
async fn s6_bodies_end_before_a_resignation_is_through() {
    let world = World::new();
    let (first, _, second) = pair(&world).await;
    let alive = Alive::default();
    let mut running = Vec::new();
    for _ in 0..3 {
        let (first, alive) = (first.clone(), alive.clone());
        running.push(tokio::spawn(async move {
            let body = move |held: tenure::Held| async move {
                let _here = alive.enter();
                held.cancelled().await;
                // Winding up takes a while, and it still leads meanwhile.
                tokio::time::sleep(Duration::from_millis(800)).await;
                held.is_held()
            };
            first.run_while_leader(body).await
        }));
    }
    settle().await;
    assert_eq!(alive.count(), 3);
    let resigning = tokio::spawn({
        let first = first.clone();
        async move { first.resign().await }
    });
    settle().await;
    assert_eq!(first.status().standing, Standing::SteppingDown);
    assert!(first.is_leader() && first.resign().await, "asked twice, it waits as well");
    assert!(resigning.await.unwrap());
    assert_eq!(alive.count(), 0);
    for body in running {
        let result = body.await.unwrap();
        assert!(
            matches!(result, Err(BodyError::Interrupted { why: Loss::Stopped, value: Some(true) })),
            "{result:?}"
        );
        let error = result.unwrap_err();
        assert_eq!(
            error.to_string(),
            "the lease ended while the body ran: its holder has stopped, or stepped down"
        );
        assert_eq!(error.into_value(), Some(true));
    }
    second.elected().await.unwrap();
}

#[test]
fn whoever_comes_while_another_body_ends_waits_without_haste() {
    let (tell, told) = std::sync::mpsc::channel();
    let body = async move {
        let (first, _) = candidate(&World::new(), |candidate| candidate);
        let ends_slowly = |held: tenure::Held| async move {
            held.cancelled().await;
            tokio::time::sleep(Duration::from_millis(800)).await;
        };
        let [one, other, late] = [first.clone(), first.clone(), first.clone()];
        tokio::spawn(async move { one.run_while_leader(ends_slowly).await });
        settle().await;
        tokio::spawn(async move { other.resign().await });
        settle().await;
        assert_eq!(first.status().standing, Standing::SteppingDown);
        let late = tokio::spawn(async move { late.run_while_leader(async |held| held.is_held()).await });
        // Simulated time passes only while every task waits.
        tell.send(late.await.unwrap().unwrap()).unwrap();
    };
    let simulated = || tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    std::thread::spawn(move || simulated().unwrap().block_on(body));
    assert_eq!(told.recv_timeout(Duration::from_secs(60)), Ok(true));
}

#[tokio::test(start_paused = true)]
async fn s6_on_loss_bodies_are_over_before_another_leads() {
    let world = World::new();
    let (first, faults, second) = pair(&world).await;
    let alive = Alive::default();
    let running = tokio::spawn({
        let (first, alive) = (first.clone(), alive.clone());
        async move {
            // It does not listen.
            let body = move |held: tenure::Held| async move {
                let _here = alive.enter();
                while held.is_held() {
                    tokio::time::sleep(Duration::from_millis(7)).await;
                }
                "outlived it"
            };
            first.run_while_leader(body).await
        }
    });
    settle().await;
    faults.always(Fault::Hang);
    while !second.is_leader() {
        assert!(!(first.is_leader() && second.is_leader()));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(alive.count(), 0);
    let result = running.await.unwrap();
    assert!(matches!(result, Err(BodyError::Interrupted { value: None, .. })), "{result:?}");
    faults.always(Fault::None);
    let (_, after) = timed(second.stop()).await;
    assert!(after < Duration::from_millis(100));
    first.run_while_leader(|held| async move { assert!(held.is_held()) }).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn s6_a_stop_waits_for_bodies_and_a_caller_that_goes_ends_its_own() {
    let world = World::new();
    let (first, _, second) = pair(&world).await;
    let alive = Alive::default();
    let body = |alive: Alive| {
        move |held: tenure::Held| async move {
            let _here = alive.enter();
            held.cancelled().await;
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    };
    // The caller has no patience: its body ends, and the candidate leads on.
    let brief = tokio::time::timeout(Duration::from_secs(1), first.run_while_leader(body(alive.clone())));
    assert!(brief.await.is_err());
    assert_eq!(alive.count(), 1, "it is winding up");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(alive.count() == 0 && first.is_leader());
    let running = tokio::spawn({
        let (first, alive) = (first.clone(), alive.clone());
        async move { first.run_while_leader(body(alive)).await }
    });
    settle().await;
    let ((), took) = timed(first.stop()).await;
    assert!(took >= Duration::from_millis(500) && took < Duration::from_secs(1), "{took:?}");
    assert_eq!(alive.count(), 0);
    assert!(running.await.unwrap().is_err());
    second.elected().await.unwrap();
    let refused = first.run_while_leader(|_| async {}).await;
    assert!(matches!(refused, Err(BodyError::Acquire(tenure::AcquireError::Stopped))), "{refused:?}");
}

#[tokio::test(start_paused = true)]
async fn s6_a_body_that_panics_is_told_and_the_leadership_goes_on() {
    let world = World::new();
    let (first, _) = candidate(&world, |candidate| candidate);
    let result = first.run_while_leader(|_| async { panic!("on purpose") }).await;
    assert!(matches!(result, Err(BodyError::<()>::Panicked(text)) if text.contains("panic")));
    assert!(first.is_leader());
    assert!(first.resign().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn s6_a_body_that_cannot_be_ended_leaves_the_key_to_expire() {
    let store = tenure::memory();
    // It must not expire by itself before it is resigned, even if this process stands still for a second.
    let ttl = Duration::from_secs(3);
    let of =
        |id: &str| Candidate::builder(store.clone()).ttl(ttl).grace(Duration::from_millis(20)).holder(id);
    // Or it might be the first again that takes the key once it has expired.
    let first = of("first").cooldown(Duration::from_secs(60)).start().unwrap();
    first.elected().await.unwrap();
    let (begun, begins) = tokio::sync::oneshot::channel();
    let (release, blocked) = std::sync::mpsc::channel::<()>();
    let running = tokio::spawn({
        let first = first.clone();
        async move {
            let body = move |_| async move {
                begun.send(()).unwrap();
                // Blocks a whole worker thread until the test says so.
                // In place: what stands in line behind a blocked worker thread is not what this is about.
                let _ = tokio::task::block_in_place(|| blocked.recv_timeout(Duration::from_secs(60)));
            };
            first.run_while_leader(body).await
        }
    });
    begins.await.unwrap();
    let record = |store: AnyStore| async move {
        tenure::Store::read(&store, &"default".parse().unwrap()).await.unwrap().unwrap()
    };
    let resigned = first.resign().await;
    let result = running.await.unwrap();
    assert!(matches!(result, Err(BodyError::Interrupted { value: None, .. })), "{result:?}");
    assert!(resigned && !first.is_leader());
    let standing = record(store.clone()).await.record;
    assert!(standing.tenure.is_some(), "not vacated while the body may still act");
    // Not before, or it might have been what stands there.
    let second = of("second").start().unwrap();
    let term = second.elected().await.unwrap();
    assert!(term.fence > standing.fence, "taken over once it had expired");
    release.send(()).unwrap();
}

#[tokio::test(start_paused = true)]
async fn l3_a_leader_whose_belief_was_suspended_is_told_that_it_leads_again() {
    for is_attached in [true, false] {
        let world = World::new();
        let (faults, store) = world.line();
        let candidate = if is_attached {
            world.builder(&store).start().unwrap().candidate()
        } else {
            Candidate::builder(AnyStore::new(store)).clock(world.clock.clone()).ttl(TTL)
        };
        let candidate = candidate.start().unwrap();
        candidate.elected().await.unwrap();
        world.clock.step_wall(Duration::from_secs(5));
        faults.always(Fault::Held);
        while candidate.is_leader() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let elected = tokio::spawn({
            let candidate = candidate.clone();
            async move { candidate.elected().await }
        });
        settle().await;
        assert_eq!((candidate.status().standing, elected.is_finished()), (Standing::Leading, false));
        faults.always(Fault::None);
        faults.go_on();
        let believes = async {
            while !candidate.is_leader() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(TTL, believes).await.unwrap();
        let told = tokio::time::timeout(TTL / 18, elected).await;
        assert!(told.is_ok_and(|told| told.unwrap().is_ok()), "attached: {is_attached}");
    }
}

#[tokio::test(start_paused = true)]
async fn l3_while_renewals_fail_no_body_begins_that_would_have_to_end_at_once() {
    for step_down_after in [None, Some(4)] {
        let world = World::new();
        let (candidate, faults) = candidate(&world, |candidate| match step_down_after {
            Some(errors) => candidate.ttl(TTL).step_down_after(errors),
            None => candidate.ttl(TTL),
        });
        let alive = Alive::default();
        let begun = Arc::new(AtomicUsize::new(0));
        let looped = tokio::spawn({
            let (candidate, alive, begun) = (candidate.clone(), alive.clone(), Arc::clone(&begun));
            async move {
                loop {
                    let (alive, begun) = (alive.clone(), Arc::clone(&begun));
                    let body = |held: tenure::Held| async move {
                        let _entered = alive.enter();
                        begun.fetch_add(1, Ordering::SeqCst);
                        held.cancelled().await;
                    };
                    let _interrupted = candidate.run_while_leader(body).await;
                }
            }
        });
        let until = async |count: usize| {
            let is_so = async {
                while alive.count() != count {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            };
            tokio::time::timeout(TTL * 2, is_so).await.unwrap();
        };
        until(1).await;
        faults.always(Fault::Refuse);
        until(0).await;
        // The store is back before the leadership is over, or after it.
        for outage in [TTL / 50, TTL] {
            assert_eq!(begun.load(Ordering::SeqCst), 1, "{step_down_after:?}");
            tokio::time::sleep(outage).await;
            assert!(begun.swap(0, Ordering::SeqCst) <= 1, "{step_down_after:?}");
            faults.always(Fault::None);
            until(1).await;
            faults.always(Fault::Refuse);
            until(0).await;
        }
        looped.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn a_leadership_that_is_being_given_up_is_no_answer_to_who_waits_for_one() {
    let world = World::new();
    let (first, _, second) = pair(&world).await;
    let (begun, begins) = tokio::sync::oneshot::channel();
    let slow = {
        let first = first.clone();
        async move {
            let body = |held: tenure::Held| async move {
                begun.send(()).unwrap();
                held.cancelled().await;
                tokio::time::sleep(TTL / 20).await;
            };
            first.run_while_leader(body).await
        }
    };
    let running = tokio::spawn(slow);
    begins.await.unwrap();
    let resigned = tokio::spawn({
        let first = first.clone();
        async move { first.resign().await }
    });
    settle().await;
    // While the body winds up: who goes by terms and tokens alone would have had the same term again and again, with no pause.
    assert!(first.is_leader() && first.status().standing != Standing::Leading);
    assert!(tokio::time::timeout(TTL / 40, first.elected()).await.is_err());
    assert!(resigned.await.unwrap());
    drop((running, second));
}

#[tokio::test(start_paused = true)]
async fn where_one_stands_and_who_leads_are_told_together() {
    let world = World::new();
    let (first, _) = candidate(&world, |candidate| candidate.holder("first"));
    let mut changes = first.changes();
    let mut seen = Vec::new();
    let mut see = async || {
        // What is told by one step of the candidate is seen after each of its changes.
        let until = async {
            loop {
                let status = changes.get_and_update();
                let is_own = status.leader.as_ref().is_some_and(|leader| leader.holder.as_str() == "first");
                seen.push((status.standing, is_own));
                changes.changed().await.unwrap();
            }
        };
        let _over = tokio::time::timeout(TTL / 100, until).await;
    };
    first.elected().await.unwrap();
    see().await;
    first.resign().await;
    see().await;
    assert!(seen.iter().all(|(standing, is_own)| (*standing == Standing::Leading) == *is_own), "{seen:?}");
    assert!(seen.iter().any(|(standing, _)| *standing == Standing::Leading), "{seen:?}");
}
