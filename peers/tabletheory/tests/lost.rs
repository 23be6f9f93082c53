//! What becomes of TableTheory's leases when answers are lost one after the other: each request of a test has a fate of its own.
//!
//! Plan: a claim that did not arrive is repeated to the byte; one of which nothing is known, also by reading, is told as unknown and
//! taken up later, also when that was tried before, or another had the lease meanwhile; what a hand made of it counts only if it
//! ends sooner; a wall clock that is set while a request is under way prolongs nothing. A refresh counts as landed only if the
//! item shows what it did not show before; what is open stays so, whatever fails later; what was told first is told, unless the
//! item is no lease. A lease that is kept in the background is not believed for longer than a refresh under way may leave it,
//! and no late answer revives it; it outlasts requests without an answer; it guards transactions by whatever token it has, and its end is told to whoever waits for it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests fail by panicking, also in what they share"
)]

use crate::support::{START, TABLE, clock, item, make_table, manager, spoil, until};
use serde_json::json;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tenure_core::{Clock, ErrorKind, Wall};
use tenure_dynamodb::aws_sdk_dynamodb::config::interceptors::AfterDeserializationInterceptorContextRef;
use tenure_dynamodb::aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use tenure_dynamodb::aws_sdk_dynamodb::error::BoxError;
use tenure_dynamodb::aws_sdk_dynamodb::types::{AttributeValue, Put, TransactWriteItem};
use tenure_dynamodb_testkit::stub::{Fate, Stub};
use tenure_dynamodb_testkit::{client, endpoint, plain};
use tenure_tabletheory::{LeaseError, Manager, TableTheoryOptions};
use tenure_testkit::{ManualClock, unique};

const TEN: Duration = Duration::from_secs(10);
const HELD: Duration = Duration::from_millis(9500);

/// A manager whose requests have these fates, one each, and then none.
struct Scripted {
    manager: Manager,
    stub: Stub,
    script: Arc<Mutex<VecDeque<Fate>>>,
    clock: Arc<ManualClock>,
}

async fn scripted() -> Scripted {
    make_table(TABLE, ["pk", "sk"]).await;
    let script = Arc::new(Mutex::new(VecDeque::new()));
    let fates = Arc::clone(&script);
    let stub = Stub::start(move |_, _| fates.lock().unwrap().pop_front().unwrap_or(Fate::Through)).await;
    let clock = clock();
    let manager = manager(client(&stub.endpoint), TableTheoryOptions::new(TABLE), clock.clone());
    Scripted { manager, stub, script, clock }
}

impl Scripted {
    fn next(&self, fates: impl IntoIterator<Item = Fate>) {
        self.script.lock().unwrap().extend(fates);
    }

    /// Whether each request has had its fate.
    fn is_over(&self) -> bool {
        self.script.lock().unwrap().is_empty()
    }
}

fn throttled() -> Fate {
    Fate::refusal(400, "ProvisionedThroughputExceededException", "later")
}

/// An item that is no lease, where one is read.
fn no_lease(pk: &str) -> Fate {
    Fate::Answer(200, json!({"Item": {"pk": {"S": pk}, "sk": {"S": "LOCK"}}}).to_string())
}

fn kind(error: &LeaseError) -> Option<ErrorKind> {
    if let LeaseError::Store(error) = error { Some(error.kind()) } else { None }
}

