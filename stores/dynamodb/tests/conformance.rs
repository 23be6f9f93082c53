//! The conformance suite on DynamoDB Local: each check has a namespace of its own in one table, and its handles share no more
//! than that. Once as it comes, once without ages, once behind a prefix, and once on an emulator that leaves the old item
//! out of its refusals.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests fail by panicking, also in what they share"
)]

mod support;

use std::sync::Arc;
use std::time::Duration;
use support::{NoOldItems, client, endpoint, make, unique};
use tenure_core::{Clock, Key};
use tenure_dynamodb::aws_sdk_dynamodb::Client;
use tenure_dynamodb::aws_sdk_dynamodb::config::Builder;
use tenure_dynamodb::aws_sdk_dynamodb::primitives::Blob;
use tenure_dynamodb::aws_sdk_dynamodb::types::AttributeValue;
use tenure_dynamodb::{DynamoConfig, DynamoStore};
use tenure_store::{PrefixedStore, Store};
use tenure_testkit::{RealClock, Subject, conformance};

const TABLE: &str = "tenure-conformance";

/// What an age falls short of the truth by: the second that the date of an answer has lost, that of the date that the write
/// went by, and a round trip.
const SHORT: Duration = Duration::from_millis(2300);

struct Namespace<W> {
    name: String,
    configure: fn(DynamoConfig) -> DynamoConfig,
    client: fn(Builder) -> Builder,
    wrap: W,
    prefix: &'static str,
    clock: Arc<RealClock>,
}

async fn namespace<S, W: Fn(DynamoStore) -> S>(
    configure: fn(DynamoConfig) -> DynamoConfig,
    client: fn(Builder) -> Builder,
    prefix: &'static str,
    wrap: W,
) -> Namespace<W> {
    make(TABLE).await;
    Namespace { name: unique("suite"), configure, client, wrap, prefix, clock: Arc::new(RealClock::new()) }
}

impl<S: Store, W: Fn(DynamoStore) -> S + Send + Sync + 'static> Subject for Namespace<W>
where
    W: WrapsInto<Store = S>,
{
    type Store = S;

    async fn store(&self) -> S {
        // Many requests side by side may take a busy service long.
        let config = DynamoConfig::new(TABLE).namespace(&self.name).timeout(DynamoConfig::MAX_TIMEOUT);
        let config = (self.configure)(config);
        let client = Client::from_conf((self.client)(client(&endpoint())).build());
        let clock: Arc<dyn Clock> = self.clock.clone();
        (self.wrap)(DynamoStore::with_client(&client, config, clock).await.unwrap())
    }

    /// Cuts the record short, as another program or a hand would.
    async fn damage(&self, key: &Key) -> bool {
        let client = Client::from_conf(client(&endpoint()).build());
        let key = format!("{}{}", self.prefix, key.as_str());
        let item = [("namespace", &self.name), ("key", &key)]
            .map(|(name, text)| (name.to_owned(), AttributeValue::S(text.clone())));
        let item = || Some(item.clone().into_iter().collect());
        let read = client.get_item().table_name(TABLE).set_key(item()).consistent_read(true).send().await;
        let read = read.unwrap().item.expect("the record is there");
        let record = read["encoded"].as_b().expect("a binary record").as_ref();
        let shorter = Blob::new(&record[..record.len() - 3]);
        let update = client.update_item().table_name(TABLE).set_key(item());
        let update = update.update_expression("SET encoded = :r");
        update.expression_attribute_values(":r", AttributeValue::B(shorter)).send().await.is_ok()
    }

    fn key_bytes(&self) -> usize {
        Key::MAX_BYTES - self.prefix.len()
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }

    /// At least `span`: ages are told in whole seconds here, so that less would not show.
    async fn pass(&self, span: Duration) {
        tokio::time::sleep(span + SHORT).await;
    }
}

/// Names what a wrapper makes of a store.
trait WrapsInto {
    type Store;
}

impl<S, W: Fn(DynamoStore) -> S> WrapsInto for W {
    type Store = S;
}

conformance!(dynamodb, || namespace(|config| config, |client| client, "", |store| store));

conformance!(without_ages, || namespace(
    |config| config.attested_ages(false),
    |client| client,
    "",
    |store| store
));

conformance!(prefixed, || namespace(
    |config| config,
    |client| client,
    "p%_'",
    |store| PrefixedStore::new(store, "p%_'").unwrap()
));

conformance!(without_old_items, || namespace(
    |config| config,
    |client| client.interceptor(NoOldItems),
    "",
    |store| store
));
