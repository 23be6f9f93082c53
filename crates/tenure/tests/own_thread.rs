//! Leases are renewed on a thread of tenure's own. In real time, with a short ttl.
//!
//! Plan: a runtime of one thread that is blocked for 4 ttls loses nothing, nor do files that hang while other stores are opened; what is dropped as `main` ends, leases or ranges, is given back before it has ended;
//! a body that blocks its runtime keeps its key no longer than was said; a candidate whose runtime stands still leads, or waits, no longer than
//! somebody has it, but for a body that has not ended; whoever looks at what is told keeps nobody from telling; without a
//! runtime, leases start; when the runtime that leases were to be renewed on ends, whoever asks is told, and nobody waits.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::time::Duration;
use tenure::fleet::{Fleet, NewUnit};
use tenure::range::{KeyRange, Section};
use tenure::{AcquireError, AnyStore, Candidate, Key, Leases, LeasesBuilder, Loss, Store};
use tokio::runtime::Runtime;

const TTL: Duration = Duration::from_secs(1);

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn builder(store: &AnyStore) -> LeasesBuilder {
    Leases::builder(store.clone()).session_ttl(TTL)
}

async fn is_free(store: &AnyStore, key: &str) -> bool {
    let stored = store.read(&Key::new(key).unwrap()).await.unwrap();
    stored.is_none_or(|stored| stored.record.tenure.is_none())
}

#[test]
fn a_runtime_that_is_blocked_for_four_ttls_loses_nothing() {
    let store = tenure::memory();
    runtime().block_on(async {
        let leases = builder(&store).start().unwrap();
        let attached = leases.acquire("attached").await.unwrap();
        let alone = leases.lock("alone").ttl(TTL).acquire().await.unwrap();
        let others = tokio::spawn(async { std::thread::sleep(TTL * 4) });
        others.await.unwrap();
        assert!(attached.is_held() && alone.is_held());
        let rival = builder(&store).start().unwrap();
        assert!(matches!(rival.try_acquire("attached").await, Err(AcquireError::Held(_))));
        assert!(attached.release().await && alone.release().await);
    });
}

/// As on a network mount that hangs.
#[cfg(all(unix, feature = "etcd", feature = "postgres", feature = "redis"))]
#[test]
fn l4_files_that_hang_while_other_stores_are_opened_cost_no_lease() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("ca.pem").display().to_string();
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    runtime().block_on(async {
        let leases = builder(&tenure::memory()).start().unwrap();
        let guard = leases.acquire("k").await.unwrap();
        for url in [
            format!("rediss://127.0.0.1:1/?timeout-ms=500&ca={pipe}"),
            format!("etcds://127.0.0.1:1/p?timeout-ms=500&ca={pipe}"),
            format!("postgres://u@127.0.0.1:1/d?timeout-ms=500&sslrootcert={pipe}"),
        ] {
            let opening = tokio::spawn(async move { tenure::open(&url).await.unwrap_err().to_string() });
            tokio::time::sleep(TTL * 2).await;
            assert!(guard.is_held());
            let text = opening.await.unwrap();
            assert!(text.contains("takes longer than 500ms"), "{text}");
        }
    });
}

#[test]
fn what_is_dropped_as_main_ends_is_given_back() {
    let store = tenure::memory();
    // As `#[tokio::main]` does.
    let session = runtime().block_on(async {
        let leases = builder(&store).linger(Duration::from_secs(20)).start().unwrap();
        let _guard = leases.acquire("k").await.unwrap();
        leases.session_key().as_str().to_owned()
    });
    let is_free = |key: &str| runtime().block_on(is_free(&store, key));
    assert!(is_free("k") && is_free(&session));
}

#[test]
fn ranges_that_are_dropped_as_main_ends_are_free() {
    let (store, hour) = (tenure::memory(), Duration::from_secs(3600));
    let all = || KeyRange::universe_of_bytes(4);
    for with_body in [false, true] {
        runtime().block_on(async {
            let section =
                Section::builder(store.clone(), "s").linger(Duration::from_secs(20)).start().unwrap();
            let other = section.try_acquire(KeyRange::from(0..10u64), hour).await.unwrap();
            if with_body {
                drop(other);
                let body = section.try_with_lease(all(), hour, |_| std::future::pending::<()>());
                assert!(tokio::time::timeout(Duration::from_millis(100), body).await.is_err());
                return;
            }
            // The guard is the last of it.
            drop(section);
            assert!(other.is_held());
        });
        let rival = Section::new(store.clone(), "s").unwrap();
        let held = runtime().block_on(rival.list()).unwrap();
        assert!(held.is_empty(), "{with_body}: {held:?}");
    }
}

