//! What becomes of a call when something goes wrong, between a client and DynamoDB Local or in place of it.
//!
//! Plan: each refusal of the service has an error of its own, with the table, the remedy and no secret, after one request and
//! no retry; a lost answer, a lost request and a silent service leave a write unknown and a read unavailable, and what was
//! written all the same is found by its nonce; a request that the network repeats has no effect; where nothing was sent,
//! nothing is unknown; what a batch leaves unprocessed
//! is asked for again, within bounds; a batch of writes that failed in part says so, and one of which any may have taken effect, whatever
//! else failed; a vacant record of
//! which any attribute was changed by hand is not written over, but told; an item whose key is none is named by the listings that it ends.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking, also in what they share"
)]

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tenure_core::op::Outcome;
use tenure_core::{ErrorKind, StoreError};
use tenure_dynamodb::aws_sdk_dynamodb::Client;
use tenure_dynamodb::aws_sdk_dynamodb::primitives::Blob;
use tenure_dynamodb::aws_sdk_dynamodb::types::AttributeValue;
use tenure_dynamodb::{DynamoConfig, DynamoStore};
use tenure_dynamodb_testkit::stub::{Fate, Stub};
use tenure_dynamodb_testkit::{client, endpoint, key, make, store, store_by, wins};
use tenure_store::{Freshness, Store, StoreExt};
use tenure_testkit::{RealClock, RecordFactory, unique};

const TABLE: &str = "tenure-faults";

/// A store on the real table through a stub that decides about all but the opening. The number of shards is fixed already.
async fn through(decide: impl Fn(&str, &str) -> Fate + Send + Sync + 'static) -> (DynamoStore, Stub) {
    let stub = Stub::start(move |action, body| match (action, body.contains("#shards")) {
        ("DescribeTable", _) | (_, true) => Fate::Through,
        _ => decide(action, body),
    })
    .await;
    let namespace = unique("faults");
    let (first, factory, name) = (store(TABLE, &namespace).await, RecordFactory::new(), key("first"));
    let Outcome::Won { version, .. } = first.write(factory.absent(&name, factory.vacant(1))).await.unwrap()
    else {
        panic!("nobody else knows the namespace")
    };
    assert!(first.remove(&name, version).await.unwrap());
    let store = store_by(client(&stub.endpoint), TABLE, &namespace).await;
    stub.take();
    (store, stub)
}

#[tokio::test]
async fn each_refusal_has_an_error_of_its_own() {
    use ErrorKind::{Invalid, Unavailable};
    let cases = [
        (400, "ResourceNotFoundException", "Requested resource not found", Unavailable, "--create-table"),
        (
            400,
            "ProvisionedThroughputExceededException",
            "too fast",
            Unavailable,
            "raise the table's capacity",
        ),
        (400, "ThrottlingException", "too fast", Unavailable, "throttled"),
        (400, "RequestLimitExceeded", "too fast", Unavailable, "throttled"),
        (
            400,
            "AccessDeniedException",
            "not authorized to perform: dynamodb:UpdateItem",
            Invalid,
            "dynamodb:UpdateItem",
        ),
        (400, "ExpiredTokenException", "expired", Unavailable, "the credentials have expired"),
        (400, "UnrecognizedClientException", "hidden", Unavailable, "AWS_PROFILE"),
        (400, "InvalidSignatureException", "x-amz-security-token:hidden", Unavailable, "secret key"),
        (400, "RequestExpired", "skew", Unavailable, "set this host's clock"),
        (
            400,
            "InvalidSignatureException",
            "Signature expired: hidden is now earlier than 20261128T191000Z",
            Unavailable,
            "set this host's clock",
        ),
        (
            400,
            "InvalidSignatureException",
            "Signature not yet current: hidden is still later than 20261128T192000Z",
            Unavailable,
            "set this host's clock",
        ),
        (400, "ItemCollectionSizeLimitExceededException", "10 GB", Unavailable, "tenure gc"),
        (400, "TransactionConflictException", "conflict", Unavailable, "transaction is under way"),
        (
            400,
            "ValidationException",
            "The provided key element does not match the schema",
            Invalid,
            "RANGE key",
        ),
        (400, "ValidationException", "Item size has exceeded", Invalid, "Item size has exceeded"),
        (400, "SomethingNewException", "hidden", Unavailable, "SomethingNewException"),
    ];
    for (status, code, message, kind, says) in cases {
        let (store, stub) = through(move |_, _| Fate::refusal(status, code, message)).await;
        let factory = RecordFactory::new();
        let key = key("a");
        let errors = [
            store.write(factory.if_vacant(&key, factory.held(5))).await.unwrap_err(),
            store.remove(&key, factory.held(5).version()).await.unwrap_err(),
            store.read(&key).await.unwrap_err(),
            store.read_many(std::slice::from_ref(&key), Freshness::Latest).await.unwrap_err(),
            store.list("", None, 10).await.unwrap_err(),
        ];
        assert_eq!(stub.take(), errors.len(), "{code}: one request each, and no retry");
        for error in errors {
            let text = error.to_string();
            assert_eq!(error.kind(), kind, "{text}");
            assert!(text.contains(says) && text.contains(TABLE) && text.contains("eu-west-1"), "{text}");
            assert!(!text.contains("hidden"), "{text}");
            let chain: Vec<&dyn Error> =
                std::iter::successors(error.source(), |cause| (*cause).source()).collect();
            assert!(!format!("{chain:?}").contains("hidden"), "{chain:?}");
            // What the service says of signatures and credentials, or with a code that nobody knows, is for nobody.
            let is_plain =
                !message.contains("hidden") && !["ExpiredTokenException", "RequestExpired"].contains(&code);
            let is_login = ["UnrecognizedClientException", "InvalidSignatureException"].contains(&code);
            assert_eq!(!chain.is_empty(), is_plain || is_login, "{code}: {chain:?}");
        }
    }
}

