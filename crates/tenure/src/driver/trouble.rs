//! A store that fails is told of at once, then now and then, and when it answers again.
//!
//! Whoever waits for a key waits through trouble that may pass, so nobody else would say a word of it.

use super::call::CallKind;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tenure_core::time::millis;
use tenure_core::{Clock, HolderId, StoreError, Tick};
use tenure_store::tell;
use tokio::sync::watch;

/// Calls to the store about a key fail, and none has been answered since the first of them.
///
/// A refusal is an answer: losing a key to another is no trouble.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
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

/// For people: what fails, since when, and why.
impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Trouble { key, error, failures, lasts } = self;
        write!(f, "calls about {key} have failed for {lasts:.1?}, {failures} in a row: {error}")
    }
}

/// Between two words about calls of one kind.
pub(crate) const NOW_AND_THEN: Duration = Duration::from_secs(10);
/// In that time, of so many leases the first renewal that fails is told: the next one may be too late, and a store that fails fails for all.
const RENEWALS: u32 = 10;
/// What nobody has asked about for so long is no trouble to anybody.
const FORGOTTEN: Duration = Duration::from_secs(60);
/// Between two looks at whether patience is over.
const MOMENT: Duration = Duration::from_millis(100);
/// The most keys that are remembered.
const MOST: usize = 1024;

/// What fails now, and who wants to know.
pub(crate) struct Troubles {
    clock: Arc<dyn Clock>,
    /// Whose calls they are.
    holder: HolderId,
    state: Mutex<TroubleState>,
    /// Marked whenever a key begins to fail, or ceases to.
    changes: watch::Sender<()>,
}

#[derive(Default)]
struct TroubleState {
    /// By key and kind: on a full disk, reads in between writes go well.
    failing: BTreeMap<(String, CallKind), FailingCalls>,
    /// What was said of each kind of calls.
    told: BTreeMap<CallKind, LastReport>,
    /// Since when there has been something to say.
    began: Option<Tick>,
    /// The keys that somebody waits for, and how many do.
    awaited: BTreeMap<String, usize>,
}

/// What was said of one kind of calls.
struct LastReport {
    /// When the present 10 s began.
    at: Tick,
    /// How often in that time.
    times: u32,
}

impl TroubleState {
    /// Whether a call that has failed so often in a row is to be told.
    fn is_due(&mut self, call: CallKind, failures: u64, now: Tick) -> bool {
        let told = self.told.entry(call).or_insert(LastReport { at: now, times: 0 });
        if now.since(told.at) >= NOW_AND_THEN {
            *told = LastReport { at: now, times: 0 };
        }
        let is_first_renewal = call == CallKind::Renew && failures == 1;
        let is_due = told.times < if is_first_renewal { RENEWALS } else { 1 };
        told.times += u32::from(is_due);
        is_due
    }

    /// What has gone on for longest since then, by the last call that failed.
    fn worst(&self, now: Tick, keys: Option<[&str; 2]>, began: Tick) -> Option<(&str, &FailingCalls)> {
        let all = self.failing.iter().map(|((key, _), failing)| (key.as_str(), failing));
        all.filter(|(key, failing)| {
            self.is_remembered(key, failing, now) && keys.is_none_or(|keys| keys.contains(key))
        })
        .max_by_key(|(_, failing)| failing.lasts_since(began))
    }

    fn is_remembered(&self, key: &str, failing: &FailingCalls, now: Tick) -> bool {
        failing.is_remembered(now, self.awaited.contains_key(key))
    }

    /// Makes room for one more key.
    fn forget(&mut self, now: Tick) {
        let TroubleState { failing, awaited, .. } = self;
        failing.retain(|(key, _), failing| failing.is_remembered(now, awaited.contains_key(key)));
        if failing.len() >= MOST {
            // What has failed for long has somebody's patience.
            let of_nobody = failing.iter().filter(|((key, _), _)| !awaited.contains_key(key));
            let youngest = of_nobody.max_by_key(|(_, failing)| failing.since).map(|(about, _)| about.clone());
            youngest.and_then(|about| failing.remove(&about));
        }
    }
}

struct FailingCalls {
    since: Tick,
    last: Tick,
    failures: u64,
    error: StoreError,
    /// A call of another kind about the key was answered after the last that failed.
    is_answered: bool,
}

impl FailingCalls {
    /// Where much waits for its turn, calls about one key are far apart.
    fn is_remembered(&self, now: Tick, is_awaited: bool) -> bool {
        now.since(self.last) < FORGOTTEN || is_awaited && !self.is_answered
    }

