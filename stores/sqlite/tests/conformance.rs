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
use tenure_testkit::{Fixture, Live, Prefixed, conformance};

struct File {
    directory: TempDir,
    configure: fn(SqliteConfig) -> SqliteConfig,
}

async fn file(configure: fn(SqliteConfig) -> SqliteConfig) -> Live<File> {
    Live::new(File { directory: tempfile::tempdir().unwrap(), configure })
}

impl Fixture for File {
    type Store = SqliteStore;

    async fn open(&self, _clock: Arc<dyn Clock>) -> SqliteStore {
        let config =
            SqliteConfig::new(self.directory.path().join("leases.db")).busy_timeout(Duration::from_secs(60));
        SqliteStore::open((self.configure)(config)).unwrap()
    }

    async fn damage(&self, key: &Key) -> bool {
        let connection = rusqlite::Connection::open(self.directory.path().join("leases.db")).unwrap();
        let sql =
            "UPDATE tenure_record SET record = substr(record, 1, octet_length(record) - 3) WHERE key = ?1";
        connection.execute(sql, [key.as_str()]).unwrap() == 1
    }
}

conformance!(sqlite, || file(|config| config));

conformance!(without_wake_ups, || file(|config| config.wake_ups(false)));

conformance!(without_a_clock, || file(|config| config.boot_clock(Arc::new(NoClock))));

conformance!(prefixed, || async { Prefixed::new(file(|config| config).await, "p%_'") });

/// A host that can't tell the time since its start.
struct NoClock;

impl BootClock for NoClock {
    fn now(&self) -> Option<BootTime> {
        None
    }
}
