//! Reading a part of a plan, and then the units that it is about, many at a time.

use crate::fleet::part::Part;
use crate::fleet::worker::{FleetWorker, InFlight};
use crate::op::{Freshness, Op};
use crate::values::error::StoreError;
use crate::values::key::Key;
use crate::values::record::{Attachment, Stored};
use crate::values::time::{Now, Tick};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How many units one read shows.
pub(super) const MANY: usize = 64;

/// What of a plan is being read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Reading {
    pub(super) plan: (Attachment, u64),
    /// It is a new one, and concerns this worker.
    pub(super) is_news: bool,
    pub(super) began: Tick,
    pub(super) part: Option<Part>,
    /// Units that are being read, and those that are to be read after that.
    pub(super) asked: Vec<Key>,
    pub(super) units: VecDeque<Key>,
    pub(super) found: BTreeMap<Key, Result<Stored, StoreError>>,
    /// When the store answered last.
    pub(super) answered: Tick,
}

impl FleetWorker {
    /// Reads the next units of a part, or those again whose read has failed; gives it back if all are read.
    pub(super) fn read_units(&mut self, mut reading: Box<Reading>) -> Option<Box<Reading>> {
        if reading.asked.is_empty() {
            let next = reading.units.len().min(MANY);
            reading.asked = reading.units.drain(..next).collect();
        }
        if reading.asked.is_empty() {
            return Some(reading);
        }
        let keys = reading.asked.clone();
        self.hearing.reading = Some(reading);
        self.send(InFlight::Hear, Op::ReadMany(keys, Freshness::Latest));
        None
    }

    /// Whether a reading that was broken off may go on: it is of the plan that is to be heard, and what it has shown is not old.
    pub(super) fn goes_on(&self, now: Now, broken: &Reading, plan: &(Attachment, u64)) -> bool {
        let is_ours = broken.part.as_ref().is_some_and(|part| Some(part.to) == self.session_fence());
        is_ours && broken.plan == *plan && now.held.since(broken.answered) < self.env.part(1)
    }

    /// Units that its part is about, and that it waited for before, but for those that it has: what was passed on to it meanwhile shows by
    /// that. And those that it claims, as the store may refuse that meanwhile, and those that rest here: somebody may have ended that.
    pub(super) fn units_to_read(&self, part: &Part) -> VecDeque<Key> {
        let claimed: BTreeSet<&Key> =
            self.claims.under_way().filter_map(|lease| self.own.unit_of(*lease)).collect();
        let has = |unit: &Key| self.own.contains_key(unit) && !claimed.contains(unit);
        let units = part.tasks.keys().filter_map(|name| self.env.fleet().unit(name).ok());
        let units = units.chain(self.awaited.iter().cloned()).filter(|unit| !has(unit));
        let units = units.chain(claimed.iter().map(|unit| (*unit).clone()));
        let units: BTreeSet<Key> = units.chain(self.retries.resting().cloned()).collect();
        units.into_iter().collect()
    }
}
