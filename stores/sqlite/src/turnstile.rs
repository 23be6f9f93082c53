//! Lets processes write one after the other, in the order in which they came.
//!
//! SQLite's own waiting is a poll with growing sleeps: whoever comes late may go first, and a process can starve for
//! seconds. A lock on a side file has a queue in the kernel. It is for fairness only: what keeps the records right is
//! SQLite's own lock, so a process that can't get its turn in time goes on without it.

use std::fs::{File, TryLockError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The queue of one handle's transactions among all handles and processes.
#[derive(Debug)]
pub(crate) struct Turnstile {
    desk: Arc<Desk>,
    patience: Duration,
    has_waiter: bool,
}

#[derive(Debug)]
struct Desk {
    side: File,
    state: Mutex<TurnstileState>,
    changed: Condvar,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TurnstileState {
    Idle,
    /// The turn is wanted; the waiter is waiting for it, or about to.
    Wanted,
    /// The waiter has got it.
    Granted,
    /// The waiter is still waiting for a turn that nobody wants any more.
    Abandoned,
    Closed,
}

/// The turn to write, until dropped.
#[derive(Debug)]
pub(crate) struct WriteTurn<'a>(&'a File);

impl Drop for WriteTurn<'_> {
    fn drop(&mut self) {
        // Nothing can be done about a failure; closing the file unlocks it too.
        let _ = self.0.unlock();
    }
}

impl Desk {
    fn state(&self) -> MutexGuard<'_, TurnstileState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the lock on behalf of the turnstile, because such a wait can't be given up.
    fn wait_for_turns(&self) {
        loop {
            let mut state = self.state();
            while !matches!(
                *state,
                TurnstileState::Wanted | TurnstileState::Abandoned | TurnstileState::Closed
            ) {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if *state == TurnstileState::Closed {
                return;
            }
            drop(state);
            let locked = self.side.lock();
            let mut state = self.state();
            *state = match (*state, &locked) {
                (TurnstileState::Closed, _) => return,
                (TurnstileState::Wanted, Ok(())) => TurnstileState::Granted,
                _ => {
                    let _ = self.side.unlock();
                    TurnstileState::Idle
                }
            };
            self.changed.notify_all();
        }
    }
}

impl Turnstile {
    /// A turnstile on the lock of `side`, at which one waits for `patience` at most.
    pub(crate) fn new(side: File, patience: Duration) -> Self {
        let desk = Desk { side, state: Mutex::new(TurnstileState::Idle), changed: Condvar::new() };
        Turnstile { desk: Arc::new(desk), patience, has_waiter: false }
    }

    /// The same on the lock of another file.
    pub(crate) fn moved_to(&self, side: File) -> Self {
        Turnstile::new(side, self.patience)
    }

    /// Waits for the turn. Nothing when it doesn't come in time, or can't.
    pub(crate) fn enter(&mut self) -> Option<WriteTurn<'_>> {
        if *self.desk.state() == TurnstileState::Abandoned {
            return None;
        }
        match self.desk.side.try_lock() {
            Ok(()) => return Some(WriteTurn(&self.desk.side)),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(_)) => return None,
        }
        if !self.has_waiter {
            let desk = Arc::clone(&self.desk);
            let waiter = std::thread::Builder::new().name("tenure-turn".into());
            self.has_waiter = waiter.spawn(move || desk.wait_for_turns()).is_ok();
            if !self.has_waiter {
                return None;
            }
        }
        let mut state = self.desk.state();
        *state = TurnstileState::Wanted;
        self.desk.changed.notify_all();
        let is_wanted = |state: &mut TurnstileState| *state == TurnstileState::Wanted;
        let waited = self.desk.changed.wait_timeout_while(state, self.patience, is_wanted);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let granted = *state == TurnstileState::Granted;
        *state =
            if *state == TurnstileState::Wanted { TurnstileState::Abandoned } else { TurnstileState::Idle };
        drop(state);
        granted.then(|| WriteTurn(&self.desk.side))
    }
}

impl Drop for Turnstile {
    fn drop(&mut self) {
        *self.desk.state() = TurnstileState::Closed;
        self.desk.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    fn side(directory: &tempfile::TempDir) -> File {
        File::options()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(directory.path().join("side"))
            .unwrap()
    }

    #[test]
    fn one_at_a_time_and_everyone_gets_through() {
        let directory = tempfile::tempdir().unwrap();
        let inside = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let mut turnstile = Turnstile::new(side(&directory), Duration::from_secs(60));
                let inside = &inside;
                scope.spawn(move || {
                    for _ in 0..200 {
                        let turn = turnstile.enter().expect("a turn within a minute");
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        std::thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                        drop(turn);
                    }
                });
            }
        });
    }

    #[test]
    fn a_turn_that_never_comes_is_done_without_and_comes_back_later() {
        let directory = tempfile::tempdir().unwrap();
        let blocker = side(&directory);
        blocker.lock().unwrap();
        let mut turnstile = Turnstile::new(side(&directory), Duration::from_millis(5));
        assert!(turnstile.enter().is_none());
        // The second time nobody waits: the waiter is still in the queue.
        assert!(turnstile.enter().is_none());
        blocker.unlock().unwrap();
        while turnstile.enter().is_none() {}
    }
}
