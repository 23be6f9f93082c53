//! The suite of leases over the dialect `kcl`, in the KCL's layout and in a8m's, on DynamoDB Local.
//!
//! Plan: a claimant for each process, all on one clock that moves when told to; rows spoiled in each way that a condition could
//! overlook; requests and answers lost between a claimant and the service. A handoff of the KCL's that begins meanwhile ends no lease before it is
//! released, and the next owner has it then.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests fail by panicking, also in what they share"
)]

use crate::support::{item, lease_table, name_of, number, put, text};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tenure_core::{Fence, StoreError};
use tenure_dynamodb::DynamoConfig;
use tenure_dynamodb::aws_sdk_dynamodb::Client;
use tenure_dynamodb::aws_sdk_dynamodb::types::AttributeValue;
use tenure_dynamodb_testkit::{Losing, client, endpoint};
use tenure_kcl::{Claimant, Edit, Format, Held, LeaseError, Options, Table};
use tenure_testkit::{LeaseRefusal, LeaseSubject, LostMessage, ManualClock, Tenant, lease_conformance, run};

const FAILOVER: Duration = Duration::from_secs(10);

struct Leases {
    name: String,
    format: Format,
    clock: Arc<ManualClock>,
}

impl Leases {
    async fn new(format: Format) -> Leases {
        let name = name_of(&lease_table("kcl-suite", format).await);
        Leases { name, format, clock: Arc::new(ManualClock::new()) }
    }
}

struct Process {
    claimant: Claimant,
    losing: Losing,
}

fn refusal(error: LeaseError) -> LeaseRefusal {
    match error {
        LeaseError::Store(error) => LeaseRefusal::Store(error),
        LeaseError::NotHeld(_) => LeaseRefusal::NotOwned,
        other => LeaseRefusal::Store(StoreError::unavailable(other.to_string())),
    }
}

impl LeaseSubject for Leases {
    type Tenant = Process;

    async fn tenant(&self) -> Process {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let losing = Losing::default();
        let client = Client::from_conf(client(&endpoint()).interceptor(losing.clone()).build());
        let config = DynamoConfig::new(&self.name);
        let table = Table::with_client(&client, config, self.format, self.clock.clone()).await.unwrap();
        let worker = format!("w{}", LAST.fetch_add(1, Ordering::SeqCst));
        let claimant = Claimant::new(table, Options::new(worker).failover(FAILOVER)).unwrap();
        Process { claimant, losing }
    }

    fn ttl(&self) -> Duration {
        FAILOVER
    }

    fn takeover(&self) -> Duration {
        FAILOVER * 11 / 10
    }

    fn has_fences(&self) -> bool {
        true
    }

    async fn pass(&self, span: Duration) {
        self.clock.advance(span);
    }

    async fn raw(&self, key: &str) -> Option<String> {
        item(&self.name, key).await.map(|item| format!("{item:?}"))
    }

    async fn damage(&self, key: &str, way: usize) -> bool {
        let mut row = item(&self.name, key).await.unwrap();
        let (name, value) = match way {
            0 => ("leaseCounter", Some(text("2"))),
            1 => ("leaseCounter", None),
            2 => ("leaseCounter", Some(number("-2"))),
            3 => ("leaseCounter", Some(number("2.5"))),
            4 => ("leaseOwner", Some(number("2"))),
            5 => ("leaseOwner", Some(AttributeValue::Bool(true))),
            6 if self.format == Format::kcl() => ("checkpointOwner", Some(number("2"))),
            _ => return false,
        };
        row.remove(name);
        row.extend(value.map(|value| (name.to_owned(), value)));
        let row: Vec<_> = row.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        put(&self.name, &row).await;
        true
    }
}

impl Tenant for Process {
    type Lease = Held;

    async fn try_acquire(&self, key: &str) -> Result<Held, LeaseRefusal> {
        self.claimant.try_take(key).await.map_err(refusal)?.ok_or(LeaseRefusal::Held)
    }

    async fn renew(&self, lease: &mut Held) -> Result<(), LeaseRefusal> {
        self.claimant.renew(lease, &Edit::new()).await.map_err(refusal)
    }

    async fn release(&self, lease: &mut Held) -> Result<(), LeaseRefusal> {
        self.claimant.release(lease).await.map_err(refusal)
    }

    fn is_held(&self, lease: &Held) -> bool {
        lease.is_held()
    }

    fn fence(&self, lease: &Held) -> Result<Fence, LeaseRefusal> {
        Ok(lease.fence())
    }

    fn lose_next(&self, lost: LostMessage) {
        self.losing.lose_next(lost);
    }
}

lease_conformance!(as_the_kcl_has_them, run, || Leases::new(Format::kcl()));
lease_conformance!(as_a8m_has_them, run, || Leases::new(Format::a8m()));

/// The KCL's leader begins to hand the lease over.
/// Somebody else writes to a row.
async fn change(table: &str, key: &str, change: impl FnOnce(&mut BTreeMap<String, AttributeValue>)) {
    let mut row = item(table, key).await.unwrap();
    change(&mut row);
    let row: Vec<_> = row.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    put(table, &row).await;
}

async fn hand_over(table: &str, key: &str, from: &str) {
    let owners = [("leaseOwner", "next"), ("checkpointOwner", from)];
    change(table, key, |row| row.extend(owners.map(|(name, who)| (name.to_owned(), text(who))))).await;
}

#[tokio::test]
async fn a_lease_that_is_handed_over_meanwhile_is_renewed_and_goes_to_the_next_one() {
    let table = lease_table("kcl-handed", Format::kcl()).await;
    let name = name_of(&table);
    let claimant = Claimant::new(table, Options::new("me").failover(FAILOVER)).unwrap();
    for is_renewed in [true, false] {
        let key = if is_renewed { "a" } else { "b" };
        let lease = claimant.try_take(key).await.unwrap().unwrap();
        hand_over(&name, key, "me").await;
        if is_renewed {
            claimant.renew(&lease, &Edit::new().set("n", number(1))).await.unwrap();
            assert!(lease.is_held() && lease.row().handing_over() == Some("me"), "{lease:?}");
        }
        claimant.release(&lease).await.unwrap();
        let row = item(&name, key).await.unwrap();
        assert_eq!((row.get("leaseOwner"), row.get("checkpointOwner")), (Some(&text("next")), None));
        assert_eq!(row.contains_key("n"), is_renewed);
    }
}

#[tokio::test]
async fn s1_an_earlier_lease_of_one_claimant_takes_nothing_from_a_later_one() {
    let table = lease_table("kcl-earlier", Format::kcl()).await;
    let name = name_of(&table);
    let claimant = Claimant::new(table, Options::new("me").failover(FAILOVER)).unwrap();
    for is_handed_over in [false, true] {
        let key = if is_handed_over { "a" } else { "b" };
        let earlier = claimant.try_take(key).await.unwrap().unwrap();
        // Another process of ours has taken it, and given it back.
        change(&name, key, |row| {
            row.remove("leaseOwner");
            row.extend(["leaseCounter", "tenureGivenBack"].map(|name| (name.to_owned(), number(100))));
        })
        .await;
        let later = claimant.try_take(key).await.unwrap().unwrap();
        if is_handed_over {
            hand_over(&name, key, "me").await;
        }
        claimant.release(&earlier).await.unwrap();
        claimant.renew(&later, &Edit::new()).await.unwrap();
        assert!(later.is_held(), "{later:?}");
    }
}
