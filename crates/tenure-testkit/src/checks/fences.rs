//! Fences only grow.

use super::{lost, read, won, write};
use crate::{AnySubject, RecordFactory};
use tenure_core::{ErrorKind, Fence};
use tenure_store::Store;

/// Over a vacant record, the fence becomes the higher of the floor and one more than the last.
pub async fn vacant_over_a_vacant_record_raises_the_fence(subject: &AnySubject) {
    let (store, factory) = (subject.store().await, RecordFactory::new());
    for (name, last, floor, next) in [
        ("floor far above", 5, 1_700_000_000_000, 1_700_000_000_000),
        ("floor just above", 5, 7, 7),
        ("floor is the next", 5, 6, 6),
        ("floor is the last", 5, 5, 6),
        ("floor below", 5, 0, 6),
        ("last far above", 1_700_000_000_000, 5, 1_700_000_000_001),
    ] {
        let key = factory.key(name);
        won(write(&store, factory.absent(&key, factory.vacant(last))).await);
        let (_, fence) = won(write(&store, factory.if_vacant(&key, factory.held(floor))).await);
        assert_eq!(fence, Fence(next), "{name}: the answer");
        assert_eq!(read(&store, &key).await.unwrap().0.fence, Fence(next), "{name}: the record");
    }
}

/// In all other cases the fence is written as it was given.
pub async fn only_vacant_raises_the_fence(subject: &AnySubject) {
    let (store, factory) = (subject.store().await, RecordFactory::new());
    let key = factory.key("a");
    let (version, fence) = won(write(&store, factory.absent(&key, factory.vacant(50))).await);
    assert_eq!(fence, Fence(50));
    let (version, fence) = won(write(&store, factory.unchanged(&key, version, factory.held(60))).await);
    assert_eq!(fence, Fence(60));
    let (_, fence) = won(write(&store, factory.unchanged(&key, version, factory.vacant(60))).await);
    assert_eq!((fence, read(&store, &key).await.unwrap().0.fence), (Fence(60), Fence(60)));
}

/// A lower fence is the caller's mistake. A store that looks refuses it, and leaves alone what stands there; no store makes another one
/// of it.
pub async fn a_lower_fence_is_written_as_it_was_given_or_refused(subject: &AnySubject) {
    let (store, factory) = (subject.store().await, RecordFactory::new());
    let key = factory.key("a");
    let (version, _) = won(write(&store, factory.absent(&key, factory.held(60))).await);
    let before = read(&store, &key).await;
    match store.write(factory.unchanged(&key, version, factory.vacant(40))).await {
        Ok(outcome) => {
            assert_eq!((won(outcome).1, read(&store, &key).await.unwrap().0.fence), (Fence(40), Fence(40)));
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
            assert_eq!(read(&store, &key).await, before, "it was refused and written");
        }
    }
}

/// Through many releases and acquisitions, by whatever handle, each fence is above the one before.
pub async fn a_fence_outlives_many_tenures(subject: &AnySubject) {
    let (one, other, factory) = (subject.store().await, subject.store().await, RecordFactory::new());
    let key = factory.key("a");
    let mut last = Fence(0);
    for round in 0..20 {
        let store = if round % 2 == 0 { &one } else { &other };
        let (version, fence) = won(write(store, factory.if_vacant(&key, factory.held(1))).await);
        assert!(fence > last, "round {round}: {fence} after {last}");
        last = fence;
        won(write(store, factory.unchanged(&key, version, factory.vacant(fence.0))).await);
        assert_eq!(read(store, &key).await.unwrap().0.fence, last, "the release did not keep the fence");
    }
}

/// Where no higher fence is left, nothing is written and the caller is told.
pub async fn used_up_fences_are_refused_and_nothing_is_written(subject: &AnySubject) {
    let (store, factory) = (subject.store().await, RecordFactory::new());
    let key = factory.key("a");
    won(write(&store, factory.absent(&key, factory.vacant(Fence::MAX.0))).await);
    let before = read(&store, &key).await;
    assert_eq!(before.as_ref().unwrap().0.fence, Fence::MAX, "the highest fence is kept to the digit");
    let error = store.write(factory.if_vacant(&key, factory.held(1))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Foreign, "{error}");
    assert_eq!(read(&store, &key).await, before);
    assert_eq!(lost(write(&store, factory.absent(&key, factory.held(1))).await), before);
}

/// A fence that could not be read back is the caller's mistake.
pub async fn a_fence_beyond_the_highest_is_refused(subject: &AnySubject) {
    let (store, factory) = (subject.store().await, RecordFactory::new());
    let key = factory.key("a");
    for fence in [Fence::MAX.0 + 1, u64::MAX] {
        let error = store.write(factory.absent(&key, factory.held(fence))).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert_eq!(read(&store, &key).await, None);
    }
}
