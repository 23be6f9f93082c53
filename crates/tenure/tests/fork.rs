//! A forked child has its parent's handles in memory, and none of its parent's leases. A program of its own: a child has only the thread that
//! forked it off, and what other tests' threads had locked stays locked there.
//!
//! Plan: guards, bodies' leases, leaders, units and ranges, in a child that is really forked off: nothing is believed, who waits for an end is
//! told, each call is answered within seconds, and what the child drops is the parent's still, also what watches a store's file.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]
#![allow(clippy::disallowed_methods, reason = "how long a child takes is measured by the machine's clock")]

use fork::{Fork, fork, waitpid_nohang};
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tenure::fleet::{Event, Fleet, NewUnit};
use tenure::range::{KeyRange, Section};
use tenure::{AnyStore, Leases, Request, Store, Wall};
use tokio::runtime::Runtime;

const HOUR: Duration = Duration::from_secs(60 * 60);

/// Tests fork one at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn parents_runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// Runs this in a forked child, on a runtime of its own, and drops all of it there.
fn in_a_child<T>(what: T, child: impl AsyncFnOnce(T)) {
    match fork().unwrap() {
        Fork::Child => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let done = catch_unwind(AssertUnwindSafe(|| runtime.block_on(child(what))));
            if let Err(panic) = &done {
                let text = panic.downcast_ref::<String>().map_or("it failed", String::as_str);
                let _ = writeln!(std::io::stderr(), "in the child: {text}");
            }
            std::process::exit(i32::from(done.is_err()));
        }
        Fork::Parent(child) => {
            // What the child drops is here, too, and is to stay.
            std::mem::forget(what);
            let begun = Instant::now();
            let status = loop {
                if let Some(status) = waitpid_nohang(child).unwrap() {
                    break status;
                }
                if begun.elapsed() > Duration::from_secs(60) {
                    std::process::Command::new("kill").args(["-9", &child.to_string()]).status().unwrap();
                    panic!("the child stands still");
                }
                std::thread::sleep(Duration::from_millis(5));
            };
            assert_eq!(status, 0, "the child failed");
        }
    }
}

/// What a call comes to, which has to be soon.
async fn soon<T>(what: &str, call: impl Future<Output = T>) -> T {
    match tokio::time::timeout(Duration::from_secs(5), call).await {
        Ok(answer) => answer,
        Err(_) => panic!("{what} is not answered"),
    }
}

fn in_a_file(directory: &tempfile::TempDir) -> AnyStore {
    let config = tenure::sqlite::SqliteConfig::new(directory.path().join("leases.db"));
    AnyStore::new(tenure::sqlite::SqliteStore::open(config).unwrap())
}

#[test]
fn s1_a_forked_child_believes_in_no_lease_and_each_call_is_refused() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = tempfile::tempdir().unwrap();
    let runtime = parents_runtime();
    let leases = Leases::builder(in_a_file(&directory)).session_ttl(HOUR).start().unwrap();
    let (attached, alone, kept, spent, candidate) = runtime.block_on(async {
        let attached = leases.acquire("attached").await.unwrap();
        let alone = leases.lock("alone").ttl(HOUR).acquire().await.unwrap();
        let kept = leases.lock("kept").ttl(HOUR).at_least_for(HOUR).acquire().await.unwrap();
        let spent = leases.acquire("spent").await.unwrap();
        let candidate = leases.candidate().key("leader").start().unwrap();
        candidate.elected().await.unwrap();
        (attached, alone, kept, spent, candidate)
    });
    let told = attached.cancelled();
    assert!(attached.is_held() && alone.is_held() && candidate.is_leader() && !told.is_cancelled());
    let theirs = (leases.clone(), candidate.clone(), told);
    let guards = (attached, alone, kept, spent);
    in_a_child((theirs, guards), async |((leases, candidate, told), (mut attached, alone, kept, spent))| {
        assert!(!attached.is_held() && !alone.is_held() && !kept.is_held());
        assert!(alone.remaining().is_zero() && leases.session_remaining().is_zero());
        assert!(leases.held().is_empty());
        assert!(!candidate.is_leader() && candidate.leadership().is_none());
        assert!(told.is_cancelled() && alone.cancelled().is_cancelled());
        soon("cancelled", told).await;
        soon("lost", attached.lost()).await;
        soon("lost", alone.lost()).await;
        assert!(soon("peek", leases.peek("attached")).await.is_err());
        assert!(soon("last_runs", leases.last_runs("daily")).await.is_err());
        assert!(soon("begin", leases.once_per("daily", Wall(1)).begin()).await.is_err());
        assert!(soon("request", leases.request("attached", Request::HandOver)).await.is_err());
        assert!(soon("release_by_force", leases.release_by_force("alone", |_, _| {})).await.is_err());
        assert!(soon("acquire", leases.acquire("new")).await.is_err());
        assert!(soon("elected", candidate.elected()).await.is_err());
        assert!(soon("run_while_leader", candidate.run_while_leader(async |_| ())).await.is_err());
        assert!(!soon("resign", candidate.resign()).await);
        soon("stop", candidate.stop()).await;
        assert!(soon("update", attached.update([("a".to_owned(), "b".into())].into())).await.is_err());
        assert!(soon("into_token", spent.into_token()).await.is_err());
        assert!(!soon("release of what is kept", kept.release()).await);
        assert!(!soon("release", attached.release()).await);
        soon("lapse", alone.lapse()).await;
        soon("stop", leases.stop()).await;
    });
    // All is the parent's still.
    assert_eq!(leases.held().len(), 5);
    assert!(candidate.is_leader());
    runtime.block_on(async {
        assert!(leases.peek("attached").await.unwrap().is_some());
        let _another = leases.acquire("another").await.unwrap();
    });
}

