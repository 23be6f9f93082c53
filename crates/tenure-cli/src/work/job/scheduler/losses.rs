//! Leases that are being lost. Whoever loses its session loses all units at about the same time: they are told together.

use super::Scheduler;
use crate::output::{self, Lost};
use std::time::Duration;
use tenure::Loss;
use tenure::clock::boottime;

/// Units whose leases were being lost, which was not told yet.
#[derive(Default)]
pub(super) struct LostUnits {
    /// Each as people are told of it, with what became of its lease. None: it was still held when its command was stopped in time.
    units: Vec<(String, Option<Loss>)>,
    /// Since when the first of them waits.
    since: Duration,
}

impl LostUnits {
    /// `unit`: as people are told of it.
    pub(super) fn add(&mut self, unit: String, loss: Option<Loss>, now: Duration) {
        if self.units.is_empty() {
            self.since = now;
        }
        self.units.push((unit, loss));
    }

    /// Those to be told now: all, if no more can come, or if they have waited long enough.
    fn due(&mut self, is_more_to_come: bool, now: Duration) -> Vec<(String, Option<Loss>)> {
        const MOMENT: Duration = Duration::from_millis(500);
        if is_more_to_come && now < self.since + MOMENT {
            return Vec::new();
        }
        std::mem::take(&mut self.units)
    }
}

impl Scheduler {
    pub(super) fn tell_losses(&mut self, at_once: bool) {
        let units = self.lost.due(!at_once && self.slots.running() > 0, boottime());
        let Some((first, loss)) = units.first() else { return };
        // What befell them all is said of them all. Of delays, what the store's trouble was says more.
        let is_of_all = units.iter().all(|(_, other)| other == loss);
        let lost = loss.as_ref().filter(|_| is_of_all).map(Lost::of);
        let (why, remedy) = match lost.filter(|lost| !lost.is_of_delays()) {
            Some(Lost { why, remedy }) => (why, remedy),
            None => {
                let outage = self.outage.within(self.plan.ttl);
                let outage = outage.map_or_else(String::new, |text| format!(" ({text})"));
                let were = if units.len() == 1 { "lease was" } else { "leases were" };
                (format!("the {were} being lost{outage}"), Some(output::AGAINST_DELAYS))
            }
        };
        let remedy = remedy.map_or_else(String::new, |remedy| format!(" ({remedy})"));
        output::note(match units.len() {
            1 => format!("{first}: {why}, and the command was stopped; the unit is run again{remedy}"),
            n => format!(
                "{first} and {} more: {why}, and the commands were stopped; the units are run again{remedy}",
                n - 1
            ),
        });
    }
}
