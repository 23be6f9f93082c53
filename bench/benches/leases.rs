//! What holding costs: the price of `is_held()`, and a process with 10,000 and 1,000,000 leases that are attached to its session.
#![allow(missing_docs, reason = "a program")]

use std::hint::black_box;
use std::time::Duration;
use tenure::clock::Tick;
use tenure::{AnyStore, Clock, Leases, MemoryStore};
use tenure_bench::{cpu_time, resident_bytes, stopwatch};

const TTL: Duration = Duration::from_secs(6);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        is_held().await?;
        println!(
            "\n{:>10} {:>14} {:>16} {:>18} {:>18} {:>12}",
            "leases", "acquires/s", "bytes/lease", "writes/interval", "records audited", "CPU at rest"
        );
        for count in [10_000, 1_000_000] {
            attached(count).await?;
        }
        Ok(())
    })
}

async fn is_held() -> Result<(), Box<dyn std::error::Error>> {
    println!("{:>24} {:>10}", "call", "ns");
    let clock = tenure::clock::system();
    println!("{:>24} {:>10.1}", "the clock alone", best_nanos(|| clock.held() > Tick(0)));
    for (name, ttl) in [("is_held(), attached", None), ("is_held(), own renewals", Some(TTL))] {
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

/// A store that keeps no records of what is attached, so that memory is the holder's own; it answers as an uncontended store would.
async fn attached(count: u32) -> Result<(), Box<dyn std::error::Error>> {
    let store = MemoryStore::new("bench", tenure::clock::system());
    let counted = counting::CountingStore::new(store, count);
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
    let (writes, audited, cpu, rest) = (counted.writes(), counted.audited(), cpu_time(), stopwatch());
    tokio::time::sleep(TTL * 2).await;
    let intervals = rest().as_secs_f64() / (TTL.as_secs_f64() / 3.0);
    let writes = (counted.writes() - writes) as f64 / intervals;
    let audited = (counted.audited() - audited) as f64 / intervals;
    let cpu = (cpu_time() - cpu).as_secs_f64() / rest().as_secs_f64();
    let held = guards.iter().filter(|guard| guard.is_held()).count();
    println!("{count:>10} {rate:>14.0} {bytes:>16} {writes:>18.2} {audited:>18.2} {:>11.2}%", cpu * 100.0);
    assert_eq!(held, count as usize);
    Ok(())
}

mod counting {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Arc, Mutex};
    use tenure::store::{Expect, Freshness, Listed, Outcome, Record, Stored, Write};
    use tenure::{Fence, Key, MemoryStore, Store, StoreError};
    use tenure_core::Nonce;

    /// What tells the records of attached leases apart: each one's tenure and fence, which audits look for, in memory that was there before.
    struct Records {
        like: Option<Record>,
        each: Vec<(Nonce, Fence)>,
    }

    impl Records {
        fn place(key: &Key) -> Option<usize> {
            key.as_str().strip_prefix('k')?.parse().ok()
        }

        fn claimed(&mut self, key: &Key, record: &Record) {
            if let Some(each) = Records::place(key).and_then(|place| self.each.get_mut(place)) {
                *each = (record.nonce, record.fence);
            }
            self.like.get_or_insert_with(|| record.clone());
        }

        fn shown(&self, key: &Key) -> Option<Listed> {
            let (nonce, fence) = *self.each.get(Records::place(key)?)?;
            let mut record = Record { nonce, fence, ..self.like.clone()? };
            let tenure = record.tenure.as_mut()?;
            (tenure.id, tenure.heartbeat) = (nonce, nonce);
            Some(Listed { key: key.clone(), stored: Ok(Stored::new(record)) })
        }
    }

    #[derive(Clone)]
    pub(crate) struct CountingStore {
        store: MemoryStore,
        writes: Arc<AtomicU64>,
        audited: Arc<AtomicU64>,
        attached: Arc<Mutex<Records>>,
    }

    impl CountingStore {
        pub(crate) fn new(store: MemoryStore, count: u32) -> Self {
            // Written to, so that it counts as resident before anything is measured.
            let attached = Records { like: None, each: vec![(Nonce(1), Fence(1)); count as usize] };
            let attached = Arc::new(Mutex::new(attached));
            CountingStore { store, writes: Arc::default(), audited: Arc::default(), attached }
        }
        pub(crate) fn audited(&self) -> u64 {
            self.audited.load(Ordering::SeqCst)
        }
        fn attached(&self) -> std::sync::MutexGuard<'_, Records> {
            self.attached.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
        }
        pub(crate) fn writes(&self) -> u64 {
            self.writes.load(Ordering::SeqCst)
        }
    }

    impl Store for CountingStore {
        tenure_store::pass_on!(store: capabilities, id, read, write_many, list, remove, image, mend, changed);

        async fn write(&self, write: Write) -> Result<Outcome, StoreError> {
            self.writes.fetch_add(1, Ordering::SeqCst);
            let is_attached = write.record.tenure.as_ref().is_some_and(|tenure| tenure.attachment.is_some());
            if is_attached && write.expect == Expect::Vacant {
                self.attached().claimed(&write.key, &write.record);
                return Ok(Outcome::Won { version: write.record.version(), fence: write.record.fence });
            }
            self.store.write(write).await
        }
        async fn read_many(&self, keys: &[Key], freshness: Freshness) -> Result<Vec<Listed>, StoreError> {
            let shown: Vec<Listed> = keys.iter().filter_map(|key| self.attached().shown(key)).collect();
            if shown.len() == keys.len() {
                self.audited.fetch_add(keys.len() as u64, Ordering::SeqCst);
                return Ok(shown);
            }
            self.store.read_many(keys, freshness).await
        }
    }
}
