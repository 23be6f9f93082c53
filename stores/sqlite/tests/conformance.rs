//! The conformance suite on SQLite: each check has a file of its own, and its handles share nothing but that file, as those
//! of several processes do. Once as it comes, once without wake-ups, once without a clock, and behind a prefix.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests fail by panicking, also in what they share"
)]

use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tenure_core::{Clock, Key};
use tenure_sqlite::{BootClock, BootTime, SqliteConfig, SqliteStore};
use tenure_store::{PrefixedStore, Store};
use tenure_testkit::{RealClock, Subject, conformance};

struct File<W> {
    directory: TempDir,
    configure: fn(SqliteConfig) -> SqliteConfig,
    wrap: W,
    prefix: &'static str,
    clock: Arc<RealClock>,
}

fn file<S, W: Fn(SqliteStore) -> S>(
    configure: fn(SqliteConfig) -> SqliteConfig,
    prefix: &'static str,
    wrap: W,
) -> File<W> {
    let directory = tempfile::tempdir().unwrap();
    File { directory, configure, wrap, prefix, clock: Arc::new(RealClock::new()) }
}

impl<S: Store, W: Fn(SqliteStore) -> S + Send + Sync + 'static> Subject for File<W>
where
    W: WrapsInto<Store = S>,
{
    type Store = S;

    async fn store(&self) -> S {
        let config =
            SqliteConfig::new(self.directory.path().join("leases.db")).busy_timeout(Duration::from_secs(60));
        (self.wrap)(SqliteStore::open((self.configure)(config)).unwrap())
    }

    /// Cuts the record short, as another program or a hand would.
    async fn damage(&self, key: &Key) -> bool {
        let connection = rusqlite::Connection::open(self.directory.path().join("leases.db")).unwrap();
        let key = format!("{}{}", self.prefix, key.as_str());
        let sql =
            "UPDATE tenure_record SET record = substr(record, 1, octet_length(record) - 3) WHERE key = ?1";
        connection.execute(sql, [key]).unwrap() == 1
    }

    fn key_bytes(&self) -> usize {
        Key::MAX_BYTES - self.prefix.len()
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }

    async fn pass(&self, span: Duration) {
        tokio::time::sleep(span).await;
    }
}

/// Names what a wrapper makes of a store.
trait WrapsInto {
    type Store;
}

impl<S, W: Fn(SqliteStore) -> S> WrapsInto for W {
    type Store = S;
}

conformance!(sqlite, || async { file(|config| config, "", |store| store) });

conformance!(without_wake_ups, || async { file(|config| config.wake_ups(false), "", |store| store) });

conformance!(without_a_clock, || async {
    file(|config| config.boot_clock(Arc::new(NoClock)), "", |store| store)
});

conformance!(prefixed, || async {
    file(|config| config, "p%_'", |store| PrefixedStore::new(store, "p%_'").unwrap())
});

/// A host that can't tell the time since its start.
struct NoClock;

impl BootClock for NoClock {
    fn now(&self) -> Option<BootTime> {
        None
    }
}
