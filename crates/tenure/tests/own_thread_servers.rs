//! Stores of servers that `tenure::open` has opened have their connections on tenure's own thread. In real time.
//!
//! Plan: a runtime of one thread that is blocked for 4 ttls loses nothing, on each kind of server; and what is asked from that runtime is
//! answered.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::time::Duration;
use tenure::registry::{Opening, Registry};
use tenure::{Key, Leases, Store};

const TTL: Duration = Duration::from_secs(2);

fn blocked(url: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Registry::standard().open(url, Opening::default().create_table(true)).await.unwrap();
        let leases = Leases::builder(store).session_ttl(TTL).start().unwrap();
        let guard = leases.acquire("blocked").await.unwrap();
        std::thread::sleep(TTL * 4);
        assert!(guard.is_held(), "{url}");
        let stored = leases.store().read(&Key::new("blocked").unwrap()).await.unwrap().unwrap();
        assert_eq!(stored.record.fence, guard.fence());
        assert!(guard.release().await);
        leases.stop().await;
    });
}

fn server(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| {
        panic!(
            "{variable} does not say where it listens: `cargo xtask services up` starts it and prints that"
        )
    })
}

#[test]
fn on_redis_a_runtime_that_is_blocked_loses_nothing() {
    blocked(&format!("{}?namespace=blocked-{}", server("TENURE_TEST_REDIS"), std::process::id()));
}

#[test]
fn on_postgres_a_runtime_that_is_blocked_loses_nothing() {
    blocked(&format!("{}?schema=blocked_{}", server("TENURE_TEST_POSTGRES"), std::process::id()));
}
