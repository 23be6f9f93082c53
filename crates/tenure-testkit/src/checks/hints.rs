//! Hints of changes: nothing depends on them but speed, so these checks are generous with time.

use super::{won, write};
use crate::{Scribe, Subject};
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
pub async fn a_vacated_key_is_hinted_to_other_handles<S: Subject>(subject: &S) {
    let (one, other, scribe) = (subject.store().await, subject.store().await, Scribe::new());
    if !one.capabilities().watch {
        return;
    }
    let key = scribe.key("watched/a");
    let mut everywhere = other.changed("").unwrap();
    let mut below = other.changed("watched/").unwrap();
    let mut own = one.changed("watched/a").unwrap();
    let mut written = Vec::new();
    for _ in 0..3 {
        let (version, fence) = won(write(&one, scribe.if_vacant(&key, scribe.held(5))).await);
        // What came for the acquisition, if anything, is not what this waits for.
        while everywhere.try_recv().is_ok() || below.try_recv().is_ok() || own.try_recv().is_ok() {}
        let (vacated, _) = won(write(&one, scribe.unchanged(&key, version, scribe.vacant(fence.0))).await);
        written.extend([version, vacated]);
        await_hint(&mut everywhere, &key, &written).await;
        await_hint(&mut below, &key, &written).await;
        await_hint(&mut own, &key, &written).await;
    }
}

/// A holder hears of mail.
pub async fn mail_is_hinted_to_other_handles<S: Subject>(subject: &S) {
    let (one, other, scribe) = (subject.store().await, subject.store().await, Scribe::new());
    if !one.capabilities().watch {
        return;
    }
    let key = scribe.key("a");
    let mut record = scribe.held(5);
    let (version, _) = won(write(&one, scribe.absent(&key, record.clone())).await);
    let mut changes = one.changed("").unwrap();
    record.nonce = scribe.nonce();
    let letter = Letter::new(key.clone(), Ask::HandOver);
    record.tenure.as_mut().unwrap().mail.push(letter);
    let (mailed, _) = won(write(&other, scribe.unchanged(&key, version, record)).await);
    await_hint(&mut changes, &key, &[version, mailed]).await;
}

/// A store that can't watch says so when asked to.
pub async fn a_watch_capability_that_is_off_is_refused<S: Subject>(subject: &S) {
    let store = subject.store().await;
    match store.changed("") {
        Ok(_) => assert!(store.capabilities().watch, "it watches, but its capabilities say that it can't"),
        Err(error) => {
            assert!(!store.capabilities().watch, "{error}");
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        }
    }
}
