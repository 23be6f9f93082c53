//! What an adopter finds in a table of the KCL's whose shards are split or merged, on DynamoDB Local.
//!
//! Plan: a shard that was read to its end; a child and its parent, in the table or moved already; and both once the parent was read to its end.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use crate::adopt::{lease_table, options};
use tenure::fleet::{Fleet, NewUnit};
use tenure::memory;
use tenure_dynamodb::aws_sdk_dynamodb::types::AttributeValue;
use tenure_dynamodb::service::text;
use tenure_kcl::adopt::Adopter;
use tenure_kcl::{Edit, Fields};

#[tokio::test]
async fn shards_whose_order_is_not_over_stay_where_it_is_known() {
    let table = lease_table("shards").await;
    let at = |checkpoint: &str| Fields::from([("checkpoint".to_owned(), text(checkpoint))]);
    let child_of = |parents: &[&str]| {
        let parents = parents.iter().map(ToString::to_string).collect();
        let mut fields = at("TRIM_HORIZON");
        fields.insert("parentShardId".to_owned(), AttributeValue::Ss(parents));
        fields
    };
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
    fleet.delete("moved").await.unwrap();
    let found = adopter.find().await.unwrap();
    assert_eq!(found.rows.keys().collect::<Vec<_>>(), ["child", "elsewhere", "other"]);
    assert!(found.resharding.is_empty() && found.finished.len() == 2);
}
