//! Reading, writing on a condition, and removing.

use super::{lost, read, won, write};
use crate::{AnySubject, RecordFactory};
use tenure_core::{Fence, Record, Version};
use tenure_store::Store;

/// A key that was never written has no record.
pub async fn nothing_is_read_where_nothing_was_written(subject: &AnySubject) {
    let (store, factory) = (subject.store().await, RecordFactory::new());
    assert_eq!(read(&store, &factory.key("a")).await, None);
    won(write(&store, factory.absent(&factory.key("a"), factory.held(5))).await);
    assert_eq!(read(&store, &factory.key("b")).await, None);
}

/// `Absent` creates, and loses to a vacant record as well as to a held one, which it leaves as they are.
pub async fn absent_wins_only_where_there_is_nothing(subject: &AnySubject) {
    let (store, factory) = (subject.store().await, RecordFactory::new());
    for (name, record) in [("vacant", factory.vacant(5)), ("held", factory.held(6))] {
        let key = factory.key(name);
        let (version, fence) = won(write(&store, factory.absent(&key, record.clone())).await);
        assert_eq!(fence, record.fence, "the fence is written as given");
        let standing = Some((record, version));
        assert_eq!(read(&store, &key).await, standing);
        assert_eq!(lost(write(&store, factory.absent(&key, factory.held(9))).await), standing);
        assert_eq!(read(&store, &key).await, standing, "a write that lost changed something");
    }
}

/// `Vacant` wins over nothing and over a vacant record, and loses to a tenure.
pub async fn vacant_wins_where_no_tenure_stands(subject: &AnySubject) {
    let (store, factory) = (subject.store().await, RecordFactory::new());
    let key = factory.key("a");
    let first = factory.vacant(5);
    let (version, fence) = won(write(&store, factory.if_vacant(&key, first.clone())).await);
    assert_eq!(fence, Fence(5), "over nothing, the fence is written as given");
    assert_eq!(read(&store, &key).await, Some((first, version)));
    let second = factory.held(100);
    let (version, fence) = won(write(&store, factory.if_vacant(&key, second.clone())).await);
    let standing = Some((Record { fence, ..second }, version));
    assert_eq!(read(&store, &key).await, standing);
    assert_eq!(lost(write(&store, factory.if_vacant(&key, factory.held(200))).await), standing);
    assert_eq!(read(&store, &key).await, standing, "a write that lost changed something");
}

/// `Unchanged` wins only while the record has just that version.
pub async fn unchanged_wins_on_the_very_version_only(subject: &AnySubject) {
    let (store, factory) = (subject.store().await, RecordFactory::new());
    let key = factory.key("a");
    let nowhere = factory.unchanged(&key, Version(1), factory.held(5));
    assert_eq!(lost(write(&store, nowhere).await), None, "there is no record to be unchanged");
    assert_eq!(read(&store, &key).await, None, "a write that lost changed something");

    let (version, _) = won(write(&store, factory.absent(&key, factory.held(5))).await);
    let second = factory.held(5);
    let (newer, _) = won(write(&store, factory.unchanged(&key, version, second.clone())).await);
    let standing = Some((second, newer));
    assert_eq!(read(&store, &key).await, standing);
    for wrong in [version, Version(newer.0 ^ 1), Version(newer.0 ^ (1 << 127)), Version(0)] {
        assert_eq!(lost(write(&store, factory.unchanged(&key, wrong, factory.held(7))).await), standing);
    }
    assert_eq!(read(&store, &key).await, standing, "a write that lost changed something");
}

