//! The credentials that were loaded last: until when they are used, and when others are loaded.

use aws_credential_types::Credentials;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// How long before their end credentials are loaded anew: as many loads as fail in that time cost nothing. Processes that share them don't all do
/// so at once: each loads with its next request.
const EARLY: Duration = Duration::from_secs(5 * 60);

/// Where little time is left to credentials, they are loaded anew before that part of it is over: some live for a quarter of an hour.
const SHARE: u32 = 4;

/// How long after their load those are loaded anew that tell no end, as in the SDK's cache: somebody may change them where they come from.
const ENDLESS: Duration = Duration::from_secs(15 * 60);

/// How long a load is not repeated, whether it failed or the service refuses what it brought: each may start a process. A load takes
/// half of that at the most.
const REST: Duration = Duration::from_secs(10);

/// The wall clock of the client's configuration, by which credentials end.
pub(crate) type WallTime = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// The credentials that were loaded last.
pub(crate) struct CredentialCache {
    time: WallTime,
    cached: Mutex<CachedCredentials>,
}

#[derive(Default)]
struct CachedCredentials {
    last: Option<KeptCredentials>,
    /// How many were ever kept.
    count: u64,
}

struct KeptCredentials {
    credentials: Credentials,
    /// Which of all that were ever kept.
    number: u64,
    /// When their load began. If that is later than now, the clock was set back, and nobody knows how old they are.
    since: SystemTime,
    /// When others are to be loaded.
    due: SystemTime,
    /// When a load of others was begun last.
    tried: Option<SystemTime>,
}

impl KeptCredentials {
    /// Whether whoever asks is to begin a load of others. None is begun again soon after.
    fn begins_load(&mut self, now: SystemTime) -> bool {
        let is_due = now >= self.due || now < self.since;
        let begins = is_due && !self.tried.is_some_and(|tried| is_recent(tried, now));
        if begins {
            self.tried = Some(now);
        }
        begins
    }
}

/// Whether it is too soon for another load. What is later than now was before the clock was set back.
fn is_recent(then: SystemTime, now: SystemTime) -> bool {
    now.duration_since(then).is_ok_and(|age| age < REST)
}

