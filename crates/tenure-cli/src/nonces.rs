//! Nonces of this process: each of its writes has one of its own.

use tenure::{HolderId, Leases};
use tenure_core::Nonces;

/// A number for what a process does, from the random part of its name, by FNV-1a with 64 bits (Fowler, Noll, Vo).
pub(crate) fn digest(what: &str, holder: &HolderId) -> u64 {
    let text = format!("{what} {}", holder.as_str());
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Nonces for an operator's own writes, from the random part of this process's name.
pub(crate) fn nonces(leases: &Leases) -> Nonces {
    Nonces::new(digest("operator", leases.holder()))
}
