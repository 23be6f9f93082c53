//! The table: whether it is fit for leases, and how it is made.

use crate::error::{failed, wrong_keys};
use crate::location::TableLocation;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::primitives::DateTime;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, MultiRegionConsistency, ScalarAttributeType,
    TableDescription, TableStatus, TimeToLiveDescription, TimeToLiveSpecification, TimeToLiveStatus,
};
use std::time::Duration;
use tenure_core::StoreError;
use tenure_store::parts::Call;

/// Looks at the table, and says what names it apart from every other, also from one of the same name before or after it.
pub(crate) async fn examine(
    client: &Client,
    place: &TableLocation,
    one_region: Option<&str>,
) -> Result<String, StoreError> {
    let answer = client.describe_table().table_name(&place.table).send().await;
    let answer = answer.map_err(|error| failed(place, Call::Read, error))?;
    let table =
        answer.table().ok_or_else(|| StoreError::unavailable(format!("{place}: no description came")))?;
    check_keys(place, table)?;
    check_status(place, table)?;
    check_regions(place, table, one_region)?;
    Ok(table.table_id().map_or_else(|| made(place, table), str::to_owned))
}

/// What tells tables apart on an emulator that gives them no id.
fn made(place: &TableLocation, table: &TableDescription) -> String {
    let when = table.creation_date_time().map_or(0.0, DateTime::as_secs_f64);
    format!("{}/{}@{when}", place.region, place.table)
}

fn check_keys(place: &TableLocation, table: &TableDescription) -> Result<(), StoreError> {
    let found: Vec<(&str, &KeyType, Option<&ScalarAttributeType>)> = table
        .key_schema()
        .iter()
        .map(|part| {
            let name = part.attribute_name();
            let defined = table.attribute_definitions().iter().find(|part| part.attribute_name() == name);
            (name, part.key_type(), defined.map(AttributeDefinition::attribute_type))
        })
        .collect();
    let text = Some(&ScalarAttributeType::S);
    let meant = place.layout.keys();
    if found.iter().copied().eq(meant.iter().map(|(name, role)| (&**name, role, text))) {
        return Ok(());
    }
    let shown: Vec<String> = found
        .iter()
        .map(|(name, role, kind)| {
            format!("{role} key {name:?} of type {}", kind.map_or("?", ScalarAttributeType::as_str))
        })
        .collect();
    Err(StoreError::invalid(wrong_keys(place, &format!("it has a {}", shown.join(" and a ")))))
}

fn check_status(place: &TableLocation, table: &TableDescription) -> Result<(), StoreError> {
    match table.table_status() {
        None | Some(TableStatus::Active | TableStatus::Updating) => Ok(()),
        Some(TableStatus::Creating) => {
            Err(StoreError::unavailable(format!("{place}: it is still being created; try again in a minute")))
        }
        Some(TableStatus::InaccessibleEncryptionCredentials) => Err(StoreError::unavailable(format!(
            "{place}: its encryption key can't be used; restore the access to that key in KMS"
        ))),
        Some(other) => Err(StoreError::unavailable(format!(
            "{place}: it is in the state {other}, not ACTIVE; name another table"
        ))),
    }
}

/// Where the last writer wins, a condition holds in one region only: two holders would be the outcome.
fn check_regions(
    place: &TableLocation,
    table: &TableDescription,
    one_region: Option<&str>,
) -> Result<(), StoreError> {
    let is_global = !table.replicas().is_empty() || table.global_table_version().is_some();
    let is_strong = table.multi_region_consistency() == Some(&MultiRegionConsistency::Strong);
    match one_region {
        Some(region) if region != place.region => Err(StoreError::invalid(format!(
            "{place}: all leases were to be in the region {region:?}, but this is {:?}; open the store there",
            place.region
        ))),
        None if is_global && !is_strong => Err(StoreError::invalid(format!(
            "{place}: it is a global table whose last writer wins, so that two regions could both have a lease; use a table \
             of one region, one with multi-region strong consistency, or promise by one_region={} that every process uses \
             this region",
            place.region
        ))),
        _ => Ok(()),
    }
}

/// Makes the table, billed on demand, and waits until it can be used. False if it was there already.
pub(crate) async fn create(client: &Client, place: &TableLocation) -> Result<bool, StoreError> {
    let missing =
        |error| StoreError::invalid(format!("{place}: the request to create it can't be made ({error})"));
    let mut request = client.create_table().table_name(&place.table).billing_mode(BillingMode::PayPerRequest);
    for (name, role) in place.layout.keys() {
        let part = KeySchemaElement::builder().attribute_name(&name).key_type(role).build();
        let kind = AttributeDefinition::builder().attribute_name(name).attribute_type(ScalarAttributeType::S);
        request =
            request.key_schema(part.map_err(missing)?).attribute_definitions(kind.build().map_err(missing)?);
    }
    let created = match request.send().await {
        Ok(_) => true,
        Err(error) if error.as_service_error().is_some_and(|error| error.is_resource_in_use_exception()) => {
            false
        }
        Err(error) => return Err(failed(place, Call::Write, error)),
    };
    await_active(client, place).await?;
    Ok(created)
}

/// Has the service delete items by the time that this attribute tells.
pub(crate) async fn delete_by(
    client: &Client,
    place: &TableLocation,
    attribute: &str,
) -> Result<(), StoreError> {
    let rule = TimeToLiveSpecification::builder().enabled(true).attribute_name(attribute).build();
    let rule =
        rule.map_err(|error| StoreError::invalid(format!("{place}: no such time to live ({error})")))?;
    let request = client.update_time_to_live().table_name(&place.table).time_to_live_specification(rule);
    request.send().await.map(drop).map_err(|error| failed(place, Call::Write, error))
}

