//! Hints of changes: nothing depends on them but speed, so these checks are generous with time.

use super::{won, write};
use crate::{AnySubject, RecordFactory};
use std::sync::Arc;
use std::time::Duration;
use tenure_core::{Ask, ErrorKind, Key, Letter};
use tenure_store::{Changes, Hint, Store, Version};

const PATIENCE: Duration = Duration::from_secs(20);

/// Waits for a hint that covers `key`. If it names a version, that must be one of these, which were written.
async fn await_hint(changes: &mut Changes, key: &Key, written: &[Version]) {
    let hint = async {
        loop {
            match changes.recv().await {
                Some(Hint::Written(hinted, version)) if hinted == *key => {
                    assert!(written.contains(&version), "{key}: {version:?} was hinted at and never written");
                    return;
                }
                Some(hint) if hint.key().is_some_and(|hinted| hinted != key) => {}
                Some(_) => return,
                None => panic!("the hints ended"),
            }
        }
    };
    tokio::time::timeout(PATIENCE, hint).await.expect("no hint came");
}

/// Whoever waits for a key hears of its release by another handle; and again, and again.
pub async fn a_vacated_key_is_hinted_to_other_handles(subject: &AnySubject) {
    let (one, other, factory) = (subject.store().await, subject.store().await, RecordFactory::new());
    if !one.capabilities().watch {
        return;
    }
    let key = factory.key("watched/a");
    let mut everywhere = other.changed("").unwrap();
    let mut below = other.changed("watched/").unwrap();
    let mut own = one.changed("watched/a").unwrap();
    let mut written = Vec::new();
    for _ in 0..3 {
        let (version, fence) = won(write(&one, factory.if_vacant(&key, factory.held(5))).await);
        // What came for the acquisition, if anything, is not what this waits for.
        while everywhere.try_recv().is_ok() || below.try_recv().is_ok() || own.try_recv().is_ok() {}
        let (vacated, _) = won(write(&one, factory.unchanged(&key, version, factory.vacant(fence.0))).await);
        written.extend([version, vacated]);
        await_hint(&mut everywhere, &key, &written).await;
        await_hint(&mut below, &key, &written).await;
        await_hint(&mut own, &key, &written).await;
    }
}

/// A holder hears of mail.
pub async fn mail_is_hinted_to_other_handles(subject: &AnySubject) {
    let (one, other, factory) = (subject.store().await, subject.store().await, RecordFactory::new());
    if !one.capabilities().watch {
        return;
    }
    let key = factory.key("a");
    let mut record = factory.held(5);
    let (version, _) = won(write(&one, factory.absent(&key, record.clone())).await);
    let mut changes = one.changed("").unwrap();
    record.nonce = factory.nonce();
    let letter = Letter::new(key.clone(), Ask::HandOver);
    record.tenure.as_mut().unwrap().mail.push(letter);
    let (mailed, _) = won(write(&other, factory.unchanged(&key, version, record)).await);
    await_hint(&mut changes, &key, &[version, mailed]).await;
}

/// A store outlives a runtime on which it was used, as that of one of several [`Leases`] of a program: on another one it answers, and tells
/// of changes. Hints that came by way of the first one may end, and can be asked for again.
///
/// [`Leases`]: https://docs.rs/tenure/latest/tenure/struct.Leases.html
pub async fn a_runtime_that_ends_takes_no_hints_along(subject: &AnySubject) {
    const TRIES: u32 = 50;
    /// So often hints may end.
    const ENDS: u32 = 10;
    const PAUSE: Duration = Duration::from_millis(100);
    let (store, other, factory) =
        (Arc::new(subject.store().await), subject.store().await, RecordFactory::new());
    if !store.capabilities().watch {
        return;
    }
    let key = factory.key("a");
    let (first, used) = (Arc::clone(&store), key.clone());
    let work = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let changes = runtime.block_on(async {
            let changes = first.changed("").unwrap();
            first.read(&used).await.unwrap();
            changes
        });
        drop(runtime);
        changes
    };
    let (done, ended) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || done.send(work()));
    let mut changes = ended.await.expect("the first runtime does its work");
    for tries in 1.. {
        let read = store.read(&key).await;
        if read.is_ok() {
            break;
        }
        assert!(tries < TRIES, "the store does not answer any more: {read:?}");
        tokio::time::sleep(PAUSE).await;
    }
    let (mut written, mut ends, mut vague) = (Vec::new(), 0, 0);
    for tries in 1.. {
        let (version, fence) = won(write(&other, factory.if_vacant(&key, factory.held(5))).await);
        let (vacated, _) =
            won(write(&other, factory.unchanged(&key, version, factory.vacant(fence.0))).await);
        written.extend([version, vacated]);
        match tokio::time::timeout(PAUSE, changes.recv()).await {
            Ok(Some(Hint::Written(hinted, version))) if hinted == key && written.contains(&version) => break,
            // Two may tell that somebody listens now.
            Ok(Some(Hint::Any)) if vague == 2 => break,
            Ok(Some(Hint::Any)) => vague += 1,
            Err(_) => {}
            Ok(Some(hint)) => panic!("{hint:?} was never written"),
            Ok(None) => {
                ends += 1;
                assert!(ends < ENDS, "hints end as soon as they begin");
                tokio::time::sleep(PAUSE).await;
                changes = store.changed("").unwrap();
            }
        }
        assert!(tries < TRIES, "no hint came on another runtime");
    }
}

/// A store that can't watch says so when asked to.
pub async fn a_watch_capability_that_is_off_is_refused(subject: &AnySubject) {
    let store = subject.store().await;
    match store.changed("") {
        Ok(_) => assert!(store.capabilities().watch, "it watches, but its capabilities say that it can't"),
        Err(error) => {
            assert!(!store.capabilities().watch, "{error}");
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        }
    }
}