    /// What fails is tried again sooner than that, so the next failure is another trouble.
    fn is_over(&self, now: Tick) -> bool {
        self.is_answered && now.since(self.last) >= FORGOTTEN
    }

    /// For how long, since then, they have failed, by the last that did.
    fn lasts_since(&self, began: Tick) -> Duration {
        self.last.since(self.since.max(began))
    }
}

impl Troubles {
    pub(crate) fn new(clock: Arc<dyn Clock>, holder: HolderId) -> Arc<Troubles> {
        Arc::new(Troubles { clock, holder, state: Mutex::default(), changes: watch::Sender::new(()) })
    }

    pub(super) fn holder(&self) -> &HolderId {
        &self.holder
    }

    fn state(&self) -> MutexGuard<'_, TroubleState> {
        // No code that can panic runs under the lock, so what it guards is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call about `key`, sent then, has failed.
    pub(super) fn failed(&self, key: &str, call: CallKind, sent: Tick, error: &StoreError) {
        let now = self.clock.held();
        let mut state = self.state();
        let about = (key.to_owned(), call);
        if state.failing.get(&about).is_some_and(|failing| failing.is_over(now)) {
            state.failing.remove(&about);
        }
        if !state.failing.contains_key(&about) {
            state.forget(now);
        }
        let fresh =
            || FailingCalls { since: sent, last: now, failures: 0, error: error.clone(), is_answered: false };
        let failing = state.failing.entry(about).or_insert_with(fresh);
        failing.failures += 1;
        failing.last = now;
        failing.is_answered = false;
        failing.error = error.clone();
        let (failures, since) = (failing.failures, failing.since);
        state.began.get_or_insert(since);
        let is_due = state.is_due(call, failures, now);
        drop(state);
        if failures == 1 {
            self.changes.send_replace(());
        }
        if is_due {
            let (holder, operation, for_ms) = (&self.holder, call.name(), millis(now.since(since)));
            tell!(
                warn, name: "store.failing", target: "tenure::store", %key, %holder, operation, reason = %error, failures, for_ms,
                "the store fails; trying on"
            );
        }
    }

    /// A call about `key` was answered. What can be written can be read, too.
    pub(super) fn answered(&self, key: &str, call: CallKind) {
        let mut state = self.state();
        if state.failing.is_empty() {
            return;
        }
        let mut about = (key.to_owned(), call);
        let mut was_failing = false;
        for answered in call.answers() {
            about.1 = *answered;
            was_failing |= state.failing.remove(&about).is_some();
        }
        // Whoever waits for the key may look at it for hours before there is anything to write.
        for unanswered in [CallKind::Write, CallKind::Renew] {
            about.1 = unanswered;
            if let Some(failing) = state.failing.get_mut(&about) {
                failing.is_answered = true;
            }
        }
        if !was_failing {
            return;
        }
        let now = self.clock.held();
        let is_over = !state.failing.iter().any(|((key, _), failing)| state.is_remembered(key, failing, now));
        let began = if is_over { state.began.take() } else { None };
        if is_over {
            state.told.clear();
        }
        drop(state);
        self.changes.send_replace(());
        if let Some(began) = began {
            let (holder, for_ms) = (&self.holder, millis(now.since(began)));
            tell!(info, name: "store.answers", target: "tenure::store", %key, %holder, for_ms, "the store answers again");
        }
    }

    /// The trouble that lasts longest, of all keys or of these.
    pub(crate) fn worst(&self, keys: Option<[&str; 2]>) -> Option<Trouble> {
        let now = self.clock.held();
        let state = self.state();
        state.worst(now, keys, Tick(0)).map(|(key, failing)| Trouble {
            key: key.to_owned(),
            error: failing.error.clone(),
            failures: failing.failures,
            lasts: now.since(failing.since),
        })
    }

    /// For how long, since then, calls about one of these keys have failed, by the last that did; and its error.
    fn failing_since(&self, began: Tick, keys: [&str; 2]) -> Option<(Duration, StoreError)> {
        let state = self.state();
        let (_, failing) = state.worst(self.clock.held(), Some(keys), began)?;
        Some((failing.lasts_since(began), failing.error.clone()))
    }

