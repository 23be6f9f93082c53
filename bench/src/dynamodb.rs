//! What the benches on DynamoDB share: the service that `cargo xtask bench` starts, clients of it, tables, and a count.

use crate::Trouble;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tenure_dynamodb::DynamoConfig;
use tenure_dynamodb::aws_sdk_dynamodb::Client;
use tenure_dynamodb::aws_sdk_dynamodb::config::interceptors::BeforeTransmitInterceptorContextRef;
use tenure_dynamodb::aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use tenure_dynamodb::aws_sdk_dynamodb::error::BoxError;
use tenure_dynamodb::aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
};

pub use tenure_dynamodb_testkit::{client, endpoint, make, plain};
pub use tenure_testkit::unique;

/// A setting of the environment that `cargo xtask bench` makes.
///
/// # Errors
/// It is not there.
pub fn told(variable: &str) -> Result<String, Trouble> {
    std::env::var(variable)
        .map_err(|_| format!("{variable} is not set; start this with `cargo xtask bench`").into())
}

/// The id of the process that listens there: the emulator's, which is told its port last.
///
/// # Errors
/// There is none on this host.
pub fn emulator() -> Result<String, Trouble> {
    let endpoint = endpoint();
    let port = endpoint.rsplit(':').next().unwrap_or_default();
    for process in std::fs::read_dir("/proc")? {
        let process = process?;
        // Of processes that end meanwhile, nothing is known.
        let command = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        let mut words = command.split(|byte| *byte == 0);
        if words.next().is_some_and(|program| program.ends_with(b"java"))
            && words.any(|word| word == port.as_bytes())
        {
            return Ok(process.file_name().to_string_lossy().into_owned());
        }
    }
    Err(format!("no java on this host was started with port {port}").into())
}

/// Where a table is, and a namespace of it.
#[must_use]
pub fn config(endpoint: &str, table: &str, namespace: &str) -> DynamoConfig {
    tenure_dynamodb_testkit::config(table).endpoint(endpoint).namespace(namespace)
}

/// A table with this HASH key, as other programs have.
///
/// # Errors
/// The service refuses.
pub async fn make_with_hash(client: &Client, table: &str, hash: &str) -> Result<(), Trouble> {
    let key = KeySchemaElement::builder().attribute_name(hash).key_type(KeyType::Hash).build()?;
    let definition = AttributeDefinition::builder().attribute_name(hash);
    let definition = definition.attribute_type(ScalarAttributeType::S).build()?;
    let request = client.create_table().table_name(table).billing_mode(BillingMode::PayPerRequest);
    request.key_schema(key).attribute_definitions(definition).send().await?;
    Ok(())
}

/// Counts what a client asks for.
#[derive(Debug, Clone, Default)]
pub struct Requests(Arc<AtomicU64>);

impl Requests {
    /// How many since the last call.
    #[must_use]
    pub fn take(&self) -> u64 {
        self.0.swap(0, Ordering::SeqCst)
    }
}

impl Intercept for Requests {
    fn name(&self) -> &'static str {
        "requests"
    }

    fn read_before_transmit(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}
