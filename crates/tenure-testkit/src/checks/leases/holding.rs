//! While a lease is held.

use super::{acquired, attempt, is_told_held, part};
use crate::lease_subject::{LeaseRefusal, LeaseSubject, Tenant};
use std::sync::Arc;
use tenure_core::ErrorKind;

/// Of many who try at once, one gets it, and the others are told that it is held.
pub async fn one_of_many_gets_it<R: LeaseSubject>(subject: &R) {
    for round in 0..4 {
        let key = format!("contended-{round}");
        let mut running = tokio::task::JoinSet::new();
        for _ in 0..6 {
            let (tenant, key) = (Arc::new(subject.tenant().await), key.clone());
            running.spawn(async move {
                let (lease, refusal) = attempt(&*tenant, &key).await;
                (tenant, lease, refusal)
            });
        }
        let mut holders = Vec::new();
        while let Some(done) = running.join_next().await {
            match done.expect("an attempt ends") {
                (tenant, Some(lease), _) => holders.push((tenant, lease)),
                (_, None, refusal) => assert_eq!(refusal, Some(LeaseRefusal::Held)),
            }
        }
        let held = holders.iter().filter(|(tenant, lease)| tenant.is_held(lease)).count();
        assert_eq!((holders.len(), held), (1, 1), "of six who tried");
    }
}

/// Whoever comes second is told that the key is held, and changes nothing; neither does the holder get it twice.
pub async fn a_held_key_is_refused_and_left_alone<R: LeaseSubject>(subject: &R) {
    let (holder, other) = (subject.tenant().await, subject.tenant().await);
    let lease = acquired(&holder, "a").await;
    let before = subject.raw("a").await;
    assert!(before.is_some(), "a held key has a record");
    is_told_held(&other, "a").await;
    is_told_held(&holder, "a").await;
    assert_eq!(subject.raw("a").await, before, "a refused attempt has changed the record");
    assert!(holder.is_held(&lease));
}

/// Leases on different keys have nothing to do with each other.
pub async fn keys_are_apart<R: LeaseSubject>(subject: &R) {
    let (one, other) = (subject.tenant().await, subject.tenant().await);
    let mut first = acquired(&one, "a").await;
    let second = acquired(&other, "a ").await;
    let third = acquired(&one, "A").await;
    one.release(&mut first).await.expect("a release");
    assert!(other.is_held(&second) && one.is_held(&third));
    is_told_held(&one, "a ").await;
    is_told_held(&other, "A").await;
    acquired(&other, "a").await;
}

/// A lease that is renewed in time is held for as long as one likes, and others are told so all the while.
pub async fn a_renewed_lease_is_kept<R: LeaseSubject>(subject: &R) {
    let (holder, other) = (subject.tenant().await, subject.tenant().await);
    let mut lease = acquired(&holder, "a").await;
    for round in 0..12 {
        for _ in 0..2 {
            subject.pass(part(subject, 6)).await;
            assert!(holder.is_held(&lease), "round {round}: it was renewed in time");
            is_told_held(&other, "a").await;
        }
        holder.renew(&mut lease).await.unwrap_or_else(|refusal| panic!("round {round}: {refusal:?}"));
    }
}

/// A lease that isn't renewed is believed for half of its ttl at least, and no more when the ttl is over: its holder knows
/// that without any request.
pub async fn belief_ends_by_itself<R: LeaseSubject>(subject: &R) {
    let holder = subject.tenant().await;
    let lease = acquired(&holder, "a").await;
    let before = subject.raw("a").await;
    subject.pass(part(subject, 2)).await;
    assert!(holder.is_held(&lease), "half of the ttl is left");
    subject.pass(part(subject, 2)).await;
    assert!(!holder.is_held(&lease), "the ttl is over");
    assert_eq!(subject.raw("a").await, before, "nobody has written anything");
}

/// Each tenure's fence is higher than the one before, through release and expiry, and stays as it is while it is renewed; or
/// else there are none, and asking says so.
pub async fn fences_grow_or_are_refused<R: LeaseSubject>(subject: &R) {
    let (one, other) = (subject.tenant().await, subject.tenant().await);
    let mut last = None;
    for round in 0..6 {
        let (tenant, next) = if round % 2 == 0 { (&one, &other) } else { (&other, &one) };
        let mut lease = match round {
            // After an end by time, the others by release.
            3 => super::taken_over(subject, tenant, "a", || false).await,
            _ => acquired(tenant, "a").await,
        };
        if !subject.has_fences() {
            let Err(LeaseRefusal::Store(error)) = tenant.fence(&lease) else {
                panic!("there are no fences here, but {:?} was told", tenant.fence(&lease));
            };
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            return;
        }
        let fence = tenant.fence(&lease).expect("a fence");
        assert!(last < Some(fence), "round {round}: {fence:?} after {last:?}");
        tenant.renew(&mut lease).await.expect("a renewal");
        assert_eq!(tenant.fence(&lease), Ok(fence), "a renewal has changed the fence");
        last = Some(fence);
        if round != 2 {
            tenant.release(&mut lease).await.expect("a release");
        }
        assert!(round == 2 || !next.is_held(&lease), "a lease that was given back is held");
    }
}
