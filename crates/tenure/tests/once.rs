//! Once per tick, in simulated time.
//!
//! Plan: of many hosts one runs each tick, and a later tick runs again; what ran is kept, with errors, and what is told beside it; who comes late costs a read; a host that
//! dies in the middle takes the tick with it, or another runs it again, as asked for; one that is stopped in order likewise; a tick whose
//! forerunner still runs is told as busy, or waited for; ticks that are not due, or not whole milliseconds apart, and clocks that
//! differ too much, are told; a beginning that can't be written runs nothing; its records are none of others' locks.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use crate::common::{Process, TTL, World, settle};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tenure::once::{OnceError, OncePer, RunState, Ticked};
use tenure::{AcquireError, BodyError, Fence, Held, Key, Metadata, Store as _, Value, Wall};
use tenure_store::Fault;
use tokio::time::sleep;

const PERIOD: Duration = Duration::from_secs(60);

type Ran = Result<Ticked<Result<u32, String>>, OnceError<Result<u32, String>>>;

async fn ok(_held: Held) -> Result<u32, String> {
    Ok(7)
}

async fn endless(_held: Held) -> Result<u32, String> {
    std::future::pending().await
}

fn tick(process: &Process) -> OncePer {
    process.leases.once_every("job", PERIOD)
}

fn here(ran: Ran) -> Result<u32, String> {
    match ran {
        Ok(Ticked::Here(result)) => result,
        other => panic!("{other:?}"),
    }
}

