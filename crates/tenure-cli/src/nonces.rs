//! Nonces of this process: each of its writes has one of its own.

use fnv::FnvHasher;
use std::hash::Hasher as _;
use tenure::{HolderId, Leases};
use tenure_core::Nonces;

/// A number for what a process does, from the random part of its name, by FNV-1a with 64 bits (Fowler, Noll, Vo).
pub(crate) fn digest(what: &str, holder: &HolderId) -> u64 {
    let mut hasher = FnvHasher::default();
    hasher.write(format!("{what} {}", holder.as_str()).as_bytes());
    hasher.finish()
}

/// Nonces for an operator's own writes, from the random part of this process's name.
pub(crate) fn nonces(leases: &Leases) -> Nonces {
    Nonces::new(digest("operator", leases.holder()))
}
