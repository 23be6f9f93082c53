//! Leases of TableTheory's that are kept in the background while requests and answers are lost.
//!
//! Plan: a lease that is kept in the background is not believed for longer than a refresh under way may leave it, and no late answer
//! revives it; it outlasts requests without an answer; it guards transactions by whatever token it has, and whoever waits for that and
//! stands still keeps no refresh waiting; its end is told to whoever waits for it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests fail by panicking, also in what they share"
)]

use crate::support::script::{expiry, kind, scripted};
use crate::support::{START, TABLE, clock, item, make_table, manager, until};
use std::future::poll_fn;
use std::iter::repeat_n;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;
use tenure_core::ErrorKind;
use tenure_dynamodb::aws_sdk_dynamodb::config::interceptors::AfterDeserializationInterceptorContextRef;
use tenure_dynamodb::aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use tenure_dynamodb::aws_sdk_dynamodb::error::BoxError;
use tenure_dynamodb::aws_sdk_dynamodb::types::{AttributeValue, Put, TransactWriteItem};
use tenure_dynamodb_testkit::stub::{Fate, Stub};
use tenure_dynamodb_testkit::{client, plain};
use tenure_tabletheory::{LeaseError, TableTheoryOptions};
use tenure_testkit::unique;

const TEN: Duration = Duration::from_secs(10);

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
async fn l4_who_waits_for_a_guard_and_stands_still_costs_no_lease() {
    let ours = scripted().await;
    let (pk, span) = (unique("still"), Duration::from_secs(3));
    let lease = ours.manager.acquire(&pk, span).await.unwrap();
    ours.next(repeat_n(Fate::Late(Duration::from_millis(500)), 50));
    let hold = ours.manager.hold(lease, span);
    let refreshes = || ours.stub.requests("UpdateItem").len();
    let guarding = loop {
        let before = refreshes();
        until(async || refreshes() > before).await;
        let mut guarding = Box::pin(hold.guard());
        let waits = poll_fn(|cx| Poll::Ready(guarding.as_mut().poll(cx).is_pending())).await;
        if waits {
            break guarding;
        }
    };
    // It is not polled any more, as in a `select!` whose other branch takes long.
    let before = refreshes();
    until(async || refreshes() > before).await;
    assert!(is_performed(guarding.await.unwrap(), &pk).await);
    assert!(hold.is_held(), "{:?}", hold.trouble());
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