/// The attribute by which the service deletes items; none while that is off.
pub(crate) async fn deleted_by(client: &Client, place: &TableLocation) -> Result<Option<String>, StoreError> {
    use TimeToLiveStatus::{Enabled, Enabling};
    let answer = client.describe_time_to_live().table_name(&place.table).send().await;
    let rule = answer.map_err(|error| failed(place, Call::Read, error))?.time_to_live_description;
    let is_on = |rule: &TimeToLiveDescription| matches!(rule.time_to_live_status(), Some(Enabled | Enabling));
    Ok(rule.filter(is_on).and_then(|rule| rule.attribute_name))
}

async fn await_active(client: &Client, place: &TableLocation) -> Result<(), StoreError> {
    /// AWS takes some seconds as a rule.
    const LOOKS: usize = 120;
    const PAUSE: Duration = Duration::from_secs(1);
    /// More of them in a row are no passing moment.
    const FAILURES: usize = 5;
    let mut failures = 0;
    for _ in 0..LOOKS {
        let answer = client.describe_table().table_name(&place.table).send().await;
        let status = match answer {
            Ok(answer) => answer.table().and_then(TableDescription::table_status).cloned(),
            // A table that has just been made need not be seen at once.
            Err(error) if error.as_service_error().is_some_and(|e| e.is_resource_not_found_exception()) => {
                None
            }
            Err(error) => {
                let error = failed(place, Call::Read, error);
                failures += 1;
                // Whoever has made the table is to go on with it: the next run would find it there, and leave it as it is.
                if !error.is_passing() || failures > FAILURES {
                    return Err(error);
                }
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        failures = 0;
        if status.is_some_and(|status| status != TableStatus::Creating) {
            return Ok(());
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(StoreError::unavailable(format!(
        "{place}: it is still being created after two minutes; try again later"
    )))
}

#[cfg(test)]
mod tests {
    //! Plan: what a description of a table says, good and bad: its keys, their types, its state, its regions. What DynamoDB
    //! Local can't be brought to say is only tested here.
    use super::*;
    use crate::layout::Layout;
    use aws_sdk_dynamodb::types::ReplicaDescription;
    use aws_sdk_dynamodb::types::builders::TableDescriptionBuilder;

    fn place() -> TableLocation {
        TableLocation {
            table: "jobs".into(),
            region: "eu-west-1".into(),
            endpoint: None,
            layout: Layout::native(),
        }
    }

    fn table(keys: &[(&str, KeyType, ScalarAttributeType)]) -> TableDescriptionBuilder {
        keys.iter().fold(TableDescription::builder(), |table, (name, role, kind)| {
            let part = KeySchemaElement::builder().attribute_name(*name).key_type(role.clone());
            let kind = AttributeDefinition::builder().attribute_name(*name).attribute_type(kind.clone());
            table.key_schema(part.build().unwrap()).attribute_definitions(kind.build().unwrap())
        })
    }

    #[test]
    fn only_tenure_s_keys_will_do() {
        use KeyType::{Hash, Range};
        use ScalarAttributeType::{B, S};
        let check = |keys: &[_]| check_keys(&place(), &table(keys).build());
        assert_eq!(check(&[("namespace", Hash, S), ("key", Range, S)]), Ok(()));
        for (keys, shown) in [
            (vec![("leaseKey", Hash, S)], "a HASH key \"leaseKey\" of type S)"),
            (vec![("namespace", Hash, S)], "a HASH key \"namespace\" of type S)"),
            (vec![("namespace", Hash, S), ("key", Range, B)], "RANGE key \"key\" of type B"),
            (vec![("pk", Hash, S), ("sk", Range, S)], "HASH key \"pk\" of type S and a RANGE key \"sk\""),
        ] {
            let error = check(&keys).unwrap_err();
            let text = error.to_string();
            assert_eq!(error.kind(), tenure_core::ErrorKind::Invalid);
            assert!(
                text.contains(shown) && text.contains("\"jobs\"") && text.contains("--create-table"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_table_must_be_usable() {
        let check = |status| check_status(&place(), &table(&[]).table_status(status).build());
        assert_eq!(check(TableStatus::Active), Ok(()));
        assert_eq!(check(TableStatus::Updating), Ok(()));
        for (status, says) in [
            (TableStatus::Creating, "still being created"),
            (TableStatus::InaccessibleEncryptionCredentials, "KMS"),
            (TableStatus::Deleting, "DELETING"),
            (TableStatus::Archived, "ARCHIVED"),
        ] {
            let text = check(status).unwrap_err().to_string();
            assert!(text.contains(says), "{text}");
        }
    }

    #[test]
    fn a_global_table_needs_strong_consistency_or_one_region() {
        let check = |table: TableDescriptionBuilder, one| check_regions(&place(), &table.build(), one);
        let global = || table(&[]).replicas(ReplicaDescription::builder().region_name("us-east-1").build());
        assert_eq!(check(table(&[]), None), Ok(()));
        assert_eq!(check(table(&[]), Some("eu-west-1")), Ok(()));
        assert_eq!(check(global().multi_region_consistency(MultiRegionConsistency::Strong), None), Ok(()));
        assert_eq!(check(global(), Some("eu-west-1")), Ok(()));
        for refused in [
            check(global(), None),
            check(global().multi_region_consistency(MultiRegionConsistency::Eventual), None),
            check(table(&[]).global_table_version("2017.11.29"), None),
        ] {
            let text = refused.unwrap_err().to_string();
            assert!(text.contains("last writer wins") && text.contains("one_region=eu-west-1"), "{text}");
        }
        for table in [global(), table(&[])] {
            let text = check(table, Some("us-east-1")).unwrap_err().to_string();
            assert!(text.contains("\"us-east-1\", but this is \"eu-west-1\""), "{text}");
        }
    }
}