/// What a write and a read were answered.
async fn both(store: &DynamoStore) -> [StoreError; 2] {
    let (factory, key) = (RecordFactory::new(), key("a"));
    let write = store.write(factory.if_vacant(&key, factory.held(5))).await.unwrap_err();
    [write, store.read(&key).await.unwrap_err()]
}

#[tokio::test]
async fn a_service_that_fails_or_cuts_the_connection_leaves_a_write_unknown() {
    for fate in [
        Fate::refusal(500, "InternalServerError", "sorry"),
        Fate::refusal(503, "ServiceUnavailable", "sorry"),
        Fate::Answer(200, "no JSON".into()),
        Fate::Answer(408, "a proxy's own page".into()),
        Fate::RequestLost,
    ] {
        let chosen = fate.clone();
        let (store, stub) = through(move |_, _| chosen.clone()).await;
        let errors = both(&store).await;
        assert_eq!(
            errors.each_ref().map(StoreError::kind),
            [ErrorKind::Unknown, ErrorKind::Unavailable],
            "{errors:?}"
        );
        assert_eq!(stub.take(), 2, "{fate:?}: no retry may hide what became of the first");
        assert!(errors.iter().all(|error| error.to_string().contains(TABLE)), "{errors:?}");
        // What the service says is for nobody, as nobody knows what it is.
        let is_lost = matches!(fate, Fate::RequestLost);
        for error in &errors {
            assert_eq!(error.source().is_some(), is_lost, "{fate:?}: {error}");
        }
    }
}

#[tokio::test]
async fn a_lost_answer_is_resolved_by_the_nonce() {
    let (store, _stub) = through(|action, _| match action {
        "UpdateItem" => Fate::AnswerLost,
        _ => Fate::Through,
    })
    .await;
    let (factory, key) = (RecordFactory::new(), key("a"));
    let record = factory.held(5);
    let error = store.write(factory.if_vacant(&key, record.clone())).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
    let found = store.read(&key).await.unwrap().expect("it was written all the same");
    assert_eq!(found.record, record);
}

#[tokio::test]
async fn a_request_that_the_network_repeats_has_no_effect() {
    let (store, stub) = through(|_, _| Fate::Through).await;
    let (factory, key) = (RecordFactory::new(), key("a"));
    for fence in [100, 7] {
        // The first claims a key that was never held, the second counts on from a fence above its clock. A release keeps it.
        let (version, fence) = match store.write(factory.if_vacant(&key, factory.held(fence))).await.unwrap()
        {
            Outcome::Won { version, fence } => (version, fence),
            lost => panic!("{lost:?}"),
        };
        let vacant = factory.vacant(fence.0);
        let claim = stub.last();
        let answer = claim.repeat().await;
        assert!(answer.contains("ConditionalCheckFailedException"), "while it is held: {answer}");
        assert!(wins(&store, factory.unchanged(&key, version, vacant.clone())).await);
        let answer = claim.repeat().await;
        assert!(answer.contains("ConditionalCheckFailedException"), "after its release: {answer}");
        assert_eq!(store.read(&key).await.unwrap().unwrap().record, vacant);
    }
}

