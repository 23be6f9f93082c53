//! Where the file is and how it is used.

use crate::boot::{BootClock, HostClock, RecordAges};
use crate::wake::Watcher;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tenure_core::StoreError;
use tenure_store::parts::check_span;
use tenure_store::{Capabilities, Expiry};

/// Which file, and how it is used. Everything is checked by [`crate::SqliteStore::open`] before any I/O.
#[derive(Clone)]
pub struct SqliteConfig {
    pub(crate) path: PathBuf,
    pub(crate) create: bool,
    pub(crate) busy_timeout: Duration,
    pub(crate) wake_ups: bool,
    pub(crate) within_application: bool,
    pub(crate) network_filesystem: bool,
    pub(crate) look: bool,
    pub(crate) boot_clock: Arc<dyn BootClock>,
}

impl SqliteConfig {
    /// The longest time to wait for other processes' transactions.
    pub const MAX_BUSY_TIMEOUT: Duration = Duration::from_secs(60);

    /// The file at `path`, made if it isn't there.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        SqliteConfig {
            path: path.into(),
            create: true,
            busy_timeout: Duration::from_secs(2),
            wake_ups: true,
            within_application: false,
            network_filesystem: false,
            look: false,
            boot_clock: Arc::new(HostClock::new()),
        }
    }

    /// The path as given.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a missing file is made, and tables in an empty one. Yes, unless said otherwise.
    #[must_use]
    pub fn create(self, create: bool) -> Self {
        SqliteConfig { create, ..self }
    }

    /// How long a call waits for other processes' transactions before it is answered with `Unavailable`: 1 ms to 60 s,
    /// 2 s unless said otherwise. Opening waits for 10 s at least, for another process may be making the file just then.
    #[must_use]
    pub fn busy_timeout(self, busy_timeout: Duration) -> Self {
        SqliteConfig { busy_timeout, ..self }
    }

    /// Whether [`changed`](tenure_store::Store::changed) works. Yes, unless said otherwise; only on Linux.
    #[must_use]
    pub fn wake_ups(self, wake_ups: bool) -> Self {
        SqliteConfig { wake_ups, ..self }
    }

    /// Whether the tables may be made in a database file that an application already uses for its own tables, so that
    /// its transactions can be [guarded](crate::SqliteStore::guard). The file is put in WAL mode for good. No, unless
    /// said otherwise: such a file is refused.
    #[must_use]
    pub fn within_application(self, within_application: bool) -> Self {
        SqliteConfig { within_application, ..self }
    }

    /// Whether a network, cluster or user-space filesystem is accepted. No, unless said otherwise: SQLite's locks and
    /// shared memory don't work between hosts, and two holders would be the outcome.
    #[must_use]
    pub fn network_filesystem(self, network_filesystem: bool) -> Self {
        SqliteConfig { network_filesystem, ..self }
    }

    /// Whether a file is opened all the same if this process can't write to it or to its directory: to be read only, and writes
    /// are refused with `Unsupported`. What is read is never older than when the file was opened: if what was written last is in a
    /// log that can't be read here, opening fails. No, unless said otherwise.
    #[must_use]
    pub fn look(self, look: bool) -> Self {
        SqliteConfig { look, ..self }
    }

    /// What tells the ages of records, in place of the host's own clock.
    #[must_use]
    pub fn boot_clock(self, boot_clock: Arc<dyn BootClock>) -> Self {
        SqliteConfig { boot_clock, ..self }
    }

    /// What a store that is opened with this can do on this host, as long as its file can be written. The file is left alone.
    #[must_use]
    pub fn capabilities(&self) -> Capabilities {
        let tells_ages = self.ages().now().is_some();
        let expiry = if tells_ages { Expiry::AttestedAge } else { Expiry::ObservedSilence };
        let all = Capabilities::native(Duration::from_millis(100)).expiring(expiry);
        if self.wake_ups && Watcher::WORKS { all } else { all.without_watch() }
    }

    pub(crate) fn ages(&self) -> RecordAges {
        RecordAges { clock: Arc::clone(&self.boot_clock), is_one_kernel: !self.network_filesystem }
    }

    pub(crate) fn check(&self) -> Result<(), StoreError> {
        let path = self.path.to_str().unwrap_or_default();
        let bad = |text: String| Err(StoreError::invalid(text));
        if self.path.as_os_str().is_empty() {
            return bad("the path of the SQLite file is empty; name a file, such as leases.db".into());
        }
        if self.path.to_str().is_none_or(|path| path.contains('\0')) {
            return bad(format!(
                "{:?}: the path of an SQLite file must be UTF-8 text without NUL",
                self.path
            ));
        }
        if path == ":memory:" {
            return bad("\":memory:\" is no file that processes can share; use the memory store".into());
        }
        if path.ends_with('/') || self.path.file_name().is_none() {
            return bad(format!("{path:?} names a directory; name a file in it, such as leases.db"));
        }
        for suffix in ["-wal", "-shm", "-journal", "-lock"] {
            if path.ends_with(suffix) {
                return bad(format!(
                    "{path:?} ends in {suffix:?}, which belongs to another database; name it otherwise"
                ));
            }
        }
        check_span("busy timeout", self.busy_timeout, Duration::from_millis(1)..=Self::MAX_BUSY_TIMEOUT)
    }
}

impl fmt::Debug for SqliteConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteConfig")
            .field("path", &self.path)
            .field("create", &self.create)
            .field("busy_timeout", &self.busy_timeout)
            .field("wake_ups", &self.wake_ups)
            .field("within_application", &self.within_application)
            .field("network_filesystem", &self.network_filesystem)
            .field("look", &self.look)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_input_is_refused_with_its_name_and_a_remedy() {
        let refusal = |config: SqliteConfig| config.check().unwrap_err().to_string();
        assert!(refusal(SqliteConfig::new("")).contains("is empty"));
        assert!(refusal(SqliteConfig::new("a\0b")).contains("without NUL"));
        assert!(refusal(SqliteConfig::new(":memory:")).contains("memory store"));
        assert!(refusal(SqliteConfig::new("dir/")).contains("name a file in it"));
        assert!(refusal(SqliteConfig::new("/")).contains("name a file in it"));
        assert!(refusal(SqliteConfig::new("..")).contains("name a file in it"));
        assert!(refusal(SqliteConfig::new("a.db-wal")).contains("\"-wal\""));
        for timeout in [Duration::ZERO, Duration::from_secs(61), Duration::MAX] {
            assert!(refusal(SqliteConfig::new("a.db").busy_timeout(timeout)).contains("1 ms to 60 s"));
        }
        assert_eq!(SqliteConfig::new("a.db").check(), Ok(()));
    }
}
