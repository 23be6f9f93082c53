//! Real processes of the Kinesis Client Library and of ours on one lease table.
//!
//! Plan: one of each joins, then another of each, and they share evenly; one of each is killed with SIGKILL and the others take
//! over everything, evenly; one stops, of ours in one story, of theirs in the other, and the last has all; throughout, no lease has two believers of ours at any time, nor two
//! of whom one is theirs for longer than the dialect's own rule allows, counters grow from each holder to
//! the next, and attributes that are nobody's business stay as they were. The checker of all that is checked itself.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking, also in what they share"
)]

mod ours;
mod theirs;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tenure_dynamodb::aws_sdk_dynamodb::Client;
use tenure_dynamodb::aws_sdk_dynamodb::primitives::Blob;
use tenure_dynamodb::aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType, ScalarAttributeType,
};
use tenure_dynamodb_testkit::{Beliefs, Party, endpoint, monotonic, plain};
use tenure_testkit::unique;

type Item = std::collections::BTreeMap<String, AttributeValue>;

const LEASES: usize = 12;
const FAILOVER: Duration = Duration::from_secs(2);
/// A busy machine wakes processes up late.
const SLACK: Duration = Duration::from_millis(1000);
/// What a worker changes in a lease.
const ITS_OWN: [&str; 4] = ["leaseOwner", "leaseCounter", "ownerSwitchesSinceCheckpoint", "tenureGivenBack"];

/// What all processes of a table are told.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    pub(crate) endpoint: String,
    pub(crate) table: String,
    pub(crate) failover: Duration,
    pub(crate) steals: usize,
}

/// A lease table, as those who test see it.
struct Table {
    client: Client,
    name: String,
}

