//! What a ttl has to be: long enough for the store, and for clocks that drift.

use std::time::Duration;
use tenure_core::{Drift, InvalidInput, Ttl};
use tenure_store::{AnyStore, Store};

/// A ttl that this store can keep.
pub(crate) fn checked_ttl(store: &AnyStore, ttl: Duration) -> Result<Ttl, InvalidInput> {
    let least = store.capabilities().least_ttl;
    if ttl < least {
        return Err(InvalidInput::new(format!(
            "a ttl of {ttl:?} is below this store's minimum of {least:?}"
        )));
    }
    Ttl::new(ttl)
}

/// The ttl of what is to be held for so long at the least: it must last for that by itself. In whole milliseconds.
pub(crate) fn ttl_for(ttl: Duration, at_least: Duration) -> Duration {
    const MILLI: u128 = 1_000_000;
    let millis = u64::try_from(at_least.as_nanos().div_ceil(MILLI)).unwrap_or(u64::MAX);
    ttl.max(Duration::from_millis(millis).min(Ttl::MAX.duration()))
}

/// Whether a holder can keep a lease at all where clocks drift so much: one renewal may fail, and the next must be in time
/// (promise L4).
pub(crate) fn check_drift(drift: Drift, ttl: Ttl, renew_every: Duration) -> Result<(), InvalidInput> {
    let renewal = renew_every.min(ttl.part(3));
    // Until it counts as failed, the pause after it, and the answer to the next one.
    let second = ttl.part(6) + ttl.part(64) + ttl.part(8);
    let belief = drift.belief(ttl);
    if belief >= renewal + second {
        return Ok(());
    }
    Err(InvalidInput::new(format!(
        "with clocks that drift by {drift}, a holder may believe in a ttl of {ttl} for {belief:?} only: with a renewal every \
         {renewal:?}, one that fails would end the lease; choose a smaller drift, or renew every {:?} or more often",
        belief.saturating_sub(second)
    )))
}
