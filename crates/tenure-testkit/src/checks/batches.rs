//! Many writes in one call.

use super::{lost, read, won, write};
use crate::{AnySubject, Scribe};
use tenure_core::op::Write;
use tenure_core::{ErrorKind, Fence, Record, Value};
use tenure_store::Store;

/// Batches of stores that take very many are not tried to the limit.
const ENOUGH: usize = 5_000;

/// Each write of a batch wins or loses by itself, and the outcomes tell which.
pub async fn outcomes_are_in_the_order_of_the_writes(subject: &AnySubject) {
    let (store, scribe) = (subject.store().await, Scribe::new());
    if store.capabilities().batch < 4 {
        return;
    }
    let [held, vacant, z, a] = ["held", "vacant", "z", "a"].map(|text| scribe.key(text));
    let standing = scribe.held(7);
    let (version, _) = won(write(&store, scribe.absent(&held, standing.clone())).await);
    won(write(&store, scribe.absent(&vacant, scribe.vacant(8))).await);
    let writes = vec![
        scribe.absent(&z, scribe.held(1)),
        scribe.if_vacant(&held, scribe.held(2)),
        scribe.if_vacant(&vacant, scribe.held(3)),
        scribe.absent(&a, scribe.vacant(4)),
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
    let (store, scribe) = (subject.store().await, Scribe::new());
    if store.capabilities().batch < 3 {
        return;
    }
    let key = scribe.key("a");
    let (first, second, third) = (scribe.held(5), scribe.vacant(6), scribe.held(2));
    let writes = vec![
        scribe.absent(&key, first.clone()),
        scribe.unchanged(&key, first.version(), second.clone()),
        scribe.if_vacant(&key, third.clone()),
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

fn many(scribe: &Scribe, count: usize) -> Vec<Write> {
    (0..count).map(|n| scribe.absent(&scribe.key(&format!("many/{n}")), scribe.held(n as u64))).collect()
}

/// A batch of as many writes as the capabilities allow.
pub async fn a_batch_of_the_greatest_size_is_written(subject: &AnySubject) {
    let (store, scribe) = (subject.store().await, Scribe::new());
    let count = store.capabilities().batch.min(ENOUGH);
    let outcomes = store.write_many(many(&scribe, count)).await.unwrap();
    let fences: Vec<u64> = outcomes.into_iter().map(|outcome| won(outcome).1.0).collect();
    assert_eq!(fences.len(), count, "an outcome for each write");
    let wrong = fences.iter().zip(0..).find(|(fence, expected)| *fence != expected);
    assert_eq!(wrong, None, "a fence, and what it should be");
    let last = scribe.key(&format!("many/{}", count - 1));
    assert_eq!(read(&store, &last).await.unwrap().0.fence.0, count as u64 - 1);
}

/// One write more than the capabilities allow is the caller's mistake, and nothing of it is written.
pub async fn a_batch_over_the_limit_is_refused(subject: &AnySubject) {
    let (store, scribe) = (subject.store().await, Scribe::new());
    let most = store.capabilities().batch;
    if most > ENOUGH {
        return;
    }
    let error = store.write_many(many(&scribe, most + 1)).await.map(|outcomes| outcomes.len()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert_eq!(read(&store, &scribe.key("many/0")).await, None);
}

/// What is refused before any I/O is refused as a whole.
pub async fn a_batch_with_an_oversized_record_writes_nothing(subject: &AnySubject) {
    let (store, scribe) = (subject.store().await, Scribe::new());
    let (sound, large) = (scribe.key("sound"), scribe.key("large"));
    let much = Value::Bytes(vec![0; tenure_store::codec::MAX_METADATA_BYTES]);
    let record = Record { metadata: [("much".to_owned(), much)].into(), ..scribe.held(5) };
    let writes = vec![scribe.absent(&sound, scribe.held(1)), scribe.absent(&large, record)];
    let error = store.write_many(writes).await.map(|outcomes| outcomes.len()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert_eq!((read(&store, &sound).await, read(&store, &large).await), (None, None));
}
