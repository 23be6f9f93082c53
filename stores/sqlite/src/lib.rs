//! [tenure](https://docs.rs/tenure) on SQLite: one file, shared by any number of processes on one host. No server.
//!
//! ```no_run
//! use tenure_sqlite::{SqliteConfig, SqliteStore};
//!
//! # fn main() -> Result<(), tenure_store::StoreError> {
//! let store = SqliteStore::open(SqliteConfig::new("/var/lib/app/leases.db"))?;
//! # Ok(())
//! # }
//! ```
//!
//! # What it can do
//!
//! | capability | here |
//! |---|---|
//! | expiry | a record's age is attested by CLOCK_BOOTTIME (Linux), in containers with a boot id of their own, too; elsewhere silence is observed |
//! | fencing | yes; a fence never goes back, also not after `kill -9` or a power cut |
//! | list | yes, in byte order of keys |
//! | watch | yes (Linux, inotify); elsewhere, or if switched off, refused with `Unsupported` |
//! | batch | 1,000 writes in one transaction |
//!
//! # What it survives
//!
//! - A process killed at any instant: the file is in WAL mode, and what was answered was committed. Others go on at once.
//! - A power cut: `synchronous = FULL`, so every commit is on the disk before it is answered.
//! - A full disk: calls are answered with `Unavailable`, nothing is half-written, and all goes on when there is space.
//! - Any number of processes: they write one after the other, in the order of a lock on the side file `<file>-lock`, and
//!   what queues up in one process goes into one transaction.
//! - A side file that was removed: whoever writes, opens or listens next makes it again, and all find that one. One that is a link, or no file
//!   of its own, is refused when opening: wake-ups are written into it, and a link may lead to any file of this user.
//! - Rows damaged or written by others: `Foreign`, and never written over. Listings show them with the reason.
//! - A file or a place that can't be written: it can be looked at ([`SqliteConfig::look`]), never with less than was written.
//!
//! # What it does not
//!
//! - A process that is *stopped* (SIGSTOP, a frozen cgroup) in the middle of a transaction, which takes about a
//!   millisecond, keeps SQLite's lock: the others are answered with `Unavailable` until it goes on or dies. No lease is
//!   held twice.
//! - Network filesystems: refused when opening, because SQLite's locks don't work between hosts.
//! - The file must not be moved or copied to another machine while leases are live: ages are told by the time since its
//!   own start there. If the file, its `-wal` or its `-shm` is removed or replaced, nothing is read or won through what was
//!   open: calls are answered with `Unavailable` until the process restarts. What was granted before is believed up to its
//!   deadline, as when a record is deleted by hand. Whoever only looks is told so, too. That another file's content was copied over it, in its place, can't be noticed:
//!   its log is still the old one's. `sqlite3 leases.db '.restore copy.db'` goes by the log, and all have the copy from then on.
//! - The file's texts must be UTF-8, as they are unless an application chose otherwise when it made the file (`PRAGMA encoding`): a file in UTF-16 is
//!   refused.
//! - The file must not be mounted by itself, as a container's volume of one file: its log and its locks are files beside it, which each container would
//!   have for itself. On Linux such a file is refused; mount its directory.
//! - A hostile process with write access to the file can do anything to it. One that can only read it, or a file beside it, can lock it, and so
//!   hold up all others. So a new file is made with the mode 0600 (Linux), and the files beside it as it is.
//!
//! # A lease as a condition of your own transaction
//!
//! In a database file that also has the application's tables ([`SqliteConfig::within_application`]), or one that is
//! attached, a write can be made conditional on the lease, so that it can't land after the loss:
//!
//! ```no_run
//! # fn example(store: &tenure_sqlite::SqliteStore, app: &mut rusqlite::Connection, key: &tenure_core::Key,
//! #     fence: tenure_core::Fence) -> rusqlite::Result<()> {
//! use tenure_sqlite::Fenced;
//!
//! let guard = store.guard(key, fence); // of a `tenure::Guard`: `lease.key()`, `lease.fence()`
//! let done = guard.run(app, |work| work.execute("UPDATE account SET balance = 0 WHERE id = 7", []))?;
//! assert_eq!(done, Fenced::Committed(1), "the lease is lost, and nothing was changed");
//! # Ok(())
//! # }
//! ```
//!
//! In a single statement, [`SqlGuard::sql`] and [`SqlGuard::predicate`] go after `WHERE`: in the file that has the leases, it changes nothing once the
//! lease is lost. Where the application's tables are in another file, of which one is attached, use [`SqlGuard::run`] only: a statement begins to read
//! one file before it waits for the other, and the lease can be lost meanwhile.
//!
//! The example `guarded_write` of the crate `tenure` shows a write being refused after the loss.

mod boot;
mod config;
mod error;
mod files;
mod guard;
mod inspect;
#[cfg(unix)]
mod news;
mod pause;
mod place;
mod reader;
mod row;
mod schema;
mod side;
mod store;
mod thread;
mod turnstile;
mod wake;
mod writer;

pub use boot::{BootClock, BootTime, HostClock};
pub use config::SqliteConfig;
pub use error::is_full;
pub use guard::{SqlGuard, SqlGuardParams};
pub use pause::{WritesPaused, pause_writes};
pub use store::SqliteStore;
pub use tenure_store::Fenced;

pub use rusqlite;

/// The example of the crate's page in registries is compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
