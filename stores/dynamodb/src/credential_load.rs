//! Credentials are loaded in tasks of their own, and used to their end.
//!
//! The SDK loads credentials within the request that needs them, and a lease's requests are given up after a part of its ttl. A load
//! that takes longer than that would begin anew with each request, and never end.
//!
//! In the SDK's cache of credentials, requests wait for the future of the one that asked first, which may never be polled again. So
//! that cache is off where the client is made here, and [`CredentialCache`] takes its place. Requests wait for a load only where there are no credentials
//! that are good. Others are loaded some minutes before the end, and requests go on with the last ones meanwhile.

use crate::credential_cache::CredentialCache;
use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::future::ProvideCredentials as ProvidedCredentials;
use aws_credential_types::provider::{ProvideCredentials, Result as Loaded, SharedCredentialsProvider};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tenure_store::parts::SharedCall;

/// As long as the SDK waits by default. What has gone silent is made anew, and so is what was loaded long ago and told nobody.
const LONGEST: Duration = Duration::from_secs(5);

/// Loads credentials in a task of their own: whoever needs some waits for the load that is under way. What was loaded is kept.
pub(crate) struct CredentialLoad {
    provider: SharedCredentialsProvider,
    load: SharedCall<Result<Credentials, Arc<CredentialsError>>>,
    cache: Arc<CredentialCache>,
}

impl CredentialLoad {
    pub(crate) fn of(provider: SharedCredentialsProvider, cache: Arc<CredentialCache>) -> CredentialLoad {
        CredentialLoad { provider, load: SharedCall::keeping(LONGEST), cache }
    }

    async fn join(&self) -> Loaded {
        let begin = || load(self.provider.clone(), Arc::clone(&self.cache));
        if let Some((credentials, is_due)) = self.cache.last() {
            if is_due {
                // Nobody waits for it. If it fails, there is time for others, and whoever has none at the end is told why.
                self.load.begin(begin);
            }
            return Ok(credentials);
        }
        match self.load.join(begin).await {
            Some(loaded) => loaded.map_err(told),
            None => Err(CredentialsError::unhandled("the load of credentials has panicked")),
        }
    }
}

async fn load(
    provider: SharedCredentialsProvider,
    cache: Arc<CredentialCache>,
) -> Result<Credentials, Arc<CredentialsError>> {
    let since = cache.now();
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
    //! of its kind for all who wait; a request that is not polled holds nobody up. What was loaded is kept, though nobody waited for it; others are
    //! loaded before its end, or once the clock was set back, while requests go on with it, also where that fails. What failed is not kept; nothing of
    //! what is kept is shown.
    use super::*;
    use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
    use std::time::SystemTime;
    use tokio::time::timeout;

    /// Takes a second; but the first load may have another end than the others.
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
        /// And no other does.
        LoadsAlone,
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
                    FirstLoad::Fails if number == 0 => Err(has_failed()),
                    FirstLoad::LoadsAlone if number > 0 => Err(has_failed()),
                    FirstLoad::IsSilent if number == 0 => std::future::pending().await,
                    _ => Ok(Credentials::new("key", "hidden", None, self.end.map(at), "test")),
                }
            })
        }
    }

    fn has_failed() -> CredentialsError {
        CredentialsError::provider_error("the helper has failed")
    }

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    /// Credentials that end then, how many loads of them have begun, and a clock that shows 100 s until it is set.
    fn ending(first: FirstLoad, end: Option<u64>) -> (CredentialLoad, Arc<AtomicUsize>, Arc<AtomicU64>) {
        let (begun, wall) = (Arc::default(), Arc::new(AtomicU64::new(100)));
        let provider = SlowCredentials { begun: Arc::clone(&begun), first, end };
        let shown = Arc::clone(&wall);
        let cache = CredentialCache::new(Arc::new(move || at(shown.load(Ordering::SeqCst))));
        (CredentialLoad::of(SharedCredentialsProvider::new(provider), Arc::new(cache)), begun, wall)
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

    /// That credentials are there at once, and how many loads have begun by the time when all of them are over.
    async fn loads_where_nobody_waits(load: &CredentialLoad, begun: &AtomicUsize) -> usize {
        let loaded = timeout(Duration::ZERO, load.provide_credentials()).await;
        assert!(matches!(loaded, Ok(Ok(_))), "whoever has good ones waits for none: {loaded:?}");
        tokio::time::sleep(LONGEST * 2).await;
        begun.load(Ordering::SeqCst)
    }

    #[tokio::test(start_paused = true)]
    async fn l4_others_are_loaded_before_the_end_and_nobody_waits_for_them() {
        // They are due before the last quarter of the time that is left, and after 15 minutes where no end is told.
        for (end, due) in
            [(Some(1_000), [(775, 2), (940, 2), (944, 3)]), (None, [(1_000, 2), (1_899, 2), (1_900, 3)])]
        {
            let (load, begun, wall) = ending(FirstLoad::Loads, end);
            assert!(load.provide_credentials().await.is_ok());
            for (now, loads) in [(101, 1), (774, 1)].into_iter().chain(due) {
                wall.store(now, Ordering::SeqCst);
                let found = loads_where_nobody_waits(&load, &begun).await;
                assert_eq!(found, loads, "at {now} s, of an end at {end:?}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn l4_good_credentials_are_used_while_the_next_ones_can_not_be_loaded() {
        for end in [Some(1_000), None] {
            let (load, begun, wall) = ending(FirstLoad::LoadsAlone, end);
            assert!(load.provide_credentials().await.is_ok());
            let due = if end.is_some() { 775 } else { 1_000 };
            for (later, loads) in [(0, 2), (5, 2), (9, 2), (10, 3), (200, 4)] {
                wall.store(due + later, Ordering::SeqCst);
                let found = loads_where_nobody_waits(&load, &begun).await;
                assert_eq!(found, loads, "not with each request: {later} s later, of an end at {end:?}");
            }
        }
        let (load, _, wall) = ending(FirstLoad::LoadsAlone, Some(1_000));
        assert!(load.provide_credentials().await.is_ok());
        wall.store(1_000, Ordering::SeqCst);
        let told = load.provide_credentials().await.unwrap_err();
        assert!(format!("{told:?}").contains("the helper has failed"), "{told:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn credentials_are_loaded_anew_once_the_clock_was_set_back() {
        let (load, begun, wall) = ending(FirstLoad::Loads, None);
        assert!(load.provide_credentials().await.is_ok());
        for (now, loads) in [(100, 1), (50, 2), (50, 2), (100, 2)] {
            wall.store(now, Ordering::SeqCst);
            assert_eq!(loads_where_nobody_waits(&load, &begun).await, loads, "at {now} s");
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
