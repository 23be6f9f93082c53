//! When requests or answers are lost, or a record is damaged. Each process has its own way out; what it then believes must be
//! true.

use super::{acquired, attempt, is_told_held, part, taken_over};
use crate::lease_subject::{LeaseRefusal, LeaseSubject, LostMessage, Tenant};
use tenure_core::ErrorKind;

/// Who got the key but not the answer holds it, and knows it.
pub async fn a_lost_answer_to_an_acquisition_is_found_out<R: LeaseSubject>(subject: &R) {
    let (holder, other) = (subject.tenant().await, subject.tenant().await);
    holder.lose_next(LostMessage::Answer);
    let mut lease = acquired(&holder, "a").await;
    is_told_held(&other, "a").await;
    subject.pass(part(subject, 4)).await;
    holder.renew(&mut lease).await.expect("a renewal");
    taken_over(subject, &other, "a", || holder.is_held(&lease)).await;
}

/// Who asked in vain has the key or has not, but no two have it; and it is not lost for good.
pub async fn a_lost_acquisition_blocks_nobody_for_long<R: LeaseSubject>(subject: &R) {
    let (one, other) = (subject.tenant().await, subject.tenant().await);
    one.lose_next(LostMessage::Request);
    let (lease, refusal) = attempt(&one, "a").await;
    if let Some(LeaseRefusal::Held | LeaseRefusal::NotOwned) = refusal {
        panic!("nobody holds it, and yet {refusal:?}");
    }
    taken_over(subject, &other, "a", || lease.as_ref().is_some_and(|lease| one.is_held(lease))).await;
}

/// A renewal whose answer was lost counts once it is known, not before; and the lease goes on.
pub async fn a_lost_answer_to_a_renewal_is_found_out<R: LeaseSubject>(subject: &R) {
    renewed_in_spite_of(subject, LostMessage::Answer).await;
}

/// A renewal that was lost itself is repeated, or its failure is told; and the lease goes on.
pub async fn a_lost_renewal_is_not_believed<R: LeaseSubject>(subject: &R) {
    renewed_in_spite_of(subject, LostMessage::Request).await;
}

async fn renewed_in_spite_of<R: LeaseSubject>(subject: &R, lost: LostMessage) {
    let (holder, other) = (subject.tenant().await, subject.tenant().await);
    let mut lease = acquired(&holder, "a").await;
    subject.pass(part(subject, 4)).await;
    for _ in 0..3 {
        holder.lose_next(lost);
        match holder.renew(&mut lease).await {
            Ok(()) => {}
            Err(LeaseRefusal::Store(error)) if error.is_passing() => {
                holder.renew(&mut lease).await.expect("a renewal after one that was lost");
            }
            Err(refusal) => panic!("the lease is still ours, but {refusal:?}"),
        }
        is_told_held(&other, "a").await;
        // Longer than the first term has left.
        for _ in 0..4 {
            subject.pass(part(subject, 8)).await;
            assert!(holder.is_held(&lease), "it was renewed in time");
        }
    }
    taken_over(subject, &other, "a", || holder.is_held(&lease)).await;
    assert_eq!(holder.renew(&mut lease).await, Err(LeaseRefusal::NotOwned));
}

/// A release whose answer was lost, or that was lost itself, frees the key at once, or its failure is told.
pub async fn a_lost_release_is_found_out<R: LeaseSubject>(subject: &R) {
    let (holder, other) = (subject.tenant().await, subject.tenant().await);
    for lost in [LostMessage::Answer, LostMessage::Request] {
        let mut lease = acquired(&holder, "a").await;
        holder.lose_next(lost);
        match holder.release(&mut lease).await {
            Ok(()) => {}
            Err(LeaseRefusal::Store(error)) if error.is_passing() => {
                holder.release(&mut lease).await.expect("a release after one that was lost");
            }
            Err(refusal) => panic!("{lost:?}: {refusal:?}"),
        }
        assert!(!holder.is_held(&lease), "{lost:?}: it was given back");
        let mut next = acquired(&other, "a").await;
        other.release(&mut next).await.expect("a release");
    }
}

/// A record that is damaged, or not a lease at all, is named and left as it is, however old it is.
pub async fn a_damaged_record_is_never_overwritten<R: LeaseSubject>(subject: &R) {
    for way in 0.. {
        let key = format!("damaged-{way}");
        let (holder, other) = (subject.tenant().await, subject.tenant().await);
        let mut lease = acquired(&holder, &key).await;
        if !subject.damage(&key, way).await {
            return;
        }
        let spoiled = subject.raw(&key).await;
        for round in 0..2 {
            for tenant in [&holder, &other] {
                let (_, refusal) = attempt(tenant, &key).await;
                let Some(LeaseRefusal::Store(error)) = refusal else { panic!("way {way}: {refusal:?}") };
                assert_eq!(error.kind(), ErrorKind::Foreign, "way {way}: {error}");
                assert!(error.to_string().contains(&key), "way {way}, unnamed: {error}");
            }
            match holder.renew(&mut lease).await {
                Err(LeaseRefusal::NotOwned) => {}
                Err(LeaseRefusal::Store(error)) if error.kind() == ErrorKind::Foreign => {}
                other => panic!("way {way}: a renewal of a damaged record: {other:?}"),
            }
            assert!(!holder.is_held(&lease), "way {way}: nobody knows who holds it");
            assert_eq!(subject.raw(&key).await, spoiled, "way {way}, round {round}: it was written over");
            subject.pass(subject.takeover() * 2).await;
        }
        // To give it back is no error, or one that says why not. What still names its holder as its own may be gone then.
        let is_given_back = match holder.release(&mut lease).await {
            Ok(()) => true,
            Err(LeaseRefusal::Store(error)) if error.kind() == ErrorKind::Foreign => false,
            Err(refusal) => panic!("way {way}: {refusal:?}"),
        };
        let after = subject.raw(&key).await;
        assert!(
            after == spoiled || is_given_back && after.is_none(),
            "way {way}: it was written over: {after:?}"
        );
    }
}
