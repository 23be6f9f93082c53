//! A store that fails is told of at once, then now and then, and when it answers again.
//!
//! Whoever waits for a key waits through trouble that may pass, so nobody else would say a word of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tenure_core::{Clock, ErrorKind, StoreError, Tick};
use tokio::sync::watch;

/// Calls to the store about a key fail, and none has been answered since the first of them.
///
/// A refusal is an answer: losing a key to another is no trouble.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Trouble {
    /// What they were about: a key, or what the keys of a listing begin with.
    pub key: String,
    /// The last error.
    pub error: StoreError,
    /// How many calls in a row have failed.
    pub failures: u64,
    /// For how long, counted from when the first of them was sent.
    pub lasts: Duration,
}

/// Between two words about the same trouble.
const NOW_AND_THEN: Duration = Duration::from_secs(10);
/// What nobody has asked about for so long is no trouble to anybody.
const FORGOTTEN: Duration = Duration::from_secs(60);
/// The most keys that are remembered.
const MOST: usize = 1024;

/// What fails now, and who wants to know.
pub(crate) struct Troubles {
    clock: Arc<dyn Clock>,
    state: Mutex<State>,
    /// Marked whenever a key begins to fail, or ceases to.
    changes: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    failing: BTreeMap<String, Failing>,
    /// When it was last said, and since when it has been so.
    told: Option<(Tick, Tick)>,
}

struct Failing {
    since: Tick,
    last: Tick,
    failures: u64,
    error: StoreError,
}

impl Troubles {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Arc<Troubles> {
        Arc::new(Troubles { clock, state: Mutex::default(), changes: watch::Sender::new(()) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No code that can panic runs under the lock, so what it guards is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call about `key`, sent then, has failed.
    pub(crate) fn failed(&self, key: &str, sent: Tick, error: &StoreError) {
        metrics::counter!("tenure_store_failures_total", "kind" => kind(error)).increment(1);
        let now = self.clock.held();
        let mut state = self.state();
        state.failing.retain(|_, failing| now.since(failing.last) < FORGOTTEN);
        if !state.failing.contains_key(key) && state.failing.len() >= MOST {
            state.failing.pop_first();
        }
        let fresh = || Failing { since: sent, last: now, failures: 0, error: error.clone() };
        let failing = state.failing.entry(key.to_owned()).or_insert_with(fresh);
        failing.failures += 1;
        failing.last = now;
        failing.error = error.clone();
        let (failures, since) = (failing.failures, failing.since);
        let is_due = state.told.is_none_or(|(told, _)| now.since(told) >= NOW_AND_THEN);
        if is_due {
            let began = state.told.map_or(since, |(_, began)| began);
            state.told = Some((now, began));
        }
        drop(state);
        if failures == 1 {
            self.changes.send_replace(());
        }
        if is_due {
            let for_ms = millis(now.since(since));
            tracing::warn!(
                name: "store.failing", target: "tenure::store", key, reason = %error, failures, for_ms, "the store fails; trying on"
            );
        }
    }

    /// A call about `key` was answered.
    pub(crate) fn answered(&self, key: &str) {
        let mut state = self.state();
        if state.failing.remove(key).is_none() {
            return;
        }
        let now = self.clock.held();
        let is_over = !state.failing.values().any(|failing| now.since(failing.last) < FORGOTTEN);
        let told = if is_over { state.told.take() } else { None };
        drop(state);
        self.changes.send_replace(());
        if let Some((_, began)) = told {
            let for_ms = millis(now.since(began));
            tracing::info!(name: "store.answers", target: "tenure::store", key, for_ms, "the store answers again");
        }
    }

    /// The trouble that lasts longest, of all keys or of these.
    pub(crate) fn worst(&self, keys: Option<[&str; 2]>) -> Option<Trouble> {
        let now = self.clock.held();
        let state = self.state();
        let failing = state.failing.iter().filter(|(key, failing)| {
            now.since(failing.last) < FORGOTTEN && keys.is_none_or(|keys| keys.contains(&key.as_str()))
        });
        failing.min_by_key(|(_, failing)| failing.since).map(|(key, failing)| Trouble {
            key: key.clone(),
            error: failing.error.clone(),
            failures: failing.failures,
            lasts: now.since(failing.since),
        })
    }

    /// Waits until trouble with one of these keys has lasted for `patience`, within the wait itself, and returns the last error.
    pub(crate) async fn outlast(&self, keys: [&str; 2], patience: Duration) -> StoreError {
        let began = self.clock.held();
        let mut changes = self.changes.subscribe();
        loop {
            changes.borrow_and_update();
            let worst = self.worst(Some(keys));
            let lasts = worst.as_ref().map(|trouble| trouble.lasts.min(self.clock.held().since(began)));
            let left = lasts.map(|lasts| patience.saturating_sub(lasts));
            match worst {
                Some(trouble) if left == Some(Duration::ZERO) => return trouble.error,
                _ => {}
            }
            tokio::select! {
                // It is never closed: its sender is ours.
                _ = changes.changed() => {}
                () = tokio::time::sleep(left.unwrap_or(FORGOTTEN)) => {}
            }
        }
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

fn kind(error: &StoreError) -> &'static str {
    match error.kind() {
        ErrorKind::Unavailable => "unavailable",
        ErrorKind::Unknown => "unknown",
        ErrorKind::Foreign => "foreign",
        ErrorKind::Unsupported => "unsupported",
        _ => "invalid",
    }
}