fn elsewhere(ran: Ran) -> tenure::once::Run {
    match ran {
        Ok(Ticked::Elsewhere(run)) => run,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn of_many_hosts_one_runs_each_tick() {
    let world = World::new();
    let hosts: Vec<Process> = (0..4).map(|_| world.process()).collect();
    let runs = Arc::new(AtomicUsize::new(0));
    for round in 1..=3 {
        let due = hosts[0].leases.clock().now().wall;
        let mut asking = tokio::task::JoinSet::new();
        for host in &hosts {
            let (once, runs) = (tick(host), Arc::clone(&runs));
            asking.spawn(async move {
                once.run(|_| async move {
                    runs.fetch_add(1, Ordering::SeqCst);
                    Ok::<_, String>(7)
                })
                .await
            });
        }
        while let Some(ran) = asking.join_next().await {
            assert!(matches!(ran.unwrap(), Ok(Ticked::Here(Ok(7)) | Ticked::Elsewhere(_) | Ticked::Busy(_))));
        }
        assert_eq!(runs.load(Ordering::SeqCst), round);
        // Who comes late costs a read.
        hosts[1].store.take();
        let run = elsewhere(tick(&hosts[1]).run(ok).await);
        assert!(run.state == RunState::Done && run.tick <= due && run.by.is_some() && run.fence > Fence(0));
        assert_eq!(hosts[1].store.take().round_trips(), 1);
        sleep(PERIOD).await;
    }
    let history = hosts[2].leases.last_runs("job").await.unwrap();
    assert_eq!((history.last().unwrap().state, history.earlier().len()), (RunState::Done, 2));
    assert!(hosts[2].leases.last_runs("other").await.unwrap().last().is_none());
    // One that is long over.
    let old = history.earlier()[1].tick;
    elsewhere(hosts[3].leases.once_per("job", old).run(ok).await);
}

#[tokio::test(start_paused = true)]
async fn how_it_ended_is_kept() {
    let world = World::new();
    let (process, other) = (world.process(), world.process());
    let failed = tick(&process).run(|_| async { Err::<u32, _>("disk full".to_owned()) });
    assert_eq!(here(failed.await), Err("disk full".to_owned()));
    for at_least in [false, true] {
        let once = if at_least { tick(&other).at_least_once() } else { tick(&other) };
        let run = elsewhere(once.run(ok).await);
        assert_eq!((run.state, run.says.as_str()), (RunState::Failed, "disk full"));
    }
    sleep(PERIOD).await;
    let panics = tick(&process).run(|_| async { if true { panic!("a mistake") } else { ok_never() } });
    assert!(matches!(panics.await, Err(OnceError::Body(BodyError::Panicked(_)))));
    assert_eq!(elsewhere(tick(&other).run(ok).await).says, "it panicked");
    sleep(PERIOD).await;
    let long = tick(&process).at_most_for(TTL).grace(TTL / 10).run(endless).await;
    assert!(matches!(long, Err(OnceError::Body(BodyError::Interrupted { .. }))), "{long:?}");
    assert_eq!(elsewhere(tick(&other).run(ok).await).says, "it was interrupted");
}

#[tokio::test(start_paused = true)]
async fn what_is_told_beside_it_stays_and_is_the_next_ones_then() {
    let world = World::new();
    for user in ["root", "backup"] {
        let process = world.process();
        // What ran is not for the caller to say.
        let told = ["user", "once"].map(|name| (name.to_owned(), Value::from(user)));
        let ran = tick(&process).metadata(Metadata::from(told)).run(ok);
        assert_eq!(here(ran.await), Ok(7));
        let record =
            process.leases.store().read(&Key::new("once/job").unwrap()).await.unwrap().unwrap().record;
        assert_eq!(record.metadata.get("user"), Some(&Value::from(user)));
        let history = process.leases.last_runs("job").await.unwrap();
        assert_eq!(history.last().unwrap().state, RunState::Done);
        sleep(PERIOD).await;
    }
}

fn ok_never() -> Result<u32, String> {
    Ok(0)
}

#[tokio::test(start_paused = true)]
async fn a_host_that_dies_takes_the_tick_with_it_unless_it_is_to_run_at_least_once() {
    for at_least in [false, true] {
        let world = World::new();
        let (dies, other) = (world.process(), world.process());
        let asked = |process| if at_least { tick(process).at_least_once() } else { tick(process) };
        let dying = tokio::spawn(asked(&dies).run(endless));
        sleep(Duration::from_millis(10)).await;
        dies.faults.always(Fault::Hang);
        if at_least {
            assert_eq!(here(asked(&other).run(ok).await), Ok(7));
            assert_eq!(elsewhere(asked(&other).run(ok).await).state, RunState::Done);
        } else {
            sleep(TTL * 3).await;
            assert_eq!(elsewhere(asked(&other).run(ok).await).state, RunState::Begun);
        }
        dying.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn who_is_stopped_in_order_leaves_the_tick_to_others_if_it_is_to_run_at_least_once() {
    let world = World::new();
    let (stopped, other) = (world.process(), world.process());
    let running = tokio::spawn(tick(&stopped).at_least_once().run(endless));
    sleep(Duration::from_millis(10)).await;
    // As a caller does that goes away.
    running.abort();
    assert_eq!(here(tick(&other).at_least_once().run(ok).await), Ok(7));
}

#[tokio::test(start_paused = true)]
async fn a_tick_whose_forerunner_still_runs_is_busy_or_waited_for() {
    let world = World::new();
    let (long, other) = (world.process(), world.process());
    let running = tokio::spawn(tick(&long).run(|_| async {
        sleep(PERIOD * 2).await;
        Ok::<_, String>(1)
    }));
    sleep(PERIOD).await;
    let busy = tick(&other).run(ok).await;
    assert!(matches!(&busy, Ok(Ticked::Busy(Some(by))) if by.holder == *long.leases.holder()), "{busy:?}");
    assert_eq!(here(tick(&other).wait(PERIOD * 3).run(ok).await), Ok(7));
    assert!(matches!(running.await.unwrap(), Ok(Ticked::Here(Ok(1)))));
}

#[tokio::test(start_paused = true)]
async fn ticks_that_are_not_due_and_clocks_that_differ_are_told() {
    let world = World::new();
    let process = world.process();
    let now = process.leases.clock().now().wall;
    for (bad, says) in [(Wall(now.0 + 1), "ahead"), (Wall(now.0 - 86_400_000 * 41), "kept for")] {
        let error = process.leases.once_per("job", bad).run(ok).await.unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    assert!(process.leases.once_per("", now).run(ok).await.is_err());
    for nanos in [0, 1, 999_999, 1_000_001, 60_000_500_000] {
        let once = process.leases.once_every("job", Duration::from_nanos(nanos));
        let error = once.clone().run(ok).await.unwrap_err().to_string();
        assert!(error.contains("whole number of milliseconds"), "{nanos}: {error}");
        assert_eq!(once.begin().await.unwrap_err().to_string(), error);
    }
    assert_eq!(process.store.take().round_trips(), 0);
    // Another host ran the tick of an hour from now.
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(here(process.leases.once_per("job", Wall(now.0 + 3_600_000)).run(ok).await), Ok(7));
    let behind = World { clock: crate::common::PausedClock::start(), memory: world.memory.clone() }.process();
    let error = behind.leases.once_per("job", now).run(ok).await.unwrap_err();
    assert!(matches!(&error, OnceError::Ahead(run) if run.tick.0 == now.0 + 3_600_000), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_beginning_that_can_not_be_written_runs_nothing() {
    let world = World::new();
    let process = world.process();
    assert_eq!(here(tick(&process).run(ok).await), Ok(7));
    sleep(PERIOD).await;
    // The read, the claim, and then the beginning.
    process.faults.inject([Fault::None, Fault::None]);
    process.faults.always(Fault::Hang);
    let ran = tick(&process).run(|_| async { panic!("it must not run") as Result<u32, String> });
    assert!(matches!(ran.await, Err(OnceError::Acquire(_))));
    process.faults.always(Fault::None);
    settle().await;
}

#[tokio::test(start_paused = true)]
async fn limits_that_would_end_each_body_at_once_are_refused_and_use_no_tick_up() {
    let world = World::new();
    let process = world.process();
    for (once, says) in [
        (tick(&process).grace(TTL / 2), "every body would be told to end"),
        (tick(&process).ttl(TTL).grace(TTL), "every body would be told to end"),
        (tick(&process).at_most_for(Duration::ZERO), "no time at all"),
        (tick(&process).ttl(Duration::from_millis(1)), "below this store's minimum"),
    ] {
        let error = once.clone().run(ok).await.unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
        let error = once.begin().await.unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    assert_eq!(process.store.take().round_trips(), 0, "before any I/O");
    assert_eq!(process.leases.last_runs("job").await.unwrap().last(), None);
    assert_eq!(here(tick(&process).grace(TTL / 10).run(ok).await), Ok(7));
}

#[tokio::test(start_paused = true)]
async fn a_tick_that_is_no_body_ends_when_its_longest_time_is_over() {
    let world = World::new();
    let process = world.process();
    let begun = tick(&process).at_most_for(TTL).begin().await;
    let Ok(Ticked::Here(guard)) = begun else { panic!("nobody else runs it") };
    assert!(guard.lease().is_held());
    let (loss, after) = crate::common::timed(guard.lease().lost()).await;
    assert_eq!((loss, after), (tenure::Loss::Overran, TTL));
    assert!(!guard.end(true, "").await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn its_records_are_none_of_others_locks() {
    let process = World::new().process();
    let error = process.leases.try_acquire("once/job").await.unwrap_err();
    assert!(
        matches!(&error, AcquireError::Store(error) if error.to_string().contains("once per tick")),
        "{error}"
    );
}

/// An error that can't be told.
#[derive(Debug)]
struct Untold;

impl std::fmt::Display for Untold {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        panic!("on purpose, in the error's text")
    }
}

#[tokio::test(start_paused = true)]
async fn a_tick_that_panics_before_its_future_is_made_or_whose_error_can_not_be_told_has_ended_all_the_same()
{
    let world = World::new();
    let process = world.process();
    let unmade = |_: Held| -> std::future::Ready<Result<u32, String>> { panic!("on purpose") };
    let ran = tick(&process).run(unmade).await;
    assert!(matches!(ran, Err(OnceError::Body(BodyError::Panicked(_)))), "{ran:?}");
    let last = |history: tenure::once::History| format!("{:?}", history.last().unwrap());
    let state = last(process.leases.last_runs("job").await.unwrap());
    assert!(state.contains("it panicked"), "{state}");
    let untold = process.leases.once_every("untold", PERIOD).at_least_once();
    let ran = untold.clone().run(async |_| Err::<u32, _>(Untold)).await;
    assert!(matches!(ran, Ok(Ticked::Here(Err(Untold)))));
    let state = last(process.leases.last_runs("untold").await.unwrap());
    assert!(state.contains("can't be told"), "{state}");
    let again = untold.run(ok).await;
    assert!(matches!(again, Ok(Ticked::Elsewhere(_))), "it is not run again: {again:?}");
}
