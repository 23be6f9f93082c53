//! How long a lease may be held, and how long it is held at least. In simulated time.
//!
//! Plan: a body that overruns is told, named in the log, aborted after its grace period, and its key is free then; one that obeys is not
//! aborted; a guard that overruns is lost, its key free only a ttl later, and a change that is under way answered; what is given up in time is not touched later. What is given up
//! early, dropped, or done is kept for its least time, also beyond a stop, and a body's result is not kept back by that. Bad limits are refused.
#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(clippy::disallowed_methods, reason = "the paused runtime's clock is the simulated time")]

use crate::common::{Process, TTL, World, settle};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tenure::{AcquireError, BodyError, LeaseError, Loss, Metadata};
use tenure_store::Fault;
use tenure_testkit::listens;
use tokio::time::{Instant, sleep, timeout};
use tracing::field::{Field, Visit};
use tracing::span;

const LONG: Duration = Duration::from_secs(25);

/// Takes down events with their fields.
#[derive(Clone, Default)]
struct EventLog(Arc<Mutex<String>>);

struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        write!(self.0, " {}={value:?}", field.name()).unwrap();
    }
}

impl tracing::Subscriber for EventLog {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target() == "tenure::lease"
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut text = self.0.lock().unwrap();
        text.push_str(event.metadata().name());
        event.record(&mut Fields(&mut text));
        text.push('\n');
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

async fn is_held_for(rival: &Process, key: &str) -> bool {
    matches!(rival.leases.try_acquire(key).await, Err(AcquireError::Held(_)))
}

#[tokio::test(start_paused = true)]
async fn a_body_that_overruns_is_told_and_named_and_ended() {
    let event_log = EventLog::default();
    let _here = listens(event_log.clone());
    let world = World::new();
    let (process, rival) = (world.process(), world.process());
    let began = Instant::now();
    let lock = process.leases.lock("told").at_most_for(LONG).grace(Duration::from_secs(2));
    let told = Arc::new(Mutex::new(None));
    let tells = Arc::clone(&told);
    let ran = lock.clone().with_lease(|held| async move {
        held.cancelled().await;
        *tells.lock().unwrap() = Some(began.elapsed());
        std::future::pending::<()>().await;
    });
    let error = ran.await.unwrap_err();
    assert!(matches!(error, BodyError::Interrupted { why: Loss::Overran, value: None }), "{error}");
    let (told, ended) = (told.lock().unwrap().unwrap(), began.elapsed());
    assert!(told >= LONG && told < LONG + Duration::from_millis(100), "{told:?}");
    assert!(ended >= LONG + Duration::from_secs(2) && ended < LONG + Duration::from_secs(3), "{ended:?}");
    assert!(!is_held_for(&rival, "told").await);
    let said = event_log.0.lock().unwrap().clone();
    assert!(
        said.contains("lease.overran") && said.contains("key=told") && said.contains("most_ms=25000"),
        "{said}"
    );
    // Who obeys, and who is done before.
    let obeyed = lock.clone().with_lease(|held| async move {
        held.cancelled().await;
        7
    });
    let error = obeyed.await.unwrap_err();
    assert!(matches!(error, BodyError::Interrupted { why: Loss::Overran, value: Some(7) }), "{error}");
    assert_eq!(lock.with_lease(|_| async { 8 }).await.unwrap(), 8);
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_overruns_is_lost_and_its_key_free_a_ttl_later() {
    let world = World::new();
    let (process, rival) = (world.process(), world.process());
    for own_ttl in [None, Some(TTL)] {
        let mut lock = process.leases.lock("k").at_most_for(LONG);
        if let Some(ttl) = own_ttl {
            lock = lock.ttl(ttl);
        }
        let began = Instant::now();
        let guard = lock.acquire().await.unwrap();
        sleep(LONG - Duration::from_millis(1)).await;
        assert!(guard.is_held() && !guard.cancelled().is_cancelled());
        assert!(guard.remaining() <= Duration::from_millis(1), "{:?}", guard.remaining());
        assert_eq!(guard.lost().await, Loss::Overran);
        assert!(!guard.is_held() && guard.cancelled().is_cancelled());
        assert!(began.elapsed() < LONG + Duration::from_millis(100));
        // Whoever has it may act still.
        sleep(TTL / 2).await;
        assert!(is_held_for(&rival, "k").await, "{own_ttl:?}");
        let next = rival.leases.acquire_within("k", TTL * 2).await.unwrap();
        assert!(next.fence() > guard.fence());
        assert!(!guard.release().await);
        assert!(next.is_held() && next.release().await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_that_is_under_way_when_the_longest_time_is_over_is_answered() {
    for own_ttl in [None, Some(TTL)] {
        let process = World::new().process();
        let mut lock = process.leases.lock("k").at_most_for(LONG);
        if let Some(ttl) = own_ttl {
            lock = lock.ttl(ttl);
        }
        let began = Instant::now();
        let mut guard = lock.acquire().await.unwrap();
        sleep(LONG - TTL / 10).await;
        process.faults.always(Fault::Refuse);
        let changed = timeout(TTL * 10, guard.update(Metadata::new())).await.unwrap();
        assert_eq!(changed, Err(LeaseError::Lost(Loss::Overran)), "{own_ttl:?}");
        assert!(began.elapsed() < LONG + Duration::from_millis(100));
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_given_up_in_time_is_left_alone() {
    let world = World::new();
    let process = world.process();
    let guard = process.leases.lock("k").at_most_for(LONG).acquire().await.unwrap();
    assert!(guard.release().await);
    let again = process.leases.acquire("k").await.unwrap();
    sleep(LONG * 2).await;
    assert!(again.is_held());
}

#[tokio::test(start_paused = true)]
async fn nothing_waits_for_the_longest_time_of_what_is_given_up() {
    let process = World::new().process();
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    process.leases.begin_session();
    settle().await;
    let before = tasks();
    for _ in 0..10 {
        assert!(process.leases.lock("k").at_most_for(LONG).acquire().await.unwrap().release().await);
        drop(process.leases.lock("l").at_most_for(LONG).acquire().await.unwrap());
        assert!(
            process.leases.lock_all(["m", "n"]).at_most_for(LONG).acquire().await.unwrap().release().await
        );
    }
    settle().await;
    assert_eq!(tasks(), before);
}

#[tokio::test(start_paused = true)]
async fn what_is_given_up_early_is_kept_for_its_least_time() {
    let world = World::new();
    let (process, rival) = (world.process(), world.process());
    let lock = process.leases.lock("k").at_least_for(LONG);
    let began = Instant::now();
    // A body's result is not kept back.
    assert_eq!(lock.clone().with_lease(|_| async { 7 }).await.unwrap(), 7);
    assert_eq!(began.elapsed(), Duration::ZERO);
    sleep(LONG - Duration::from_millis(1)).await;
    assert!(is_held_for(&rival, "k").await && process.leases.held().is_empty());
    sleep(Duration::from_millis(2)).await;
    assert!(!is_held_for(&rival, "k").await);
    // Who waits for a release waits for that long.
    let guard = lock.clone().acquire().await.unwrap();
    let began = Instant::now();
    assert!(guard.release().await);
    assert!(began.elapsed() >= LONG - Duration::from_millis(1) && began.elapsed() < LONG + TTL / 10);
    // One that is dropped.
    drop(lock.clone().acquire().await.unwrap());
    settle().await;
    assert!(is_held_for(&rival, "k").await);
    sleep(LONG + Duration::from_millis(1)).await;
    // One that was held for longer is free at once.
    let guard = lock.clone().acquire().await.unwrap();
    sleep(LONG * 2).await;
    assert!(guard.release().await);
    assert!(!is_held_for(&rival, "k").await);
    // A stop does not free it, nor is it kept for ever.
    drop(lock.acquire().await.unwrap());
    process.leases.stop().await;
    sleep(LONG - TTL).await;
    assert!(is_held_for(&rival, "k").await);
    assert!(rival.leases.acquire_within("k", LONG * 2).await.unwrap().is_held());
}

#[tokio::test(start_paused = true)]
async fn limits_that_make_no_sense_are_refused() {
    let process = World::new().process();
    let lock = || process.leases.lock("k");
    for bad in [lock().at_most_for(Duration::ZERO), lock().at_least_for(LONG).at_most_for(TTL)] {
        let error = bad.clone().acquire().await.unwrap_err().to_string();
        assert!(error.contains("longest time") || error.contains("no time at all"), "{error}");
        let error = bad.with_lease(|_| async {}).await.unwrap_err();
        assert!(matches!(error, BodyError::Acquire(AcquireError::Store(_))), "{error}");
    }
}
