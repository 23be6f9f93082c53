//! For tests: a store that tells no ages, and a process whose wall clock is an hour behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tenure::sqlite::{BootClock, BootTime, SqliteConfig, SqliteStore};
use tenure::store::{Expect, Outcome, Record, Tenure, Write};
use tenure::{AnyStore, Clock, Fence, HolderId, Key, Leases, Metadata, Store, Ttl, Wall};
use tenure_core::{Nonces, Now};

const HOUR_MS: u64 = 3_600_000;

struct NoClock;

impl BootClock for NoClock {
    fn now(&self) -> Option<BootTime> {
        None
    }
}

struct Behind(Arc<dyn Clock>);

impl Clock for Behind {
    fn now(&self) -> Now {
        let now = self.0.now();
        Now { wall: Wall(now.wall.0 - HOUR_MS), ..now }
    }
}

pub(super) struct Ageless {
    pub(super) here: Leases,
    /// Its clock is behind.
    pub(super) there: Leases,
    writes: AtomicU64,
    _directory: tempfile::TempDir,
}

impl Ageless {
    pub(super) async fn new() -> Ageless {
        let directory = tempfile::tempdir().unwrap();
        let config = SqliteConfig::new(directory.path().join("leases.db")).boot_clock(Arc::new(NoClock));
        let store = AnyStore::new(SqliteStore::open(config).unwrap());
        let behind = Behind(tenure::clock::system());
        let there = Leases::builder(store.clone()).clock(Arc::new(behind)).start().unwrap();
        let here = Leases::new(store).unwrap();
        Ageless { here, there, writes: AtomicU64::new(0), _directory: directory }
    }

    /// What somebody who died an hour ago has left; without a ttl, what was vacated then.
    pub(super) async fn left(&self, key: &Key, ttl: Option<Duration>) {
        let nonce = Nonces::new(self.writes.fetch_add(1, Ordering::SeqCst)).draw();
        let wall = self.here.clock().now().wall;
        let stamp = Wall(wall.0 - HOUR_MS);
        let tenure =
            ttl.map(|ttl| Tenure::new(nonce, HolderId::new("dead").unwrap(), Ttl::new(ttl).unwrap(), stamp));
        let record = Record { fence: Fence(5), nonce, stamp, tenure, metadata: Metadata::new() };
        let write = Write { key: key.clone(), expect: Expect::Absent, record };
        assert!(matches!(self.here.store().write(write).await.unwrap(), Outcome::Won { .. }));
    }
}
