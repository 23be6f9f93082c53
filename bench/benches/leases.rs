//! What holding costs: the price of `is_held()`, and a process with 10,000 and 1,000,000 leases that ride on its session.
#![allow(missing_docs, reason = "a program")]

use std::hint::black_box;
use std::time::Duration;
use tenure::{AnyStore, Clock, Leases, MemoryStore, Tick};
use tenure_bench::{cpu_time, resident_bytes, stopwatch};

const TTL: Duration = Duration::from_secs(6);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        is_held().await?;
        println!(
            "\n{:>10} {:>14} {:>16} {:>18} {:>12}",
            "leases", "acquires/s", "bytes/lease", "writes/interval", "CPU at rest"
        );
        for count in [10_000, 1_000_000] {
            riders(count).await?;
        }
        Ok(())
    })
}

async fn is_held() -> Result<(), Box<dyn std::error::Error>> {
    println!("{:>24} {:>10}", "call", "ns");
    let clock = tenure::clock::system();
    println!("{:>24} {:>10.1}", "the clock alone", best_nanos(|| clock.held() > Tick(0)));
    for (name, ttl) in [("is_held(), riding", None), ("is_held(), own beat", Some(TTL))] {
        let leases = Leases::new(tenure::memory())?;
        let lock = leases.lock("k");
        let guard = ttl.map_or(lock.clone(), |ttl| lock.ttl(ttl)).acquire().await?;
        println!("{name:>24} {:>10.1}", best_nanos(|| black_box(&guard).is_held()));
    }
    Ok(())
}

/// The best of many short rounds: what else the machine does falls on some of them only.
fn best_nanos(call: impl Fn() -> bool) -> f64 {
    const ROUNDS: u32 = 1000;
    const CALLS: u32 = 10_000;
    let round = |_| {
        let elapsed = stopwatch();
        let held = (0..CALLS).filter(|_| call()).count();
        let nanos = elapsed().as_secs_f64() * 1e9 / f64::from(CALLS);
        assert_eq!(held, CALLS as usize);
        nanos
    };
    (0..ROUNDS).map(round).fold(f64::INFINITY, f64::min)
}

/// A store that forgets what rides, so that memory is the holder's own; it answers as an uncontended store would.
async fn riders(count: u32) -> Result<(), Box<dyn std::error::Error>> {
    let store = MemoryStore::new("bench", tenure::clock::system());
    let counted = counting::CountingStore::new(store);
    let leases = Leases::builder(AnyStore::new(counted.clone())).session_ttl(TTL).start()?;
    leases.begin_session();
    let before = resident_bytes();
    let elapsed = stopwatch();
    let mut guards = Vec::with_capacity(count as usize);
    for n in 0..count {
        guards.push(leases.acquire(format!("k{n}")).await?);
    }
    let rate = f64::from(count) / elapsed().as_secs_f64();
    let bytes = (resident_bytes() - before) / u64::from(count);
    let (writes, cpu, rest) = (counted.writes(), cpu_time(), stopwatch());
    tokio::time::sleep(TTL * 2).await;
    let intervals = rest().as_secs_f64() / (TTL.as_secs_f64() / 3.0);
    let writes = (counted.writes() - writes) as f64 / intervals;
    let cpu = (cpu_time() - cpu).as_secs_f64() / rest().as_secs_f64();
    let held = guards.iter().filter(|guard| guard.is_held()).count();
    println!("{count:>10} {rate:>14.0} {bytes:>16} {writes:>18.2} {:>11.2}%", cpu * 100.0);
    assert_eq!(held, count as usize);
    Ok(())
}

mod counting {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use tenure::{
        Capabilities, Expect, Freshness, Image, Key, Listed, MemoryStore, Outcome, Record, Store, StoreError,
        Stored, Version, Write,
    };

    #[derive(Clone)]
    pub(crate) struct CountingStore {
        store: MemoryStore,
        writes: Arc<AtomicU64>,
    }

    impl CountingStore {
        pub(crate) fn new(store: MemoryStore) -> Self {
            CountingStore { store, writes: Arc::default() }
        }
        pub(crate) fn writes(&self) -> u64 {
            self.writes.load(Ordering::SeqCst)
        }
    }

    impl Store for CountingStore {
        fn capabilities(&self) -> Capabilities {
            self.store.capabilities()
        }
        fn id(&self) -> String {
            self.store.id()
        }
        async fn read(&self, key: &Key) -> Result<Option<Stored>, StoreError> {
            self.store.read(key).await
        }
        async fn write(&self, write: Write) -> Result<Outcome, StoreError> {
            self.writes.fetch_add(1, Ordering::SeqCst);
            let rides = write.record.tenure.as_ref().is_some_and(|tenure| tenure.ride.is_some());
            if rides && write.expect == Expect::Vacant {
                return Ok(Outcome::Won { version: write.record.version(), fence: write.record.fence });
            }
            self.store.write(write).await
        }
        async fn write_many(&self, writes: Vec<Write>) -> Result<Vec<Outcome>, StoreError> {
            self.store.write_many(writes).await
        }
        async fn read_many(&self, keys: &[Key], freshness: Freshness) -> Result<Vec<Listed>, StoreError> {
            self.store.read_many(keys, freshness).await
        }
        async fn list(
            &self,
            prefix: &str,
            after: Option<&Key>,
            limit: usize,
        ) -> Result<Vec<Listed>, StoreError> {
            self.store.list(prefix, after, limit).await
        }
        async fn remove(&self, key: &Key, version: Version) -> Result<bool, StoreError> {
            self.store.remove(key, version).await
        }
        async fn image(&self, key: &Key) -> Result<Option<Image>, StoreError> {
            self.store.image(key).await
        }
        async fn mend(&self, key: &Key, seen: &Image, instead: Option<Record>) -> Result<bool, StoreError> {
            self.store.mend(key, seen, instead).await
        }
        fn changed(&self, prefix: &str) -> Result<tenure::Changes, StoreError> {
            self.store.changed(prefix)
        }
    }
}
