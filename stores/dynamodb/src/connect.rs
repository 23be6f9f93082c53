//! How the service is reached: region, credentials, TLS, timeouts.

use crate::config::DynamoConfig;
use crate::credential_cache::{CredentialCache, WallTime};
use crate::credential_load::CredentialLoad;
use crate::credential_refusals::CredentialRefusals;
use crate::dates::Dates;
use aws_config::SdkConfig;
use aws_config::identity::IdentityCache;
use aws_config::meta::region::RegionProviderChain;
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::config::{BehaviorVersion, Builder, Region, StalledStreamProtectionConfig};
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use std::sync::Arc;
use std::time::Duration;
use tenure_core::StoreError;

/// Connections that have been idle for longer than this may have been dropped by something between, without a word.
const IDLE: Duration = Duration::from_secs(50);

/// A client as the configuration says. This may read files, and ask the host's metadata service.
pub(crate) async fn connect(config: &DynamoConfig) -> Result<Client, StoreError> {
    let http = aws_smithy_http_client::Builder::new()
        .pool_idle_timeout(IDLE)
        .tls_provider(Provider::Rustls(CryptoMode::Ring))
        .build_https();
    let mut loader = aws_config::defaults(BehaviorVersion::v2026_01_12()).http_client(http);
    if let Some(profile) = &config.profile {
        loader = loader.profile_name(profile);
    }
    if let Some(region) = &config.region {
        loader = loader.region(RegionProviderChain::first_try(Region::new(region.clone())));
    }
    if let Some(endpoint) = &config.endpoint {
        loader = loader.endpoint_url(endpoint);
    }
    let loaded = loader.load().await;
    if loaded.region().is_none() {
        let table = &config.table;
        return Err(StoreError::invalid(format!(
            "no region is known for the DynamoDB table {table:?}; add region=… to the store's URL, or set AWS_REGION"
        )));
    }
    Ok(outlasting(loaded))
}

/// A client of these settings, where a load of credentials outlasts the request that began it, and no request waits for another's future.
fn outlasting(loaded: SdkConfig) -> Client {
    let Some(time) = loaded.time_source() else { return Client::new(&loaded) };
    outlasting_by(loaded, Arc::new(move || time.now()))
}

/// The same, where credentials end by that clock.
fn outlasting_by(loaded: SdkConfig, time: WallTime) -> Client {
    let Some(provider) = loaded.credentials_provider() else { return Client::new(&loaded) };
    let cache = Arc::new(CredentialCache::new(time));
    let load = CredentialLoad::of(provider, Arc::clone(&cache));
    let provider = SharedCredentialsProvider::new(load);
    // The SDK's own cache would stand above that one.
    let settings = loaded.into_builder().credentials_provider(provider);
    let settings = settings.identity_cache(IdentityCache::no_cache()).build();
    Client::from_conf(Builder::from(&settings).interceptor(CredentialRefusals(cache)).build())
}

/// The same client as the store needs it: one that notes the service's dates.
pub(crate) fn harnessed(client: &Client, timeout: Duration, dates: Dates) -> Client {
    Client::from_conf(once(client, timeout).interceptor(dates).build())
}

/// The settings of the same client, but that it asks once and waits for no longer than `timeout`.
///
/// Without retries: one that comes after a lost answer would be refused by the first one's effect and hide it. Whoever asks the
/// store repeats what can be repeated, within what is left of the lease.
pub(crate) fn once(client: &Client, timeout: Duration) -> Builder {
    // A connection that could not be made certainly sent nothing, which only shows while the operation has time left.
    let connecting = timeout * 4 / 5;
    let timeouts = TimeoutConfig::builder().operation_timeout(timeout).connect_timeout(connecting).build();
    let config = client.config().to_builder();
    config
        .retry_config(RetryConfig::disabled())
        .timeout_config(timeouts)
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
}

#[cfg(test)]
mod tests {
    //! Plan: of the requests of one client, one that nobody polls any more while it waits for credentials holds up no other; those are loaded once.
    //! Credentials that the service refuses are loaded anew, but seldom; what else it refuses is no matter of theirs.
    use super::*;
    use aws_credential_types::Credentials;
    use aws_credential_types::provider::ProvideCredentials;
    use aws_credential_types::provider::future::ProvideCredentials as ProvidedCredentials;
    use aws_sdk_dynamodb::error::SdkError;
    use std::future::poll_fn;
    use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
    use std::task::Poll;
    use std::time::SystemTime;
    use tenure_dynamodb_testkit::stub::{Fate, Stub};
    use tokio::sync::Notify;

    /// There once somebody opens the gate.
    #[derive(Debug, Clone, Default)]
    struct GatedCredentials {
        begun: Arc<AtomicUsize>,
        gate: Arc<Notify>,
    }

