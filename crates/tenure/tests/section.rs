//! Plan: sections by the library, in simulated time: what the body gets; it runs once, and not with nothing; the lease is over after
//! return, error, panic and cancellation, and only after the body's end; waiting for some or all of it, also before a body; deadlines; a body that can't be ended; contention of many
//! tasks; bad input; a dead process's ranges; `list` and `reclaim`; a store that hangs; SQLite; and that locks keep off. What holds
//! at the end of a lease, and fences, guards without a body, and stopping are in `section_end.rs`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{World, settle, timed};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tenure::range::{KeyRange, RangeLease, RangeSet, Section};
use tenure::{AcquireError, AnyStore, BodyError, ErrorKind, Loss};
use tenure_store::Fault;

const SPAN: Duration = Duration::from_secs(10);

fn set(text: &str) -> RangeSet {
    text.split_whitespace().map(|range| range.parse().unwrap()).collect()
}

fn section(world: &World) -> Section {
    Section::builder(AnyStore::new(world.memory.clone()), "s").clock(world.clock.clone()).start().unwrap()
}

/// What is held, once all that is ready has run.
async fn held(section: &Section) -> String {
    settle().await;
    section
        .list()
        .await
        .unwrap()
        .iter()
        .flat_map(|entry| entry.parts.ranges().to_vec())
        .collect::<RangeSet>()
        .to_string()
}

