//! How the service is reached: region, credentials, TLS, timeouts.

use crate::config::DynamoConfig;
use crate::credential_load::CredentialLoad;
use crate::dates::Dates;
use aws_config::SdkConfig;
use aws_config::meta::region::RegionProviderChain;
use aws_credential_types::provider::SharedCredentialsProvider;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::config::{BehaviorVersion, Builder, Region, StalledStreamProtectionConfig};
use aws_smithy_http_client::tls::Provider;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
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
    Ok(Client::new(&outlasting(loaded)))
}

/// The same settings, where a load of credentials outlasts the request that began it.
fn outlasting(loaded: SdkConfig) -> SdkConfig {
    let Some(provider) = loaded.credentials_provider() else { return loaded };
    let provider = SharedCredentialsProvider::new(CredentialLoad::of(provider));
    loaded.into_builder().credentials_provider(provider).build()
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
