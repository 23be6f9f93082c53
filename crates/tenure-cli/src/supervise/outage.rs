//! A store that fails: whoever waits for it is told at once, then now and then, and when it is over; and what went wrong last is
//! known when a lease is lost for it.

use crate::output;
use crate::text::brief;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tenure::clock::boottime;
use tenure::store::{
    Capabilities, Changes, Freshness, Image, Listed, Outcome, Record, Stored, Version, Write,
};
use tenure::{AnyStore, ErrorKind, InvalidInput, Key, Store, StoreError};
use tokio::sync::Notify;

/// What a store has failed at.
#[derive(Debug)]
pub(crate) struct Outage {
    is_told: bool,
    calls: Mutex<[CallHistory; 2]>,
    /// It was said that nothing is pushed.
    is_unpushed: AtomicBool,
    /// A write was answered: this process has been let in, and may do what it is to do.
    was_let_in: AtomicBool,
    /// Tells of the first call that is made.
    asked: Notify,
}

/// Reading may work where writing does not, as on a full disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AccessKind {
    Reading,
    Writing,
}

#[derive(Debug, Default)]
struct CallHistory {
    failing: Option<OngoingFailure>,
    /// The last error, and when it came.
    last: Option<(Duration, String)>,
}

#[derive(Debug)]
struct OngoingFailure {
    since: Duration,
    /// What was told of in the present pause. Another cause is told at once, and each of them once.
    told: BTreeSet<Cause>,
    tell_at: Duration,
    pause: Duration,
}

/// Why a call failed. What is measured differs from call to call, and is no cause of its own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    Silence,
    Error(String),
}

/// The second time it is told after this, then after twice as long, and so on.
const SOON: Duration = Duration::from_secs(1);
const SELDOM: Duration = Duration::from_secs(60);
/// Of so many causes in one pause, each is told: a store's own text may hold what differs from call to call, too.
const CAUSES: usize = 4;

impl Outage {
    /// `is_told`: to the user, as it goes.
    pub(crate) fn new(is_told: bool) -> Arc<Outage> {
        Arc::new(Outage {
            is_told,
            calls: Mutex::default(),
            is_unpushed: AtomicBool::new(false),
            was_let_in: AtomicBool::new(false),
            asked: Notify::new(),
        })
    }

    /// The store, with an eye on its failures.
    pub(crate) fn watch(self: &Arc<Outage>, store: AnyStore) -> AnyStore {
        AnyStore::new(WatchedStore { store, outage: Arc::clone(self) })
    }

    /// Until something was asked of the store since this was asked last.
    pub(crate) async fn asked(&self) {
        self.asked.notified().await;
    }

    /// What went wrong within this time, if anything did. What was to be written comes first: a lease is renewed by that.
    pub(crate) fn within(&self, span: Duration) -> Option<String> {
        let now = boottime();
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let is_recent = |at: Duration| now.saturating_sub(at) <= span;
        let mut last = calls.iter().rev().filter_map(|calls| calls.last.as_ref());
        last.find(|(at, _)| is_recent(*at)).map(|(_, text)| text.clone())
    }

    /// For how long nothing could be read, until now.
    pub(crate) fn unread(&self) -> Duration {
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let failing = calls[AccessKind::Reading as usize].failing.as_ref();
        failing.map_or(Duration::ZERO, |failing| boottime().saturating_sub(failing.since))
    }

    /// Whether a refusal may pass: whoever was let in before is let in again, once a password or a right that is being changed is right again.
    pub(crate) fn may_pass(&self, error: &StoreError) -> bool {
        // What was asked is wrong, and stays so.
        let is_input = std::error::Error::source(error).is_some_and(|cause| cause.is::<InvalidInput>());
        let is_refusal = error.kind() == ErrorKind::Invalid && !is_input;
        error.is_passing() || (is_refusal && self.was_let_in.load(Ordering::Relaxed))
    }

    fn note<T>(&self, kind: AccessKind, result: &Result<T, StoreError>) {
        if kind == AccessKind::Writing && result.is_ok() {
            self.was_let_in.store(true, Ordering::Relaxed);
        }
        match result {
            // Said by whoever asked. But a lease may be lost for it.
            Err(error) if error.kind() == ErrorKind::Invalid && self.may_pass(error) => {
                self.remember(kind, error.to_string());
            }
            Err(error) if matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Unknown) => {
                self.failed(kind, Cause::Error(error.to_string()), error.to_string());
            }
            // What the store refuses it has answered. But who could not write to a damaged record does not know whose the lease is.
            _ => {
                if let Err(error) = result
                    && (kind, error.kind()) == (AccessKind::Writing, ErrorKind::Foreign)
                {
                    self.remember(kind, error.to_string());
                }
                self.worked(kind);
            }
        }
    }

    /// It is told if a lease is lost for it, and only then.
    fn remember(&self, kind: AccessKind, text: String) {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls[kind as usize].last = Some((boottime(), text));
    }

    fn failed(&self, kind: AccessKind, cause: Cause, text: String) {
        let told = {
            let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
            calls[kind as usize].failed(boottime(), cause, text)
        };
        self.tell(told);
    }

    fn worked(&self, kind: AccessKind) {
        let told =
            self.calls.lock().unwrap_or_else(PoisonError::into_inner)[kind as usize].worked(boottime(), kind);
        self.tell(told);
    }

    /// What is to be told of a store that should push and can't: that is said once, as everything goes on by polls.
    fn unpushed(&self, error: &StoreError) -> Option<String> {
        let is_news =
            error.kind() != ErrorKind::Unsupported && !self.is_unpushed.swap(true, Ordering::Relaxed);
        is_news.then(|| format!("{error}; not woken by others for now, so looking once in a while"))
    }

    fn tell(&self, text: Option<String>) {
        if let Some(text) = text.filter(|_| self.is_told) {
            output::note(text);
        }
    }
}

