//! Holding back writes: for a process that is about to be stopped, which must not stop within a transaction.

use std::fmt;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Held shared by each writing transaction of this process, in whatever store, and by whoever stands in line for one.
static TRANSACTIONS: RwLock<()> = RwLock::new(());

/// No store of this process has a transaction under way, nor begins one, until this is dropped.
pub struct WritesPaused(#[expect(dead_code, reason = "held for its drop")] RwLockWriteGuard<'static, ()>);

impl fmt::Debug for WritesPaused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WritesPaused")
    }
}

/// Waits for the present transactions of all SQLite stores of this process to end, and holds back further ones. This blocks,
/// usually for milliseconds, and at most for the busy timeout.
///
/// A process that stops within a transaction, as Ctrl-Z may have it do, locks the file for all others until it goes on, and
/// their leases can't be renewed. One that handles `SIGTSTP` calls this before it stops itself.
#[must_use = "writes go on when this is dropped"]
pub fn pause_writes() -> WritesPaused {
    WritesPaused(TRANSACTIONS.write().unwrap_or_else(PoisonError::into_inner))
}

/// To be held from before the turn to write is asked for until it is given back.
pub(crate) fn transaction() -> RwLockReadGuard<'static, ()> {
    TRANSACTIONS.read().unwrap_or_else(PoisonError::into_inner)
}
