//! What tests on DynamoDB share, those of the store and those of the layouts that other programs read and write too: the service
//! that `cargo xtask services up` starts, tables in it, clients that watch or spoil what goes over the wire, and processes that
//! say what they believe.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking, also in what they share"
)]
#![allow(clippy::missing_panics_doc, reason = "a test that can't go on fails")]

mod belief;
mod party;
pub mod stub;

pub use belief::{Beliefs, ProcessReport};
pub use party::{Party, monotonic};

use aws_smithy_types::body::SdkBody;
use std::sync::{Arc, Mutex};
use tenure_core::Key;
use tenure_core::op::{Outcome, Write};
use tenure_dynamodb::aws_sdk_dynamodb::Client;
use tenure_dynamodb::aws_sdk_dynamodb::config::interceptors::{
    BeforeDeserializationInterceptorContextRef, BeforeTransmitInterceptorContextMut,
    BeforeTransmitInterceptorContextRef,
};
use tenure_dynamodb::aws_sdk_dynamodb::config::{
    BehaviorVersion, Builder, Config, ConfigBag, Credentials, Intercept, Region, RuntimeComponents,
};
use tenure_dynamodb::aws_sdk_dynamodb::error::BoxError;
use tenure_dynamodb::{DynamoConfig, DynamoStore};
use tenure_store::Store;
use tenure_testkit::{LostMessage, RealClock};

/// The region of all tests. DynamoDB Local keeps each region's tables apart.
pub const REGION: &str = "eu-west-1";

/// Where DynamoDB Local listens.
#[must_use]
pub fn endpoint() -> String {
    std::env::var("TENURE_TEST_DYNAMODB").expect(
        "TENURE_TEST_DYNAMODB does not say where DynamoDB Local listens: `cargo xtask services up` starts it and prints that",
    )
}

/// The table of this name in the service.
#[must_use]
pub fn config(table: &str) -> DynamoConfig {
    DynamoConfig::new(table).region(REGION).endpoint(endpoint())
}

/// The key of that text.
#[must_use]
pub fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

/// The settings of a client with credentials that DynamoDB Local takes, as it takes any.
#[must_use]
pub fn client(endpoint: &str) -> Builder {
    let http = aws_smithy_http_client::Builder::new().build_http();
    Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .http_client(http)
        .region(Region::new(REGION))
        .endpoint_url(endpoint)
        .credentials_provider(Credentials::new("local", "local", None, None, "tests"))
}

/// A client of the service, with nothing between.
#[must_use]
pub fn plain() -> Client {
    Client::from_conf(client(&endpoint()).build())
}

/// A store on `table` by that client; the table is made if need be.
pub async fn store_by(client: Builder, table: &str, namespace: &str) -> DynamoStore {
    make(table).await;
    let config = DynamoConfig::new(table).namespace(namespace);
    let client = Client::from_conf(client.build());
    DynamoStore::with_client(&client, config, Arc::new(RealClock::new())).await.unwrap()
}

/// A store on `table`, which is made if need be.
pub async fn store(table: &str, namespace: &str) -> DynamoStore {
    store_by(client(&endpoint()), table, namespace).await
}

/// Makes the table if it isn't there.
pub async fn make(table: &str) {
    // DynamoDB Local has only just been started, perhaps on a busy machine.
    DynamoStore::create_table(&config(table).timeout(DynamoConfig::MAX_TIMEOUT)).await.unwrap();
}

/// Whether a write was won.
pub async fn wins(store: &impl Store, write: Write) -> bool {
    matches!(store.write(write).await.unwrap(), Outcome::Won { .. })
}

/// What a request asks for, such as `UpdateItem`.
#[must_use]
pub fn action(context: &BeforeTransmitInterceptorContextRef<'_>) -> String {
    let target = context.request().headers().get("x-amz-target").expect("every request names its action");
    target.rsplit('.').next().unwrap_or_default().to_owned()
}

/// Notes which actions are asked for, and fails where a read may be stale: DynamoDB Local's never are.
#[derive(Debug, Clone, Default)]
pub struct Actions(Arc<Mutex<Vec<String>>>);

impl Actions {
    /// Those since the last call.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Intercept for Actions {
    fn name(&self) -> &'static str {
        "actions"
    }

    fn read_before_transmit(
        &self,
        context: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let action = action(context);
        if ["GetItem", "BatchGetItem", "Query"].contains(&&*action) {
            let body = String::from_utf8_lossy(context.request().body().bytes().unwrap_or_default());
            assert!(body.contains("\"ConsistentRead\":true"), "a stale read: {body}");
        }
        self.0.lock().unwrap().push(action);
        Ok(())
    }
}

/// Makes the service an emulator that leaves the old item out of its refusals.
#[derive(Debug)]
pub struct NoOldItems;

impl Intercept for NoOldItems {
    fn name(&self) -> &'static str {
        "no old items"
    }

    fn modify_before_signing(
        &self,
        context: &mut BeforeTransmitInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let request = context.request_mut();
        let body = String::from_utf8(request.body().bytes().unwrap_or_default().to_vec())?;
        // Of the same length, because that is in the headers already.
        *request.body_mut() = SdkBody::from(body.replace("\"ALL_OLD\"", "\"NONE\"   "));
        Ok(())
    }
}

/// Loses requests that write, or their answers, when told to.
#[derive(Debug, Clone, Default)]
pub struct Losing(Arc<Mutex<PendingLoss>>);

#[derive(Debug, Default)]
struct PendingLoss {
    next: Option<LostMessage>,
    answer_is_lost: bool,
}

impl Losing {
    /// The next request that writes is lost, or its answer.
    pub fn lose_next(&self, lost: LostMessage) {
        self.0.lock().unwrap().next = Some(lost);
    }
}

impl Intercept for Losing {
    fn name(&self) -> &'static str {
        "losing"
    }

    fn read_before_transmit(
        &self,
        context: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if ["PutItem", "UpdateItem", "DeleteItem"].contains(&&*action(context)) {
            let mut state = self.0.lock().unwrap();
            match state.next.take() {
                Some(LostMessage::Request) => return Err("the request is lost".into()),
                Some(LostMessage::Answer) => state.answer_is_lost = true,
                None => {}
            }
        }
        Ok(())
    }

    fn read_before_deserialization(
        &self,
        _: &BeforeDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        // A manager that is tested so makes one request after the other.
        match std::mem::take(&mut self.0.lock().unwrap().answer_is_lost) {
            true => Err("the answer is lost".into()),
            false => Ok(()),
        }
    }
}