#[test]
fn s6_a_body_that_blocks_its_runtime_has_its_key_no_longer_than_was_said() {
    for many in [false, true] {
        let store = tenure::memory();
        let (begins, began) = std::sync::mpsc::channel();
        let (_ends, ended) = std::sync::mpsc::channel::<()>();
        let leases = builder(&store).start().unwrap();
        std::thread::spawn(move || {
            let body = move |_: tenure::Held| async move {
                begins.send(()).unwrap();
                // Until the test is over.
                let _ = ended.recv();
            };
            let most = TTL / 5;
            runtime().block_on(async {
                if many {
                    drop(leases.lock_all(["k", "other"]).at_most_for(most).with_lease(body).await);
                } else {
                    drop(leases.lock("k").at_most_for(most).with_lease(body).await);
                }
            });
        });
        began.recv().unwrap();
        let rival = builder(&store).start().unwrap();
        let got = runtime().block_on(rival.acquire_within("k", TTL * 10));
        assert!(got.is_ok(), "{many}: {got:?}");
    }
}

#[test]
fn l3_a_candidate_that_nobody_has_any_more_frees_its_key_though_its_runtime_stands_still() {
    let store = tenure::memory();
    let (stands_still, theirs) = (runtime(), runtime());
    let rival = builder(&store).start().unwrap();
    let start = |key: &str| Candidate::builder(store.clone()).key(key).ttl(TTL).start().unwrap();
    let waits = theirs.block_on(rival.acquire("waits")).unwrap();
    let candidates = stands_still.block_on(async {
        let candidates = ["leads", "works", "waits"].map(start);
        candidates[0].elected().await.unwrap();
        let body = candidates[1].run_while_leader(|_| std::future::pending::<()>());
        assert!(tokio::time::timeout(TTL / 10, body).await.is_err());
        candidates
    });
    drop(candidates);
    theirs.block_on(async {
        assert!(rival.acquire_within("leads", TTL * 10).await.is_ok());
        waits.release().await;
        assert!(rival.acquire_within("waits", TTL * 10).await.is_ok());
        // Its body has not ended (S6).
        let works = rival.acquire_within("works", TTL * 3).await;
        assert!(matches!(works, Err(AcquireError::Held(_))), "{works:?}");
    });
    drop(stands_still);
    assert!(theirs.block_on(rival.acquire_within("works", TTL * 10)).is_ok());
}

#[test]
fn l4_whoever_looks_at_what_is_told_keeps_nobody_from_renewing() {
    let (done, is_done) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        runtime().block_on(async {
            let store = tenure::memory();
            let leases = builder(&store).start().unwrap();
            let guard = leases.acquire("k").await.unwrap();
            let fleet = Fleet::new(store, "f").unwrap();
            let worker = fleet.join().ttl(TTL).start().unwrap();
            worker.joined().await.unwrap();
            // What was looked at lives on.
            let seen = (worker.summaries().get(), worker.trouble(), worker.plannings().get());
            fleet.create_all([NewUnit::named("u")]).await.unwrap();
            tokio::time::sleep(TTL * 2).await;
            assert!(guard.is_held() && worker.is_valid());
            worker.leave().await;
            drop(seen);
            let candidate = leases.candidate().start().unwrap();
            let seen = candidate.changes().get();
            candidate.elected().await.unwrap();
            candidate.stop().await;
            drop(seen);
        });
        done.send(()).unwrap();
    });
    assert_eq!(is_done.recv_timeout(TTL * 60), Ok(()));
}

#[test]
fn leases_start_where_there_is_no_runtime() {
    let leases = builder(&tenure::memory()).start().unwrap();
    let guard = runtime().block_on(leases.acquire("k")).unwrap();
    // A runtime that has ended took nothing with it.
    assert!(guard.is_held());
    assert!(runtime().block_on(guard.release()));
}

#[test]
fn a_runtime_that_ends_ends_what_was_to_be_renewed_on_it() {
    let store = tenure::memory();
    let theirs = runtime();
    let leases = builder(&store).runtime(theirs.handle().clone()).start().unwrap();
    let guard = theirs.block_on(leases.acquire("k")).unwrap();
    drop(theirs);
    runtime().block_on(async {
        assert!(!guard.is_held());
        assert_eq!(guard.lost().await, Loss::Stopped);
        assert!(matches!(leases.acquire("other").await, Err(AcquireError::Stopped)));
        leases.stop().await;
    });
}
