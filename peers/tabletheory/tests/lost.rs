//! What becomes of TableTheory's leases when answers are lost one after the other: each request of a test has a fate of its own.
//!
//! Plan: a claim that did not arrive is repeated to the byte; one of which nothing is known, also by reading, is told as unknown and
//! taken up later, also when that was tried before, or another had the lease meanwhile; what a hand made of it counts only if it
//! ends sooner; a wall clock that is set while a request is under way prolongs nothing. A refresh counts as landed only if the
//! item shows what it did not show before; what is open stays so, whatever fails later; what was told first is told, unless the
//! item is no lease.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests fail by panicking, also in what they share"
)]

use crate::support::script::{expiry, kind, scripted};
use crate::support::{START, TABLE, clock, item, make_table, manager, spoil, until};
use serde_json::json;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tenure_core::{Clock, ErrorKind, Wall};
use tenure_dynamodb::aws_sdk_dynamodb::types::AttributeValue;
use tenure_dynamodb_testkit::stub::{Fate, Stub};
use tenure_dynamodb_testkit::{client, endpoint};
use tenure_tabletheory::{LeaseError, TableTheoryOptions};
use tenure_testkit::unique;

const TEN: Duration = Duration::from_secs(10);
const HELD: Duration = Duration::from_millis(9500);

fn throttled() -> Fate {
    Fate::refusal(400, "ProvisionedThroughputExceededException", "later")
}

/// An item that is no lease, where one is read.
fn no_lease(pk: &str) -> Fate {
    Fate::Answer(200, json!({"Item": {"pk": {"S": pk}, "sk": {"S": "LOCK"}}}).to_string())
}

#[tokio::test]
async fn a_claim_that_did_not_arrive_is_repeated_to_the_byte() {
    let ours = scripted().await;
    let pk = unique("again");
    ours.next([Fate::RequestLost]);
    ours.manager.acquire(&pk, TEN).await.unwrap();
    let puts = ours.stub.requests("PutItem");
    assert_eq!((puts.len(), ours.stub.take()), (2, 3), "and a look between them");
    assert_eq!(puts[0].body(), puts[1].body());
}

#[tokio::test]
async fn a_claim_of_which_nothing_is_known_is_told_so_and_taken_up() {
    let ours = scripted().await;
    let pk = unique("unknown");
    ours.next([Fate::AnswerLost, Fate::RequestLost]);
    let told = ours.manager.acquire(&pk, TEN).await.unwrap_err();
    assert_eq!(kind(&told), Some(ErrorKind::Unknown), "not that the look failed: {told}");
    assert!(item(&pk, "LOCK").await.is_some(), "it has landed");
    assert!(ours.manager.acquire(&pk, TEN).await.is_ok(), "nobody believes in it");

    let pk = unique("foreign");
    ours.next([Fate::AnswerLost, no_lease(&pk)]);
    let told = ours.manager.acquire(&pk, TEN).await.unwrap_err();
    assert_eq!(kind(&told), Some(ErrorKind::Foreign), "to ask again is no use: {told}");
}

#[tokio::test]
async fn what_was_taken_up_unknown_to_anybody_is_taken_up_again() {
    let ours = scripted().await;
    for is_dropped in [false, true] {
        let pk = unique("up");
        ours.next([Fate::AnswerLost, Fate::RequestLost]);
        ours.manager.acquire(&pk, TEN).await.unwrap_err();
        let landed = item(&pk, "LOCK").await;
        // It is refused, and takes the claim up by a change of its token, of which nothing is known then.
        ours.stub.take();
        let look = if is_dropped { Fate::Silence } else { Fate::RequestLost };
        ours.next([Fate::Through, Fate::AnswerLost, look]);
        let asking = tokio::spawn({
            let (manager, pk) = (ours.manager.clone(), pk.clone());
            async move { manager.acquire(&pk, TEN).await }
        });
        until(async || !ours.stub.requests("GetItem").is_empty()).await;
        if is_dropped {
            asking.abort();
        }
        assert!(!matches!(asking.await, Ok(Ok(_))));
        assert_ne!(item(&pk, "LOCK").await, landed, "it has another token");
        assert!(ours.manager.acquire(&pk, TEN).await.is_ok(), "nobody believes in it");
        assert!(
            matches!(ours.manager.acquire(&pk, TEN).await, Err(LeaseError::Held { .. })),
            "but once only"
        );
    }
}

