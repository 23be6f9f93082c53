//! What TableTheory's leases ask of the service, and how items look.
//!
//! Plan: each operation is one request, also when it is refused, with just these expressions; items are the same to the byte, with
//! and without ttl, and with every attribute renamed; the second of the expiry is free, can't be refreshed and can be released;
//! what peers write in their roundings is read; a transaction of the
//! caller's own is refused once the lease is another's; held and not owned are told apart, by name; nothing is sent for a
//! mistake; four
//! actions are all that a role needs; a table that is not fit is told when it is opened.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests fail by panicking, also in what they share"
)]

use crate::support::{Bodies, START, TABLE, clock, item, keys, make_table, manager, plain, spoil, token};
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tenure_core::{Clock, ErrorKind};
use tenure_dynamodb::aws_sdk_dynamodb::types::{AttributeValue, Put, TransactWriteItem};
use tenure_dynamodb_testkit::{NoOldItems, client, config, endpoint};
use tenure_tabletheory::{HeldLease, ItemLease, LeaseError, LeaseKey, Manager, Names, TableTheoryOptions};
use tenure_testkit::{ManualClock, unique};

const TEN: Duration = Duration::from_secs(10);

/// A manager at [`START`] and 900 ms, and what it asks for.
async fn watched(options: TableTheoryOptions) -> (Manager, Bodies, Arc<ManualClock>) {
    let names = [Names::default().partition_key, Names::default().sort_key];
    make_table(TABLE, [&names[0], &names[1]]).await;
    let (bodies, clock) = (Bodies::default(), clock());
    clock.advance(Duration::from_millis(900));
    let manager = manager(client(&endpoint()).interceptor(bodies.clone()), options, clock.clone());
    (manager, bodies, clock)
}

