//! Why a lease alone is not enough, and what the fence is for.
//!
//! Two workers share a counter under a lease. One of them stops for longer than its lease lasts, as a process does that is
//! swapped out or debugged, and then goes on as if nothing had happened. The counter refuses it, because the other worker
//! has shown it a higher fence. Run it with `cargo run --example fenced_counter`.

use std::sync::Mutex;
use std::time::Duration;
use tenure::sqlite::{SqliteConfig, SqliteStore};
use tenure::{AnyStore, Fence, Leases};

/// The resource: it remembers the highest fence that it has seen, and refuses lower ones.
#[derive(Default)]
struct Counter {
    state: Mutex<(Fence, u64)>,
}

impl Counter {
    fn add(&self, fence: Fence, n: u64) -> Result<u64, String> {
        let mut state = self.state.lock().map_err(|error| error.to_string())?;
        if fence < state.0 {
            return Err(format!("fence {fence} is older than {}", state.0));
        }
        *state = (fence, state.1 + n);
        Ok(state.1)
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let store = AnyStore::new(SqliteStore::open(SqliteConfig::new(dir.path().join("leases.db")))?);
    let ttl = Duration::from_millis(500);
    let counter = Counter::default();

    let slow = Leases::new(store.clone())?;
    let quick = Leases::new(store)?;
    let old = slow.lock("counter").ttl(ttl).acquire().await?;
    println!("the slow worker has the lease with fence {}", old.fence());
    counter.add(old.fence(), 1)?;

    // Its whole process stops: nothing of it runs, so nothing renews the lease.
    let old_fence = old.fence();
    old.lapse().await;

    let new = quick.lock("counter").ttl(ttl).acquire().await?;
    println!("the quick worker has the lease with fence {}", new.fence());
    counter.add(new.fence(), 10)?;

    // The slow worker wakes up in the middle of what it was doing.
    match counter.add(old_fence, 100) {
        Ok(total) => return Err(format!("the counter took a write of a deposed holder: {total}").into()),
        Err(why) => println!("the counter refused the slow worker: {why}"),
    }
    let total = counter.add(new.fence(), 0)?;
    println!("the counter shows {total}");
    assert_eq!(total, 11);
    new.release().await;
    quick.stop().await;
    slow.stop().await;
    Ok(())
}