#[tokio::test]
async fn a_claim_that_arrives_when_another_gives_up_is_taken_up() {
    let ours = scripted().await;
    let theirs = manager(client(&endpoint()), TableTheoryOptions::new(TABLE), ours.clock.clone());
    let pk = unique("overtaken");
    let mut first = theirs.acquire(&pk, TEN).await.unwrap();
    ours.next([Fate::RequestLost]);
    assert!(matches!(ours.manager.acquire(&pk, TEN).await, Err(LeaseError::Held { .. })));
    theirs.release(&mut first).await.unwrap();
    assert!(ours.stub.requests("PutItem").remove(0).repeat().await.contains("200 OK"));
    assert!(matches!(theirs.acquire(&pk, TEN).await, Err(LeaseError::Held { .. })));
    assert!(ours.manager.acquire(&pk, TEN).await.is_ok());
}

#[tokio::test]
async fn what_a_hand_made_of_a_claim_counts_if_it_ends_sooner() {
    make_table(TABLE, ["pk", "sk"]).await;
    for (seconds, held) in [(5, Duration::from_millis(4500)), (60, HELD)] {
        let token = Mutex::new(String::new());
        let stub = Stub::start(move |action, body| {
            let mut token = token.lock().unwrap();
            if action == "PutItem" {
                let body: serde_json::Value = serde_json::from_str(body).unwrap();
                *token = body["Item"]["lease_token"]["S"].as_str().unwrap().to_owned();
                return Fate::AnswerLost;
            }
            let expires_at = (START + seconds).to_string();
            let item = json!({"lease_token": {"S": *token}, "lease_expires_at": {"N": expires_at}});
            Fate::Answer(200, json!({"Item": item}).to_string())
        })
        .await;
        let clock = clock();
        let manager = manager(client(&stub.endpoint), TableTheoryOptions::new(TABLE), clock.clone());
        let lease = manager.acquire(&unique("hand"), TEN).await.unwrap();
        assert_eq!(lease.remaining(clock.now()), held);
    }
}

#[tokio::test]
async fn s1_a_refresh_that_is_found_after_the_clock_was_set_back_is_believed_from_when_it_was_sent() {
    let ours = scripted().await;
    let mut lease = ours.manager.acquire(&unique("found"), TEN).await.unwrap();
    for _ in 0..2 {
        // The second one changes the token.
        ours.next([Fate::AnswerLost, Fate::RequestLost]);
        ours.manager.refresh(&mut lease, TEN).await.unwrap_err();
    }
    ours.clock.set_wall(Wall((START - 60) * 1000));
    ours.next([Fate::Through, throttled()]);
    ours.manager.refresh(&mut lease, TEN).await.unwrap_err();
    assert!(ours.is_over());
    let left = lease.remaining(ours.clock.now());
    assert!(left <= HELD, "peers take it after 10 s: {left:?}");
}

#[tokio::test]
async fn a_wall_clock_that_is_set_back_under_way_prolongs_nothing() {
    make_table(TABLE, ["pk", "sk"]).await;
    let clock = clock();
    let set = Arc::clone(&clock);
    let stub = Stub::start(move |action, _| {
        if action != "DeleteItem" {
            set.advance(Duration::from_secs(1));
            set.set_wall(Wall((START - 60) * 1000));
        }
        Fate::Through
    })
    .await;
    let manager = manager(client(&stub.endpoint), TableTheoryOptions::new(TABLE), clock.clone());
    let now = || clock.now();
    let mut lease = manager.acquire(&unique("back"), TEN).await.unwrap();
    assert_eq!(lease.remaining(now()), Duration::from_millis(8500));
    clock.set_wall(Wall(START * 1000));
    manager.refresh(&mut lease, TEN).await.unwrap();
    assert_eq!(lease.remaining(now()), Duration::from_millis(8500));
}

#[tokio::test]
async fn a_refresh_that_would_change_nothing_is_not_known_to_have_landed() {
    let ours = scripted().await;
    let mut lease = ours.manager.acquire(&unique("same"), TEN).await.unwrap();
    let first = lease.token().to_owned();
    ours.next([Fate::RequestLost]);
    ours.manager.refresh(&mut lease, TEN).await.unwrap();
    assert_ne!(lease.token(), first, "the item shows the same expiry, but the request may still arrive");
}

#[tokio::test]
async fn a_refresh_that_a_hand_has_changed_is_repeated() {
    let ours = scripted().await;
    let pk = unique("other");
    let mut lease = ours.manager.acquire(&pk, TEN).await.unwrap();
    let first = lease.token().to_owned();
    ours.clock.advance(Duration::from_secs(3));
    let item_ = json!({"lease_token": {"S": first}, "lease_expires_at": {"N": (START + 7).to_string()}});
    ours.next([Fate::RequestLost, Fate::Answer(200, json!({"Item": item_}).to_string())]);
    ours.manager.refresh(&mut lease, TEN).await.unwrap();
    assert_ne!(lease.token(), first, "neither as before nor as asked for");
    assert_eq!(expiry(&pk).await, Some(START + 13));

    // One that was refused is not open, whatever is found then.
    let second = lease.token().to_owned();
    ours.next([Fate::refusal(400, "ConditionalCheckFailedException", "not so")]);
    ours.manager.refresh(&mut lease, TEN).await.unwrap();
    assert!(ours.is_over());
    assert_eq!(lease.token(), second);
}

