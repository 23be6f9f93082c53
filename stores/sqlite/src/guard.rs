//! A tenure as a condition of the caller's own transaction.

use crate::row::{fence_number, nonce_blob};
use tenure_core::{Fence, Key, Nonce};

/// A SQL predicate that is true only while a tenure stands in the table; see [`crate::SqliteStore::guard`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlGuard {
    key: Key,
    tenure: Nonce,
    fence: Fence,
}

/// The values of a predicate's parameters, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlGuardParams {
    /// The key, to be bound as text.
    pub key: String,
    /// The tenure's id, to be bound as a blob.
    pub tenure: [u8; 16],
    /// The fence, to be bound as an integer.
    pub fence: i64,
}

impl SqlGuard {
    pub(crate) fn new(key: Key, tenure: Nonce, fence: Fence) -> Self {
        SqlGuard { key, tenure, fence }
    }

    /// The predicate with its values written out: to be put after `WHERE`, in any statement.
    #[must_use]
    pub fn sql(&self) -> String {
        // As hexadecimal digits, so that no key can break out of its place.
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let SqlGuardParams { key, tenure, fence } = self.params();
        let key = format!("CAST(x'{}' AS TEXT)", hex(key.as_bytes()));
        predicate(&key, &format!("x'{}'", hex(&tenure)), &fence.to_string())
    }

    /// The predicate with three numbered parameters, the first of them `?first`; [`SqlGuard::params`] are their values.
    #[must_use]
    pub fn predicate(&self, first: u16) -> String {
        let parameter = |n: u32| format!("?{}", u32::from(first) + n);
        predicate(&parameter(0), &parameter(1), &parameter(2))
    }

    /// The values of the parameters.
    #[must_use]
    pub fn params(&self) -> SqlGuardParams {
        SqlGuardParams {
            key: self.key.as_str().to_owned(),
            tenure: nonce_blob(self.tenure),
            fence: fence_number(self.fence),
        }
    }
}

fn predicate(key: &str, tenure: &str, fence: &str) -> String {
    format!(
        "EXISTS (SELECT 1 FROM tenure_record AS lease \
         WHERE lease.key = {key} AND lease.tenure = {tenure} AND lease.fence = {fence} \
         AND (lease.ride_key IS NULL OR EXISTS (SELECT 1 FROM tenure_record AS session \
         WHERE session.key = lease.ride_key AND session.fence = lease.ride_fence AND session.tenure IS NOT NULL)))"
    )
}
