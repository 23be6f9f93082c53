//! Listings: in order, complete, and literal.

use super::{won, write};
use crate::{AnySubject, RecordFactory};
use std::time::Duration;
use tenure_core::{ErrorKind, Key};
use tenure_store::{AnyStore, Freshness, Listed, Store, StoreExt};

async fn fill(store: &AnyStore, factory: &RecordFactory, keys: impl IntoIterator<Item = impl AsRef<str>>) {
    for key in keys {
        won(write(store, factory.absent(&factory.key(key.as_ref()), factory.held(5))).await);
    }
}

fn names(listed: &[Listed]) -> Vec<&str> {
    listed.iter().map(|listed| listed.key.as_str()).collect()
}

/// The order is that of the keys' bytes, not that of any language.
pub async fn keys_come_in_byte_order(subject: &AnySubject) {
    let (store, factory) = (subject.store().await, RecordFactory::new());
    if !store.capabilities().list {
        return;
    }
    let mut keys = [
        "b",
        "B",
        "a",
        "é",
        "z",
        "A",
        "\u{0}",
        "\u{ffff}",
        "\u{10000}",
        "_",
        "10",
        "9",
        "a\u{0}",
        "aa",
        "\u{7f}",
    ];
    fill(&store, &factory, keys).await;
    keys.sort_unstable();
    assert_eq!(names(&store.list_all("").await.unwrap()), keys);
}

/// Several records in one request: all of those that exist, each as it stands, and nothing else.
pub async fn several_are_read_at_once(subject: &AnySubject) {
    let (store, factory) = (subject.store().await, RecordFactory::new());
    fill(&store, &factory, (0..30).map(|n| format!("many/{n}"))).await;
    let wanted: Vec<Key> = (0..40).step_by(3).map(|n| factory.key(&format!("many/{n}"))).collect();
    let mut found = store.read_many(&wanted, Freshness::Latest).await.unwrap();
    found.sort_by_key(|listed| wanted.iter().position(|key| *key == listed.key));
    assert_eq!(found.len(), 10, "{:?}", names(&found));
    for (listed, key) in found.iter().zip(&wanted) {
        let (many, one) = (listed.stored.as_ref().unwrap(), store.read(key).await.unwrap().unwrap());
        assert_eq!((&listed.key, &many.record, many.version), (key, &one.record, one.version));
    }
    assert_eq!(store.read_many(&[], Freshness::Latest).await.unwrap(), []);
}

