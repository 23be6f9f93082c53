//! The rows of a lease table in the KCL's and a8m's layout, changed one at a time on DynamoDB Local.
//!
//! Plan: only tables with the right key open; a row is created once, read with all its fields, taken, renewed, updated, evicted
//! and deleted on condition of what was read, and fields of every type stay to the byte; rows as the peers write them, and as
//! nobody should; a table of several pages is read to its end, though pages are throttled; lost answers are resolved by reading, and where they can't be,
//! nothing is told as not done.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests fail by panicking, also in what they share"
)]

use crate::support::{item, lease_table, name_of, number, open, put, text};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tenure_core::ErrorKind;
use tenure_dynamodb::DynamoConfig;
use tenure_dynamodb::aws_sdk_dynamodb::Client;
use tenure_dynamodb::aws_sdk_dynamodb::primitives::Blob;
use tenure_dynamodb::aws_sdk_dynamodb::types::AttributeValue;
use tenure_dynamodb_testkit::stub::{Fate, Stub};
use tenure_dynamodb_testkit::{client, config, make, plain};
use tenure_kcl::{Edit, Fields, Format, LeaseError, Row, Table, Unowned};
use tenure_testkit::{ManualClock, RealClock, unique};

/// A value of each type that DynamoDB has.
fn every_type() -> Fields {
    let map = AttributeValue::M([("x".to_owned(), AttributeValue::L(vec![number("1")]))].into());
    [
        ("s", text("")),
        ("n", number("0.1000000000000000000000000000000000001")),
        ("b", AttributeValue::B(Blob::new([0, 255]))),
        ("bool", AttributeValue::Bool(false)),
        ("null", AttributeValue::Null(true)),
        ("l", AttributeValue::L(vec![text("a"), map.clone()])),
        ("m", map),
        ("ss", AttributeValue::Ss(vec!["a".into(), "b".into()])),
        ("ns", AttributeValue::Ns(vec!["1".into()])),
        ("bs", AttributeValue::Bs(vec![Blob::new([1])])),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

fn keeps_all(row: &Row) -> bool {
    every_type().iter().all(|(name, value)| row.fields().get(name) == Some(value))
}

#[tokio::test]
async fn only_a_table_of_leases_opens() {
    let (table, other) = (unique("kcl-open"), unique("kcl-other"));
    let clock = || Arc::new(RealClock::new());
    let error = Table::open(config(&table), Format::kcl(), clock()).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Unavailable && error.to_string().contains("no such table"), "{error}");
    assert!(Table::create_table(&config(&table)).await.unwrap());
    assert!(!Table::create_table(&config(&table)).await.unwrap(), "it is there already");
    assert!(Table::open(config(&table), Format::kcl(), clock()).await.is_ok());
    make(&other).await;
    let error = Table::open(config(&other), Format::kcl(), clock()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("leaseKey") && error.to_string().contains("namespace"), "{error}");
}

#[tokio::test]
async fn a_throttled_page_is_asked_for_again_from_there_on() {
    let name = name_of(&lease_table("kcl-throttled", Format::kcl()).await);
    for key in ["a", "b", "c", "d", "e", "f"] {
        let long = AttributeValue::B(Blob::new(vec![7; 390_000]));
        put(&name, &[("leaseKey", text(key)), ("leaseCounter", number("1")), ("x", long)]).await;
    }
    // The whole of a burst goes into the first page.
    let (refusals, firsts) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (refused, begun) = (Arc::clone(&refusals), Arc::clone(&firsts));
    let stub = Stub::start(move |action, body| match action {
        "Scan" if !body.contains("ExclusiveStartKey") => {
            begun.fetch_add(1, Ordering::SeqCst);
            Fate::Through
        }
        "Scan" if refused.fetch_add(1, Ordering::SeqCst) < 4 => {
            Fate::refusal(400, "ProvisionedThroughputExceededException", "too fast")
        }
        _ => Fate::Through,
    })
    .await;
    let table = open(client(&stub.endpoint), &name, Format::kcl()).await;
    assert_eq!(table.list().await.unwrap().rows.len(), 6);
    assert!(refusals.load(Ordering::SeqCst) > 4, "there are two pages");
    assert_eq!(firsts.load(Ordering::SeqCst), 1, "what was read is not read again");
}

#[tokio::test]
async fn each_change_is_conditional_and_leaves_the_users_fields_alone() {
    for format in [Format::kcl(), Format::a8m(), Format::kcl().unowned(Unowned::Null)] {
        let table = lease_table("kcl-rows", format).await;
        let created = table.create("a", every_type()).await.unwrap();
        assert_eq!(table.create("a", Fields::new()).await, Err(LeaseError::Exists("a".into())));
        let read = table.read("a").await.unwrap().unwrap();
        assert!(read == created && keeps_all(&read) && read.owner().is_none(), "{read:?}");

        let taken = table.take(&read, "w").await.unwrap();
        assert_eq!((taken.owner(), taken.counter()), (Some("w"), 2));
        let changed = Err(LeaseError::Changed("a".into()));
        assert_eq!(table.take(&read, "v").await.map(drop), changed, "it was taken");
        let renewed = table.renew(&taken, &Edit::new()).await.unwrap();
        assert_eq!((renewed.owner(), renewed.counter()), (Some("w"), 3));
        assert_eq!(table.renew(&taken, &Edit::new()).await.map(drop), changed);
        let edit = Edit::new().set("position", number("17")).remove("bool");
        let updated = table.renew(&renewed, &edit).await.unwrap();
        assert_eq!(updated.fields().get("position"), Some(&number("17")));
        assert!(!updated.fields().contains_key("bool") && updated.fields().contains_key("bs"));
        assert_eq!(table.evict(&renewed).await, changed);
        assert_eq!(table.delete(&renewed).await, changed);
        let back = Edit::new().set("bool", AttributeValue::Bool(false)).remove("position");
        table.force_update("a", &back).await.unwrap();
        // The counter is as it was, so its owner goes on.
        let again = table.renew(&updated, &Edit::new()).await.unwrap();
        assert!(keeps_all(&again) && !again.fields().contains_key("position"), "{again:?}");

        table.evict(&again).await.unwrap();
        let free = table.read("a").await.unwrap().unwrap();
        assert!(free.holder().is_none() && keeps_all(&free), "{free:?}");
        assert_eq!(free.counter(), if format == Format::a8m() { 5 } else { 6 });
        let stored = item(&name_of(&table), "a").await.unwrap();
        let owner = stored.get("leaseOwner");
        assert_eq!(owner, (format != Format::kcl()).then(|| text("NULL")).as_ref());
        table.delete(&free).await.unwrap();
        table.delete(&free).await.expect("what is gone already is deleted");
        assert_eq!(table.read("a").await, Ok(None));
        assert_eq!(table.force_update("a", &back).await, Err(LeaseError::Missing("a".into())));
        assert_eq!(table.read("a").await, Ok(None), "no row is made by the way");
    }
}

#[tokio::test]
async fn rows_are_read_as_the_peers_write_them() {
    let table = lease_table("kcl-peers", Format::kcl()).await;
    let name = name_of(&table);
    let shard = [
        ("leaseKey", text("shard-1")),
        ("leaseCounter", number("41")),
        ("leaseOwner", text("java")),
        ("checkpoint", text("4959")),
        ("checkpointSubSequenceNumber", number("0")),
        ("ownerSwitchesSinceCheckpoint", number("3")),
        ("parentShardId", AttributeValue::Ss(vec!["shard-0".into()])),
        ("startingHashKey", text("0")),
        ("throughputKBps", number("1.5")),
        ("entityType", text("LEASE")),
    ];
    put(&name, &shard).await;
    put(&name, &[("leaseKey", text("metrics")), ("entityType", text("WORKER_METRICS_STATS"))]).await;
    put(&name, &[("leaseKey", text("go")), ("leaseCounter", number("1")), ("leaseOwner", text("NULL"))])
        .await;
    put(&name, &[("leaseKey", text("empty")), ("leaseCounter", number("2")), ("leaseOwner", text(""))]).await;
    put(&name, &[("leaseKey", text("bad")), ("leaseCounter", text("two"))]).await;
    let listing = table.list().await.unwrap();
    let found: Vec<_> = listing.rows.iter().map(|row| (row.key(), row.owner())).collect();
    assert_eq!(found, [("empty", None), ("go", None), ("shard-1", Some("java"))]);
    assert_eq!(listing.foreign.len(), 1);
    assert!(listing.foreign[0].to_string().contains("\"bad\""), "{}", listing.foreign[0]);
    assert_eq!(table.read("bad").await.unwrap_err().kind(), ErrorKind::Foreign);
    for row in &listing.rows {
        let taken = table.take(row, "ours").await.unwrap();
        assert_eq!((taken.owner(), taken.counter()), (Some("ours"), row.counter() + 1));
    }
    let stolen = item(&name, "shard-1").await.unwrap();
    assert_eq!(stolen.get("ownerSwitchesSinceCheckpoint"), Some(&number("4")), "as the KCL counts");
    for (field, value) in &shard[3..] {
        assert!(*field == "ownerSwitchesSinceCheckpoint" || stolen.get(*field) == Some(value), "{field}");
    }
    let taken = item(&name, "go").await.unwrap();
    assert!(!taken.contains_key("ownerSwitchesSinceCheckpoint"), "nobody had it before");
}

#[tokio::test]
async fn what_the_kcl_hands_over_goes_to_the_next_one() {
    let table = lease_table("kcl-handoff", Format::kcl()).await;
    let name = name_of(&table);
    let row = [("leaseKey", text("a")), ("leaseCounter", number("7")), ("leaseOwner", text("next"))];
    put(&name, &[&row[..], &[("checkpointOwner", text("me"))]].concat()).await;
    let handing = table.read("a").await.unwrap().unwrap();
    assert_eq!((handing.holder(), handing.owner()), (Some("me"), Some("next")));
    let renewed = table.renew(&handing, &Edit::new()).await.unwrap();
    assert_eq!((renewed.holder(), renewed.counter()), (Some("me"), 8));
    table.evict(&renewed).await.unwrap();
    let handed = table.read("a").await.unwrap().unwrap();
    assert_eq!((handed.holder(), handed.handing_over(), handed.counter()), (Some("next"), None, 9));
}

#[tokio::test]
async fn a_table_of_many_pages_is_read_to_its_end() {
    let table = lease_table("kcl-pages", Format::a8m()).await;
    // Over 1 MB, which is what one page holds.
    for n in 0..30 {
        let fields = [("load".to_owned(), AttributeValue::B(Blob::new(vec![7; 50_000])))].into();
        table.create(&format!("k{n:02}"), fields).await.unwrap();
    }
    let listing = table.list().await.unwrap();
    assert_eq!((listing.rows.len(), listing.foreign.len()), (30, 0));
    assert!(listing.rows.is_sorted_by(|a, b| a.key() < b.key()));
    let page = plain().scan().table_name(name_of(&table)).send().await.unwrap();
    assert!(page.last_evaluated_key().is_some(), "there was more than one page");
}

#[tokio::test]
async fn lost_answers_are_resolved_by_what_stands_there() {
    let there = lease_table("kcl-lost", Format::kcl()).await;
    let name = name_of(&there);
    for lost in [Fate::AnswerLost, Fate::RequestLost, Fate::refusal(500, "InternalServerError", "sorry")] {
        let writes = Arc::new(AtomicUsize::new(0));
        let (counted, fate) = (Arc::clone(&writes), lost.clone());
        let stub = Stub::start(move |action, _| {
            // Every other write goes wrong.
            let is_write = ["PutItem", "UpdateItem", "DeleteItem"].contains(&action);
            if is_write && counted.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) {
                fate.clone()
            } else {
                Fate::Through
            }
        })
        .await;
        let table = open(client(&stub.endpoint), &name, Format::kcl()).await;
        let row = table.create("a", every_type()).await.unwrap();
        let row = table.take(&row, "w").await.unwrap();
        let row = table.renew(&row, &Edit::new().set("p", number("1"))).await.unwrap();
        assert_eq!((row.counter(), row.fields().get("p")), (3, Some(&number("1"))), "once each: {lost:?}");
        table.evict(&row).await.unwrap();
        let row = there.read("a").await.unwrap().unwrap();
        assert_eq!((row.counter(), row.holder()), (4, None), "{lost:?}");
        table.delete(&row).await.unwrap();
        assert_eq!(there.read("a").await, Ok(None), "{lost:?}");
        assert_eq!(writes.load(Ordering::SeqCst), 10, "two requests for each change: {lost:?}");
    }
}

