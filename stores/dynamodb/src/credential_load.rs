//! Credentials are loaded in tasks of their own, and kept until shortly before their end.
//!
//! The SDK loads credentials within the request that needs them, and a lease's requests are given up after a part of its ttl. A load
//! that takes longer than that would begin anew with each request, and never end.
//!
//! In the SDK's cache of credentials, requests wait for the future of the one that asked first, which may never be polled again. So
//! that cache is off where the client is made here, and this one takes its place.

use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::future::ProvideCredentials as ProvidedCredentials;
use aws_credential_types::provider::{ProvideCredentials, Result as Loaded, SharedCredentialsProvider};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use tenure_store::parts::SharedCall;

/// As long as the SDK waits by default. What has gone silent is made anew, and so is what was loaded long ago and told nobody.
const LONGEST: Duration = Duration::from_secs(5);

/// How long before their end credentials are loaded anew, as in the SDK's cache. Processes that share them don't all do so at once: each loads with its
/// next request.
const EARLY: Duration = Duration::from_secs(10);

/// How long credentials are kept that tell no end, as in the SDK's cache: somebody may change them where they come from.
const ENDLESS: Duration = Duration::from_secs(15 * 60);

/// The wall clock of the client's configuration, by which credentials end.
pub(crate) type WallTime = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// Loads credentials in a task of their own: whoever asks next waits for the load that is under way. What was loaded is kept.
pub(crate) struct CredentialLoad {
    provider: SharedCredentialsProvider,
    load: SharedCall<Result<Credentials, Arc<CredentialsError>>>,
    cache: Arc<CredentialCache>,
}

/// The credentials that were loaded last.
struct CredentialCache {
    time: WallTime,
    last: Mutex<Option<KeptCredentials>>,
}

struct KeptCredentials {
    credentials: Credentials,
    /// When their load began. If that is later than now, the clock was set back, and nobody knows how old they are.
    since: SystemTime,
    until: SystemTime,
}

impl CredentialCache {
    fn lock(&self) -> MutexGuard<'_, Option<KeptCredentials>> {
        // No code that can panic runs under the lock.
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last ones, unless they end soon.
    fn good(&self) -> Option<Credentials> {
        let now = (self.time)();
        let last = self.lock();
        let kept = last.as_ref().filter(|kept| kept.since <= now && now < kept.until)?;
        Some(kept.credentials.clone())
    }

    fn keep(&self, credentials: &Credentials, since: SystemTime) {
        let end = credentials.expiry().or_else(|| since.checked_add(ENDLESS));
        let Some(until) = end.and_then(|end| end.checked_sub(EARLY)) else { return };
        *self.lock() = Some(KeptCredentials { credentials: credentials.clone(), since, until });
    }
}

impl CredentialLoad {
    pub(crate) fn of(provider: SharedCredentialsProvider, time: WallTime) -> CredentialLoad {
        let cache = CredentialCache { time, last: Mutex::default() };
        CredentialLoad { provider, load: SharedCall::keeping(LONGEST), cache: Arc::new(cache) }
    }

    async fn join(&self) -> Loaded {
        if let Some(credentials) = self.cache.good() {
            return Ok(credentials);
        }
        match self.load.join(|| load(self.provider.clone(), Arc::clone(&self.cache))).await {
            Some(loaded) => loaded.map_err(told),
            None => Err(CredentialsError::unhandled("the load of credentials has panicked")),
        }
    }
}

async fn load(
    provider: SharedCredentialsProvider,
    cache: Arc<CredentialCache>,
) -> Result<Credentials, Arc<CredentialsError>> {
    let since = (cache.time)();
    let loaded = tokio::time::timeout(LONGEST, provider.provide_credentials()).await;
    // The last ones that are known may still do, as where the SDK gives a load up.
    let loaded = loaded.unwrap_or_else(|_| {
        provider.fallback_on_interrupt().ok_or_else(|| CredentialsError::provider_timed_out(LONGEST))
    });
    // Here, and not by whoever asked: that one may be gone.
    if let Ok(credentials) = &loaded {
        cache.keep(credentials, since);
    }
    loaded.map_err(Arc::new)
}

