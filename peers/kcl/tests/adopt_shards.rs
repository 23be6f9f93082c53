//! What an adopter finds in a table of the KCL's whose shards are split or merged, on DynamoDB Local.
//!
//! Plan: a shard that was read to its end; a child and its parent, in the table or moved already; and both once the parent was read to its end, in the
//! table or by the fleet. A shard that is finished, or has children, only after the look is given back. Where rows are no shards, all are moved.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use crate::adopt::{lease_table, options};
use std::collections::BTreeSet;
use std::time::Duration;
use tenure::fleet::{Fleet, NewUnit, Status};
use tenure::memory;
use tenure_dynamodb::aws_sdk_dynamodb::types::AttributeValue;
use tenure_dynamodb::service::text;
use tenure_kcl::adopt::Adopter;
use tenure_kcl::{Edit, Fields};

fn at(checkpoint: &str) -> Fields {
    [("checkpoint".to_owned(), text(checkpoint))].into()
}

fn child_of(parents: &[&str]) -> Fields {
    let parents = parents.iter().map(ToString::to_string).collect();
    let mut fields = at("TRIM_HORIZON");
    fields.insert("parentShardId".to_owned(), AttributeValue::Ss(parents));
    fields
}

#[tokio::test]
async fn shards_whose_order_is_not_over_stay_where_it_is_known() {
    let table = lease_table("shards").await;
    table.create("old", at("SHARD_END")).await.unwrap();
    table.create("parent", at("49")).await.unwrap();
    table.create("child", child_of(&["parent", "old"])).await.unwrap();
    table.create("elsewhere", child_of(&["moved"])).await.unwrap();
    table.create("other", child_of(&["old", "long gone"])).await.unwrap();
    let fleet = Fleet::new(memory(), "f").unwrap();
    fleet.create(NewUnit::named("moved")).await.unwrap();
    let adopter = Adopter::new(table.clone(), fleet.clone(), options("a")).unwrap();
    let found = adopter.find().await.unwrap();
    assert_eq!(found.rows.keys().collect::<Vec<_>>(), ["other"]);
    assert_eq!(found.finished, ["old".to_owned()].into());
    let waits = [("child", "parent"), ("elsewhere", "moved")];
    assert_eq!(found.resharding, waits.map(|(child, parent)| (child.to_owned(), parent.to_owned())).into());
    // Both parents are read to their ends.
    let end = Edit::new().set("checkpoint", text("SHARD_END"));
    table.force_update("parent", &end).await.unwrap();
    // The unit of one stays, as done.
    fleet.update("moved", |spec, _| spec.status = Status::Done).await.unwrap();
    let found = adopter.find().await.unwrap();
    assert_eq!(found.rows.keys().collect::<Vec<_>>(), ["child", "elsewhere", "other"]);
    assert!(found.resharding.is_empty() && found.finished.len() == 2);
}

#[tokio::test]
async fn a_shard_that_ends_between_the_look_and_its_move_is_given_back() {
    let table = lease_table("ends").await;
    for shard in ["parent", "ended", "plain"] {
        table.create(shard, at("49")).await.unwrap();
    }
    let fleet = Fleet::new(memory(), "f").unwrap();
    let adopter = Adopter::new(table.clone(), fleet.clone(), options("a")).unwrap();
    let chosen: Vec<String> = adopter.find().await.unwrap().rows.into_keys().collect();
    assert_eq!(chosen, ["ended", "parent", "plain"]);
    // A worker of the KCL comes to the end of one, and makes its children before it says so; of the other it has said so.
    table.create("child", child_of(&["parent"])).await.unwrap();
    table.force_update("ended", &Edit::new().set("checkpoint", text("SHARD_END"))).await.unwrap();
    let all = adopter.adopt_all(chosen, BTreeSet::new(), Duration::ZERO, |_| {}).await.unwrap();
    assert_eq!((all.moved, all.failed.len()), (1, 0), "{all:?}");
    assert_eq!(all.resharding, ["ended", "parent"].map(str::to_owned).into());
    for shard in ["ended", "parent"] {
        let row = table.read(shard).await.unwrap().unwrap();
        assert!(row.owner().is_none(), "{shard} is to be had by its workers");
        assert!(fleet.get(shard).await.unwrap().is_none(), "{shard} is none of the fleet's");
    }
    assert!(fleet.get("plain").await.unwrap().is_some() && table.read("plain").await.unwrap().is_none());
}

#[tokio::test]
async fn rows_that_are_no_shards_are_moved_in_any_order() {
    let table = lease_table("plain").await;
    table.create("old", at("SHARD_END")).await.unwrap();
    table.create("parent", at("49")).await.unwrap();
    table.create("child", child_of(&["parent"])).await.unwrap();
    let fleet = Fleet::new(memory(), "f").unwrap();
    let adopter = Adopter::new(table, fleet, options("a").shards(false)).unwrap();
    let found = adopter.find().await.unwrap();
    assert_eq!(found.rows.keys().collect::<Vec<_>>(), ["child", "old", "parent"]);
    assert!(found.resharding.is_empty() && found.finished.is_empty());
    let names = found.rows.into_keys().collect();
    let all = adopter.adopt_all(names, BTreeSet::new(), Duration::ZERO, |_| {}).await.unwrap();
    assert_eq!((all.moved, all.failed.len(), all.resharding.len()), (3, 0, 0), "{all:?}");
}