    impl ProvideCredentials for GatedCredentials {
        fn provide_credentials<'a>(&'a self) -> ProvidedCredentials<'a>
        where
            Self: 'a,
        {
            ProvidedCredentials::new(async {
                self.begun.fetch_add(1, Ordering::SeqCst);
                self.gate.notified().await;
                Ok(Credentials::new("key", "hidden", None, None, "test"))
            })
        }
    }

    const LONG: Duration = Duration::from_secs(60);

    /// The settings of a client with those credentials, of a service that listens there.
    async fn settings(endpoint: &str, provider: impl ProvideCredentials + 'static) -> SdkConfig {
        let loader = aws_config::defaults(BehaviorVersion::v2026_01_12())
            .http_client(aws_smithy_http_client::Builder::new().build_http())
            .region(RegionProviderChain::first_try(Region::new("eu-west-1")))
            .endpoint_url(endpoint)
            .credentials_provider(provider);
        loader.load().await
    }

    #[tokio::test]
    async fn l4_a_request_that_waits_for_credentials_and_is_not_polled_holds_up_no_other() {
        let provider = GatedCredentials::default();
        // Nobody listens there: a request that has its credentials ends at once.
        let client = outlasting(settings("http://127.0.0.1:1", provider.clone()).await);
        let client = Client::from_conf(once(&client, LONG).build());
        let request = || client.describe_table().table_name("leases").send();
        let mut first = Box::pin(request());
        poll_fn(|cx| {
            assert!(first.as_mut().poll(cx).is_pending(), "there are no credentials yet");
            if provider.begun.load(Ordering::SeqCst) > 0 {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
        provider.gate.notify_one();
        for _ in 0..2 {
            let other = tokio::time::timeout(LONG, request()).await.expect("it waits for another's future");
            let error = other.unwrap_err();
            assert!(matches!(error, SdkError::DispatchFailure(_)), "{error:?}");
        }
        assert!(first.await.is_err(), "nobody listens");
        assert_eq!(provider.begun.load(Ordering::SeqCst), 1, "they are kept");
    }

    /// Each load brings some that tell no end.
    #[derive(Debug, Clone, Default)]
    struct CountedCredentials(Arc<AtomicUsize>);

    impl ProvideCredentials for CountedCredentials {
        fn provide_credentials<'a>(&'a self) -> ProvidedCredentials<'a>
        where
            Self: 'a,
        {
            self.0.fetch_add(1, Ordering::SeqCst);
            ProvidedCredentials::ready(Ok(Credentials::new("key", "hidden", None, None, "test")))
        }
    }

    #[tokio::test]
    async fn l4_credentials_that_the_service_refuses_are_loaded_anew_but_seldom() {
        for (code, said, is_theirs) in [
            ("ExpiredTokenException", "on purpose", true),
            ("ExpiredToken", "on purpose", true),
            ("UnrecognizedClientException", "on purpose", true),
            ("InvalidClientTokenId", "on purpose", true),
            ("InvalidSignatureException", "on purpose", true),
            // A clock is off, and what was signed with is as good as before.
            ("InvalidSignatureException", "Signature expired: 20261129T1", false),
            ("InvalidSignatureException", "Signature not yet current: 20261129T1", false),
            ("AccessDeniedException", "on purpose", false),
            ("ThrottlingException", "on purpose", false),
        ] {
            let (provider, wall) = (CountedCredentials::default(), Arc::new(AtomicU64::new(1_000)));
            let are_bad = Arc::new(AtomicBool::new(false));
            let are_refused = Arc::clone(&are_bad);
            let stub = Stub::start(move |_, _| {
                if are_refused.load(Ordering::SeqCst) {
                    Fate::refusal(400, code, said)
                } else {
                    Fate::Answer(200, "{}".to_owned())
                }
            })
            .await;
            let shown = Arc::clone(&wall);
            let time: WallTime =
                Arc::new(move || SystemTime::UNIX_EPOCH + Duration::from_secs(shown.load(Ordering::SeqCst)));
            let client = outlasting_by(settings(&stub.endpoint, provider.clone()).await, time);
            let client = Client::from_conf(once(&client, LONG).build());
            for (now, is_bad, loads) in [
                (1_000, false, 1),
                (1_009, true, 1),
                // This one is refused, too, and shows that they have been bad for a while.
                (1_010, true, 1),
                (1_010, true, 2),
                (1_011, true, 2),
                (1_019, true, 2),
                (1_020, true, 2),
                (1_020, false, 3),
                (1_100, false, 3),
            ] {
                wall.store(now, Ordering::SeqCst);
                are_bad.store(is_bad, Ordering::SeqCst);
                let answer = client.describe_table().table_name("leases").send().await;
                assert_eq!(answer.is_err(), is_bad, "{answer:?}");
                let expected = if is_theirs { loads } else { 1 };
                assert_eq!(provider.0.load(Ordering::SeqCst), expected, "{code} ({said}) at {now} s");
            }
        }
    }
}