#[tokio::test(start_paused = true)]
async fn s7_bodies_get_what_nobody_else_holds_and_do_not_run_with_nothing() {
    let world = World::new();
    let (a, b) = (section(&world), section(&world));
    let other = b.clone();
    let got = a
        .try_with_lease(set("0_10 20_30"), SPAN, |one| async move {
            assert!(one.is_held() && one.remaining() < SPAN);
            let two = other
                .try_with_lease(set("8_28"), SPAN, |two| async move { (two.set().clone(), two.fence()) });
            let (parts, fence) = two.await.unwrap();
            assert!(fence > one.fence());
            let none = other.try_with_lease(set("0_5"), SPAN, |_| async { panic!("it ran under nothing") });
            let none: Result<(), _> = none.await;
            assert!(matches!(none, Err(BodyError::Acquire(AcquireError::Held(None)))), "{none:?}");
            parts
        })
        .await
        .unwrap();
    assert_eq!(got, set("10_20"));
    assert_eq!(held(&b).await, "");
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_some_has_it_soon_after_it_is_given_up_and_nothing_in_the_end() {
    let world = World::new();
    let (a, b) = (section(&world), section(&world));
    let one = a.try_acquire(set("0_10"), SPAN * 10).await.unwrap();
    let (none, took) = timed(b.lock(set("0_5"), SPAN).acquire_within(SPAN)).await;
    assert!(matches!(none, Err(AcquireError::Held(None))), "{none:?}");
    assert!(took >= SPAN && took < SPAN * 2, "{took:?}");
    let free = async {
        tokio::time::sleep(SPAN).await;
        one.release().await
    };
    let ((some, took), released) =
        tokio::join!(timed(b.lock(set("0_5"), SPAN).acquire_within(SPAN * 5)), free);
    assert!(released);
    assert_eq!(*some.unwrap().set(), set("0_5"));
    assert!(took >= SPAN && took <= SPAN + Duration::from_secs(2), "{took:?}");
    // What is left of it is there at once.
    let (some, took) = timed(b.lock(set("7_20"), SPAN).acquire_within(SPAN)).await;
    assert_eq!((some.unwrap().set().clone(), took), (set("7_20"), Duration::ZERO));
    // A section that is stopped lets nobody wait.
    let _held = a.try_acquire(set("30_40"), SPAN * 10).await.unwrap();
    let (waits, ()) = tokio::join!(b.lock(set("30_40"), SPAN).acquire_within(SPAN * 5), b.stop());
    assert!(matches!(waits, Err(AcquireError::Stopped)));
}

#[tokio::test(start_paused = true)]
async fn who_wants_all_waits_until_nobody_has_any_of_it_and_holds_nothing_meanwhile() {
    let world = World::new();
    let (a, b) = (section(&world), section(&world));
    let one = a.try_acquire(set("0_10"), SPAN * 10).await.unwrap();
    let (none, took) = timed(b.lock(set("5_6 20_30"), SPAN).all().acquire_within(SPAN)).await;
    assert!(matches!(none, Err(AcquireError::Held(None))), "{none:?}");
    assert!(took >= SPAN && took < SPAN * 2, "{took:?}");
    let free = async {
        tokio::time::sleep(SPAN).await;
        assert_eq!(held(&a).await, "0_10", "b has no part of it while it waits");
        one.release().await
    };
    let all = b.lock(set("5_6 20_30"), SPAN).all().acquire_within(SPAN * 5);
    let ((all, took), released) = tokio::join!(timed(all), free);
    assert!(released);
    assert_eq!(*all.unwrap().set(), set("5_6 20_30"));
    assert!(took >= SPAN && took <= SPAN + Duration::from_secs(2), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_body_waits_for_all_and_has_the_whole_duration_then() {
    let world = World::new();
    let (a, b) = (section(&world), section(&world));
    let one = a.try_acquire(set("0_10"), SPAN * 10).await.unwrap();
    let wanted = b.lock(set("5_6 20_30"), SPAN).all();
    let refused = wanted.clone().try_with_lease(async |_| panic!("it ran under a part")).await;
    assert!(matches!(refused, Err(BodyError::<()>::Acquire(AcquireError::Held(None)))), "{refused:?}");
    let late = wanted.clone().with_lease_within(SPAN, async |_| panic!("it ran under a part")).await;
    assert!(matches!(late, Err(BodyError::<()>::Acquire(AcquireError::Held(None)))), "{late:?}");
    let free = async {
        tokio::time::sleep(SPAN).await;
        one.release().await
    };
    let body = async |lease: RangeLease| (lease.set().clone(), lease.held_for());
    let (ran, _) = tokio::join!(wanted.with_lease_within(SPAN * 5, body), free);
    let (had, lasts) = ran.unwrap();
    assert!(had == set("5_6 20_30") && lasts > SPAN / 2, "{had}: {lasts:?}");
    assert_eq!(held(&b).await, "");
}

#[tokio::test(start_paused = true)]
async fn s6_a_lease_is_over_after_return_error_panic_and_cancellation() {
    let world = World::new();
    let (a, b) = (section(&world), section(&world));
    let error =
        a.try_with_lease(set("0_1"), SPAN, |_| async { Err::<(), _>("an error of the body") }).await.unwrap();
    assert_eq!((error, held(&b).await), (Err("an error of the body"), String::new()));
    let panicked = a
        .try_with_lease(set("0_1"), SPAN, |_| async {
            if true {
                panic!("on purpose")
            }
        })
        .await;
    assert!(matches!(panicked, Err(BodyError::Panicked(_))), "{panicked:?}");
    assert_eq!(held(&b).await, "");
    let over = Arc::new(AtomicBool::new(false));
    let ended = Ended(Arc::clone(&over));
    let caller = tokio::spawn(async move {
        a.try_with_lease(set("0_1"), SPAN, |_| async move {
            let _ended = ended;
            std::future::pending::<()>().await;
        })
        .await
    });
    assert_eq!(held(&b).await, "0_1");
    caller.abort();
    let (got, after) = timed(async {
        loop {
            if held(&b).await.is_empty() {
                return over.load(Ordering::SeqCst);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    assert!(got && after < SPAN / 4, "the body ended first, after its grace: {after:?}");
}

struct Ended(Arc<AtomicBool>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn s6_a_body_is_told_in_time_and_ends_before_its_lease() {
    let world = World::new();
    let a = section(&world);
    let listens = |lease: RangeLease| async move {
        lease.cancelled().await;
        (lease.is_held(), lease.remaining())
    };
    let (result, after) = timed(a.try_with_lease(set("0_1"), SPAN, listens)).await;
    match result {
        Err(BodyError::Interrupted { why: Loss::Overran, value: Some((true, left)) }) => {
            assert!(left.is_zero())
        }
        other => panic!("{other:?}"),
    }
    assert!(after > SPAN / 2 && after < SPAN * 8 / 10, "{after:?}");
    let over = Arc::new(AtomicBool::new(false));
    let ended = Ended(Arc::clone(&over));
    let deaf = a.try_with_lease(set("0_1"), SPAN, |lease| async move {
        let _ended = ended;
        while lease.is_held() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("ran beyond its lease");
    });
    let (result, _) = timed(deaf).await;
    assert!(matches!(result, Err(BodyError::Interrupted { value: None, .. })), "{result:?}");
    assert!(over.load(Ordering::SeqCst));
    assert_eq!(held(&a).await, "");
}

#[tokio::test(start_paused = true)]
async fn asked_durations_are_cut_and_bad_input_is_told_before_any_io() {
    let world = World::new();
    let store = AnyStore::new(world.memory.clone());
    let builder = || Section::builder(store.clone(), "s").clock(world.clock.clone());
    let a = builder().longest(SPAN).start().unwrap();
    let left =
        a.try_with_lease(set("0_1"), SPAN * 100, |lease| async move { lease.remaining() }).await.unwrap();
    assert!(left < SPAN && left > SPAN / 2, "{left:?}");
    for (desired, duration, says) in
        [("", SPAN, "no range"), ("5_5", SPAN, "no range"), ("0_1", Duration::ZERO, "minimum")]
    {
        let ran = Arc::new(AtomicBool::new(false));
        let runs = Arc::clone(&ran);
        let refused = a
            .try_with_lease(set(desired), duration, |_| async move { runs.store(true, Ordering::SeqCst) })
            .await;
        let Err(BodyError::Acquire(error)) = refused else { panic!("{refused:?}") };
        assert!(error.to_string().contains(says) && !ran.load(Ordering::SeqCst), "{error}");
    }
    assert!(Section::new(store.clone(), "").is_err());
    assert!(Section::new(store.clone(), "x".repeat(600)).is_err());
    assert!(builder().most_parts(0).start().is_err() && builder().longest(Duration::ZERO).start().is_err());
    let locked = tenure::Leases::new(store).unwrap().try_acquire("section/s").await.unwrap_err();
    assert!(locked.to_string().contains("section"), "{locked}");
}

#[tokio::test(start_paused = true)]
async fn a_section_that_is_almost_full_gives_what_fits_and_a_full_one_says_to_shard() {
    let world = World::new();
    let store = AnyStore::new(world.memory.clone());
    let a = Section::builder(store, "s").clock(world.clock.clone()).most_parts(2).start().unwrap();
    let part = a.try_acquire(set("0_1 2_3 4_5"), SPAN).await.unwrap();
    assert_eq!(part.set().to_string(), "0_1 2_3", "as much as fits");
    let refused = a.try_with_lease(set("4_5"), SPAN, |_| async {}).await;
    let Err(BodyError::Acquire(AcquireError::Store(error))) = refused else { panic!("{refused:?}") };
    assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("shard"), "{error}");
    assert!(part.release().await);
    assert!(a.try_with_lease(set("4_5"), SPAN, |_| async {}).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn what_a_dead_process_held_is_listed_and_free_after_its_duration() {
    let world = World::new();
    let b = section(&world);
    let (faults, line) = world.line();
    let dying = Section::builder(AnyStore::new(line), "s").clock(world.clock.clone()).start().unwrap();
    let dead = tokio::spawn(async move {
        dying.try_with_lease(set("0_10"), SPAN, |_| std::future::pending::<()>()).await
    });
    settle().await;
    // From now on nothing of it reaches the store.
    faults.always(Fault::Hang);
    assert_eq!(held(&b).await, "0_10");
    assert_eq!(b.reclaim().await.unwrap(), 0);
    tokio::time::sleep(SPAN * 11 / 10).await;
    // A process that never saw it before, by the store's clock and the wall clocks.
    assert_eq!(section(&world).reclaim().await.unwrap(), 1);
    assert_eq!(held(&b).await, "");
    dead.abort();
}

#[tokio::test(start_paused = true)]
async fn what_a_caller_s_timeout_leaves_behind_is_free_when_the_caller_s_time_is_over() {
    let world = World::new();
    let (faults, line) = world.line();
    let caller = Section::builder(AnyStore::new(line), "s").clock(world.clock.clone()).start().unwrap();
    let of_caller = caller.clone();
    let called = tokio::spawn(async move {
        let body = |lease: RangeLease| async move {
            assert!(lease.remaining() < SPAN);
            std::future::pending::<()>().await
        };
        tokio::time::timeout(SPAN, of_caller.try_with_lease(set("0_10"), (SPAN * 60).min(SPAN), body)).await
    });
    settle().await;
    // Its runtime ends with it: nothing is given up.
    faults.always(Fault::Hang);
    tokio::time::sleep(SPAN * 11 / 10).await;
    assert_eq!(section(&world).reclaim().await.unwrap(), 1);
    called.abort();
    let too_late =
        caller.try_with_lease(set("20_30"), SPAN.min(Duration::ZERO), |_| async {}).await.unwrap_err();
    assert!(too_late.to_string().contains("minimum"), "{too_late}");
}

#[tokio::test(start_paused = true)]
async fn many_tasks_and_processes_never_overlap() {
    let world = World::new();
    let taken: Arc<Vec<AtomicU64>> = Arc::new((0..64).map(|_| AtomicU64::new(0)).collect());
    let mut all = tokio::task::JoinSet::new();
    for process in 0..4u64 {
        let section = section(&world);
        for task in 0..8u64 {
            let (section, taken) = (section.clone(), Arc::clone(&taken));
            all.spawn(async move {
                for round in 0..20u64 {
                    let low = (process * 13 + task * 7 + round * 5) % 48;
                    let desired = KeyRange::new(low, low + 16).unwrap();
                    let taken = Arc::clone(&taken);
                    let body = |lease: RangeLease| async move {
                        let mine: Vec<u64> =
                            (0..64).filter(|key| lease.set().contains(&(*key).into())).collect();
                        for key in &mine {
                            assert_eq!(
                                taken[*key as usize].fetch_add(1, Ordering::SeqCst),
                                0,
                                "{key} is held twice"
                            );
                        }
                        tokio::time::sleep(Duration::from_millis(3)).await;
                        for key in &mine {
                            taken[*key as usize].fetch_sub(1, Ordering::SeqCst);
                        }
                    };
                    let done = section.try_with_lease(desired, SPAN, body).await;
                    assert!(
                        matches!(done, Ok(()) | Err(BodyError::Acquire(AcquireError::Held(None)))),
                        "{done:?}"
                    );
                }
            });
        }
    }
    while let Some(done) = all.join_next().await {
        done.unwrap();
    }
    assert_eq!(held(&section(&world)).await, "");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_is_told_and_lost_answers_cost_nothing_but_time() {
    let world = World::new();
    let (faults, store) = world.line();
    let a = Section::builder(AnyStore::new(store), "s").clock(world.clock.clone()).start().unwrap();
    faults.inject([Fault::None, Fault::LoseAnswer]);
    let got = a.try_with_lease(set("0_10"), SPAN, |lease| async move { lease.set().clone() }).await.unwrap();
    assert_eq!(got, set("0_10"), "the entry that landed is found to be ours");
    faults.inject([Fault::LoseRequest, Fault::LoseRequest]);
    assert!(a.try_with_lease(set("0_10"), SPAN, |_| async {}).await.is_ok());
    faults.always(Fault::Hang);
    let wait = Duration::from_millis(500);
    let (none, took) = timed(a.lock(set("0_10"), SPAN).acquire_within(wait)).await;
    assert!(
        matches!(&none, Err(AcquireError::Store(error)) if error.kind() == ErrorKind::Unavailable),
        "{none:?}"
    );
    assert!(took < wait * 2, "{took:?}");
    let (result, after) = timed(a.try_with_lease(set("0_10"), SPAN, |_| async {})).await;
    assert!(matches!(result, Err(BodyError::Acquire(_))) && after < SPAN, "{result:?} {after:?}");
    faults.always(Fault::None);
    assert_eq!(held(&section(&world)).await, "");
}

#[tokio::test]
async fn sections_live_in_a_sqlite_file_too() {
    let dir = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", dir.path().join("a.db").display());
    let stores = tenure::registry::Registry::standard();
    let open = || stores.open(&url, tenure::registry::Opening::default());
    let (a, b) = (
        Section::new(open().await.unwrap(), "s").unwrap(),
        Section::new(open().await.unwrap(), "s").unwrap(),
    );
    let whole = KeyRange::universe_of_bytes(32);
    let halves: Vec<KeyRange> = whole.split(2).collect();
    let (first, second) = (halves[0].clone(), halves[1].clone());
    let got = a
        .try_with_lease(first, SPAN, move |_| async move {
            b.try_with_lease(whole, SPAN, |two| async move { two.set().clone() }).await
        })
        .await
        .unwrap()
        .unwrap();
    assert_eq!(got, second.into());
    assert_eq!(a.list().await.unwrap(), []);
}

#[tokio::test]
async fn l1_a_dead_range_in_a_file_is_free_in_time_though_processes_come_and_go_all_the_time() {
    const TIME: Duration = Duration::from_secs(2);
    let dir = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", dir.path().join("a.db").display());
    let stores = tenure::registry::Registry::standard();
    let store = stores.open(&url, tenure::registry::Opening::default()).await.unwrap();
    // What a process knows that begins now: nothing.
    let process = || Section::new(store.clone(), "s").unwrap();
    let dead = process();
    let since = |began| dead.clock().held().since(began);
    let before = dead.clock().held();
    dead.try_acquire(set("0_10"), TIME).await.unwrap().lapse().await;
    let began = dead.clock().held();
    let (mut others, mut refused) = (0, Duration::ZERO);
    loop {
        process().try_acquire(set("80_90"), SPAN).await.unwrap().release().await;
        let asked = since(began);
        if process().try_acquire(set("0_10"), SPAN).await.is_ok_and(|guard| guard.is_held()) {
            break;
        }
        (others, refused) = (others + 1, asked);
    }
    assert!(since(before) + TIME / 10 > TIME, "no sooner than its time is over");
    assert!(
        refused < TIME * 3 / 2,
        "refused {refused:?} after it was had, when {others} processes had come and gone"
    );
}

#[tokio::test(start_paused = true)]
async fn s7_a_section_goes_by_the_settings_of_its_leases() {
    let world = World::new();
    let (_, line) = world.line();
    let leases = world.builder(&line).drift(tenure::Drift::per_mille(200).unwrap()).start().unwrap();
    let guard = leases.section("s").start().unwrap().try_acquire(set("0_10"), SPAN).await.unwrap();
    assert!(guard.remaining() <= SPAN * 67 / 100, "{:?}", guard.remaining());
    guard.release().await;
    let own = leases.section("s").drift(tenure::Drift::per_mille(100).unwrap());
    let guard = own.start().unwrap().try_acquire(set("0_10"), SPAN).await.unwrap();
    assert!(guard.remaining() > SPAN * 80 / 100, "what is said of the section itself counts");
}

#[tokio::test(start_paused = true)]
async fn s7_what_is_not_believed_at_first_sight_is_watched_in_sections_too() {
    for first_sight in [true, false] {
        let world = World::new();
        let dead = section(&world).try_acquire(set("0_10"), SPAN).await.unwrap();
        std::mem::forget(dead);
        tokio::time::sleep(SPAN * 2).await;
        let (_, line) = world.line();
        let leases = world.builder(&line).first_sight(first_sight).start().unwrap();
        let section = leases.section("s").start().unwrap();
        let had = section.try_acquire(set("0_10"), SPAN).await;
        assert_eq!(had.is_ok(), first_sight, "{had:?}");
    }
}
