//! L1 for ranges: once the time of a lease is over, nobody is refused its ranges any more. That holds where only processes use the
//! section that live shorter than the lease, and where the store tells ages to the second at best.
//!
//! Source: the promise L1. Where a store tells ages and wall clocks agree, no process has to watch: how often others write
//! makes no difference. Where the store's clock is set back, time counts anew from when somebody looks.

use crate::kernel::clock::{MILLI, SECOND, True};
use std::collections::BTreeMap;
use tenure_core::Nonce;
use tenure_core::range::RangeSet;
use tenure_core::section::SectionLedger;

/// What the store's ages fall short by, and what wall clocks are off by.
const SHORT: True = 3 * SECOND;
/// Who sees that the store's clock is behind by less than this takes it for the store's rounding.
const ROUNDING: True = 61 * SECOND;

/// Since when leases stand, and can be told to, by true time.
#[derive(Debug, Default)]
pub(crate) struct StandingRanges {
    landed: BTreeMap<Nonce, True>,
    /// The store's clock was set, and nobody has looked since then.
    unknown: bool,
    /// When somebody did.
    known: Option<True>,
}

impl StandingRanges {
    pub(crate) fn clock_was_set(&mut self) {
        self.unknown = true;
    }

    /// A write has made `after` of `before`.
    pub(crate) fn written(&mut self, t: True, after: &SectionLedger) {
        self.landed.retain(|id, _| after.entries.iter().any(|entry| entry.id == *id));
        for entry in &after.entries {
            self.landed.entry(entry.id).or_insert(t);
        }
    }

    /// Somebody who asked at `asked` was not given `missing`, and this is what stands there.
    pub(crate) fn reach(
        &mut self,
        stands: &SectionLedger,
        asked: True,
        missing: &RangeSet,
    ) -> Result<(), String> {
        if std::mem::take(&mut self.unknown) {
            self.known = Some(asked);
        }
        for entry in &stands.entries {
            let Some(landed) = self.landed.get(&entry.id).copied() else { continue };
            let duration = entry.duration.millis() * MILLI;
            let known = self.known.map_or(0, |known| known + ROUNDING);
            let free = (landed + duration).max(known + duration) + SHORT;
            let blocks = !entry.parts.intersection(missing).is_empty();
            if blocks && asked > free {
                let late = (asked - landed) as f64 / SECOND as f64;
                let text = format!(
                    "{} of {} is refused {late:.1} s after a lease of {}",
                    entry.parts, entry.holder, entry.duration
                );
                return Err(text);
            }
        }
        Ok(())
    }
}
