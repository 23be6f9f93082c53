//! A load of credentials outlasts the request that began it.
//!
//! The SDK loads credentials within the request that needs them, and a lease's requests are given up after a part of its ttl. A load
//! that takes longer than that would begin anew with each request, and never end.

use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::future::ProvideCredentials as ProvidedCredentials;
use aws_credential_types::provider::{ProvideCredentials, Result as Loaded, SharedCredentialsProvider};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Mutex as AsyncMutex;
use tokio::task::JoinHandle;

/// As long as the SDK waits by default. What has gone silent is made anew.
const LONGEST: Duration = Duration::from_secs(5);

/// Loads credentials in a task of their own: whoever asks next waits for the load that is under way.
#[derive(Debug)]
pub(crate) struct CredentialLoad {
    provider: SharedCredentialsProvider,
    /// What was begun, and not told to anybody yet.
    under_way: AsyncMutex<Option<PendingLoad>>,
}

#[derive(Debug)]
struct PendingLoad {
    task: JoinHandle<Loaded>,
    /// Set once it has ended long ago: what it loaded may have been replaced since.
    is_stale: Arc<AtomicBool>,
}

impl PendingLoad {
    fn begin(provider: SharedCredentialsProvider) -> PendingLoad {
        let is_stale = Arc::<AtomicBool>::default();
        let ages = Arc::clone(&is_stale);
        let task = tokio::spawn(async move {
            let loaded = tokio::time::timeout(LONGEST, provider.provide_credentials()).await;
            tokio::spawn(async move {
                tokio::time::sleep(LONGEST).await;
                ages.store(true, Ordering::Relaxed);
            });
            // The last ones that are known may still do, as where the SDK gives a load up.
            loaded.unwrap_or_else(|_| {
                provider.fallback_on_interrupt().ok_or_else(|| CredentialsError::provider_timed_out(LONGEST))
            })
        });
        PendingLoad { task, is_stale }
    }
}

impl CredentialLoad {
    pub(crate) fn of(provider: SharedCredentialsProvider) -> CredentialLoad {
        CredentialLoad { provider, under_way: AsyncMutex::new(None) }
    }

    async fn join(&self) -> Loaded {
        let mut under_way = self.under_way.lock().await;
        under_way.take_if(|load| load.is_stale.load(Ordering::Relaxed));
        let load = under_way.get_or_insert_with(|| PendingLoad::begin(self.provider.clone()));
        let ended = (&mut load.task).await;
        *under_way = None;
        match ended {
            Ok(loaded) => loaded,
            // The runtime on which it was begun is no more.
            Err(error) if error.is_cancelled() => self.provider.provide_credentials().await,
            Err(error) => Err(CredentialsError::unhandled(error)),
        }
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
    //! Plan: a load outlasts requests that are dropped, and is made once; what failed, is silent, or lost its runtime, is made anew.
    use super::*;
    use std::sync::atomic::AtomicUsize;
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
