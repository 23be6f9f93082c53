//! The checks of leases, whatever their layout.

use super::Running;
use crate::lease_subject::{LeaseRefusal, LeaseSubject, Tenant};
use std::time::Duration;

pub mod ending;
pub mod faults;
pub mod holding;

/// A check by name.
pub struct LeaseCheck<R> {
    /// The name of its test.
    pub name: &'static str,
    /// Runs it; it fails by panicking.
    pub run: for<'a> fn(&'a R) -> Running<'a>,
}

impl<R> std::fmt::Debug for LeaseCheck<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("LeaseCheck").field(&self.name).finish()
    }
}

#[doc(hidden)]
#[macro_export]
macro_rules! table_of_lease_checks {
    (($subject:ident) $($file:ident::$check:ident,)*) => {
        vec![$(LeaseCheck { name: stringify!($check), run: |subject: &$subject| Box::pin($file::$check(subject)) },)*]
    };
}

/// All checks of leases, in the order in which they are best read.
#[must_use]
pub fn all<R: LeaseSubject>() -> Vec<LeaseCheck<R>> {
    crate::for_each_lease_check! { table_of_lease_checks (R) }
}

type LeaseOf<R> = <<R as LeaseSubject>::Tenant as Tenant>::Lease;

/// A part of the ttl.
fn part<R: LeaseSubject>(subject: &R, n: u32) -> Duration {
    subject.ttl() / n
}

/// A lease on a key that is free.
async fn acquired<T: Tenant>(tenant: &T, key: &str) -> T::Lease {
    match tenant.try_acquire(key).await {
        Ok(lease) => {
            assert!(tenant.is_held(&lease), "{key:?} was acquired and is not held");
            lease
        }
        Err(refusal) => panic!("{key:?} is free, and was refused: {refusal:?}"),
    }
}

/// That another is told that the key is held.
async fn is_told_held<T: Tenant>(tenant: &T, key: &str) {
    if let Some(refusal) = attempt(tenant, key).await.1 {
        assert_eq!(refusal, LeaseRefusal::Held, "the key {key:?} is held");
    } else {
        panic!("the key {key:?} is held, and another has got it");
    }
}

/// What came of trying: a lease, or why not.
async fn attempt<T: Tenant>(tenant: &T, key: &str) -> (Option<T::Lease>, Option<LeaseRefusal>) {
    match tenant.try_acquire(key).await {
        Ok(lease) => (Some(lease), None),
        Err(refusal) => (None, Some(refusal)),
    }
}

/// `transferee` tries to get `key` all the while, and has to get it once whoever holds it is silent for long enough, but not as
/// long as `believed` says that someone else believes.
async fn taken_over<R: LeaseSubject>(
    subject: &R,
    transferee: &R::Tenant,
    key: &str,
    believed: impl Fn() -> bool,
) -> LeaseOf<R> {
    let pause = part(subject, 20);
    let mut waited = Duration::ZERO;
    loop {
        match attempt(transferee, key).await {
            (Some(lease), _) => {
                assert!(!believed(), "after {waited:?} there are two who believe that they hold {key:?}");
                assert!(transferee.is_held(&lease), "{key:?} was taken over and is not held");
                return lease;
            }
            (None, refusal) => assert_eq!(refusal, Some(LeaseRefusal::Held), "{key:?} can't be had yet"),
        }
        assert!(waited <= subject.takeover(), "{key:?} is still held after {waited:?} of silence");
        subject.pass(pause).await;
        waited += pause;
    }
}