/// Where a recent state will do, the one that is shown was written; and in the end it is the latest.
pub async fn a_recent_state_was_written_and_becomes_the_latest(subject: &AnySubject) {
    const PATIENCE: Duration = Duration::from_secs(20);
    let (store, factory) = (subject.store().await, RecordFactory::new());
    let key = factory.key("recent");
    let (first, fence) = won(write(&store, factory.absent(&key, factory.held(5))).await);
    let (last, _) = won(write(&store, factory.unchanged(&key, first, factory.vacant(fence.0))).await);
    let becomes_the_latest = async {
        loop {
            let found = store.read_many(std::slice::from_ref(&key), Freshness::Recent).await.unwrap();
            let version = found.first().map(|listed| listed.stored.as_ref().unwrap().version);
            match version {
                Some(version) if version == last => return,
                Some(version) => assert_eq!(version, first, "it was never written"),
                None => {}
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, becomes_the_latest).await.expect("it stays behind");
}

/// Page after page, every key comes exactly once, and a page that is not full is the last.
pub async fn pages_are_complete_and_do_not_overlap(subject: &AnySubject) {
    let (store, factory) = (subject.store().await, RecordFactory::new());
    if !store.capabilities().list {
        return;
    }
    let keys: Vec<String> = (0..60).map(|n| format!("page/{n:02}")).collect();
    fill(&store, &factory, &keys).await;
    fill(&store, &factory, ["page", "page0", "paga/99"]).await;
    for size in [1, 7, 20, 59, 60, 61] {
        let (mut found, mut after): (Vec<String>, Option<Key>) = (Vec::new(), None);
        loop {
            let page = store.list("page/", after.as_ref(), size).await.unwrap();
            assert!(page.len() <= size, "a page of {} where {size} were asked for", page.len());
            found.extend(names(&page).into_iter().map(str::to_owned));
            assert!(found.len() <= keys.len(), "pages overlap: {found:?}");
            if page.len() < size {
                break;
            }
            after = page.last().map(|listed| listed.key.clone());
        }
        assert_eq!(found, keys, "pages of {size}");
    }
    assert_eq!(store.list("page/", None, 0).await.unwrap(), [], "a page of none");
}

/// Characters that are special elsewhere mean themselves in a prefix.
pub async fn a_prefix_is_taken_literally(subject: &AnySubject) {
    let (store, factory) = (subject.store().await, RecordFactory::new());
    if !store.capabilities().list {
        return;
    }
    let special =
        ["%", "_", "\\", "'", "\"", "*", "?", "[", "\u{0}", "\u{7f}", "\u{ffff}", "\u{10ffff}", "é"];
    let mut keys = vec!["".to_owned()];
    for first in special {
        for second in special {
            keys.push(format!("{first}{second}x"));
        }
    }
    keys.retain(|key| !key.is_empty());
    fill(&store, &factory, &keys).await;
    fill(&store, &factory, ["plain", "x", "\u{10ffff}\u{10ffff}\u{10ffff}"]).await;
    keys.extend(["plain".to_owned(), "x".to_owned(), "\u{10ffff}\u{10ffff}\u{10ffff}".to_owned()]);
    keys.sort_unstable();
    let prefixes =
        special.iter().flat_map(|a| [(*a).to_owned(), format!("{a}{a}"), format!("{a}\u{10ffff}")]);
    for prefix in prefixes.chain(["".into(), "plain".into(), "plainer".into(), "X".into()]) {
        let expected: Vec<&str> =
            keys.iter().map(String::as_str).filter(|key| key.starts_with(&prefix)).collect();
        assert_eq!(names(&store.list_all(&prefix).await.unwrap()), expected, "prefix {prefix:?}");
    }
}

/// `after` need not be a key that exists, nor one below the prefix.
pub async fn a_listing_begins_after_the_key_that_is_named(subject: &AnySubject) {
    let (store, factory) = (subject.store().await, RecordFactory::new());
    if !store.capabilities().list {
        return;
    }
    fill(&store, &factory, ["a/1", "a/2", "a/3", "b/1"]).await;
    for (after, expected) in [
        ("a", vec!["a/1", "a/2", "a/3"]),
        ("a/", vec!["a/1", "a/2", "a/3"]),
        ("a/1", vec!["a/2", "a/3"]),
        ("a/1\u{0}", vec!["a/2", "a/3"]),
        ("a/25", vec!["a/3"]),
        ("a/3", vec![]),
        ("a0", vec![]),
        ("z", vec![]),
        ("\u{0}", vec!["a/1", "a/2", "a/3"]),
    ] {
        let after = factory.key(after);
        let listed = store.list("a/", Some(&after), 10).await.unwrap();
        assert_eq!(names(&listed), expected, "after {after}");
    }
}

/// A listing has the records themselves, of every handle.
pub async fn listed_records_are_those_that_are_read(subject: &AnySubject) {
    let (one, other, factory) = (subject.store().await, subject.store().await, RecordFactory::new());
    if !one.capabilities().list {
        return;
    }
    fill(&one, &factory, ["a", "b"]).await;
    won(write(&other, factory.absent(&factory.key("c"), factory.vacant(9))).await);
    let all = other.list_all("").await.unwrap();
    assert_eq!(names(&all), ["a", "b", "c"], "held or vacant, all are listed");
    for listed in all {
        let stored = listed.stored.unwrap();
        let (record, version) = super::read(&one, &listed.key).await.unwrap();
        assert_eq!((stored.record, stored.version), (record, version));
    }
}

/// A store that can't list says so when asked to.
pub async fn a_list_capability_that_is_off_is_refused(subject: &AnySubject) {
    let store = subject.store().await;
    let answer = store.list("", None, 10).await;
    match answer {
        Ok(page) => {
            assert!(store.capabilities().list, "it lists ({page:?}) what its capabilities say it can't")
        }
        Err(error) => {
            assert!(!store.capabilities().list, "{error}");
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        }
    }
}