#[tokio::test]
async fn a_silent_service_is_given_up_in_time() {
    make(TABLE).await;
    let is_opening = |action: &str, body: &str| action == "DescribeTable" || body.contains("#shards");
    let stub =
        Stub::start(move |action, body| if is_opening(action, body) { Fate::Through } else { Fate::Silence })
            .await;
    // Long enough for the opening on a busy machine, which has to come through.
    let config = DynamoConfig::new(TABLE).timeout(Duration::from_secs(4));
    let client = Client::from_conf(client(&stub.endpoint).build());
    let store = DynamoStore::with_client(&client, config, Arc::new(RealClock::new())).await.unwrap();
    let errors =
        tokio::time::timeout(Duration::from_secs(60), both(&store)).await.expect("calls end in time");
    assert_eq!(
        errors.each_ref().map(StoreError::kind),
        [ErrorKind::Unknown, ErrorKind::Unavailable],
        "{errors:?}"
    );
}

#[tokio::test]
async fn what_was_not_sent_is_not_unknown() {
    // Nobody listens there; a port that was just given back might be another test's.
    let gone = "http://127.0.0.1:9";
    let config = DynamoConfig::new(TABLE).region("eu-west-1").endpoint(gone);
    let error = DynamoStore::open(config, Arc::new(RealClock::new())).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("can't be reached") && error.to_string().contains(gone), "{error}");
    // A write, too, of a store that was open before.
    let listening = tokio::runtime::Runtime::new().unwrap();
    let (store, _stub) = listening.spawn(through(|_, _| Fate::Through)).await.unwrap();
    // A request on a connection that is only about to be closed may have been sent.
    let ended = tokio::task::spawn_blocking(move || listening.shutdown_timeout(Duration::from_secs(30)));
    ended.await.unwrap();
    let errors = both(&store).await;
    assert_eq!(errors.each_ref().map(StoreError::kind), [ErrorKind::Unavailable; 2], "{errors:?}");
}

#[tokio::test]
async fn what_a_batch_left_out_is_asked_for_again() {
    let rounds = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&rounds);
    let (store, stub) = through(move |action, body| {
        if action == "BatchGetItem" && counted.fetch_add(1, Ordering::SeqCst) < 2 {
            let asked = body.split_once("\"RequestItems\":").expect("a request for items").1;
            let asked = asked.strip_suffix('}').expect("the request's end");
            return Fate::Answer(200, format!("{{\"Responses\":{{}},\"UnprocessedKeys\":{asked}}}"));
        }
        Fate::Through
    })
    .await;
    let factory = RecordFactory::new();
    let keys = ["a", "b", "c"].map(key);
    for key in &keys {
        assert!(wins(&store, factory.absent(key, factory.held(5))).await);
    }
    stub.take();
    // A key that is named twice is asked for once, because DynamoDB refuses more.
    let found = store.read_many(&[&keys[..], &keys[..1]].concat(), Freshness::Latest).await.unwrap();
    assert_eq!((found.len(), stub.take()), (3, 3));
    assert_eq!(rounds.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn a_batch_that_is_never_processed_is_given_up() {
    let (store, stub) = through(|_, body| {
        let asked = body.split_once("\"RequestItems\":").expect("a request for items").1;
        let asked = asked.strip_suffix('}').expect("the request's end");
        Fate::Answer(200, format!("{{\"Responses\":{{}},\"UnprocessedKeys\":{asked}}}"))
    })
    .await;
    let error = store.read_many(&[key("a")], Freshness::Latest).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("throttled") && stub.take() < 10, "{error}");
}

#[tokio::test]
async fn a_batch_of_writes_that_failed_in_part_is_unknown() {
    let refuse = |wanted: &'static str| {
        move |action: &str, body: &str| match action {
            "UpdateItem" if body.contains(wanted) => Fate::refusal(400, "ThrottlingException", "too fast"),
            _ => Fate::Through,
        }
    };
    let factory = RecordFactory::new();
    let batch = || ["a", "b"].map(|text| factory.absent(&key(text), factory.held(5))).to_vec();
    let (store, _stub) = through(refuse("{\"S\":\"b\"}")).await;
    let error = store.write_many(batch()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
    assert!(error.to_string().contains("throttled"), "{error}");
    assert_eq!(store.list_all("").await.unwrap().len(), 1);

    let (store, _stub) = through(refuse("UpdateExpression")).await;
    let error = store.write_many(batch()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "nothing of it was written: {error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_batch_of_writes_of_which_one_may_have_landed_is_unknown_whatever_was_refused_before() {
    for (code, message) in
        [("ThrottlingException", "too fast"), ("AccessDeniedException", "not authorized to perform: it")]
    {
        let is_refused = Arc::new(AtomicUsize::new(0));
        let refused = Arc::clone(&is_refused);
        let (store, _stub) = through(move |action, body| match action {
            "UpdateItem" if body.contains("{\"S\":\"b\"}") => {
                // The other one's answer comes first.
                while refused.load(Ordering::SeqCst) == 0 {
                    std::thread::yield_now();
                }
                std::thread::sleep(Duration::from_millis(50));
                Fate::refusal(500, "InternalServerError", "sorry")
            }
            "UpdateItem" => {
                refused.store(1, Ordering::SeqCst);
                Fate::refusal(400, code, message)
            }
            _ => Fate::Through,
        })
        .await;
        let factory = RecordFactory::new();
        let batch = ["a", "b"].map(|text| factory.absent(&key(text), factory.held(5))).to_vec();
        let error = store.write_many(batch).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unknown, "{code}: {error}");
    }
}