#[tokio::test]
async fn a_lease_that_another_has_is_not_held_any_more() {
    let ours = scripted().await;
    let now = || ours.clock.now();
    for other in [Some(AttributeValue::S("another".into())), None] {
        let pk = unique("taken");
        let mut lease = ours.manager.acquire(&pk, TEN).await.unwrap();
        match other {
            Some(other) => spoil(&pk, "LOCK", &[("lease_token", Some(other))]).await,
            None => ours.manager.release(&mut lease.clone()).await.unwrap(),
        }
        assert!(lease.is_held(now()), "it can't know yet");
        let told = ours.manager.refresh(&mut lease, TEN).await.unwrap_err();
        assert_eq!(told, LeaseError::NotOwned { key: lease.key().clone() });
        assert!(!lease.is_held(now()), "long before its time is over");
    }
}

#[tokio::test]
async fn a_refresh_that_landed_late_does_not_stand_for_the_one_after_it() {
    let ours = scripted().await;
    let pk = unique("two");
    let mut lease = ours.manager.acquire(&pk, TEN).await.unwrap();
    let first = lease.token().to_owned();
    ours.clock.advance(Duration::from_secs(3));
    ours.next([Fate::AnswerLost, Fate::RequestLost]);
    ours.manager.refresh(&mut lease, TEN).await.unwrap_err();
    // This one is to change the token, and does not arrive yet; the item shows the expiry that it asks for by the one before.
    ours.next([Fate::RequestLost]);
    ours.manager.refresh(&mut lease, TEN).await.unwrap();
    assert_ne!(lease.token(), first);
    assert_eq!(item(&pk, "LOCK").await.unwrap()["lease_token"].as_s().unwrap(), lease.token());
}

#[tokio::test]
async fn what_is_open_stays_open_and_what_was_told_first_is_told() {
    let ours = scripted().await;
    let mut lease = ours.manager.acquire(&unique("open"), TEN).await.unwrap();
    let first = lease.token().to_owned();
    ours.next([Fate::RequestLost, Fate::Through, throttled()]);
    let told = ours.manager.refresh(&mut lease, TEN).await.unwrap_err();
    assert!(ours.is_over());
    assert_eq!(kind(&told), Some(ErrorKind::Unknown), "the first may still arrive: {told}");
    ours.next([throttled()]);
    let told = ours.manager.refresh(&mut lease, TEN).await.unwrap_err();
    assert_eq!(kind(&told), Some(ErrorKind::Unavailable), "{told}");
    ours.manager.refresh(&mut lease, TEN).await.unwrap();
    assert_ne!(lease.token(), first);

    ours.next([Fate::RequestLost, Fate::Through, throttled()]);
    let told = ours.manager.release(&mut lease).await.unwrap_err();
    assert_eq!(kind(&told), Some(ErrorKind::Unknown), "{told}");
    assert_eq!(lease.expires_at(), 0);
    ours.manager.release(&mut lease).await.unwrap();
}

#[tokio::test]
async fn a_refresh_that_finds_no_lease_says_so() {
    let ours = scripted().await;
    let pk = unique("none");
    let mut lease = ours.manager.acquire(&pk, TEN).await.unwrap();
    ours.next([Fate::AnswerLost, no_lease(&pk)]);
    let told = ours.manager.refresh(&mut lease, TEN).await.unwrap_err();
    assert_eq!(kind(&told), Some(ErrorKind::Foreign), "{told}");
    assert!(!lease.is_held(ours.clock.now()));
}

#[tokio::test]
async fn a_change_of_token_that_has_landed_prolongs_the_lease() {
    let ours = scripted().await;
    let pk = unique("moved");
    let mut lease = ours.manager.acquire(&pk, TEN).await.unwrap();
    ours.next([Fate::RequestLost, Fate::RequestLost]);
    ours.manager.refresh(&mut lease, TEN).await.unwrap_err();
    ours.clock.advance(Duration::from_secs(4));
    ours.next([Fate::AnswerLost, Fate::Through, throttled()]);
    let told = ours.manager.refresh(&mut lease, TEN).await.unwrap_err();
    assert_eq!((kind(&told), ours.is_over()), (Some(ErrorKind::Unknown), true), "{told}");
    assert_eq!(item(&pk, "LOCK").await.unwrap()["lease_token"].as_s().unwrap(), lease.token());
    assert_eq!(lease.remaining(ours.clock.now()), HELD, "as the item was found to say");
}