#[test]
fn l4_what_a_forked_child_drops_of_a_store_goes_on_telling_the_parent_of_changes() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = tempfile::tempdir().unwrap();
    let runtime = parents_runtime();
    let store = in_a_file(&directory);
    let mut changes = runtime.block_on(async { store.changed("").unwrap() });
    in_a_child(store, async |store| drop(store));
    let leases = Leases::builder(in_a_file(&directory)).start().unwrap();
    runtime.block_on(async {
        // Whoever waits for it is told.
        assert!(leases.acquire("told").await.unwrap().release().await);
        let told = tokio::time::timeout(Duration::from_secs(60), changes.recv()).await;
        assert!(told.expect("nothing is told").is_some(), "the child has ended what tells");
        leases.stop().await;
    });
}

/// Fails where it is warned of ranges.
struct NoWarnings;

impl tracing::Subscriber for NoWarnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target() == "tenure::range" && *metadata.level() == tracing::Level::WARN
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    /// A panic of a subscriber would be caught.
    fn event(&self, event: &tracing::Event<'_>) {
        eprintln!("{} in the child", event.metadata().name());
        std::process::abort();
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn s7_a_forked_child_has_no_ranges() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = tempfile::tempdir().unwrap();
    let runtime = parents_runtime();
    let section = Section::new(in_a_file(&directory), "s").unwrap();
    let keys = || KeyRange::universe_of_bytes(4);
    let (guard, watched) = runtime.block_on(async {
        let mut halves = keys().split(2);
        let (low, high) = (halves.next().unwrap(), halves.next().unwrap());
        (section.try_acquire(low, HOUR).await.unwrap(), section.try_acquire(high, HOUR).await.unwrap())
    });
    let told = watched.cancelled();
    in_a_child((section.clone(), guard, watched, told), async |(section, guard, watched, told)| {
        let _listening = tracing::subscriber::set_default(NoWarnings);
        assert!(!guard.is_held() && guard.remaining().is_zero());
        assert!(guard.cancelled().is_cancelled() && told.is_cancelled());
        soon("cancelled", told).await;
        soon("lost", watched.lost()).await;
        assert!(soon("acquire", section.try_acquire(keys(), HOUR)).await.is_err());
        assert!(soon("list", section.list()).await.is_err());
        assert!(soon("reclaim", section.reclaim()).await.is_err());
        assert!(!soon("release", guard.release()).await);
        soon("stop", section.stop()).await;
    });
    runtime.block_on(async { assert_eq!(section.list().await.unwrap().len(), 2) });
}

#[test]
fn s1_a_forked_child_has_no_units_and_takes_no_part() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = tempfile::tempdir().unwrap();
    let runtime = parents_runtime();
    let fleet = Fleet::new(in_a_file(&directory), "f").unwrap();
    let (worker, assignment) = runtime.block_on(async {
        fleet.create(NewUnit::named("a")).await.unwrap();
        let worker = fleet.join().ttl(Duration::from_secs(60)).start().unwrap();
        let Some(Event::Assigned(assignment)) = worker.next().await else { panic!("no unit") };
        (worker, assignment)
    });
    let unit = assignment.unit().clone();
    assert!(unit.is_held() && worker.is_valid());
    let theirs = (worker.clone(), fleet.clone(), assignment);
    in_a_child(theirs, async |(worker, fleet, assignment)| {
        let unit = assignment.unit().clone();
        assert!(!unit.is_held() && !worker.is_valid() && worker.held().is_empty());
        assert!(unit.cancelled().is_cancelled());
        soon("lost", unit.lost()).await;
        assert!(soon("checkpoint", unit.checkpoint("x")).await.is_err());
        assert!(soon("joined", worker.joined()).await.is_err());
        assert!(soon("next", worker.next()).await.is_none());
        assert!(soon("list", fleet.list()).await.is_err());
        assert!(soon("get", fleet.get("a")).await.is_err());
        assert!(soon("create", fleet.create(NewUnit::named("b"))).await.is_err());
        assert!(soon("revoke", fleet.revoke("a")).await.is_err());
        assert!(!soon("finish", assignment.finish(None)).await.unwrap(), "it is lost");
        soon("leave", worker.leave()).await;
        soon("stop", worker.stop()).await;
    });
    assert!(unit.is_held() && worker.is_valid());
    runtime.block_on(async { assert_eq!(fleet.list().await.unwrap().units.len(), 1) });
}