impl CallHistory {
    /// What is to be told of it now, if anything.
    fn failed(&mut self, now: Duration, cause: Cause, text: String) -> Option<String> {
        self.last = Some((now, text.clone()));
        let Some(failing) = &mut self.failing else {
            let told = BTreeSet::from([cause]);
            self.failing = Some(OngoingFailure { since: now, told, tell_at: now + SOON, pause: SOON });
            return Some(format!("{text}; trying on"));
        };
        if now >= failing.tell_at {
            failing.pause = (failing.pause * 2).min(SELDOM);
            failing.tell_at = now + failing.pause;
            failing.told.clear();
        } else if failing.told.contains(&cause) || failing.told.len() >= CAUSES {
            return None;
        }
        failing.told.insert(cause);
        Some(format!("{text}; trying on, for {} now", brief(now.saturating_sub(failing.since))))
    }

    fn worked(&mut self, now: Duration, kind: AccessKind) -> Option<String> {
        let since = self.failing.take()?.since;
        let verb = match kind {
            AccessKind::Reading => "read",
            AccessKind::Writing => "written",
        };
        Some(format!("the store can be {verb} again, after {}", brief(now.saturating_sub(since))))
    }
}

/// A store whose failures are noted.
struct WatchedStore {
    store: AnyStore,
    outage: Arc<Outage>,
}

impl WatchedStore {
    async fn call<T>(
        &self,
        kind: AccessKind,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let mut pending = PendingCall { outage: &self.outage, kind, began: boottime(), is_answered: false };
        // On one thread, whoever waits for this goes on when the call is under way.
        self.outage.asked.notify_one();
        let result = call.await;
        pending.is_answered = true;
        self.outage.note(kind, &result);
        result
    }
}

/// A call under way. Whoever gives one up after a while has waited in vain.
struct PendingCall<'o> {
    outage: &'o Outage,
    kind: AccessKind,
    began: Duration,
    is_answered: bool,
}

impl Drop for PendingCall<'_> {
    fn drop(&mut self) {
        /// Those who give up sooner have changed their mind.
        const LONG: Duration = Duration::from_millis(100);
        let waited = boottime().saturating_sub(self.began);
        if self.is_answered {
            return;
        }
        let text = format!("the store did not answer within {}", brief(waited));
        if waited >= LONG {
            self.outage.failed(self.kind, Cause::Silence, text);
        } else if self.kind == AccessKind::Writing {
            // It may have been done all the same, as with a short ttl.
            self.outage.remember(self.kind, text);
        }
    }
}

impl fmt::Debug for WatchedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.store.fmt(f)
    }
}

impl Store for WatchedStore {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    fn id(&self) -> String {
        self.store.id()
    }

    async fn read(&self, key: &Key) -> Result<Option<Stored>, StoreError> {
        self.call(AccessKind::Reading, self.store.read(key)).await
    }

    async fn read_many(&self, keys: &[Key], freshness: Freshness) -> Result<Vec<Listed>, StoreError> {
        self.call(AccessKind::Reading, self.store.read_many(keys, freshness)).await
    }

    async fn write(&self, write: Write) -> Result<Outcome, StoreError> {
        self.call(AccessKind::Writing, self.store.write(write)).await
    }

    async fn write_many(&self, writes: Vec<Write>) -> Result<Vec<Outcome>, StoreError> {
        self.call(AccessKind::Writing, self.store.write_many(writes)).await
    }

    async fn list(&self, prefix: &str, after: Option<&Key>, limit: usize) -> Result<Vec<Listed>, StoreError> {
        self.call(AccessKind::Reading, self.store.list(prefix, after, limit)).await
    }

    async fn remove(&self, key: &Key, version: Version) -> Result<bool, StoreError> {
        self.call(AccessKind::Writing, self.store.remove(key, version)).await
    }

    async fn image(&self, key: &Key) -> Result<Option<Image>, StoreError> {
        self.call(AccessKind::Reading, self.store.image(key)).await
    }

    async fn mend(&self, key: &Key, seen: &Image, put: Option<Record>) -> Result<bool, StoreError> {
        self.call(AccessKind::Writing, self.store.mend(key, seen, put)).await
    }

