//! Plan: a release that may still arrive makes the next refresh change the token, and one that was never made does not; what a lost refresh has
//! left counts only where another expiry was known before; whatever token an orphan may have by now, the next acquisition finds it, also
//! where the attempt to take it up was told that it is gone. The walk steps the same machines at random.
use super::*;
use crate::orphans::OrphanedClaims;
use std::sync::Arc;
use std::time::Duration;
use tenure_core::{Tick, Wall};

const TEN: Duration = Duration::from_secs(10);
const SKEW: Duration = Duration::from_millis(500);

/// At that second.
fn at(second: u64) -> Now {
    let tick = Tick(second * 1_000_000_000);
    Now { held: tick, waited: tick, wall: Wall(second * 1000) }
}

fn unknown() -> Result<ItemAnswer, StoreError> {
    Err(StoreError::unknown("no answer"))
}

fn busy() -> Result<ItemAnswer, StoreError> {
    Err(StoreError::unavailable("busy"))
}

fn item(token: &str, expires_at: i64) -> Option<ItemLease> {
    Some(ItemLease { token: token.into(), expires_at })
}

fn seen(token: &str, expires_at: i64) -> Result<ItemAnswer, StoreError> {
    Ok(ItemAnswer::Seen(item(token, expires_at)))
}

/// A lease that was acquired at the second zero.
fn lease() -> HeldLease {
    let mut lease = HeldLease::known_by("a", "LOCK", "first");
    let mut acquisition = LeaseAcquisition::new(TEN, SKEW, Arc::default());
    ask(&mut acquisition, &mut lease, 0);
    assert_eq!(acquisition.on(&mut lease, Ok(ItemAnswer::Done)), Some(OperationEnd::Done));
    lease
}

/// What is asked at that second, where new tokens say when they were drawn.
fn ask(operation: &mut impl LeaseOperation, lease: &mut HeldLease, second: u64) -> ItemRequest {
    operation.request(lease, at(second), &|| Ok(format!("drawn-{second}"))).unwrap()
}

/// The token that a refresh at that second changes it to.
fn change(lease: &mut HeldLease, second: u64) -> Option<String> {
    let mut refresh = LeaseRefresh::new(TEN, SKEW);
    let ItemRequest::Refresh { next, .. } = ask(&mut refresh, lease, second) else { panic!("no refresh") };
    assert_eq!(refresh.on(lease, Ok(ItemAnswer::Done)), Some(OperationEnd::Done));
    next
}

#[test]
fn s1_a_release_that_may_come_late_makes_the_next_refresh_change_the_token() {
    for is_dropped in [false, true] {
        let mut lease = lease();
        let mut release = LeaseRelease::of(&mut lease);
        ask(&mut release, &mut lease, 1);
        if !is_dropped {
            assert_eq!(release.on(&mut lease, unknown()), None);
            let told = release.on(&mut lease, busy());
            assert_eq!(told, Some(OperationEnd::Failed(StoreError::unknown("no answer"))));
        }
        assert_eq!(change(&mut lease, 2).as_deref(), Some("drawn-2"));
        assert_eq!(lease.token(), "drawn-2");
    }
    let mut lease = lease();
    let mut release = LeaseRelease::of(&mut lease);
    ask(&mut release, &mut lease, 1);
    assert!(matches!(release.on(&mut lease, busy()), Some(OperationEnd::Failed(_))));
    assert_eq!(change(&mut lease, 2), None, "what was never made can't come late");
}

#[test]
fn s1_a_lost_refresh_has_landed_only_where_another_expiry_was_known_before() {
    let refreshed = |mut lease: HeldLease, second: u64| {
        let mut refresh = LeaseRefresh::new(TEN, SKEW);
        ask(&mut refresh, &mut lease, second);
        assert_eq!(refresh.on(&mut lease, unknown()), None);
        assert_eq!(ask(&mut refresh, &mut lease, second), ItemRequest::Look);
        refresh.on(&mut lease, seen("first", i64::try_from(second).unwrap() + 10))
    };
    assert_eq!(refreshed(lease(), 3), Some(OperationEnd::Done));
    assert_eq!(refreshed(lease(), 0), None, "it was so before");
    // By another process in the same second.
    assert_eq!(refreshed(HeldLease::known_by("a", "LOCK", "first"), 3), None, "it may have been so before");
}

/// An acquisition that has begun to take the orphan `by` up.
fn taking_up(orphans: &Arc<OrphanedClaims>) -> (LeaseAcquisition, HeldLease) {
    let mut lease = HeldLease::known_by("a", "LOCK", "own");
    drop(orphans.claim(lease.key(), "by", 12));
    let mut acquisition = LeaseAcquisition::new(TEN, SKEW, Arc::clone(orphans));
    ask(&mut acquisition, &mut lease, 3);
    assert_eq!(acquisition.on(&mut lease, Ok(ItemAnswer::Refused(item("by", 12)))), None);
    let next = Some("drawn-4".to_owned());
    let refresh = ItemRequest::Refresh { token: "by".into(), next, expires_at: 14, now: 4 };
    assert_eq!(ask(&mut acquisition, &mut lease, 4), refresh);
    (acquisition, lease)
}

#[test]
fn whatever_token_an_orphan_may_have_by_now_it_is_found() {
    let orphans = Arc::default();
    let (mut acquisition, mut lease) = taking_up(&orphans);
    assert_eq!(acquisition.on(&mut lease, unknown()), None);
    assert_eq!(acquisition.on(&mut lease, seen("drawn-4", 14)), None, "it has another token");
    // The next one is lost on its way, so that the last one changes the token again.
    ask(&mut acquisition, &mut lease, 4);
    assert_eq!(acquisition.on(&mut lease, unknown()), None);
    assert_eq!(acquisition.on(&mut lease, seen("drawn-4", 14)), None);
    let ItemRequest::Refresh { next, .. } = ask(&mut acquisition, &mut lease, 5) else {
        panic!("no refresh")
    };
    assert_eq!(next.as_deref(), Some("drawn-5"));
    assert_eq!(acquisition.on(&mut lease, unknown()), None);
    assert!(matches!(acquisition.on(&mut lease, busy()), Some(OperationEnd::Failed(_))));
    drop(acquisition);
    assert!(["by", "drawn-4", "drawn-5"].iter().all(|token| orphans.take(lease.key(), token)));
}

#[test]
fn an_orphan_that_was_seen_to_be_over_is_found_if_it_comes_back() {
    for (lost, is_found) in [(unknown(), true), (Ok(ItemAnswer::Refused(None)), false)] {
        let orphans = Arc::default();
        let (mut acquisition, mut lease) = taking_up(&orphans);
        assert_eq!(acquisition.on(&mut lease, lost), None);
        let gone = acquisition.on(&mut lease, Ok(ItemAnswer::Seen(None)));
        assert_eq!(gone, Some(OperationEnd::Gone(Some(12))));
        drop(acquisition);
        assert_eq!(orphans.take(lease.key(), "drawn-4"), is_found, "what is under way may still land");
    }
}