#[tokio::test]
async fn a_lost_answer_is_not_taken_for_won_when_another_won() {
    let there = lease_table("kcl-lost-other", Format::kcl()).await;
    let name = name_of(&there);
    let row = there.create("a", Fields::new()).await.unwrap();
    let other = Arc::new(there.clone());
    let first = Arc::new(AtomicUsize::new(0));
    let stub = Stub::start(move |action, _| {
        if action != "UpdateItem" {
            return Fate::Through;
        }
        let is_first = first.fetch_add(1, Ordering::SeqCst) == 0;
        if is_first { Fate::RequestLost } else { Fate::Late(Duration::from_secs(2)) }
    })
    .await;
    let table = open(client(&stub.endpoint), &name, Format::kcl()).await;
    // Another is faster than the second attempt: the row is as it would be but for the owner.
    let (ours, theirs) = tokio::join!(table.take(&row, "me"), other.take(&row, "other"));
    assert_eq!(theirs.unwrap().owner(), Some("other"));
    assert_eq!(ours, Err(LeaseError::Changed("a".into())));
}

#[tokio::test]
async fn s4_what_a_request_without_an_answer_may_have_done_is_not_told_as_refused() {
    let name = name_of(&lease_table("kcl-open-end", Format::kcl()).await);
    put(&name, &[("leaseKey", text("there")), ("leaseCounter", number("1"))]).await;
    let clock = Arc::new(ManualClock::new());
    let (passing, writes) = (Arc::clone(&clock), AtomicUsize::new(0));
    let stub = Stub::start(move |action, _| {
        if !["PutItem", "UpdateItem"].contains(&action) {
            return Fate::Through;
        }
        if writes.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) {
            return Fate::AnswerLost;
        }
        // No time is left for a third one.
        passing.advance(DynamoConfig::MAX_TIMEOUT);
        Fate::refusal(400, "AccessDeniedException", "on purpose")
    })
    .await;
    let client = Client::from_conf(client(&stub.endpoint).build());
    let table = Table::with_client(&client, DynamoConfig::new(&name), Format::kcl(), clock).await.unwrap();
    let created = table.create("new", Fields::new()).await.unwrap_err();
    let changed = table.force_update("there", &Edit::new().set("x", text("y"))).await.unwrap_err();
    for error in [created, changed] {
        let is_unknown = matches!(&error, LeaseError::Store(error) if error.kind() == ErrorKind::Unknown);
        assert!(is_unknown, "{error}");
    }
    assert!(item(&name, "new").await.is_some(), "it was done");
    assert_eq!(item(&name, "there").await.unwrap().get("x"), Some(&text("y")));
}

