//! Many writes in one call.

use super::{lost, read, won, write};
use crate::{AnySubject, RecordFactory};
use tenure_core::op::Write;
use tenure_core::{ErrorKind, Fence, Record, Value};
use tenure_store::Store;

/// Batches of stores that take very many are not tried to the limit.
const ENOUGH: usize = 5_000;

/// Each write of a batch wins or loses by itself, and the outcomes tell which.
pub async fn outcomes_are_in_the_order_of_the_writes(subject: &AnySubject) {
    let (store, factory) = (subject.store().await, RecordFactory::new());
    if store.capabilities().batch < 4 {
        return;
    }
    let [held, vacant, z, a] = ["held", "vacant", "z", "a"].map(|text| factory.key(text));
    let standing = factory.held(7);
    let (version, _) = won(write(&store, factory.absent(&held, standing.clone())).await);
    won(write(&store, factory.absent(&vacant, factory.vacant(8))).await);
    let writes = vec![
        factory.absent(&z, factory.held(1)),
        factory.if_vacant(&held, factory.held(2)),
        factory.if_vacant(&vacant, factory.held(3)),
        factory.absent(&a, factory.vacant(4)),
    ];
    let outcomes = store.write_many(writes).await.unwrap();
    let [first, second, third, fourth] = outcomes.try_into().expect("an outcome for each write");
    assert_eq!(won(first).1, Fence(1));
    assert_eq!(lost(second), Some((standing.clone(), version)));
    assert_eq!(won(third).1, Fence(9));
    assert_eq!(won(fourth).1, Fence(4));
    assert_eq!(read(&store, &held).await, Some((standing, version)), "a write that lost changed something");
    for (key, fence) in [(z, 1), (vacant, 9), (a, 4)] {
        assert_eq!(read(&store, &key).await.unwrap().0.fence, Fence(fence), "{key}");
    }
}

/// The second write of a key sees the first.
pub async fn one_key_twice_is_written_in_order(subject: &AnySubject) {
    let (store, factory) = (subject.store().await, RecordFactory::new());
    if store.capabilities().batch < 3 {
        return;
    }
    let key = factory.key("a");
    let (first, second, third) = (factory.held(5), factory.vacant(6), factory.held(2));
    let writes = vec![
        factory.absent(&key, first.clone()),
        factory.unchanged(&key, first.version(), second.clone()),
        factory.if_vacant(&key, third.clone()),
    ];
    let outcomes = store.write_many(writes).await.unwrap();
    let fences: Vec<Fence> = outcomes.into_iter().map(|outcome| won(outcome).1).collect();
    assert_eq!(fences, [Fence(5), Fence(6), Fence(7)]);
    assert_eq!(read(&store, &key).await.unwrap().0, Record { fence: Fence(7), ..third });
}

/// No writes have no outcomes.
pub async fn an_empty_batch_has_no_outcomes(subject: &AnySubject) {
    let store = subject.store().await;
    assert_eq!(store.write_many(Vec::new()).await.unwrap(), []);
}

fn many(factory: &RecordFactory, count: usize) -> Vec<Write> {
    (0..count).map(|n| factory.absent(&factory.key(&format!("many/{n}")), factory.held(n as u64))).collect()
}

/// A batch of as many writes as the capabilities allow.
pub async fn a_batch_of_the_greatest_size_is_written(subject: &AnySubject) {
    let (store, factory) = (subject.store().await, RecordFactory::new());
    let count = store.capabilities().batch.min(ENOUGH);
    let outcomes = store.write_many(many(&factory, count)).await.unwrap();
    let fences: Vec<u64> = outcomes.into_iter().map(|outcome| won(outcome).1.0).collect();
    assert_eq!(fences.len(), count, "an outcome for each write");
    let wrong = fences.iter().zip(0..).find(|(fence, expected)| *fence != expected);
    assert_eq!(wrong, None, "a fence, and what it should be");
    let last = factory.key(&format!("many/{}", count - 1));
    assert_eq!(read(&store, &last).await.unwrap().0.fence.0, count as u64 - 1);
}

/// One write more than the capabilities allow is the caller's mistake, and nothing of it is written.
pub async fn a_batch_over_the_limit_is_refused(subject: &AnySubject) {
    let (store, factory) = (subject.store().await, RecordFactory::new());
    let most = store.capabilities().batch;
    if most > ENOUGH {
        return;
    }
    let error = store.write_many(many(&factory, most + 1)).await.map(|outcomes| outcomes.len()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert_eq!(read(&store, &factory.key("many/0")).await, None);
}

/// What is refused before any I/O is refused as a whole.
pub async fn a_batch_with_an_oversized_record_writes_nothing(subject: &AnySubject) {
    let (store, factory) = (subject.store().await, RecordFactory::new());
    let (sound, large) = (factory.key("sound"), factory.key("large"));
    let much = Value::Bytes(vec![0; tenure_store::codec::MAX_METADATA_BYTES]);
    let record = Record { metadata: [("much".to_owned(), much)].into(), ..factory.held(5) };
    let writes = vec![factory.absent(&sound, factory.held(1)), factory.absent(&large, record)];
    let error = store.write_many(writes).await.map(|outcomes| outcomes.len()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert_eq!((read(&store, &sound).await, read(&store, &large).await), (None, None));
}