    fn changed(&self, prefix: &str) -> Result<Changes, StoreError> {
        let changes = self.store.changed(prefix);
        if let Err(error) = &changes {
            self.outage.tell(self.outage.unpushed(error));
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_told_at_once_then_now_and_then_and_when_it_is_over() {
        let mut calls = CallHistory::default();
        let at = Duration::from_millis;
        let mut failed =
            |ms, text: &str| calls.failed(at(ms), Cause::Error(text.to_owned()), text.to_owned());
        assert_eq!(failed(1000, "full").as_deref(), Some("full; trying on"));
        assert_eq!(failed(1500, "full"), None);
        assert!(
            failed(1600, "gone").is_some_and(|told| told.starts_with("gone; trying on")),
            "another cause"
        );
        assert!(failed(2000, "gone").is_some());
        assert_eq!((failed(2001, "gone"), failed(3999, "gone")), (None, None));
        let told: usize = (4000..1_000_000).step_by(100).filter(|ms| failed(*ms, "gone").is_some()).count();
        assert!((15..25).contains(&told), "{told} times in a quarter of an hour");
        let over = calls.worked(at(1_000_000), AccessKind::Writing);
        assert!(over.is_some_and(|over| over.starts_with("the store can be written again, after")));
        assert_eq!(calls.worked(at(1_000_001), AccessKind::Writing), None);
        let full = calls.failed(at(1_000_002), Cause::Silence, "full".to_owned());
        assert_eq!(full.as_deref(), Some("full; trying on"));
    }

    /// How often it is told in 45 s of an outage, of calls that fail 20 times a second.
    fn told_of(fail: impl Fn(u64) -> (Cause, String)) -> usize {
        let mut calls = CallHistory::default();
        let at = Duration::from_millis;
        let failed = |n: u64| {
            let (cause, text) = fail(n);
            calls.failed(at(n * 50), cause, text)
        };
        (20..20 + 900).filter_map(failed).count()
    }

    #[test]
    fn neither_measured_waits_nor_causes_in_turn_are_told_more_often_than_one_cause() {
        let silence = |n: u64| (Cause::Silence, format!("the store did not answer within {}ms", 751 + n % 2));
        let busy = |text: String| (Cause::Error(text.clone()), text);
        let one = told_of(|_| busy("busy".to_owned()));
        assert!((4..8).contains(&one), "{one}");
        assert_eq!(told_of(silence), one);
        let two = told_of(|n| if n % 2 == 0 { busy("busy".to_owned()) } else { silence(n / 2) });
        assert!(two <= one * 2, "{two}");
        let endless = told_of(|n| busy(format!("busy for {n} ms")));
        assert!(endless <= one * CAUSES, "{endless}");
    }

    #[test]
    fn that_nothing_is_pushed_is_told_once_and_only_where_it_should_be() {
        let outage = Outage::new(false);
        assert_eq!(outage.unpushed(&StoreError::unsupported("polls")), None);
        let told = outage.unpushed(&StoreError::unavailable("raise fs.inotify.max_user_instances"));
        assert!(told.is_some_and(|told| told.contains("max_user_instances; not woken by others")));
        assert_eq!(outage.unpushed(&StoreError::unavailable("again")), None);
    }

    #[test]
    fn what_is_refused_is_no_outage() {
        let outage = Outage::new(false);
        outage.note::<()>(AccessKind::Reading, &Err(StoreError::foreign("damaged")));
        assert_eq!(outage.within(Duration::from_secs(60)), None);
        outage.note::<()>(AccessKind::Writing, &Err(StoreError::unavailable("full")));
        outage.note(AccessKind::Reading, &Ok(()));
        assert_eq!(outage.within(Duration::from_secs(60)).as_deref(), Some("store unavailable: full"));
    }

    #[test]
    fn a_write_to_a_damaged_record_and_one_that_was_given_up_soon_say_nothing_of_whose_a_lease_is() {
        let minute = Duration::from_secs(60);
        let outage = Outage::new(false);
        outage.note::<()>(AccessKind::Writing, &Err(StoreError::foreign("damaged")));
        assert!(outage.within(minute).is_some_and(|why| why.contains("damaged")));
        for (kind, is_noted) in [(AccessKind::Reading, false), (AccessKind::Writing, true)] {
            let outage = Outage::new(false);
            drop(PendingCall { outage: &outage, kind, began: boottime(), is_answered: false });
            assert_eq!(outage.within(minute).is_some(), is_noted, "{kind:?}");
        }
    }

    #[test]
    fn a_login_is_refused_for_good_only_to_whoever_never_was_let_in() {
        let outage = Outage::new(false);
        let refused = StoreError::invalid("the password is wrong");
        outage.note::<()>(AccessKind::Writing, &Err(refused.clone()));
        outage.note(AccessKind::Reading, &Ok(()));
        assert!(!outage.may_pass(&refused) && outage.within(Duration::from_secs(60)).is_none());
        outage.note(AccessKind::Writing, &Ok(()));
        outage.note::<()>(AccessKind::Writing, &Err(refused.clone()));
        assert!(outage.may_pass(&refused) && !outage.may_pass(&StoreError::unsupported("never")));
        let why = outage.within(Duration::from_secs(60));
        assert!(why.is_some_and(|why| why.contains("the password is wrong")), "a lease is lost for it");
    }
}
