//! Rights and credentials that were there and are refused later: whoever waits is to wait on, and to hear why.
//!
//! Plan: what is refused from the beginning is the caller's mistake, when opening and after it. What was there before is `Unavailable` while it is refused,
//! with its remedy, and all goes on once it is there again.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking, also in what they share")]

use std::sync::{Arc, Mutex};
use tenure_core::{ErrorKind, StoreError};
use tenure_dynamodb::aws_sdk_dynamodb::Client;
use tenure_dynamodb::{DynamoConfig, DynamoStore};
use tenure_dynamodb_testkit::stub::{Fate, Stub};
use tenure_dynamodb_testkit::{client, key, make};
use tenure_store::{Freshness, Store};
use tenure_testkit::{RealClock, RecordFactory, unique};

const TABLE: &str = "tenure-rights";

/// Before the real service: refuses the actions that it is told to, by this code.
#[derive(Clone, Default)]
struct Refusing(Arc<Mutex<(Vec<&'static str>, &'static str)>>);

impl Refusing {
    fn refuse(&self, actions: &[&'static str], code: &'static str) {
        *self.0.lock().unwrap() = (actions.to_vec(), code);
    }

    async fn open(&self) -> Result<DynamoStore, StoreError> {
        make(TABLE).await;
        let refusing = self.clone();
        let stub = Stub::start(move |action, _| {
            let (actions, code) = &*refusing.0.lock().unwrap();
            match actions.contains(&action) {
                true => Fate::refusal(400, code, "not authorized"),
                false => Fate::Through,
            }
        })
        .await;
        let config = DynamoConfig::new(TABLE).namespace(unique("rights"));
        let client = Client::from_conf(client(&stub.endpoint).build());
        DynamoStore::with_client(&client, config, Arc::new(RealClock::new())).await
    }
}

/// All that the service does for a store.
const ALL: [&str; 6] = ["DescribeTable", "GetItem", "BatchGetItem", "Query", "UpdateItem", "DeleteItem"];

const LOGIN: [&str; 5] = [
    "UnrecognizedClientException",
    "InvalidClientTokenId",
    "MissingAuthenticationTokenException",
    "InvalidSignatureException",
    "IncompleteSignatureException",
];

/// What a removal, a write and three reads come to, of which each that failed must name the table and a remedy.
async fn kinds(store: &DynamoStore) -> [Option<ErrorKind>; 5] {
    let (factory, key) = (RecordFactory::new(), key("a"));
    let all = [
        store.remove(&key, factory.vacant(5).version()).await.map(drop),
        store.write(factory.if_vacant(&key, factory.vacant(5))).await.map(drop),
        store.read(&key).await.map(drop),
        store.read_many(std::slice::from_ref(&key), Freshness::Latest).await.map(drop),
        store.list("", None, 10).await.map(drop),
    ];
    all.map(|answer| {
        let error = answer.err()?;
        let text = error.to_string();
        assert!(text.contains(TABLE) && ["needs", "check"].iter().any(|word| text.contains(word)), "{text}");
        Some(error.kind())
    })
}

const INVALID: Option<ErrorKind> = Some(ErrorKind::Invalid);
const UNAVAILABLE: Option<ErrorKind> = Some(ErrorKind::Unavailable);

#[tokio::test]
async fn credentials_that_were_good_before_are_outlasted_and_others_are_not() {
    for code in LOGIN {
        let service = Refusing::default();
        service.refuse(&ALL, code);
        assert_eq!(service.open().await.unwrap_err().kind(), ErrorKind::Invalid, "{code}");
        service.refuse(&[], code);
        let store = service.open().await.unwrap();
        service.refuse(&ALL, code);
        assert_eq!(kinds(&store).await, [UNAVAILABLE; 5], "{code}");
        service.refuse(&[], code);
        assert_eq!(kinds(&store).await, [None; 5], "{code}");
    }
}

#[tokio::test]
async fn a_right_that_is_taken_away_is_outlasted_and_one_that_was_never_there_is_not() {
    let (service, factory) = (Refusing::default(), RecordFactory::new());
    let deny = |actions: &[&'static str]| service.refuse(actions, "AccessDeniedException");
    deny(&["GetItem"]);
    assert_eq!(service.open().await.unwrap_err().kind(), ErrorKind::Invalid);
    deny(&[]);
    let store = service.open().await.unwrap();
    // What was asked for nothing proves no right.
    assert_eq!(store.read_many(&[], Freshness::Latest).await, Ok(vec![]));
    assert_eq!(store.list("", None, 0).await, Ok(vec![]));
    assert_eq!(store.remove(&key("a"), factory.held(5).version()).await, Ok(false));
    deny(&ALL);
    assert_eq!(kinds(&store).await, [UNAVAILABLE, INVALID, INVALID, INVALID, INVALID]);
    deny(&["DeleteItem"]);
    assert_eq!(kinds(&store).await, [UNAVAILABLE, None, None, None, None]);
    deny(&ALL);
    assert_eq!(kinds(&store).await, [UNAVAILABLE; 5]);
    deny(&[]);
    assert_eq!(kinds(&store).await, [None; 5]);
    // A mend takes the right of what it does.
    let (seen, record) = (store.image(&key("a")).await.unwrap().unwrap(), factory.vacant(9));
    for (action, instead) in [("UpdateItem", Some(record.clone())), ("DeleteItem", None)] {
        deny(&[action]);
        let error = store.mend(&key("a"), &seen, instead).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
    assert_eq!(store.mend(&key("a"), &seen, Some(record)).await, Ok(true));
}

#[tokio::test]
async fn each_way_to_read_is_a_right_of_its_own() {
    for (action, place) in [("BatchGetItem", 3), ("Query", 4)] {
        let service = Refusing::default();
        service.refuse(&[action], "AccessDeniedException");
        let store = service.open().await.unwrap();
        let mut expected = [None; 5];
        expected[place] = INVALID;
        for _ in 0..2 {
            assert_eq!(kinds(&store).await, expected, "{action}");
        }
    }
}