#[tokio::test]
async fn without_credentials_nothing_is_sent() {
    use tenure_dynamodb::aws_sdk_dynamodb::config::{BehaviorVersion, Config, Region};
    let stub = Stub::start(|_, _| Fate::Through).await;
    let config = Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .region(Region::new("eu-west-1"))
        .endpoint_url(&stub.endpoint);
    let client = Client::from_conf(config.build());
    let opened =
        DynamoStore::with_client(&client, DynamoConfig::new(TABLE), Arc::new(RealClock::new())).await;
    let error = opened.unwrap_err();
    assert_eq!((error.kind(), stub.take()), (ErrorKind::Unavailable, 0), "{error}");
    assert!(error.to_string().contains("there are no credentials; set AWS_PROFILE"), "{error}");
}

#[tokio::test]
async fn a_vacant_record_that_was_changed_by_hand_is_told_and_not_written_over() {
    let namespace = unique("hand");
    let plain = tenure_dynamodb_testkit::plain();
    let store = store_by(client(&endpoint()), TABLE, &namespace).await;
    let factory = RecordFactory::new();
    let number = |number: u64| Some(AttributeValue::N(number.to_string()));
    let bytes = |bytes: &[u8]| Some(AttributeValue::B(Blob::new(bytes)));
    let changes = [
        ("terms[0]", bytes(&[0, 0, 0, 0, 0, 0, 0, 0, 3])),
        ("terms[0]", number(3)),
        ("terms[0]", None),
        ("terms[1]", bytes(&[7; 16])),
        ("terms[1]", bytes(b"junk")),
        ("terms[1]", None),
        ("terms[2]", number(1)),
        ("terms[3]", bytes(&[0; 8])),
        ("terms[4]", bytes(&[0])),
        ("terms", bytes(b"junk")),
        ("terms", None),
        ("seal[0]", bytes(&[0, 0, 0, 0, 0, 0, 0, 0, 3])),
        ("seal", None),
        ("encoded", bytes(b"junk")),
        ("encoded", None),
    ];
    for (n, (name, value)) in changes.into_iter().enumerate() {
        let what = format!("{name}: {value:?}");
        let key = key(&format!("k{n}"));
        assert!(wins(&store, factory.if_vacant(&key, factory.vacant(70))).await);
        let place = [("namespace", &*namespace), ("key", key.as_str())]
            .map(|(name, text)| (name.to_owned(), AttributeValue::S(text.to_owned())));
        let place = || Some(place.clone().into_iter().collect());
        let update = plain.update_item().table_name(TABLE).set_key(place());
        let update = match value {
            Some(value) => {
                update.update_expression(format!("SET {name} = :a")).expression_attribute_values(":a", value)
            }
            None => update.update_expression(format!("REMOVE {name}")),
        };
        update.send().await.unwrap();
        let get = || plain.get_item().table_name(TABLE).set_key(place()).consistent_read(true);
        let before = get().send().await.unwrap().item;
        // By a process that did not write it, and by the one that did.
        let other = store_by(client(&endpoint()), TABLE, &namespace).await;
        for store in [&other, &store] {
            let error = store.write(factory.if_vacant(&key, factory.held(90))).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Foreign, "{what}: {error}");
        }
        assert_eq!(get().send().await.unwrap().item, before, "{what}");
    }
}

#[tokio::test]
async fn an_item_whose_key_is_none_is_named_by_the_listings_that_it_ends() {
    let (namespace, long) = (unique("long"), "k".repeat(600));
    let store = store_by(client(&endpoint()), TABLE, &namespace).await;
    let plain = tenure_dynamodb_testkit::plain();
    let put = plain.put_item().table_name(TABLE);
    let put = put.item("namespace", AttributeValue::S(namespace.clone()));
    put.item("key", AttributeValue::S(long.clone())).send().await.unwrap();
    let error = store.list("", None, 10).await.unwrap_err();
    let text = error.to_string();
    assert_eq!(error.kind(), ErrorKind::Foreign, "{text}");
    for part in [TABLE, &namespace, &long, "delete that item by hand"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(store.list("j", None, 10).await, Ok(vec![]), "what does not cover it goes on");
}