    /// Waits until trouble with one of these keys has lasted for `patience`, within the wait itself, and returns the last error.
    pub(crate) async fn outlast(&self, keys: [&str; 2], patience: Duration) -> StoreError {
        let _awaited = AwaitedKeys::note(self, keys);
        let began = self.clock.held();
        let mut changes = self.changes.subscribe();
        loop {
            changes.borrow_and_update();
            let failing = self.failing_since(began, keys);
            let left = match failing {
                Some((lasts, error)) if lasts >= patience => return error,
                // Looked at again when the next call may have failed.
                Some((lasts, _)) => (patience - lasts).max(MOMENT),
                None => FORGOTTEN,
            };
            tokio::select! {
                // It is never closed: its sender is ours.
                _ = changes.changed() => {}
                () = tokio::time::sleep(left) => {}
            }
        }
    }
}

/// Somebody waits for these keys, until it is dropped.
struct AwaitedKeys<'a> {
    troubles: &'a Troubles,
    keys: [&'a str; 2],
}

impl<'a> AwaitedKeys<'a> {
    fn note(troubles: &'a Troubles, keys: [&'a str; 2]) -> AwaitedKeys<'a> {
        let mut state = troubles.state();
        keys.iter().for_each(|key| *state.awaited.entry((*key).to_owned()).or_default() += 1);
        drop(state);
        AwaitedKeys { troubles, keys }
    }
}

impl Drop for AwaitedKeys<'_> {
    fn drop(&mut self) {
        let mut state = self.troubles.state();
        for key in self.keys {
            if let Some(count) = state.awaited.get_mut(key) {
                *count -= 1;
                if *count == 0 {
                    state.awaited.remove(key);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    //! Plan: patience is over though calls about a key fail minutes apart, and though a thousand other keys fail; writes that fail minutes apart end
    //! no wait, and are no trouble meanwhile, where reads are answered in between.
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};
    use tenure_core::{Now, Wall};
    use tokio::time::timeout;

    /// In seconds.
    #[derive(Default)]
    struct HandSet(AtomicU64);

    impl Clock for HandSet {
        fn now(&self) -> Now {
            let held = Tick(0).after(Duration::from_secs(self.0.load(Ordering::SeqCst)));
            Now { held, waited: held, wall: Wall(0) }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn patience_ends_though_calls_about_a_key_fail_minutes_apart() {
        let clock = Arc::new(HandSet::default());
        let troubles = Troubles::new(clock.clone(), HolderId::new("a").unwrap());
        let error = StoreError::unavailable("no answer");
        let mut waiting = Box::pin(troubles.outlast(["k", "session/a"], Duration::from_secs(300)));
        for minutes in [0, 2, 4] {
            clock.0.store(minutes * 60, Ordering::SeqCst);
            let sent = clock.held();
            troubles.failed("k", CallKind::Write, sent, &error);
            (0..MOST).for_each(|n| troubles.failed(&format!("other {n}"), CallKind::Write, sent, &error));
            assert!(timeout(MOMENT * 2, &mut waiting).await.is_err(), "{minutes} minutes");
        }
        clock.0.store(360, Ordering::SeqCst);
        troubles.failed("k", CallKind::Write, clock.held(), &error);
        assert_eq!(timeout(FORGOTTEN * 2, &mut waiting).await.unwrap(), error);
        drop(waiting);
        // Nobody waits for it any more.
        clock.0.store(600, Ordering::SeqCst);
        troubles.failed("other", CallKind::Write, clock.held(), &error);
        assert!(troubles.state().failing.keys().all(|(key, _)| key == "other"));
    }

    #[tokio::test(start_paused = true)]
    async fn writes_that_fail_minutes_apart_with_answers_in_between_are_no_lasting_trouble() {
        let clock = Arc::new(HandSet::default());
        let troubles = Troubles::new(clock.clone(), HolderId::new("a").unwrap());
        let (error, patience) = (StoreError::unavailable("throttled"), Duration::from_secs(300));
        let mut waiting = Box::pin(troubles.outlast(["k", "session/a"], patience));
        for hours in 0..3 {
            clock.0.store(hours * 3600, Ordering::SeqCst);
            troubles.failed("k", CallKind::Write, clock.held(), &error);
            assert!(timeout(MOMENT * 2, &mut waiting).await.is_err(), "{hours} hours");
            troubles.answered("k", CallKind::Read);
            let trouble = troubles.worst(None).unwrap();
            assert_eq!((trouble.failures, trouble.lasts), (1, Duration::ZERO), "{hours} hours");
            clock.0.store(hours * 3600 + 60, Ordering::SeqCst);
            assert_eq!(troubles.worst(None), None, "{hours} hours");
        }
    }
}
