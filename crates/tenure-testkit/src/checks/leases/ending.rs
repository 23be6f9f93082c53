//! When a lease is given back, or its time is over.

use super::{acquired, is_told_held, part, taken_over};
use crate::lease_subject::{LeaseRefusal, LeaseSubject, Tenant};

/// A released key is free at once, and the lease is not held any more.
pub async fn a_released_key_is_free_at_once<R: LeaseSubject>(subject: &R) {
    let (one, other) = (subject.tenant().await, subject.tenant().await);
    for _ in 0..3 {
        for (tenant, next) in [(&one, &other), (&other, &one)] {
            let mut lease = acquired(tenant, "a").await;
            is_told_held(next, "a").await;
            tenant.release(&mut lease).await.expect("a release");
            assert!(!tenant.is_held(&lease), "it was given back");
        }
    }
}

/// A silent holder's key can be had when its time is over, and not before.
pub async fn a_silent_holder_s_key_is_free_in_time<R: LeaseSubject>(subject: &R) {
    let (silent, transferee) = (subject.tenant().await, subject.tenant().await);
    let mut lease = acquired(&silent, "a").await;
    subject.pass(part(subject, 4)).await;
    silent.renew(&mut lease).await.expect("a renewal");
    taken_over(subject, &transferee, "a", || silent.is_held(&lease)).await;
    assert!(!silent.is_held(&lease));
}

/// Whose key was taken over is told so at its next renewal, and changes nothing.
pub async fn the_deposed_can_t_renew<R: LeaseSubject>(subject: &R) {
    let (deposed, transferee) = (subject.tenant().await, subject.tenant().await);
    let mut lease = acquired(&deposed, "a").await;
    let mut next = taken_over(subject, &transferee, "a", || deposed.is_held(&lease)).await;
    let before = subject.raw("a").await;
    for _ in 0..2 {
        assert_eq!(deposed.renew(&mut lease).await, Err(LeaseRefusal::NotOwned));
        assert!(!deposed.is_held(&lease));
    }
    assert_eq!(subject.raw("a").await, before, "a deposed holder has written");
    transferee.renew(&mut next).await.expect("the transferee's renewal");
}

/// Whoever gives back what is another's by now does no harm, and is told of no error.
pub async fn the_deposed_can_t_release<R: LeaseSubject>(subject: &R) {
    let (deposed, transferee, third) =
        (subject.tenant().await, subject.tenant().await, subject.tenant().await);
    let mut lease = acquired(&deposed, "a").await;
    let mut next = taken_over(subject, &transferee, "a", || deposed.is_held(&lease)).await;
    let before = subject.raw("a").await;
    assert_eq!(deposed.release(&mut lease).await, Ok(()));
    assert_eq!(subject.raw("a").await, before, "a deposed holder has written");
    is_told_held(&third, "a").await;
    transferee.renew(&mut next).await.expect("the transferee's renewal");
}

/// To give back twice does nothing, also when another holds the key meanwhile; and what was given back can't be renewed.
pub async fn what_was_given_back_is_gone<R: LeaseSubject>(subject: &R) {
    let (one, other) = (subject.tenant().await, subject.tenant().await);
    let mut lease = acquired(&one, "a").await;
    one.release(&mut lease).await.expect("a release");
    assert_eq!(one.release(&mut lease).await, Ok(()));
    assert_eq!(one.renew(&mut lease).await, Err(LeaseRefusal::NotOwned));
    let mut next = acquired(&other, "a").await;
    let before = subject.raw("a").await;
    assert_eq!(one.release(&mut lease).await, Ok(()));
    assert_eq!(one.renew(&mut lease).await, Err(LeaseRefusal::NotOwned));
    assert_eq!(subject.raw("a").await, before, "the other's record was changed");
    assert!(other.is_held(&next) && !one.is_held(&lease));
    other.renew(&mut next).await.expect("the other's renewal");
}
