//! Leases that are being lost. Whoever loses its session loses all units at about the same time: they are told together.

use super::Scheduler;
use crate::output;
use std::time::Duration;
use tenure::Key;
use tenure::clock::boottime;

/// Units whose leases were being lost, which was not told yet.
#[derive(Default)]
pub(super) struct LostUnits {
    keys: Vec<Key>,
    /// Since when the first of them waits.
    since: Duration,
}

impl LostUnits {
    pub(super) fn add(&mut self, key: Key, now: Duration) {
        if self.keys.is_empty() {
            self.since = now;
        }
        self.keys.push(key);
    }

    /// Those to be told now: all, if no more can come, or if they have waited long enough.
    fn due(&mut self, is_more_to_come: bool, now: Duration) -> Vec<Key> {
        const MOMENT: Duration = Duration::from_millis(500);
        if is_more_to_come && now < self.since + MOMENT {
            return Vec::new();
        }
        std::mem::take(&mut self.keys)
    }
}

impl Scheduler {
    pub(super) fn tell_losses(&mut self, at_once: bool) {
        let keys = self.lost.due(!at_once && self.slots.running() > 0, boottime());
        let Some(first) = keys.first() else { return };
        let why = self.outage.within(self.plan.ttl).map_or_else(String::new, |text| format!(" ({text})"));
        let what = match keys.len() {
            1 => format!(
                "{first}: the lease was being lost{why}, and the command was stopped; the unit is run again"
            ),
            n => format!(
                "{first} and {} more: the leases were being lost{why}, and the commands were stopped; the units are run again",
                n - 1
            ),
        };
        output::note(format!("{what} ({})", output::AGAINST_DELAYS));
    }
}
