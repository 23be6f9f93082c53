//! What an adopter finds that another one has left behind which was killed, on DynamoDB Local.
//!
//! Plan: the last one was killed as it was about to delete a row: the row is moved as any other; if it is gone, a peer may have done its work, so the
//! unit is told as doubtful, and opened by whoever says so, unless there is a row again. It was killed after that: the unit is opened,
//! also beside a row that the KCL's leader has made again, but not beside one that a peer has. An adoption whose code panics is a failure like
//! others.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use crate::adopt::{lease_table, options};
use crate::support::name_of;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tenure::fleet::Fleet;
use tenure::memory;
use tenure_dynamodb::DynamoConfig;
use tenure_dynamodb::aws_sdk_dynamodb::Client;
use tenure_dynamodb::aws_sdk_dynamodb::config::interceptors::BeforeTransmitInterceptorContextRef;
use tenure_dynamodb::aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use tenure_dynamodb::aws_sdk_dynamodb::error::BoxError;
use tenure_dynamodb_testkit::{action, client, endpoint};
use tenure_kcl::adopt::{Adopted, Adopter, AdoptionStep};
use tenure_kcl::{Fields, Format, Table};
use tenure_testkit::RealClock;

/// A table with these leases, and an adopter that has been killed at this step of each.
async fn killed(name: &str, units: &[&str], at: AdoptionStep) -> (Table, Fleet, Adopter) {
    let table = lease_table(name).await;
    let fleet = Fleet::new(memory(), "f").unwrap();
    let adopter = Adopter::new(table.clone(), fleet.clone(), options("a")).unwrap();
    for unit in units {
        table.create(unit, Fields::new()).await.unwrap();
        assert_eq!(adopter.adopt(unit, |step| step != at).await.unwrap(), Adopted::Stopped);
    }
    (table, fleet, adopter)
}

/// Whether workers may have it.
async fn is_open(fleet: &Fleet, unit: &str) -> bool {
    fleet.get(unit).await.unwrap().unwrap().spec.needs.is_empty()
}

#[tokio::test]
async fn a_unit_whose_row_somebody_has_deleted_meanwhile_is_told_and_not_opened() {
    let (table, fleet, adopter) = killed("doubt", &["done", "again"], AdoptionStep::Ready).await;
    for unit in ["done", "again"] {
        let row = table.take(&table.read(unit).await.unwrap().unwrap(), "peer").await.unwrap();
        // It has finished the work.
        table.delete(&row).await.unwrap();
    }
    let found = adopter.find().await.unwrap();
    assert_eq!((found.doubtful.len(), found.half_way.len(), found.rows.len()), (2, 0, 0), "{found:?}");
    assert_eq!(adopter.adopt("done", |_| true).await.unwrap(), Adopted::Doubtful);
    let all = adopter.adopt_all(vec!["done".to_owned()], BTreeSet::new(), Duration::ZERO, |_| {});
    assert_eq!(all.await.unwrap().doubtful, ["done".to_owned()].into());
    assert!(!is_open(&fleet, "done").await);
    table.create("again", Fields::new()).await.unwrap();
    assert!(adopter.open_doubtful("again").await.unwrap_err().to_string().contains("adopt it"));
    adopter.open_doubtful("done").await.unwrap();
    assert!(is_open(&fleet, "done").await);
    assert_eq!(adopter.adopt("again", |_| true).await.unwrap(), Adopted::Moved);
}

#[tokio::test]
async fn a_unit_whose_row_was_deleted_by_the_adopter_is_opened_with_what_it_had() {
    let (table, fleet, adopter) = killed("sure", &["gone", "remade", "had"], AdoptionStep::Deleted).await;
    for unit in ["remade", "had"] {
        table.create(unit, Fields::new()).await.unwrap();
    }
    let row = table.take(&table.read("had").await.unwrap().unwrap(), "peer").await.unwrap();
    let found = adopter.find().await.unwrap();
    assert_eq!((found.doubtful.len(), found.half_way), (0, vec!["gone".to_owned()]));
    for unit in ["gone", "remade"] {
        assert_eq!(adopter.adopt(unit, |_| true).await.unwrap(), Adopted::Opened);
        assert!(is_open(&fleet, unit).await && table.read(unit).await.unwrap().is_none());
    }
    let error = adopter.adopt("had", |_| true).await.unwrap_err();
    assert!(error.to_string().contains("made again") && !is_open(&fleet, "had").await, "{error}");
    assert_eq!(table.read("had").await.unwrap(), Some(row), "it is left to who has it");
}

/// What a program adds to its client: the second change of a row panics.
#[derive(Debug, Default)]
struct SecondPanics(AtomicUsize);

impl Intercept for SecondPanics {
    fn name(&self) -> &'static str {
        "second-panics"
    }

    fn read_before_transmit(
        &self,
        context: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let is_second = action(context) == "UpdateItem" && self.0.fetch_add(1, Ordering::SeqCst) == 1;
        assert!(!is_second, "no second update");
        Ok(())
    }
}

#[tokio::test]
async fn an_adoption_that_panics_is_told_as_failed() {
    let table = lease_table("panics").await;
    for unit in ["a", "b"] {
        table.create(unit, Fields::new()).await.unwrap();
    }
    let own = Client::from_conf(client(&endpoint()).interceptor(SecondPanics::default()).build());
    let config = DynamoConfig::new(name_of(&table));
    let spoilt = Table::with_client(&own, config, Format::kcl(), Arc::new(RealClock::new())).await.unwrap();
    let adopter = Adopter::new(spoilt, Fleet::new(memory(), "f").unwrap(), options("a")).unwrap();
    let units = ["a", "b"].map(str::to_owned).into();
    let all = adopter.adopt_all(units, BTreeSet::new(), Duration::ZERO, |_| {}).await.unwrap();
    assert_eq!((all.moved, all.failed.len()), (1, 1), "{all:?}");
    assert!(all.failed.values().all(|error| error.to_string().contains("no second update")), "{all:?}");
}
