//! What the service says of the table, beyond what opening refuses: how it is billed, its other regions, the service's clock.

use crate::client::TableClient;
use crate::dates::Dates;
use crate::error::failed;
use aws_sdk_dynamodb::types::{BillingMode, TableDescription};
use std::time::Duration;
use tenure_core::Wall;
use tenure_store::parts::Call;
use tenure_store::{Inspection, ServerClock};

/// One `DescribeTable`, whose answer is dated.
pub(crate) async fn inspect(inner: &TableClient) -> Inspection {
    let mut found = Inspection::default();
    if inner.shards.count() > 1 {
        found.fine("shards", format!("the namespace is spread over {}", inner.shards.count()));
    }
    let place = &inner.place;
    let answer = inner.client.describe_table().table_name(&place.table).send().await;
    match answer {
        Ok(answer) => answer.table().into_iter().for_each(|table| add_table(table, &mut found)),
        Err(error) => {
            found.note("table", format!("can't be told: {}", failed(place, Call::Read, error)));
        }
    }
    let now = inner.dates.as_ref().and_then(Dates::at_least);
    found.clock = now.map(|now| ServerClock::new(Wall(now), Duration::from_secs(1)));
    found
}

fn add_table(table: &TableDescription, found: &mut Inspection) {
    let billing = table.billing_mode_summary().and_then(|summary| summary.billing_mode());
    let units = table.provisioned_throughput();
    let units = units.and_then(|units| units.read_capacity_units().zip(units.write_capacity_units()));
    match (billing, units) {
        (Some(BillingMode::PayPerRequest), _) => found.fine("table", "billed on demand"),
        (_, Some((reads, writes))) => found.note(
            "table",
            format!("{reads} read and {writes} write units a second are provisioned: beyond them calls are refused, and leases lost"),
        ),
        _ => {}
    }
    let strong = aws_sdk_dynamodb::types::MultiRegionConsistency::Strong;
    if !table.replicas().is_empty() && table.multi_region_consistency() != Some(&strong) {
        found.hazard(
            "table",
            "a global table whose last writer wins: only as long as every process uses this one region (one_region) do its conditions hold",
        );
    }
}

#[cfg(test)]
mod tests {
    //! Plan: how a table is billed, and that a global one is told: what DynamoDB Local can't be brought to say.
    use super::*;
    use aws_sdk_dynamodb::types::{BillingModeSummary, ProvisionedThroughputDescription, ReplicaDescription};

    fn told(table: aws_sdk_dynamodb::types::builders::TableDescriptionBuilder) -> Inspection {
        let mut found = Inspection::default();
        add_table(&table.build(), &mut found);
        found
    }

    #[test]
    fn what_a_table_is_billed_by_and_its_other_regions_are_told() {
        let table = TableDescription::builder;
        let on_demand = BillingModeSummary::builder().billing_mode(BillingMode::PayPerRequest).build();
        let units = ProvisionedThroughputDescription::builder()
            .read_capacity_units(5)
            .write_capacity_units(7)
            .build();
        assert_eq!(told(table().billing_mode_summary(on_demand)).facts[0].text, "billed on demand");
        let provisioned = told(table().provisioned_throughput(units));
        assert!(provisioned.facts[0].text.starts_with("5 read and 7 write"), "{provisioned:?}");
        assert_eq!(provisioned.hazards().count(), 0);
        let replica = ReplicaDescription::builder().region_name("us-east-1").build();
        assert!(told(table().replicas(replica)).hazards().any(|text| text.contains("one_region")));
    }
}