/// A zombie's write, on a version from before other writes or from before a deletion, loses.
pub async fn a_stale_version_never_wins_again(subject: &AnySubject) {
    let (store, factory) = (subject.store().await, RecordFactory::new());
    let key = factory.key("a");
    let (stale, _) = won(write(&store, factory.absent(&key, factory.held(5))).await);
    let (newer, _) = won(write(&store, factory.unchanged(&key, stale, factory.vacant(5))).await);
    lost(write(&store, factory.unchanged(&key, stale, factory.held(5))).await);
    assert!(store.remove(&key, newer).await.unwrap());
    for version in [stale, newer] {
        assert_eq!(lost(write(&store, factory.unchanged(&key, version, factory.held(5))).await), None);
    }
    let again = factory.held(5);
    let (third, _) = won(write(&store, factory.absent(&key, again.clone())).await);
    for version in [stale, newer] {
        let outcome = write(&store, factory.unchanged(&key, version, factory.held(9))).await;
        assert_eq!(lost(outcome), Some((again.clone(), third)));
    }
}

/// No two writes of a key have the same version, also across deletion.
pub async fn each_write_has_its_own_version(subject: &AnySubject) {
    let (store, factory) = (subject.store().await, RecordFactory::new());
    let key = factory.key("a");
    let mut seen = Vec::new();
    for _ in 0..5 {
        let (mut version, _) = won(write(&store, factory.absent(&key, factory.held(5))).await);
        for _ in 0..3 {
            seen.push(version);
            version = won(write(&store, factory.unchanged(&key, version, factory.vacant(5))).await).0;
        }
        seen.push(version);
        assert!(store.remove(&key, version).await.unwrap());
    }
    let count = seen.len();
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), count, "a version was used twice");
}

/// What one handle was answered, every other handle sees.
pub async fn a_write_is_seen_at_once_by_other_handles(subject: &AnySubject) {
    let (one, other, factory) = (subject.store().await, subject.store().await, RecordFactory::new());
    let key = factory.key("a");
    let mut version = won(write(&one, factory.absent(&key, factory.held(5))).await).0;
    for round in 0..50 {
        let record = factory.held(5 + round);
        version = won(write(&one, factory.unchanged(&key, version, record.clone())).await).0;
        assert_eq!(read(&other, &key).await, Some((record, version)), "round {round}");
        let record = factory.held(5 + round);
        version = won(write(&other, factory.unchanged(&key, version, record.clone())).await).0;
        assert_eq!(read(&one, &key).await, Some((record, version)), "round {round}");
    }
}

/// `remove` takes away just the version that is named, held or not, and says whether it did.
pub async fn only_the_unchanged_is_removed(subject: &AnySubject) {
    let (store, factory) = (subject.store().await, RecordFactory::new());
    let (key, neighbour) = (factory.key("a"), factory.key("a\u{0}"));
    assert!(!store.remove(&key, Version(1)).await.unwrap(), "there is nothing to remove");
    won(write(&store, factory.absent(&neighbour, factory.vacant(5))).await);
    let (stale, _) = won(write(&store, factory.absent(&key, factory.vacant(5))).await);
    let record = factory.vacant(5);
    let (version, _) = won(write(&store, factory.unchanged(&key, stale, record.clone())).await);
    assert!(!store.remove(&key, stale).await.unwrap(), "the record has changed");
    assert_eq!(read(&store, &key).await, Some((record, version)));
    assert!(store.remove(&key, version).await.unwrap());
    assert!(!store.remove(&key, version).await.unwrap(), "it is gone");
    assert_eq!(read(&store, &key).await, None);
    assert!(read(&store, &neighbour).await.is_some(), "another key was removed");
    let (held, _) = won(write(&store, factory.absent(&key, factory.held(1))).await);
    assert!(!store.remove(&key, version).await.unwrap(), "another record stands there");
    assert!(store.remove(&key, held).await.unwrap(), "one that is held goes, too");
    assert_eq!(read(&store, &key).await, None);
}

/// The id names the records, whichever handle is asked.
pub async fn handles_agree_on_the_store_s_id(subject: &AnySubject) {
    let (one, other) = (subject.store().await, subject.store().await);
    assert_eq!(one.id(), other.id());
    assert!(!one.id().is_empty());
}
