//! Ticks: over all processes, a tick that is to run once at most is begun once; one that is to run once at least is not begun again once its
//! end is known, and nobody is told that it has run before it has ended.
//!
//! Source: `tenure_core::once`. No clock, death or lost answer excuses anything; only records that are deleted or lost would.

use std::collections::BTreeMap;
use tenure_core::Wall;
use tenure_core::once::Delivery;

/// What became of one tick.
#[derive(Debug, Default, Clone, Copy)]
struct TickRecord {
    begun: u32,
    /// A body has come to its end.
    ended: bool,
    /// It was told that this is written.
    written: bool,
}

/// What became of all, by key and time.
#[derive(Debug, Default)]
pub(crate) struct Ticks(BTreeMap<(usize, Wall), TickRecord>);

/// So many of a key are remembered: nobody comes with an older one.
const MOST: usize = 4096;

impl Ticks {
    /// Its body begins.
    pub(crate) fn begins(&mut self, key: usize, tick: Wall, delivery: Delivery) -> Result<(), String> {
        if self.0.len() > MOST {
            self.0.pop_first();
        }
        let seen = self.0.entry((key, tick)).or_default();
        seen.begun += 1;
        match delivery {
            Delivery::AtMostOnce if seen.begun > 1 => {
                Err(format!("the tick {} of k{key} is begun {} times", tick.0, seen.begun))
            }
            Delivery::AtLeastOnce if seen.written => {
                Err(format!("the tick {} of k{key} is begun again after its end was written", tick.0))
            }
            _ => Ok(()),
        }
    }

    /// Its body has come to its end.
    pub(crate) fn ends(&mut self, key: usize, tick: Wall) {
        self.0.entry((key, tick)).or_default().ended = true;
    }

    /// Who ran it was told that this is written.
    pub(crate) fn written(&mut self, key: usize, tick: Wall) {
        self.0.entry((key, tick)).or_default().written = true;
    }

    /// Somebody is told that it has run, as `last` did.
    pub(crate) fn refused(
        &self,
        key: usize,
        tick: Wall,
        last: Wall,
        delivery: Delivery,
    ) -> Result<(), String> {
        let ended = self.0.get(&(key, tick)).is_some_and(|tick| tick.ended);
        if delivery == Delivery::AtLeastOnce && last == tick && !ended {
            return Err(format!(
                "the tick {} of k{key} is told as run, and it has not ended anywhere",
                tick.0
            ));
        }
        Ok(())
    }
}
