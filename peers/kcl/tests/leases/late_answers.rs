//! What is believed of a lease whose request was answered late, or that time was hidden from.
//!
//! Plan: a take whose answer comes when its lease is over is given back and never told, and so is one from before time was hidden; a row that takes too long
//! to read is not taken, and one that an earlier request may have set is believed from before that. A renewal that is answered so late, or from before
//! hidden time, brings no lease back. Its row, and that of any lease that is over, can be given back.
use super::*;
use tenure_core::{ErrorKind, Loss};

const SECOND: Duration = Duration::from_secs(1);

/// A lease outlasts neither of them; the second one shows on the wall clock alone.
const TOO_LONG: [(Duration, Duration); 2] = [(FAILOVER, Duration::ZERO), (Duration::ZERO, FAILOVER)];

fn is_store_error(error: &LeaseError, kinds: &[ErrorKind]) -> bool {
    matches!(error, LeaseError::Store(error) if kinds.contains(&error.kind()))
}

/// A row that nobody has.
async fn free(ours: &CutOff, key: &str) {
    put(&ours.name, &[("leaseKey", text(key)), ("leaseCounter", number(1))]).await;
}

#[tokio::test]
async fn s1_a_take_that_is_answered_too_late_is_given_back_and_never_told() {
    for passes in TOO_LONG {
        let ours = cut_off([]).await;
        free(&ours, "b").await;
        *ours.writing.lock().unwrap() = Some(passes);
        let error = ours.claimant.try_take("b").await.unwrap_err();
        assert!(is_store_error(&error, &[ErrorKind::Unavailable]), "{error}");
        let row = item(&ours.name, "b").await.unwrap();
        assert!(!row.contains_key("leaseOwner") && row.contains_key("tenureGivenBack"), "{row:?}");
        let lease = ours.claimant.try_take("b").await.unwrap().unwrap();
        assert!(lease.is_held(), "it is free at once: {lease:?}");
    }
}

#[tokio::test]
async fn s1_a_take_that_is_given_back_in_vain_may_have_been_made() {
    let denied = Fate::refusal(400, "AccessDeniedException", "on purpose");
    let ours = cut_off([Fate::Through, denied]).await;
    free(&ours, "b").await;
    *ours.writing.lock().unwrap() = Some(TOO_LONG[0]);
    let error = ours.claimant.try_take("b").await.unwrap_err();
    assert!(is_store_error(&error, &[ErrorKind::Unknown]), "{error}");
}

#[tokio::test]
async fn s1_a_row_that_takes_longer_to_read_than_a_lease_is_believed_is_not_taken() {
    let ours = cut_off([]).await;
    free(&ours, "b").await;
    *ours.reading.lock().unwrap() = FAILOVER;
    let error = ours.claimant.try_take("b").await.unwrap_err();
    assert!(is_store_error(&error, &[ErrorKind::Unavailable]), "{error}");
    assert_eq!(item(&ours.name, "b").await.unwrap().get("leaseCounter"), Some(&number(1)));
}

#[tokio::test]
async fn s1_a_take_that_finds_what_a_dropped_one_may_have_set_is_not_told_once_that_is_over() {
    let ours = cut_off([Fate::Silence].into_iter().chain(repeat_n(Fate::RequestLost, 1000))).await;
    free(&ours, "b").await;
    ours.dropped(async { ours.claimant.try_take("b").await.map(drop) }, 1).await;
    let dropped = ours.stub.last();
    *ours.reading.lock().unwrap() = 5 * SECOND;
    let lands = async {
        ours.come(2).await;
        let answer = dropped.repeat().await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        // From before the row was read, that is longer than a lease is believed; from after it, it is not.
        ours.clock.advance(5 * SECOND);
        ours.script.lock().unwrap().clear();
    };
    let (taken, ()) = tokio::join!(ours.claimant.try_take("b"), lands);
    let error = taken.unwrap_err();
    assert!(is_store_error(&error, &[ErrorKind::Unknown, ErrorKind::Unavailable]), "{error}");
}

#[tokio::test]
async fn s5_a_renewal_that_is_answered_too_late_brings_no_lease_back_and_its_row_is_given_back() {
    for passes in [(5 * SECOND, Duration::ZERO), (Duration::ZERO, FAILOVER)] {
        let ours = cut_off([]).await;
        ours.clock.advance(5 * SECOND);
        *ours.writing.lock().unwrap() = Some(passes);
        let renewed = ours.claimant.renew(&ours.lease, &Edit::new()).await;
        assert_eq!(renewed, Err(LeaseError::NotHeld("a".to_owned())));
        assert_eq!((ours.lease.is_held(), ours.lease.loss()), (false, Some(Loss::Expired)));
        assert_eq!(ours.row().await.get("leaseCounter"), Some(&number(3)), "it has landed");
        ours.claimant.release(&ours.lease).await.unwrap();
        assert!(!ours.row().await.contains_key("leaseOwner"), "others need not wait for it");
    }
}

#[tokio::test]
async fn what_is_over_is_given_back_all_the_same() {
    let ours = cut_off([]).await;
    ours.clock.advance(FAILOVER);
    assert_eq!(ours.lease.lost().await, Loss::Expired);
    ours.claimant.release(&ours.lease).await.unwrap();
    assert!(!ours.row().await.contains_key("leaseOwner"));
}
