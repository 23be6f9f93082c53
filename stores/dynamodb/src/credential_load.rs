//! A load of credentials outlasts the request that began it.
//!
//! The SDK loads credentials within the request that needs them, and a lease's requests are given up after a part of its ttl. A load
//! that takes longer than that would begin anew with each request, and never end.
//!
//! The SDK's cache of credentials is above this. In it, other requests wait for the future of the one that asked first.

use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::future::ProvideCredentials as ProvidedCredentials;
use aws_credential_types::provider::{ProvideCredentials, Result as Loaded, SharedCredentialsProvider};
use std::sync::Arc;
use std::time::Duration;
use tenure_store::parts::SharedCall;

/// As long as the SDK waits by default. What has gone silent is made anew, and so is what was loaded long ago and told nobody.
const LONGEST: Duration = Duration::from_secs(5);

/// Loads credentials in a task of their own: whoever asks next waits for the load that is under way.
#[derive(Debug)]
pub(crate) struct CredentialLoad {
    provider: SharedCredentialsProvider,
    load: SharedCall<Result<Credentials, Arc<CredentialsError>>>,
}

impl CredentialLoad {
    pub(crate) fn of(provider: SharedCredentialsProvider) -> CredentialLoad {
        CredentialLoad { provider, load: SharedCall::keeping(LONGEST) }
    }

    async fn join(&self) -> Loaded {
        match self.load.join(|| load(self.provider.clone())).await {
            Some(loaded) => loaded.map_err(told),
            None => Err(CredentialsError::unhandled("the load of credentials has panicked")),
        }
    }
}

async fn load(provider: SharedCredentialsProvider) -> Result<Credentials, Arc<CredentialsError>> {
    let loaded = tokio::time::timeout(LONGEST, provider.provide_credentials()).await;
    // The last ones that are known may still do, as where the SDK gives a load up.
    let loaded = loaded.unwrap_or_else(|_| {
        provider.fallback_on_interrupt().ok_or_else(|| CredentialsError::provider_timed_out(LONGEST))
    });
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

#[cfg(test)]
mod tests {
    //! Plan: a load outlasts requests that are dropped, and is made once; what failed, is silent, or lost its runtime, is made anew; an error is
    //! of its kind for all who wait; a request that is not polled holds nobody up.
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::time::timeout;

    /// Takes a second; but the first load may have another end.
    #[derive(Debug, Clone)]
    struct SlowCredentials {
        begun: Arc<AtomicUsize>,
        first: FirstLoad,
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
                    _ => Ok(Credentials::new("key", "hidden", None, None, "test")),
                }
            })
        }
    }

    fn slow(first: FirstLoad) -> (CredentialLoad, Arc<AtomicUsize>) {
        let begun = Arc::default();
        let provider = SlowCredentials { begun: Arc::clone(&begun), first };
        (CredentialLoad::of(SharedCredentialsProvider::new(provider)), begun)
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
}