async fn expiry(pk: &str) -> Option<u64> {
    item(pk, "LOCK").await.map(|item| item["lease_expires_at"].as_n().unwrap().parse().unwrap())
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

#[tokio::test]
async fn while_it_is_refreshed_in_the_background_the_sooner_expiry_counts() {
    let ours = scripted().await;
    let pk = unique("background");
    let lease = ours.manager.acquire(&pk, Duration::from_secs(3)).await.unwrap();
    ours.next([Fate::Silence]);
    let hold = ours.manager.hold(lease, Duration::from_secs(2));
    assert_eq!(hold.remaining(), Duration::from_millis(2500));
    until(async || !ours.stub.requests("UpdateItem").is_empty()).await;
    assert_eq!(hold.remaining(), Duration::from_millis(1500), "it may have been made to end sooner");
    // Whoever gives it back does not wait for that.
    hold.release().await.unwrap();
    assert_eq!((ours.stub.requests("UpdateItem").len(), item(&pk, "LOCK").await), (1, None));
}

#[tokio::test]
async fn a_lease_that_is_kept_in_the_background_outlasts_requests_that_nobody_answers() {
    let ours = scripted().await;
    // The client itself waits for longer than the test does.
    let options =
        TableTheoryOptions::from_url(&format!("//{TABLE}?dialect=tabletheory&timeout_ms=60000")).unwrap();
    let manager = manager(client(&ours.stub.endpoint), options, ours.clock.clone());
    let (pk, span) = (unique("silent"), Duration::from_secs(3));
    let lease = manager.acquire(&pk, span).await.unwrap();
    let first = lease.token().to_owned();
    ours.next([Fate::Silence, Fate::Silence]);
    let hold = manager.hold(lease, span);
    until(async || ours.stub.requests("UpdateItem").len() == 2).await;
    let told = hold.trouble().unwrap();
    assert_eq!(kind(&told), Some(ErrorKind::Unknown), "{told}");
    assert!(told.to_string().contains(&pk), "{told}");
    ours.clock.advance(Duration::from_secs(1));
    until(async || hold.trouble().is_none()).await;
    assert!(ours.is_over());
    assert_ne!(hold.token(), first, "what is open can have no effect any more");
    assert_eq!(expiry(&pk).await, Some(START + 4));
    ours.clock.advance(Duration::from_secs(2));
    assert!(hold.is_held(), "it has been prolonged");
}

/// Whether a transaction under this condition is performed.
async fn is_performed(guard: TransactWriteItem, pk: &str) -> bool {
    let item = [("pk", pk), ("sk", "RESULT")];
    let item = item.map(|(name, value)| (name.to_owned(), AttributeValue::S(value.to_owned())));
    let put = Put::builder().table_name(TABLE).set_item(Some(item.into())).build().unwrap();
    let put = TransactWriteItem::builder().put(put).build();
    plain().transact_write_items().transact_items(guard).transact_items(put).send().await.is_ok()
}

#[tokio::test]
async fn a_lease_that_is_kept_in_the_background_guards_transactions_whatever_became_of_its_token() {
    let ours = scripted().await;
    let (pk, span) = (unique("guarding"), Duration::from_secs(3));
    let mut lease = ours.manager.acquire(&pk, span).await.unwrap();
    ours.next([Fate::RequestLost, Fate::RequestLost]);
    ours.manager.refresh(&mut lease, span).await.unwrap_err();
    let before = lease.clone();
    // The next one changes the token, and its answer is lost.
    ours.next([Fate::AnswerLost, Fate::RequestLost]);
    ours.manager.refresh(&mut lease, span).await.unwrap_err();
    assert!(!is_performed(ours.manager.guard(&before).unwrap(), &pk).await, "it has another token");
    assert!(is_performed(ours.manager.guard(&lease).unwrap(), &pk).await, "the lease knows of it");
    let hold = ours.manager.hold(lease, span);
    assert!(is_performed(hold.guard().await.unwrap(), &pk).await);
    until(async || hold.token() != before.token()).await;
    assert!(is_performed(hold.guard().await.unwrap(), &pk).await);
    assert_eq!(
        (hold.check(), hold.expires_at()),
        (Ok(()), i64::try_from(expiry(&pk).await.unwrap()).unwrap())
    );

    let delete = plain().delete_item().table_name(TABLE);
    let keys = [("pk", &*pk), ("sk", "LOCK")];
    let keys = keys.map(|(name, value)| (name.to_owned(), AttributeValue::S(value.to_owned())));
    delete.set_key(Some(keys.into())).send().await.unwrap();
    let lost = tokio::time::timeout(Duration::from_secs(60), hold.lost()).await.unwrap();
    let not_owned = LeaseError::NotOwned { key: hold.key().clone() };
    assert_eq!((lost, hold.check()), (Some(not_owned.clone()), Err(not_owned.clone())));
    assert_eq!(hold.guard().await.unwrap_err(), not_owned);
}

#[tokio::test]
async fn who_waits_for_the_end_of_what_nobody_refreshes_is_told_at_its_deadline() {
    let ours = scripted().await;
    let lease = ours.manager.acquire(&unique("ends"), TEN).await.unwrap();
    // Too short to be held.
    let hold = ours.manager.hold(lease, Duration::from_secs(1));
    let brief = Duration::from_millis(100);
    assert!(tokio::time::timeout(brief, hold.lost()).await.is_err(), "it is held");
    ours.clock.advance(TEN);
    let lost = tokio::time::timeout(Duration::from_secs(60), hold.lost()).await.unwrap();
    assert!(
        matches!(&lost, Some(LeaseError::Invalid(error)) if error.to_string().contains("more than 1.5s")),
        "{lost:?}"
    );
    assert!(ours.stub.requests("UpdateItem").is_empty());
}

/// Counts answers. Whoever waits for one goes on before any other task of this thread does.
#[derive(Debug, Clone, Default)]
struct Answers(Arc<AtomicUsize>);

impl Intercept for Answers {
    fn name(&self) -> &'static str {
        "answers"
    }

    fn read_after_deserialization(
        &self,
        _: &AfterDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

#[tokio::test]
async fn an_answer_that_comes_late_does_not_revive_what_is_kept() {
    make_table(TABLE, ["pk", "sk"]).await;
    let (clock, answers) = (clock(), Answers::default());
    let passing = Arc::clone(&clock);
    let stub = Stub::start(move |action, _| {
        if action == "UpdateItem" {
            passing.advance(Duration::from_secs(5));
        }
        Fate::Through
    })
    .await;
    let client = client(&stub.endpoint).interceptor(answers.clone());
    let manager = manager(client, TableTheoryOptions::new(TABLE), clock);
    let pk = unique("revived");
    let lease = manager.acquire(&pk, Duration::from_secs(3)).await.unwrap();
    let hold = manager.hold(lease, Duration::from_secs(60));
    // Nobody asks the lease itself meanwhile: it is to notice by itself.
    until(async || answers.0.load(Ordering::SeqCst) == 2).await;
    assert_eq!(expiry(&pk).await, Some(START + 60), "it has been prolonged");
    assert!(!hold.is_held(), "but its time was over for a while");
    assert_eq!(hold.trouble(), None);
}
