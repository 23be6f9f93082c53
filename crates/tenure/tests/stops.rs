//! S6 where all leases of a process are stopped, and where the runtime that watches over bodies ends before them.
//!
//! Plan: a stop ends bodies of every kind before their keys are free, aborts one that does not listen, leaves to expire what blocks its thread, and
//! takes no more in meanwhile. A runtime that ends gives a lease up at once if its body ends with it, and not before a body that goes on is over,
//! whatever it runs under. A candidate whose runtime ends leads no more, and nobody waits for it; one of stopped leases is stopped, and one
//! that nobody holds any more ends without haste. What is adopted by nobody is given up. What is answered meanwhile brings no belief back.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{TTL, World, settle, timed};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use tenure::fleet::{Fleet, NewUnit, Verdict};
use tenure::range::{KeyRange, Section};
use tenure::{AcquireError, AnyStore, BodyError, Candidate, Held, Key, Leases, Loss, Store};
use tenure_store::Fault;
use tokio::runtime::Runtime;

/// Sets a flag when it is dropped: the body is over.
struct Ended(Arc<AtomicBool>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A body that takes as long to end as it may, nearly.
async fn slow_to_end(held: Held, ended: Ended) -> u32 {
    let _ended = ended;
    held.cancelled().await;
    assert!(held.is_held(), "it is told while it is held");
    tokio::time::sleep(TTL / 10).await;
    assert!(held.is_held(), "it has its grace period");
    7
}

/// One way to run that body on a key.
async fn run(way: usize, leases: &Leases, ended: Ended) -> Result<u32, BodyError<u32>> {
    let body = |held| slow_to_end(held, ended);
    match way {
        0 => leases.lock("k").with_lease(body).await,
        1 => leases.lock("k").ttl(TTL).with_lease(body).await,
        2 => leases.lock_all(["k", "l"]).with_lease(body).await,
        _ => {
            let candidate = leases.candidate().key("k").start().unwrap();
            candidate.run_while_leader(body).await
        }
    }
}

#[tokio::test(start_paused = true)]
async fn s6_a_stop_ends_bodies_before_their_keys_are_free() {
    for way in 0..4 {
        let world = World::new();
        let (a, b) = (world.process(), world.process());
        let over = Arc::new(AtomicBool::new(false));
        let (leases, ended) = (a.leases.clone(), Ended(Arc::clone(&over)));
        let running = tokio::spawn(async move { run(way, &leases, ended).await });
        settle().await;
        let next = tokio::spawn({
            let (over, leases) = (Arc::clone(&over), b.leases.clone());
            async move {
                let _guard = leases.acquire("k").await.unwrap();
                assert!(over.load(Ordering::SeqCst), "the next holder came before its end");
            }
        });
        settle().await;
        let ((), took) = timed(a.leases.stop()).await;
        assert!(over.load(Ordering::SeqCst), "{way}: the stop did not wait for the body");
        assert!(took >= TTL / 10 && took < TTL / 4, "{way}: {took:?}");
        next.await.unwrap();
        match running.await.unwrap() {
            Err(BodyError::Interrupted { why: Loss::Stopped, value: Some(7) }) => {}
            other => panic!("{way}: {other:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn s6_a_stop_aborts_what_does_not_listen_and_takes_nothing_more_in() {
    let world = World::new();
    let (a, b) = (world.process(), world.process());
    let guard = a.leases.acquire("guard").await.unwrap();
    let body = a.leases.lock("k").with_lease(|_| std::future::pending::<()>());
    let running = tokio::spawn(body);
    settle().await;
    let (leases, stopping) = (a.leases.clone(), a.leases.clone());
    let stopped = tokio::spawn(async move { timed(stopping.stop()).await.1 });
    settle().await;
    assert!(guard.is_held(), "guards are lost once bodies have ended");
    for late in [leases.try_acquire("late").await.err(), leases.acquire("later").await.err()] {
        assert!(matches!(late, Some(AcquireError::Stopped)), "{late:?}");
    }
    let took = stopped.await.unwrap();
    assert!(took >= TTL / 8 && took < TTL / 4, "{took:?}");
    assert!(!guard.is_held());
    assert!(matches!(running.await.unwrap(), Err(BodyError::Interrupted { value: None, .. })));
    assert!(b.leases.try_acquire("k").await.is_ok() && b.leases.try_acquire("guard").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn what_is_acquired_as_all_is_given_up_is_not_believed_in() {
    let world = World::new();
    let (a, b) = (world.process(), world.process());
    a.leases.begin_session();
    settle().await;
    // The claim is answered when the stop has begun, and what gives it up takes a while.
    a.faults.inject([Fault::Held]);
    let leases = a.leases.clone();
    let acquiring = tokio::spawn(async move { leases.acquire("k").await });
    settle().await;
    let mut stopping = Box::pin(a.leases.stop());
    assert!(futures_util::poll!(&mut stopping).is_pending());
    a.faults.inject([Fault::Held]);
    a.faults.go_on();
    let guard = acquiring.await.unwrap();
    assert!(guard.as_ref().is_ok_and(|guard| !guard.is_held()), "{guard:?}");
    settle().await;
    a.faults.go_on();
    stopping.await;
    assert!(b.leases.try_acquire("k").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn s1_a_renewal_that_is_answered_as_all_is_given_up_brings_no_belief_back() {
    let world = World::new();
    let (a, b) = (world.process(), world.process());
    let guard = a.leases.lock("k").ttl(TTL).acquire().await.unwrap();
    settle().await;
    a.faults.inject([Fault::Held]);
    // A third of the ttl later, and it is not given up yet.
    tokio::time::sleep(TTL * 4 / 10).await;
    assert!(guard.is_held());
    let mut stopping = Box::pin(a.leases.stop());
    assert!(futures_util::poll!(&mut stopping).is_pending());
    assert!(!guard.is_held());
    // The answer is there before the stop is heard of.
    a.faults.go_on();
    stopping.await;
    let _next = b.leases.try_acquire("k").await.unwrap();
    assert!(!guard.is_held() && guard.remaining().is_zero(), "{:?}", guard.remaining());
    assert_eq!(guard.lost().await, Loss::Stopped);
}

const SHORT: Duration = Duration::from_secs(1);

fn of_several_threads() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_all().build().unwrap()
}

fn leases(store: &AnyStore) -> Leases {
    Leases::builder(store.clone()).session_ttl(SHORT).start().unwrap()
}

async fn is_held(store: &AnyStore, key: &Key) -> bool {
    let stored = store.read(key).await.unwrap();
    stored.is_some_and(|stored| stored.record.tenure.is_some())
}

/// A body that blocks its thread until it is told, and says that it has begun.
struct Blocking {
    begun: Sender<()>,
    until: Receiver<()>,
}

impl Blocking {
    fn new() -> (Blocking, Receiver<()>, Sender<()>) {
        let ((begun, begins), (end, until)) = (channel(), channel());
        (Blocking { begun, until }, begins, end)
    }

    fn block(self) {
        self.begun.send(()).unwrap();
        let _ = self.until.recv_timeout(Duration::from_secs(60));
    }

    async fn poll_for_long(self) {
        tokio::task::block_in_place(|| self.block());
    }
}

#[test]
fn s6_a_stop_leaves_to_expire_what_a_body_has_that_blocks_its_thread() {
    for is_led in [false, true] {
        let (store, runtime) = (tenure::memory(), of_several_threads());
        let leases = leases(&store);
        let (body, begins, end) = Blocking::new();
        if is_led {
            let _entered = runtime.enter();
            let candidate = leases.candidate().key("k").start().unwrap();
            runtime.spawn(async move { candidate.run_while_leader(|_| body.poll_for_long()).await });
        } else {
            runtime.spawn(leases.lock("k").with_lease_blocking(|_| body.block()));
        }
        begins.recv().unwrap();
        runtime.block_on(async {
            let stopped = tokio::time::timeout(SHORT * 20, leases.stop()).await;
            assert!(stopped.is_ok(), "nobody waits for ever");
            let is_kept = is_held(&store, &"k".parse().unwrap()).await;
            assert!(is_kept, "{is_led}: given up while the body may still act");
        });
        end.send(()).unwrap();
    }
}

#[test]
fn a_body_that_can_not_be_ended_keeps_no_candidate_alive() {
    let (store, runtime) = (tenure::memory(), of_several_threads());
    let leases = leases(&store);
    let (body, begins, end) = Blocking::new();
    let key: Key = "k".parse().unwrap();
    {
        let _entered = runtime.enter();
        let candidate =
            leases.candidate().key("k").follow_every(SHORT / 10).cooldown(SHORT / 10).start().unwrap();
        let running = async move { candidate.run_while_leader(|_| body.poll_for_long()).await };
        let running = runtime.spawn(running);
        begins.recv().unwrap();
        // With it, its last handle goes.
        running.abort();
    }
    runtime.block_on(async {
        let others = self::leases(&store);
        let guard = others.acquire_within("k", SHORT * 20).await.unwrap();
        guard.release().await;
        // It would lead again soon.
        tokio::time::sleep(SHORT * 2).await;
        assert!(!is_held(&store, &key).await, "nobody has a handle of whoever leads");
    });
    end.send(()).unwrap();
}

/// What bodies run under.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Under {
    Lock,
    Thread,
    All,
    Leadership,
    Section,
    Unit,
}

/// Runs a body on a runtime under something.
fn start(under: Under, runtime: &Runtime, store: &AnyStore, body: Blocking) {
    let leases = leases(store);
    match under {
        Under::Lock => drop(runtime.spawn(leases.lock("k").with_lease(|_| body.poll_for_long()))),
        Under::Thread => drop(runtime.spawn(leases.lock("k").with_lease_blocking(|_| body.block()))),
        Under::All => {
            drop(runtime.spawn(leases.lock_all(["j", "k"]).with_lease(|_| body.poll_for_long())));
        }
        Under::Leadership => {
            let _entered = runtime.enter();
            let candidate = Candidate::builder(store.clone()).key("k").ttl(SHORT).start().unwrap();
            drop(runtime.spawn(async move { candidate.run_while_leader(|_| body.poll_for_long()).await }));
        }
        Under::Section => {
            let _entered = runtime.enter();
            let section = Section::builder(store.clone(), "s").start().unwrap();
            let range = KeyRange::new(0u64, 10u64).unwrap();
            let run =
                async move { section.try_with_lease(range, SHORT * 60, |_| body.poll_for_long()).await };
            drop(runtime.spawn(run));
        }
        Under::Unit => {
            let _entered = runtime.enter();
            let fleet = Fleet::new(store.clone(), "f").unwrap();
            runtime.block_on(fleet.create_all([NewUnit::named("u")])).unwrap();
            let worker = fleet.join().ttl(SHORT).start().unwrap();
            let body = std::sync::Mutex::new(Some(body));
            let task = move |_| {
                let body = body.lock().unwrap().take();
                async move {
                    if let Some(body) = body {
                        body.poll_for_long().await;
                    }
                    Verdict::Again
                }
            };
            drop(runtime.spawn(async move { worker.run(task).await }));
        }
    }
}

/// Whether the store shows that it is held.
async fn shows(under: Under, store: &AnyStore) -> bool {
    match under {
        Under::Section => {
            let section = Section::builder(store.clone(), "s").start().unwrap();
            !section.list().await.unwrap().is_empty()
        }
        Under::Unit => is_held(store, &Fleet::new(store.clone(), "f").unwrap().key("u").unwrap()).await,
        _ => is_held(store, &"k".parse().unwrap()).await,
    }
}

#[test]
fn s6_a_runtime_that_ends_gives_nothing_up_under_a_body_that_goes_on() {
    let others = Runtime::new().unwrap();
    for under in [Under::Lock, Under::Thread, Under::All, Under::Leadership, Under::Section, Under::Unit] {
        let (store, theirs) = (tenure::memory(), of_several_threads());
        let (body, begins, end) = Blocking::new();
        start(under, &theirs, &store, body);
        begins.recv().unwrap();
        theirs.shutdown_background();
        others.block_on(async {
            // Whatever is given up is given up soon.
            tokio::time::sleep(SHORT / 2).await;
            assert!(shows(under, &store).await, "{under:?}: given up under its body");
            end.send(()).unwrap();
            if !matches!(under, Under::Section | Under::Unit) {
                let free = leases(&store).acquire_within("k", SHORT * 20).await;
                assert!(free.is_ok(), "{under:?}: held after its body's end: {free:?}");
                return;
            }
            let free = tokio::time::timeout(SHORT * 20, async {
                while shows(under, &store).await {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            });
            assert!(free.await.is_ok(), "{under:?}: held after its body's end");
        });
    }
}

#[test]
fn a_lease_whose_body_ends_with_its_runtime_is_free_at_once() {
    let (store, theirs) = (tenure::memory(), of_several_threads());
    // It would be held for a minute.
    let leases = Leases::builder(store.clone()).session_ttl(SHORT * 60).start().unwrap();
    let (begun, begins) = channel();
    theirs.spawn(leases.lock("k").with_lease(move |_| async move {
        begun.send(()).unwrap();
        std::future::pending::<()>().await;
    }));
    begins.recv().unwrap();
    drop(theirs);
    let others = self::leases(&store);
    let acquired = Runtime::new().unwrap().block_on(others.acquire_within("k", SHORT * 20));
    assert!(acquired.is_ok(), "{acquired:?}");
}

#[tokio::test]
async fn a_candidate_of_stopped_leases_is_stopped() {
    let leases = leases(&tenure::memory());
    leases.stop().await;
    let candidate = leases.candidate().key("k").start().unwrap();
    assert!(matches!(candidate.elected().await, Err(AcquireError::Stopped)));
    candidate.stop().await;
    let ran = leases.candidate().key("k").start().unwrap().run_while_leader(async |_| ()).await;
    assert!(matches!(ran, Err(BodyError::Acquire(AcquireError::Stopped))), "{ran:?}");
}

#[test]
fn a_candidate_that_nobody_holds_any_more_waits_for_its_release_without_haste() {
    let (tell, told) = channel();
    let body = async move {
        let process = World::new().process();
        let candidate = process.leases.candidate().key("k").start().unwrap();
        candidate.elected().await.unwrap();
        process.faults.always(Fault::Hang);
        drop(candidate);
        // Simulated time passes only while every task waits.
        tokio::time::sleep(TTL / 4).await;
        tell.send(()).unwrap();
    };
    let simulated = || tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    std::thread::spawn(move || simulated().unwrap().block_on(body));
    assert!(told.recv_timeout(Duration::from_secs(60)).is_ok(), "it does not come to rest");
}

#[test]
fn a_candidate_whose_runtime_ends_leads_no_more_and_nobody_waits_for_it() {
    let (store, theirs) = (tenure::memory(), of_several_threads());
    let leases = leases(&store);
    let candidate = theirs.block_on(async {
        let candidate = leases.candidate().key("k").start().unwrap();
        candidate.elected().await.unwrap();
        candidate
    });
    assert!(candidate.is_leader());
    drop(theirs);
    assert!(!candidate.is_leader() && candidate.leadership().is_none());
    Runtime::new().unwrap().block_on(async {
        candidate.stop().await;
        assert!(!candidate.resign().await);
        assert!(matches!(candidate.elected().await, Err(AcquireError::Stopped)));
        // The leases go on, and would renew what it led for ever.
        assert!(self::leases(&store).acquire_within("k", SHORT * 20).await.is_ok());
    });
    assert!(leases.session_remaining() > Duration::ZERO);
}

#[test]
fn where_the_runtime_of_leases_ends_whoever_runs_on_another_is_told() {
    let (store, theirs) = (tenure::memory(), of_several_threads());
    let leases = Leases::builder(store).runtime(theirs.handle().clone()).start().unwrap();
    Runtime::new().unwrap().block_on(async {
        let start = |key| leases.candidate().key(key).start().unwrap();
        let (leads, also) = (start("k"), start("l"));
        leads.elected().await.unwrap();
        also.elected().await.unwrap();
        let guards = leases.lock_all(["a", "b"]).acquire().await.unwrap();
        let gone = guards.cancelled();
        theirs.shutdown_background();
        let told = tokio::time::timeout(Duration::from_secs(10), async {
            gone.await;
            leads.stop().await;
            // Each is told by itself.
            while also.is_leader() {
                tokio::task::yield_now().await;
            }
            assert!(!also.resign().await, "there is nothing to give up");
            assert!(matches!(also.elected().await, Err(AcquireError::Stopped)));
        });
        told.await.expect("nobody waits for ever");
        assert!(!leads.is_leader() && !guards.iter().any(|guard| guard.is_held()));
    });
}

#[tokio::test(start_paused = true)]
async fn what_is_adopted_by_nobody_is_given_up() {
    let world = World::new();
    let (a, b, c) = (world.process(), world.process(), world.process());
    let guard = a.leases.lock("k").ttl(TTL).acquire().await.unwrap();
    let token = guard.into_token().await.unwrap();
    let mut adopting = Box::pin(b.leases.adopt(&token));
    assert!(futures_util::poll!(&mut adopting).is_pending());
    // The answer comes, and nobody takes it.
    settle().await;
    drop(adopting);
    let (acquired, took) = timed(c.leases.acquire_within("k", TTL * 5)).await;
    assert!(acquired.is_ok() && took < TTL / 2, "{took:?}");
}
