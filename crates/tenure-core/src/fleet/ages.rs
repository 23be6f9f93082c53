//! How well a store has to tell the ages of records, for a death to be judged in time.

use std::time::Duration;

/// An age that falls short of the truth by less than this part of a ttl is good enough: by as much later a death may be judged.
const ATTESTED: u32 = 4;

/// The least ttl whose ages are always told well enough by a store whose ages fall short of the truth by less than
/// `age_error`, where the wall clocks agree.
#[must_use]
pub fn least_ttl_attested(age_error: Duration) -> Duration {
    age_error.saturating_mul(ATTESTED)
}