#[tokio::test]
async fn s4_what_may_have_been_created_and_can_not_be_read_is_not_told_as_refused() {
    let name = name_of(&lease_table("kcl-open-row", Format::kcl()).await);
    let puts = AtomicUsize::new(0);
    let stub = Stub::start(move |action, _| {
        if action != "PutItem" {
            return Fate::Through;
        }
        if puts.fetch_add(1, Ordering::SeqCst) == 0 {
            return Fate::AnswerLost;
        }
        // Somebody has spoiled it in between: it has no counter any more.
        let kind = "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException";
        let body =
            format!(r#"{{"__type":"{kind}","message":"refused","Item":{{"leaseKey":{{"S":"new"}}}}}}"#);
        Fate::Answer(400, body)
    })
    .await;
    let table = open(client(&stub.endpoint), &name, Format::kcl()).await;
    let error = table.create("new", Fields::new()).await.unwrap_err();
    let is_unknown = matches!(&error, LeaseError::Store(error) if error.kind() == ErrorKind::Unknown);
    assert!(is_unknown, "{error}");
    assert!(item(&name, "new").await.is_some(), "it was done");
}

#[tokio::test]
async fn a_client_of_ones_own_will_do() {
    let table = lease_table("kcl-client", Format::kcl()).await;
    let name = name_of(&table);
    let own = plain();
    let clock = Arc::new(RealClock::new());
    let config = tenure_dynamodb::DynamoConfig::new(&name);
    // What it has of its own can't be named besides: it would be ignored.
    for named in [config.clone().region("eu-west-1"), config.clone().endpoint("http://127.0.0.1:1")] {
        let error = Table::with_client(&own, named, Format::kcl(), clock.clone()).await.unwrap_err();
        assert_eq!(error.kind(), tenure_core::ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains("leave them out"), "{error}");
    }
    let again = Table::with_client(&own, config, Format::kcl(), clock).await.unwrap();
    table.create("a", Fields::new()).await.unwrap();
    assert!(again.read("a").await.unwrap().is_some());
}
