//! The suite of leases on TableTheory's layout, on DynamoDB Local. Plan: every process has a client and a manager of its own, and
//! all have one simulated clock; each check has keys of its own.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests fail by panicking, also in what they share"
)]

use crate::support::{TABLE, clock, item, make_table, manager, spoil};
use std::sync::Arc;
use std::time::Duration;
use tenure_core::Fence;
use tenure_dynamodb::aws_sdk_dynamodb::types::AttributeValue;
use tenure_dynamodb_testkit::{Losing, client, endpoint};
use tenure_tabletheory::{HeldLease, LeaseError, Manager, TableTheoryOptions};
use tenure_testkit::{
    LeaseRefusal, LeaseSubject, LostMessage, ManualClock, Tenant, lease_conformance, run, unique,
};

const TTL: Duration = Duration::from_secs(10);

/// Leases whose keys begin alike.
struct Keys {
    prefix: String,
    clock: Arc<ManualClock>,
    options: fn(TableTheoryOptions) -> TableTheoryOptions,
}

struct Process {
    prefix: String,
    manager: Manager,
    losing: Losing,
}

async fn keys(options: fn(TableTheoryOptions) -> TableTheoryOptions) -> Keys {
    make_table(TABLE, ["pk", "sk"]).await;
    let clock = clock();
    // So that rounding matters.
    clock.advance(Duration::from_millis(730));
    Keys { prefix: unique("suite"), clock, options }
}

impl LeaseSubject for Keys {
    type Tenant = Process;

    async fn tenant(&self) -> Process {
        let losing = Losing::default();
        let options = (self.options)(TableTheoryOptions::new(TABLE));
        let client = client(&endpoint()).interceptor(losing.clone());
        Process { prefix: self.prefix.clone(), manager: manager(client, options, self.clock.clone()), losing }
    }

    fn ttl(&self) -> Duration {
        TTL
    }

    fn takeover(&self) -> Duration {
        TTL
    }

    fn has_fences(&self) -> bool {
        false
    }

    async fn pass(&self, span: Duration) {
        self.clock.advance(span);
    }

    async fn raw(&self, key: &str) -> Option<String> {
        item(&format!("{}/{key}", self.prefix), "LOCK").await.map(|item| format!("{item:?}"))
    }

    async fn damage(&self, key: &str, way: usize) -> bool {
        let (text, number) = (AttributeValue::S("1".into()), AttributeValue::N("1".into()));
        let ways: [&[(&str, Option<AttributeValue>)]; 7] = [
            &[("lease_expires_at", Some(text))],
            &[("lease_expires_at", None)],
            &[("lease_token", None)],
            &[("lease_token", Some(number.clone()))],
            // Over, by its number, since long ago: peers write over these.
            &[("lease_token", None), ("lease_expires_at", Some(number.clone()))],
            &[("lease_token", Some(AttributeValue::Null(true))), ("lease_expires_at", Some(number))],
            &[("lease_token", None), ("lease_expires_at", None), ("ttl", None)],
        ];
        if let Some(way) = ways.get(way) {
            spoil(&format!("{}/{key}", self.prefix), "LOCK", way).await;
        }
        way < ways.len()
    }
}

impl Tenant for Process {
    type Lease = HeldLease;

    async fn try_acquire(&self, key: &str) -> Result<HeldLease, LeaseRefusal> {
        self.manager.acquire(&format!("{}/{key}", self.prefix), TTL).await.map_err(refusal)
    }

    async fn renew(&self, lease: &mut HeldLease) -> Result<(), LeaseRefusal> {
        self.manager.refresh(lease, TTL).await.map_err(refusal)
    }

    async fn release(&self, lease: &mut HeldLease) -> Result<(), LeaseRefusal> {
        self.manager.release(lease).await.map_err(refusal)
    }

    fn is_held(&self, lease: &HeldLease) -> bool {
        lease.is_held(self.manager.clock().now())
    }

    fn fence(&self, lease: &HeldLease) -> Result<Fence, LeaseRefusal> {
        lease.fence().map_err(refusal)
    }

    fn lose_next(&self, lost: LostMessage) {
        self.losing.lose_next(lost);
    }
}

fn refusal(error: LeaseError) -> LeaseRefusal {
    match error {
        LeaseError::Held { .. } => LeaseRefusal::Held,
        LeaseError::NotOwned { .. } => LeaseRefusal::NotOwned,
        LeaseError::Store(error) => LeaseRefusal::Store(error),
        other => LeaseRefusal::Store(tenure_core::StoreError::invalid(other.to_string())),
    }
}

lease_conformance!(tabletheory, run, || keys(|options| options));
lease_conformance!(without_ttl, run, || keys(|options| options.ttl(false).skew_margin(Duration::ZERO)));

#[tokio::test]
async fn a_new_table_deletes_items_by_the_attribute_that_the_options_name() {
    use tenure_tabletheory::Names;
    let names = Names { ttl: "gone_at".to_owned(), ..Names::default() };
    let (on, off) = (unique("tt-ttl"), unique("tt-no-ttl"));
    for (table, options, attribute) in [
        (&on, TableTheoryOptions::at(tenure_dynamodb_testkit::config(&on)).names(names), Some("gone_at")),
        (&off, TableTheoryOptions::at(tenure_dynamodb_testkit::config(&off)).ttl(false), None),
    ] {
        assert!(Manager::create_table(&options).await.unwrap());
        let service = crate::support::plain();
        let asked = service.describe_time_to_live().table_name(table).send().await.unwrap();
        let rule = asked.time_to_live_description.unwrap();
        assert_eq!(rule.attribute_name(), attribute);
        assert!(!Manager::create_table(&options).await.unwrap(), "one that is there stays as it is");
        let manager =
            Manager::open(options.clone(), crate::support::clock(), crate::support::token).await.unwrap();
        assert_eq!(manager.deletes_by().await.unwrap().as_deref(), attribute);
        assert_eq!(options.ttl_attribute(), attribute);
    }
}

#[tokio::test]
async fn a_new_table_deletes_items_though_the_first_look_at_it_fails() {
    use tenure_dynamodb_testkit::stub::{Fate, Stub};
    let table = unique("tt-shaky");
    let is_first = std::sync::atomic::AtomicBool::new(true);
    let stub = Stub::start(move |action, _| {
        let fails = action == "DescribeTable" && is_first.swap(false, std::sync::atomic::Ordering::SeqCst);
        if fails { Fate::RequestLost } else { Fate::Through }
    })
    .await;
    let place = tenure_dynamodb_testkit::config(&table).endpoint(&stub.endpoint);
    assert!(Manager::create_table(&TableTheoryOptions::at(place)).await.unwrap());
    let asked = crate::support::plain().describe_time_to_live().table_name(&table).send().await.unwrap();
    assert_eq!(asked.time_to_live_description.unwrap().attribute_name(), Some("ttl"));
}