fn text(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

fn number(text: &str) -> AttributeValue {
    AttributeValue::N(text.to_owned())
}

impl Table {
    /// A table with leases that nobody has.
    async fn create() -> Table {
        let (client, name) = (plain(), unique("tenure-interop"));
        let key =
            KeySchemaElement::builder().attribute_name("leaseKey").key_type(KeyType::Hash).build().unwrap();
        let definition = AttributeDefinition::builder()
            .attribute_name("leaseKey")
            .attribute_type(ScalarAttributeType::S)
            .build()
            .unwrap();
        let request = client.create_table().table_name(&name).billing_mode(BillingMode::PayPerRequest);
        request.key_schema(key).attribute_definitions(definition).send().await.unwrap();
        let table = Table { client, name };
        for n in 0..LEASES {
            let item = table.client.put_item().table_name(&table.name);
            item.set_item(Some(lease(n).into_iter().collect())).send().await.unwrap();
        }
        table
    }

    fn terms(&self) -> Terms {
        Terms { endpoint: endpoint(), table: self.name.clone(), failover: FAILOVER, steals: 3 }
    }

    async fn items(&self) -> Vec<Item> {
        let answer = self.client.scan().table_name(&self.name).consistent_read(true).send().await.unwrap();
        answer.items.unwrap_or_default().into_iter().map(|item| item.into_iter().collect()).collect()
    }

    /// Which leases each owner has; nobody's are not counted.
    async fn owners(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut owners: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
        for item in self.items().await {
            let read = |name: &str| item.get(name).and_then(|value| value.as_s().ok()).cloned();
            if let Some(owner) = read("leaseOwner") {
                owners.entry(owner).or_default().insert(read("leaseKey").unwrap());
            }
        }
        owners
    }

    /// Waits until these processes, and no others, have the leases, each as many as the others, by the table and by what they
    /// say. Tells how long it took.
    async fn even(&self, parties: &[&Party], limit: Duration) -> Duration {
        let start = monotonic();
        loop {
            let owners = self.owners().await;
            let even = owners.len() == parties.len()
                && parties.iter().all(|party| {
                    let held = party.held();
                    held.len() == LEASES / parties.len() && owners.get(&party.id) == Some(&held)
                });
            let took = Duration::from_nanos(monotonic() - start);
            if even {
                return took;
            }
            assert!(
                took < limit,
                "not even after {limit:?}: by the table {owners:?}, by themselves {:?}",
                parties.iter().map(|party| (&party.id, party.held())).collect::<Vec<_>>()
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// A lease as the library writes it, and attributes of every type that are not its business.
fn lease(n: usize) -> Item {
    let strings = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
    let map = [("inner".to_owned(), AttributeValue::Null(true))].into();
    [
        ("leaseKey", text(&format!("shard-{n:02}"))),
        ("leaseCounter", number("0")),
        ("checkpoint", text("TRIM_HORIZON")),
        ("checkpointSubSequenceNumber", number("0")),
        ("ownerSwitchesSinceCheckpoint", number("0")),
        ("parentShardIds", AttributeValue::Ss(strings(&["p1", "p2"]))),
        ("x-text", text("é \u{1F980}")),
        ("x-number", number("-12345678901234567890.12345")),
        ("x-bytes", AttributeValue::B(Blob::new([0, 255, 7]))),
        ("x-bool", AttributeValue::Bool(false)),
        ("x-null", AttributeValue::Null(true)),
        ("x-texts", AttributeValue::Ss(strings(&["a", "b"]))),
        ("x-numbers", AttributeValue::Ns(strings(&["1", "2.5"]))),
        ("x-blobs", AttributeValue::Bs(vec![Blob::new([1]), Blob::new([2])])),
        ("x-list", AttributeValue::L(vec![text("a"), number("1")])),
        ("x-map", AttributeValue::M(map)),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// What no worker may change.
fn rest(items: impl IntoIterator<Item = Item>) -> BTreeMap<String, Item> {
    let rest = items.into_iter().map(|mut item| {
        ITS_OWN.iter().for_each(|name| drop(item.remove(*name)));
        // Sets have no order.
        for value in item.values_mut() {
            match value {
                AttributeValue::Ss(texts) | AttributeValue::Ns(texts) => texts.sort(),
                AttributeValue::Bs(blobs) => blobs.sort_by(|a, b| a.as_ref().cmp(b.as_ref())),
                _ => {}
            }
        }
        (item["leaseKey"].as_s().unwrap().clone(), item)
    });
    rest.collect()
}

type Start = fn(usize, &Terms) -> Party;

/// The whole story, with processes of the given kinds; the last is the one that stops.
async fn story(kinds: [Start; 4]) {
    let limit = FAILOVER * 20;
    let table = Table::create().await;
    let mut beliefs = Beliefs::default();
    let start = |n: usize| kinds[n](n, &table.terms());
    let (first, second) = (start(0), start(1));
    first.await_ready();
    second.await_ready();
    let took = table.even(&[&first, &second], limit).await;
    println!("two have come: even after {took:?}");
    let (third, fourth) = (start(2), start(3));
    third.await_ready();
    fourth.await_ready();
    let took = table.even(&[&first, &second, &third, &fourth], limit).await;
    println!("four have come: even after {took:?}");
    for victim in [first, second] {
        let (said, dead) = victim.kill();
        beliefs.add(&said, dead);
    }
    let took = table.even(&[&third, &fourth], limit).await;
    println!("two of four are killed: the others are even after {took:?}");
    let (said, gone) = fourth.stop();
    beliefs.add(&said, gone);
    let took = table.even(&[&third], limit).await;
    println!("one of two stops: the other has all after {took:?}");
    let (said, gone) = third.stop();
    beliefs.add(&said, gone);

    // Whoever is stolen from sees it at its next renewal.
    let allowed = FAILOVER / 3 + SLACK;
    println!("{} tenures, the longest overlap {:?}", beliefs.tenures(), beliefs.longest_overlap());
    assert_eq!(beliefs.violations(allowed), "", "longer than {allowed:?}");
    assert!(beliefs.tenures() >= LEASES * 2, "too little happened to tell: {beliefs:?}");
    assert_eq!(rest(table.items().await), rest((0..LEASES).map(lease)), "what is not theirs is as it was");
}

fn ours(n: usize, terms: &Terms) -> Party {
    ours::start("theirs_goes_on_alone", &format!("ours-{n}"), terms)
}

fn theirs(n: usize, terms: &Terms) -> Party {
    theirs::start(&format!("kcl-{n}"), terms)
}

#[tokio::test]
async fn theirs_goes_on_alone() {
    if !ours::worked().await {
        story([ours, theirs, theirs, ours]).await;
    }
}

#[tokio::test]
async fn ours_goes_on_alone() {
    story([theirs, ours, ours, theirs]).await;
}
