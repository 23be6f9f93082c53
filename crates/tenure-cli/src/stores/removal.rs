//! Records that go for good, each as it was seen.

use super::PAUSES_MS;
use std::time::Duration;
use tenure::store::Version;
use tenure::{AnyStore, ErrorKind, Key, Store, StoreError};

/// What became of a record that was to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordRemoval {
    Removed,
    /// Somebody else has removed it.
    Gone,
    /// Somebody has changed it, so it stays.
    Changed,
}

/// Removes a record, as patiently as other calls, for a task that may be on any thread.
pub(crate) async fn remove_patiently(
    store: &AnyStore,
    key: &Key,
    version: Version,
) -> Result<RecordRemoval, StoreError> {
    let (mut pauses, mut may_be_done) = (PAUSES_MS.into_iter(), false);
    loop {
        match remove(store, key, version).await {
            // By an earlier try, whose answer was lost.
            Ok(RecordRemoval::Gone) if may_be_done => return Ok(RecordRemoval::Removed),
            Err(error) if error.is_passing() => {
                may_be_done |= error.kind() == ErrorKind::Unknown;
                let Some(pause) = pauses.next() else { return Err(error) };
                tokio::time::sleep(Duration::from_millis(pause)).await;
            }
            result => return result,
        }
    }
}

async fn remove(store: &AnyStore, key: &Key, version: Version) -> Result<RecordRemoval, StoreError> {
    if store.remove(key, version).await? {
        return Ok(RecordRemoval::Removed);
    }
    match store.read(key).await {
        Ok(None) => Ok(RecordRemoval::Gone),
        Err(error) if error.is_passing() => Err(error),
        // What can't be read is there.
        Ok(Some(_)) | Err(_) => Ok(RecordRemoval::Changed),
    }
}

#[cfg(test)]
mod tests {
    //! Plan: a removal whose answer was lost is one; what somebody else has removed is gone, and only what has changed stays.
    use super::*;
    use tenure::store::{Expect, Nonce, Outcome, Record, Write};
    use tenure::{Fence, Metadata, Wall};
    use tenure_store::{Fault, FaultyStore};

    async fn written(store: &AnyStore, key: &Key, nonce: u128) -> Version {
        let (stamp, metadata) = (Wall(0), Metadata::new());
        let record = Record { fence: Fence(7), nonce: Nonce(nonce), stamp, tenure: None, metadata };
        match store.write(Write { key: key.clone(), expect: Expect::Vacant, record }).await.unwrap() {
            Outcome::Won { version, .. } => version,
            lost => panic!("{lost:?}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_gone_is_not_told_as_changed_and_a_removal_without_an_answer_counts() {
        let faulty = FaultyStore::new(tenure::memory());
        let (store, key) = (AnyStore::new(faulty.clone()), Key::new("k").unwrap());
        for (nonce, faults) in [
            (1, vec![]),
            (2, vec![Fault::LoseAnswer]),
            (3, vec![Fault::LoseRequest]),
            // The read that finds it gone meets trouble, too.
            (4, vec![Fault::LoseAnswer, Fault::None, Fault::Refuse]),
        ] {
            let version = written(&store, &key, nonce).await;
            faulty.inject(faults);
            let became = remove_patiently(&store, &key, version).await.unwrap();
            assert_eq!(became, RecordRemoval::Removed, "{nonce}");
            assert_eq!(remove_patiently(&store, &key, version).await.unwrap(), RecordRemoval::Gone);
        }
        let old = written(&store, &key, 5).await;
        written(&store, &key, 6).await;
        assert_eq!(remove_patiently(&store, &key, old).await.unwrap(), RecordRemoval::Changed);
        faulty.inject([Fault::Refuse; 6]);
        assert_eq!(remove_patiently(&store, &key, old).await.unwrap_err().kind(), ErrorKind::Unavailable);
    }
}