impl CredentialCache {
    pub(crate) fn new(time: WallTime) -> CredentialCache {
        CredentialCache { time, cached: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, CachedCredentials> {
        // No code that can panic runs under the lock.
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> SystemTime {
        (self.time)()
    }

    /// The last ones, unless they have ended; and whether whoever asks is to begin a load of others meanwhile.
    pub(crate) fn last(&self) -> Option<(Credentials, bool)> {
        let now = self.now();
        let mut cached = self.lock();
        let is_good = |kept: &&mut KeptCredentials| kept.credentials.expiry().is_none_or(|end| now < end);
        let kept = cached.last.as_mut().filter(is_good)?;
        Some((kept.credentials.clone(), kept.begins_load(now)))
    }

    /// Keeps what was loaded since then. What has ended already replaces nothing.
    pub(crate) fn keep(&self, credentials: &Credentials, since: SystemTime) {
        let due = match credentials.expiry() {
            None => since.checked_add(ENDLESS),
            Some(end) => {
                let left = end.duration_since(since).ok().filter(|left| !left.is_zero());
                left.and_then(|left| end.checked_sub(EARLY.min(left / SHARE)))
            }
        };
        let Some(due) = due else { return };
        let mut cached = self.lock();
        cached.count += 1;
        let (credentials, number) = (credentials.clone(), cached.count);
        cached.last = Some(KeptCredentials { credentials, number, since, due, tried: None });
    }

    /// Which of all that were ever kept those are that are kept now.
    pub(crate) fn number(&self) -> Option<u64> {
        self.lock().last.as_ref().map(|kept| kept.number)
    }

    /// The service does not take those of this number, whatever end they tell. Just after their load they stay: whoever has none but bad ones is not to
    /// load with each request.
    pub(crate) fn refuse(&self, number: u64) {
        let now = self.now();
        let mut cached = self.lock();
        let is_meant = |kept: &KeptCredentials| kept.number == number && !is_recent(kept.since, now);
        if cached.last.as_ref().is_some_and(is_meant) {
            cached.last = None;
        }
    }
}

/// Without anything of credentials: the SDK shows the key's id of them.
impl fmt::Debug for CredentialCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CredentialCache").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    //! Plan: others are due some minutes before the end, or before a part of a short life is over, or after a while where no end is told. From then on
    //! they are due once in a while, and the last ones are used to their end. Those that the service refuses go, but not just after their load, nor later ones, nor
    //! does a clock that was set back keep them. What has ended already replaces nothing.
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn ending(end: Option<u64>) -> Credentials {
        Credentials::new("key", "hidden", None, end.map(at), "test")
    }

    /// Those with that end, loaded since 100 s, and the clock.
    fn keeping(end: Option<u64>) -> (CredentialCache, Arc<AtomicU64>) {
        let wall = Arc::new(AtomicU64::new(100));
        let shown = Arc::clone(&wall);
        let cache = CredentialCache::new(Arc::new(move || at(shown.load(Ordering::SeqCst))));
        cache.keep(&ending(end), at(100));
        (cache, wall)
    }

    #[test]
    fn others_are_due_in_good_time_and_the_last_ones_are_used_to_their_end() {
        for (end, due) in [(Some(3_700), 3_400), (Some(500), 400), (None, 1_000)] {
            let (cache, wall) = keeping(end);
            let is_due = |now: u64| {
                wall.store(now, Ordering::SeqCst);
                cache.last().map(|(_, is_due)| is_due)
            };
            for (now, told) in [
                (100, false),
                (due - 1, false),
                (due, true),
                (due, false),
                (due + 9, false),
                (due + 10, true),
                (due + 11, false),
                (50, true),
                (59, false),
                (60, true),
            ] {
                assert_eq!(is_due(now), Some(told), "at {now} s, of an end at {end:?}");
            }
            let last = end.unwrap_or(1_000_000);
            assert!(is_due(last - 1).is_some(), "they are good still");
            assert_eq!(is_due(last).is_some(), end.is_none());
        }
    }

    #[test]
    fn what_is_loaded_again_as_it_was_is_not_loaded_all_the_time() {
        let (cache, wall) = keeping(Some(1_300));
        let mut loads = 0;
        for now in 100..1_300 {
            wall.store(now, Ordering::SeqCst);
            if cache.last().is_some_and(|(_, is_due)| is_due) {
                loads += 1;
                cache.keep(&ending(Some(1_300)), at(now));
            }
        }
        assert!((2..=8).contains(&loads), "{loads}");
    }

    #[test]
    fn those_that_the_service_refuses_go_but_neither_later_ones_nor_just_after_their_load() {
        let (cache, wall) = keeping(Some(3_700));
        let first = cache.number().unwrap();
        for (now, is_kept) in [(100, true), (109, true), (110, false)] {
            wall.store(now, Ordering::SeqCst);
            cache.refuse(first);
            assert_eq!(cache.last().is_some(), is_kept, "at {now} s");
        }
        assert_eq!(cache.number(), None);
        cache.keep(&ending(None), at(110));
        for (now, number, is_kept) in [(1_000, first, true), (50, first, true), (50, first + 1, false)] {
            wall.store(now, Ordering::SeqCst);
            cache.refuse(number);
            assert_eq!(cache.last().is_some(), is_kept, "of the load {number}, at {now} s");
        }
    }

    #[test]
    fn what_has_ended_already_replaces_nothing() {
        let (cache, _) = keeping(Some(3_700));
        for end in [0, 100] {
            cache.keep(&ending(Some(end)), at(100));
            assert_eq!(cache.last().unwrap().0.expiry(), Some(at(3_700)), "{end}");
        }
        assert_eq!(format!("{cache:?}"), "CredentialCache { .. }");
    }
}
