//! Leases on DynamoDB, through the registry of stores.
//!
//! Plan: a lease is kept for longer than its ttl, and its fence is below that of the next tenure, also when its record was deleted
//! by hand in between; a dead holder's key is taken at first sight by a process that never watched it and goes by the service's
//! dates, and later by one that does not.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]
#![allow(clippy::disallowed_methods, reason = "leases on a real service take real time")]

use std::time::{Duration, Instant};
use tenure::registry::{Opening, Registry};
use tenure::{AcquireError, AnyStore, Leases, Store};

const TTL: Duration = Duration::from_secs(2);
/// Of a lease that must not be lost, even if the machine stands still for two seconds.
const KEPT: Duration = Duration::from_secs(5);
const LONG: Duration = Duration::from_secs(60);

fn url(table: &str, options: &str) -> String {
    let endpoint = std::env::var("TENURE_TEST_DYNAMODB").expect(
        "TENURE_TEST_DYNAMODB does not say where DynamoDB Local listens: `cargo xtask services up` starts it and prints that",
    );
    let table = format!("library-{table}-{}", std::process::id());
    format!("dynamodb://{table}?region=eu-west-1&endpoint={endpoint}&namespace=tests{options}")
}

async fn open(table: &str, options: &str) -> AnyStore {
    let opening = Opening::default().create_table(true);
    Registry::standard().open(&url(table, options), opening).await.unwrap()
}

/// Makes the table. DynamoDB Local has only just been started, perhaps on a busy machine.
async fn make(table: &str) {
    open(table, "&timeout_ms=60000").await;
}

async fn leases(table: &str, options: &str, ttl: Duration) -> Leases {
    Leases::builder(open(table, options).await).session_ttl(ttl).start().unwrap()
}

#[tokio::test]
async fn a_lease_is_kept_and_its_fence_outlives_its_record() {
    make("kept").await;
    let leases = leases("kept", "", KEPT).await;
    let guard = leases.acquire("a").await.unwrap();
    let first = guard.fence();
    let start = Instant::now();
    while start.elapsed() < KEPT * 3 / 2 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(guard.is_held(), "renewed in time, after {:?}", start.elapsed());
    }
    guard.release().await;
    let store = leases.store();
    let stored =
        store.read(&tenure::Key::new("a").unwrap()).await.unwrap().expect("a vacant record keeps the fence");
    assert!(store.remove(&tenure::Key::new("a").unwrap(), stored.version).await.unwrap());
    let guard = leases.acquire("a").await.unwrap();
    assert!(guard.fence() > first, "{} after {first}", guard.fence());
    leases.stop().await;
}

/// A process that dies with a lease.
fn die_with(table: &'static str) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        // On tenure's own thread it would go on.
        let here = tokio::runtime::Handle::current();
        let leases = Leases::builder(open(table, "").await).session_ttl(TTL).runtime(here).start().unwrap();
        let guard = leases.acquire("a").await.unwrap();
        std::mem::forget((guard, leases));
    });
    runtime.shutdown_background();
}

/// How long it took until a process that never watched had the key of a dead one.
async fn had_after(table: &'static str, more: &str) -> Duration {
    make(table).await;
    let start = Instant::now();
    std::thread::spawn(move || die_with(table)).join().unwrap();
    loop {
        let fresh = leases(table, more, TTL).await;
        match fresh.try_acquire("a").await {
            Ok(_) => return start.elapsed(),
            // A service that stood still for a moment is asked again.
            Err(AcquireError::Held(_) | AcquireError::Store(_)) => {
                assert!(start.elapsed() < LONG, "held by the dead for too long");
            }
            Err(error) => panic!("{error}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn a_dead_holders_key_is_taken_at_first_sight_by_the_service_s_dates() {
    assert!(had_after("dead", "").await >= TTL * 9 / 10, "not before its time");
}

/// One of the processes leaves what the host's clocks show, and a later one of the same host finds that.
#[tokio::test]
async fn a_dead_holders_key_is_taken_by_the_host_s_own_time_where_no_ages_are_told() {
    let after = had_after("dead-ageless", "&attested_ages=no").await;
    assert!(after >= TTL * 9 / 5, "silent for a ttl, and for another one after that was seen: {after:?}");
}