/// The one request since the last look.
fn one(bodies: &Bodies) -> (String, serde_json::Value) {
    let mut all = bodies.take();
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

#[tokio::test]
async fn each_operation_is_one_request_as_peers_make_it() {
    let (manager, bodies, clock) = watched(TableTheoryOptions::new(TABLE)).await;
    let pk = unique("exact");
    let mut lease = manager.acquire(&pk, TEN).await.unwrap();
    let token = lease.token().to_owned();
    let acquire = json!({
        "TableName": TABLE,
        "Item": {
            "pk": {"S": pk}, "sk": {"S": "LOCK"}, "lease_token": {"S": token},
            "lease_expires_at": {"N": "1700000010"}, "ttl": {"N": "1700003610"},
        },
        "ConditionExpression":
            "attribute_not_exists(#pk) OR (#lease_expires_at <= :now AND attribute_type(#lease_token, :text))",
        "ExpressionAttributeNames":
            {"#pk": "pk", "#lease_expires_at": "lease_expires_at", "#lease_token": "lease_token"},
        "ExpressionAttributeValues": {":now": {"N": "1700000000"}, ":text": {"S": "S"}},
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    });
    assert_eq!(one(&bodies), ("PutItem".to_owned(), acquire));
    assert_eq!(lease.expires_at(), 1_700_000_010);

    assert!(manager.acquire(&pk, TEN).await.is_err());
    assert_eq!(one(&bodies).0, "PutItem", "refused");

    clock.advance(Duration::from_millis(2200));
    manager.refresh(&mut lease, Duration::from_millis(4950)).await.unwrap();
    let refresh = json!({
        "TableName": TABLE,
        "Key": {"pk": {"S": pk}, "sk": {"S": "LOCK"}},
        "UpdateExpression": "SET #lease_expires_at = :exp, #ttl = :ttl",
        "ConditionExpression": "#lease_token = :token AND #lease_expires_at > :now",
        "ExpressionAttributeNames":
            {"#lease_token": "lease_token", "#lease_expires_at": "lease_expires_at", "#ttl": "ttl"},
        "ExpressionAttributeValues": {
            ":token": {"S": token}, ":now": {"N": "1700000003"},
            ":exp": {"N": "1700000008"}, ":ttl": {"N": "1700003608"},
        },
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    });
    assert_eq!(one(&bodies), ("UpdateItem".to_owned(), refresh));
    assert_eq!((lease.token(), lease.expires_at()), (&*token, 1_700_000_008));

    let mut other = HeldLease::known_by(&pk, "LOCK", "another");
    assert!(manager.refresh(&mut other, TEN).await.is_err());
    assert_eq!(one(&bodies).0, "UpdateItem", "refused");
    manager.release(&mut other).await.unwrap();
    assert_eq!(one(&bodies).0, "DeleteItem", "refused");

    manager.release(&mut lease).await.unwrap();
    let release = json!({
        "TableName": TABLE,
        "Key": {"pk": {"S": pk}, "sk": {"S": "LOCK"}},
        "ConditionExpression": "#lease_token = :token",
        "ExpressionAttributeNames": {"#lease_token": "lease_token"},
        "ExpressionAttributeValues": {":token": {"S": token}},
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    });
    assert_eq!(one(&bodies), ("DeleteItem".to_owned(), release));
    assert_eq!(item(&pk, "LOCK").await, None);
}

#[tokio::test]
async fn without_ttl_none_is_written_and_an_old_one_is_removed() {
    let (with, ..) = watched(TableTheoryOptions::new(TABLE)).await;
    for options in
        [TableTheoryOptions::new(TABLE).ttl(false), TableTheoryOptions::new(TABLE).ttl_buffer(Duration::ZERO)]
    {
        let (without, bodies, _) = watched(options).await;
        let pk = unique("ttl");
        let lease = with.acquire_key(&pk, "s", TEN).await.unwrap();
        assert!(item(&pk, "s").await.unwrap().contains_key("ttl"));
        let mut lease = HeldLease::known_by(&pk, "s", lease.token());
        without.refresh(&mut lease, TEN).await.unwrap();
        let (_, body) = one(&bodies);
        assert_eq!(body["UpdateExpression"], "SET #lease_expires_at = :exp REMOVE #ttl");
        assert!(!item(&pk, "s").await.unwrap().contains_key("ttl"), "it would delete a live lease");
        without.release(&mut lease).await.unwrap();
        without.acquire_key(&pk, "s", TEN).await.unwrap();
        let found: Vec<String> = item(&pk, "s").await.unwrap().into_keys().collect();
        assert_eq!(found, ["lease_expires_at", "lease_token", "pk", "sk"]);
    }
}

#[tokio::test]
async fn every_attribute_can_have_another_name() {
    const RENAMED: &str = "tenure-tabletheory-renamed";
    make_table(RENAMED, ["PK", "SK"]).await;
    let [partition_key, sort_key, token, expires_at, ttl] =
        ["PK", "SK", "Token", "ExpiresAt", "expire-after"].map(str::to_owned);
    let names = Names { partition_key, sort_key, token, expires_at, ttl };
    let options = TableTheoryOptions::new(RENAMED).names(names).lock_sort_key("#LEASE");
    let (manager, bodies, clock) = watched(options).await;
    let pk = unique("renamed");
    let mut lease = manager.acquire(&pk, TEN).await.unwrap();
    let token = lease.token().to_owned();
    let item = json!({
        "PK": {"S": pk}, "SK": {"S": "#LEASE"}, "Token": {"S": token},
        "ExpiresAt": {"N": "1700000010"}, "expire-after": {"N": "1700003610"},
    });
    assert_eq!(one(&bodies).1["Item"], item);
    manager.refresh(&mut lease, TEN).await.unwrap();
    let held = manager.acquire(&pk, TEN).await.unwrap_err();
    let key = LeaseKey { pk: pk.clone(), sk: "#LEASE".into() };
    assert_eq!(held, LeaseError::Held { key, until: Some(lease.expires_at()) });
    clock.advance(TEN);
    let mut next = manager.acquire(&pk, TEN).await.unwrap();
    assert!(matches!(manager.refresh(&mut lease, TEN).await, Err(LeaseError::NotOwned { .. })));
    manager.release(&mut next).await.unwrap();
    assert_eq!(manager.look(&pk, "#LEASE").await, Ok(None));
}

#[tokio::test]
async fn the_second_of_the_expiry_is_free_can_t_be_refreshed_and_can_be_released() {
    let (manager, _, clock) = watched(TableTheoryOptions::new(TABLE)).await;
    let pk = unique("edge");
    // Ends at 1700000010; one millisecond before, it is still the holder's.
    let mut lease = manager.acquire(&pk, TEN).await.unwrap();
    clock.advance(Duration::from_millis(9099));
    assert_eq!(clock.now().wall.0, START * 1000 + 9999);
    assert!(matches!(manager.acquire(&pk, TEN).await, Err(LeaseError::Held { .. })));
    assert!(!lease.is_held(clock.now()), "the margin");
    manager.refresh(&mut lease.clone(), Duration::from_millis(1)).await.unwrap();
    clock.advance(Duration::from_millis(1));
    let before = item(&pk, "LOCK").await;
    let refused = manager.refresh(&mut lease, TEN).await.unwrap_err();
    assert_eq!(refused, LeaseError::NotOwned { key: lease.key().clone() });
    assert_eq!(item(&pk, "LOCK").await, before);
    manager.release(&mut lease).await.unwrap();
    assert_eq!(item(&pk, "LOCK").await, None, "expired, and released all the same");

    let mut old = manager.acquire(&pk, TEN).await.unwrap();
    clock.advance(TEN);
    let new = manager.acquire(&pk, TEN).await.unwrap();
    manager.release(&mut old).await.unwrap();
    let standing = ItemLease { token: new.token().to_owned(), expires_at: new.expires_at() };
    assert_eq!(manager.look(&pk, "LOCK").await, Ok(Some(standing)));
}

#[tokio::test]
async fn what_peers_write_is_understood() {
    let (manager, ..) = watched(TableTheoryOptions::new(TABLE)).await;
    for (expires_at, is_live) in [
        ("1700000001", true),
        // As no peer writes them, but DynamoDB compares them all the same.
        ("1700000000.5", true),
        ("1.7000000005E+9", true),
        ("1700000000", false),
        ("0", false),
        ("-1", false),
    ] {
        let pk = unique("peer");
        let mut item = keys(&pk, "LOCK");
        item.push(("lease_token".into(), AttributeValue::S("0E8F-upper".into())));
        item.push(("lease_expires_at".into(), AttributeValue::N(expires_at.into())));
        item.push(("note".into(), AttributeValue::Bool(true)));
        let put = plain().put_item().table_name(TABLE).set_item(Some(item.into_iter().collect()));
        put.send().await.unwrap();
        let acquired = manager.acquire(&pk, TEN).await;
        match is_live {
            true => assert!(matches!(acquired, Err(LeaseError::Held { .. })), "{expires_at}: {acquired:?}"),
            false => assert!(acquired.is_ok(), "{expires_at}: {acquired:?}"),
        }
    }
}

#[tokio::test]
async fn only_what_has_its_token_is_given_back() {
    let (manager, ..) = watched(TableTheoryOptions::new(TABLE)).await;
    let (number, late) = (AttributeValue::N("7".into()), AttributeValue::S("late".into()));
    for (spoilt, remains) in [
        (("lease_token", None), true),
        (("lease_token", Some(number)), true),
        // As with peers, a release does not look at the expiry.
        (("lease_expires_at", Some(late)), false),
    ] {
        let pk = unique("own");
        let mut lease = manager.acquire(&pk, TEN).await.unwrap();
        spoil(&pk, "LOCK", std::slice::from_ref(&spoilt)).await;
        let before = item(&pk, "LOCK").await;
        manager.release(&mut lease).await.unwrap();
        let after = item(&pk, "LOCK").await;
        assert_eq!(after, before.filter(|_| remains), "{spoilt:?}");
    }
}

#[tokio::test]
async fn a_mistake_is_told_before_anything_is_sent() {
    let (manager, bodies, _) = watched(TableTheoryOptions::new(TABLE)).await;
    let mut nameless = HeldLease::known_by("", "LOCK", "t");
    for error in [
        manager.acquire("", TEN).await.unwrap_err(),
        manager.acquire_key("a", "", TEN).await.unwrap_err(),
        manager.acquire("a", Duration::ZERO).await.unwrap_err(),
        // It might be over before it is held.
        manager.acquire("a", Duration::from_millis(1500)).await.unwrap_err(),
        manager.refresh(&mut nameless, TEN).await.unwrap_err(),
        manager.refresh(&mut HeldLease::known_by("a", "LOCK", "t"), Duration::ZERO).await.unwrap_err(),
        manager.release(&mut HeldLease::known_by("a", "LOCK", "")).await.unwrap_err(),
    ] {
        assert!(matches!(error, LeaseError::Invalid(_)), "{error}");
    }
    let client = crate::support::plain();
    let hours = Duration::from_secs(7200);
    for bad in [
        TableTheoryOptions::at(config(TABLE)),
        TableTheoryOptions::new("ab"),
        TableTheoryOptions::new(TABLE).skew_margin(hours),
    ] {
        let refused = Manager::with_client(&client, bad, clock(), token).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
    }
    let bad = TableTheoryOptions::at(config(TABLE)).skew_margin(hours);
    assert_eq!(Manager::open(bad, clock(), token).await.unwrap_err().kind(), ErrorKind::Invalid);
    let empty = Manager::with_client(&client, TableTheoryOptions::new(TABLE), clock(), String::new).unwrap();
    assert!(matches!(empty.acquire("a", TEN).await, Err(LeaseError::Invalid(_))));
    assert_eq!(bodies.take(), []);
    let fence = HeldLease::known_by("a", "LOCK", "t").fence().unwrap_err();
    let LeaseError::Store(fence) = fence else { panic!("{fence}") };
    assert_eq!(fence.kind(), ErrorKind::Unsupported);
}

#[tokio::test]
async fn a_guarded_transaction_is_refused_once_another_has_the_lease() {
    let (manager, _, clock) = watched(TableTheoryOptions::new(TABLE)).await;
    let pk = unique("guarded");
    let write = async |lease: &HeldLease| {
        let item = keys(&pk, "RESULT").into_iter().collect();
        let put = Put::builder().table_name(TABLE).set_item(Some(item)).build().unwrap();
        let put = TransactWriteItem::builder().put(put).build();
        let both =
            plain().transact_write_items().transact_items(manager.guard(lease).unwrap()).transact_items(put);
        both.send().await.is_ok()
    };
    let mut lease = manager.acquire(&pk, TEN).await.unwrap();
    assert!(write(&lease).await);
    manager.refresh(&mut lease, TEN).await.unwrap();
    assert!(write(&lease).await);
    clock.advance(TEN * 2);
    assert!(write(&lease).await, "nobody has taken it yet");
    let mut next = manager.acquire(&pk, TEN).await.unwrap();
    assert!(!write(&lease).await && write(&next).await);
    manager.release(&mut next).await.unwrap();
    assert!(!write(&next).await);
    assert!(matches!(manager.guard(&HeldLease::known_by(&pk, "LOCK", "")), Err(LeaseError::Invalid(_))));
}

#[tokio::test]
async fn four_actions_are_all_that_a_role_needs() {
    let (manager, bodies, _) = watched(TableTheoryOptions::new(TABLE)).await;
    let pk = unique("role");
    let mut lease = manager.acquire(&pk, TEN).await.unwrap();
    manager.refresh(&mut lease, TEN).await.unwrap();
    manager.look(&pk, "LOCK").await.unwrap();
    manager.release(&mut lease).await.unwrap();
    assert_eq!(lease.expires_at(), 0, "given back");
    let asked = bodies.take();
    assert!(asked.iter().all(|(action, body)| action != "GetItem" || body["ConsistentRead"] == true));
    let used: BTreeSet<String> = asked.into_iter().map(|(action, _)| action).collect();
    assert_eq!(used.into_iter().collect::<Vec<_>>(), ["DeleteItem", "GetItem", "PutItem", "UpdateItem"]);
}

#[tokio::test]
async fn an_emulator_that_leaves_the_old_item_out_is_asked_for_it() {
    let (_, bodies, clock) = watched(TableTheoryOptions::new(TABLE)).await;
    let client = client(&endpoint()).interceptor(NoOldItems).interceptor(bodies.clone());
    let manager = manager(client, TableTheoryOptions::new(TABLE), clock);
    let pk = unique("bare");
    let mut lease = manager.acquire(&pk, TEN).await.unwrap();
    let until = Some(lease.expires_at());
    let held = manager.acquire(&pk, TEN).await.unwrap_err();
    assert_eq!(held, LeaseError::Held { key: lease.key().clone(), until });
    let actions: Vec<String> = bodies.take().into_iter().map(|(action, _)| action).collect();
    assert_eq!(actions, ["PutItem", "PutItem", "GetItem"]);
    manager.release(&mut lease).await.unwrap();
    assert!(matches!(manager.refresh(&mut lease, TEN).await, Err(LeaseError::NotOwned { .. })));
}

#[tokio::test]
async fn a_table_that_is_not_fit_is_told_when_it_is_opened() {
    make_table(TABLE, ["pk", "sk"]).await;
    make_table("tenure-tabletheory-other", ["PK", "SK"]).await;
    let open = |table: &str| Manager::open(TableTheoryOptions::at(config(table)), clock(), token);
    open(TABLE).await.unwrap();
    for (table, kind, says) in [
        ("tenure-tabletheory-other", ErrorKind::Invalid, "a HASH key \"pk\" and a RANGE key \"sk\""),
        ("tenure-tabletheory-none", ErrorKind::Unavailable, "no such table"),
    ] {
        let error = open(table).await.unwrap_err();
        assert_eq!(error.kind(), kind);
        assert!(error.to_string().contains(says) && error.to_string().contains("--create-table"), "{error}");
    }
}
