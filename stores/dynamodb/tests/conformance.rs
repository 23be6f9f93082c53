//! The conformance suite on DynamoDB Local: each check has a namespace of its own in one table, and its handles share no more
//! than that. Once as it comes, once in shards, once without ages, once behind a prefix, and once on an emulator that leaves the old item
//! out of its refusals.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking, also in what they share"
)]

use std::sync::Arc;
use std::time::Duration;
use tenure_core::{Clock, Key};
use tenure_dynamodb::aws_sdk_dynamodb::Client;
use tenure_dynamodb::aws_sdk_dynamodb::config::Builder;
use tenure_dynamodb::aws_sdk_dynamodb::primitives::Blob;
use tenure_dynamodb::aws_sdk_dynamodb::types::AttributeValue;
use tenure_dynamodb::{DynamoConfig, DynamoStore};
use tenure_dynamodb_testkit::{NoOldItems, client, endpoint, make, plain};
use tenure_testkit::{Fixture, Live, Prefixed, conformance, unique};

const TABLE: &str = "tenure-conformance";

/// What an age falls short of the truth by: the second that the date of an answer has lost, that of the date that the write
/// went by, and a round trip.
const SHORT: Duration = Duration::from_millis(2300);

struct Namespace {
    name: String,
    shards: u16,
    configure: fn(DynamoConfig) -> DynamoConfig,
    client: fn(Builder) -> Builder,
}

async fn namespace(
    configure: fn(DynamoConfig) -> DynamoConfig,
    client: fn(Builder) -> Builder,
) -> Live<Namespace> {
    spread(1, configure, client).await
}

async fn spread(
    shards: u16,
    configure: fn(DynamoConfig) -> DynamoConfig,
    client: fn(Builder) -> Builder,
) -> Live<Namespace> {
    make(TABLE).await;
    Live::new(Namespace { name: unique("suite"), shards, configure, client }).falling_short(SHORT)
}

impl Fixture for Namespace {
    type Store = DynamoStore;

    async fn open(&self, clock: Arc<dyn Clock>) -> DynamoStore {
        // Many requests side by side may take a busy service long.
        let config = DynamoConfig::new(TABLE).namespace(&self.name).timeout(DynamoConfig::MAX_TIMEOUT);
        let config = (self.configure)(config.shards(self.shards));
        let client = Client::from_conf((self.client)(client(&endpoint())).build());
        DynamoStore::with_client(&client, config, clock).await.unwrap()
    }

    async fn damage(&self, key: &Key) -> bool {
        let client = plain();
        let partitions = (0..self.shards).map(|n| match self.shards {
            1 => self.name.clone(),
            count => format!("{}#{n}/{count}", self.name),
        });
        for partition in partitions {
            let item = [("namespace", &*partition), ("key", key.as_str())]
                .map(|(name, text)| (name.to_owned(), AttributeValue::S(text.to_owned())));
            let item = || Some(item.clone().into_iter().collect());
            let read = client.get_item().table_name(TABLE).set_key(item()).consistent_read(true).send().await;
            let Some(read) = read.unwrap().item else { continue };
            let record = read["encoded"].as_b().expect("a binary record").as_ref();
            let shorter = Blob::new(&record[..record.len() - 3]);
            let update = client.update_item().table_name(TABLE).set_key(item());
            let update = update.update_expression("SET encoded = :r");
            return update.expression_attribute_values(":r", AttributeValue::B(shorter)).send().await.is_ok();
        }
        panic!("the record is nowhere")
    }
}

conformance!(dynamodb, || namespace(|config| config, |client| client));

conformance!(without_ages, || namespace(|config| config.attested_ages(false), |client| client));

conformance!(in_shards, || spread(5, |config| config, |client| client));

conformance!(prefixed, || async { Prefixed::new(namespace(|config| config, |client| client).await, "p%_'") });

conformance!(without_old_items, || namespace(|config| config, |client| client.interceptor(NoOldItems)));