/// The same error once more: the SDK's own can't be cloned, and what follows from it depends on its kind.
fn told(error: Arc<CredentialsError>) -> CredentialsError {
    match *error {
        CredentialsError::CredentialsNotLoaded(_) => CredentialsError::not_loaded(error),
        CredentialsError::ProviderTimedOut(_) => CredentialsError::provider_timed_out(LONGEST),
        CredentialsError::InvalidConfiguration(_) => CredentialsError::invalid_configuration(error),
        CredentialsError::ProviderError(_) => CredentialsError::provider_error(error),
        _ => CredentialsError::unhandled(error),
    }
}

impl ProvideCredentials for CredentialLoad {
    fn provide_credentials<'a>(&'a self) -> ProvidedCredentials<'a>
    where
        Self: 'a,
    {
        ProvidedCredentials::new(self.join())
    }

    fn fallback_on_interrupt(&self) -> Option<Credentials> {
        self.provider.fallback_on_interrupt()
    }
}

/// Without anything of credentials: of those that are kept, the SDK shows the key's id.
impl fmt::Debug for CredentialLoad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CredentialLoad").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    //! Plan: a load outlasts requests that are dropped, and is made once; what failed, is silent, or lost its runtime, is made anew; an error is
    //! of its kind for all who wait; a request that is not polled holds nobody up. What was loaded is kept until shortly before its end, though nobody
    //! waited for it, unless the clock was set back; what failed is not; nothing of it is shown.
    use super::*;
    use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
    use tokio::time::timeout;

    /// Takes a second; but the first load may have another end.
    #[derive(Debug, Clone)]
    struct SlowCredentials {
        begun: Arc<AtomicUsize>,
        first: FirstLoad,
        /// In seconds.
        end: Option<u64>,
    }

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    enum FirstLoad {
        Loads,
        Fails,
        IsSilent,
    }

    impl ProvideCredentials for SlowCredentials {
        fn provide_credentials<'a>(&'a self) -> ProvidedCredentials<'a>
        where
            Self: 'a,
        {
            ProvidedCredentials::new(async {
                let number = self.begun.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_secs(1)).await;
                match self.first {
                    FirstLoad::Fails if number == 0 => {
                        Err(CredentialsError::provider_error("the helper has failed"))
                    }
                    FirstLoad::IsSilent if number == 0 => std::future::pending().await,
                    _ => Ok(Credentials::new("key", "hidden", None, self.end.map(at), "test")),
                }
            })
        }
    }

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    /// Credentials that end then, how many loads of them have begun, and a clock that shows 100 s until it is set.
    fn ending(first: FirstLoad, end: Option<u64>) -> (CredentialLoad, Arc<AtomicUsize>, Arc<AtomicU64>) {
        let (begun, wall) = (Arc::default(), Arc::new(AtomicU64::new(100)));
        let provider = SlowCredentials { begun: Arc::clone(&begun), first, end };
        let shown = Arc::clone(&wall);
        let time = Arc::new(move || at(shown.load(Ordering::SeqCst)));
        (CredentialLoad::of(SharedCredentialsProvider::new(provider), time), begun, wall)
    }

    /// Credentials that have ended already, so that none are kept.
    fn slow(first: FirstLoad) -> (CredentialLoad, Arc<AtomicUsize>) {
        let (load, begun, _) = ending(first, Some(0));
        (load, begun)
    }

    const HALF: Duration = Duration::from_millis(499);

    #[tokio::test(start_paused = true)]
    async fn l4_a_load_of_credentials_outlasts_the_requests_that_wait_for_it() {
        let (load, begun) = slow(FirstLoad::Loads);
        for _ in 0..2 {
            assert!(timeout(HALF, load.provide_credentials()).await.is_err(), "it takes a second");
        }
        let loaded = timeout(HALF, load.provide_credentials()).await.unwrap().unwrap();
        assert_eq!((loaded.access_key_id(), begun.load(Ordering::SeqCst)), ("key", 1));
        // What was told is over, and the next load is another one, also where nobody waits for its end.
        assert!(timeout(HALF, load.provide_credentials()).await.is_err());
        tokio::time::sleep(HALF * 3).await;
        assert!(timeout(HALF, load.provide_credentials()).await.unwrap().is_ok());
        assert_eq!(begun.load(Ordering::SeqCst), 2);
        // But not for long.
        assert!(timeout(HALF, load.provide_credentials()).await.is_err());
        tokio::time::sleep(LONGEST * 2).await;
        assert!(timeout(HALF, load.provide_credentials()).await.is_err(), "it is made anew");
        assert_eq!(begun.load(Ordering::SeqCst), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn a_load_that_failed_says_why_and_is_made_anew() {
        let (load, begun) = slow(FirstLoad::Fails);
        assert!(timeout(HALF * 2, load.provide_credentials()).await.is_err());
        let told = timeout(HALF, load.provide_credentials()).await.unwrap().unwrap_err();
        assert!(format!("{told:?}").contains("the helper has failed"), "{told:?}");
        assert!(load.provide_credentials().await.is_ok());
        assert_eq!(begun.load(Ordering::SeqCst), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_not_polled_keeps_no_other_from_the_load() {
        let (load, _) = slow(FirstLoad::Loads);
        let mut first = Box::pin(load.join());
        let begun = std::future::poll_fn(|cx| std::task::Poll::Ready(first.as_mut().poll(cx).is_pending()));
        assert!(begun.await, "it takes a second");
        assert!(timeout(HALF * 3, load.provide_credentials()).await.expect("it waits for another's").is_ok());
        assert!(first.await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn an_error_is_of_its_kind_for_all_who_wait() {
        let (load, begun) = slow(FirstLoad::Fails);
        let (one, other) = tokio::join!(load.join(), load.join());
        for told in [one, other] {
            let told = told.unwrap_err();
            assert!(matches!(told, CredentialsError::ProviderError(_)), "{told:?}");
            assert!(format!("{told:?}").contains("the helper has failed"), "{told:?}");
        }
        assert_eq!(begun.load(Ordering::SeqCst), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_load_that_has_gone_silent_is_given_up() {
        let (load, begun) = slow(FirstLoad::IsSilent);
        while timeout(HALF, load.provide_credentials()).await.is_err() {}
        assert!(load.provide_credentials().await.is_ok());
        assert_eq!(begun.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn a_load_whose_runtime_is_gone_is_made_anew() {
        let (load, begun) = slow(FirstLoad::Loads);
        let within = |wait: Duration| {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
            runtime.unwrap().block_on(async { timeout(wait, load.provide_credentials()).await })
        };
        assert!(within(HALF).is_err());
        assert!(within(HALF * 3).unwrap().is_ok());
        assert_eq!(begun.load(Ordering::SeqCst), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn credentials_are_kept_until_shortly_before_their_end() {
        // Those that tell no end have one all the same, 15 minutes after they were loaded.
        for (end, at_last) in [(Some(1_000), 3), (None, 2)] {
            let (load, begun, wall) = ending(FirstLoad::Loads, end);
            for (now, loads) in [(100, 1), (101, 1), (989, 1), (990, 2), (990, at_last)] {
                wall.store(now, Ordering::SeqCst);
                assert!(load.provide_credentials().await.is_ok());
                assert_eq!(begun.load(Ordering::SeqCst), loads, "at {now} s, of an end at {end:?}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn credentials_are_loaded_anew_once_the_clock_was_set_back() {
        let (load, begun, wall) = ending(FirstLoad::Loads, None);
        for (now, loads) in [(100, 1), (50, 2), (50, 2), (100, 2)] {
            wall.store(now, Ordering::SeqCst);
            assert!(load.provide_credentials().await.is_ok());
            assert_eq!(begun.load(Ordering::SeqCst), loads, "at {now} s");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_failed_is_not_kept() {
        let (load, begun, _) = ending(FirstLoad::Fails, None);
        for (is_loaded, loads) in [(false, 1), (true, 2), (true, 2)] {
            assert_eq!(load.provide_credentials().await.is_ok(), is_loaded);
            assert_eq!(begun.load(Ordering::SeqCst), loads);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_loaded_is_kept_though_nobody_waited_for_it_and_nothing_of_it_is_shown() {
        let (load, begun, _) = ending(FirstLoad::Loads, None);
        assert!(timeout(HALF, load.provide_credentials()).await.is_err(), "it takes a second");
        tokio::time::sleep(LONGEST * 3).await;
        for _ in 0..2 {
            assert!(timeout(HALF, load.provide_credentials()).await.unwrap().is_ok());
        }
        assert_eq!(begun.load(Ordering::SeqCst), 1);
        assert_eq!(format!("{load:?}"), "CredentialLoad { .. }");
    }
}
