//! Reading a part of a plan, and then the units that it is about, many at a time.

use super::HearCtx;
use crate::fleet::part::Part;
use crate::values::error::StoreError;
use crate::values::key::Key;
use crate::values::record::{Attachment, Stored};
use crate::values::time::{Now, Tick};
use std::collections::{BTreeMap, VecDeque};

/// How many units one read shows.
pub(in crate::fleet::worker) const MANY: usize = 64;

/// What of a plan is being read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::fleet::worker) struct Reading {
    pub(super) plan: (Attachment, u64),
    /// It is a new one, and concerns this worker.
    pub(in crate::fleet::worker) is_news: bool,
    pub(in crate::fleet::worker) began: Tick,
    pub(in crate::fleet::worker) part: Option<Part>,
    /// Units that are being read, and those that are to be read after that.
    pub(super) asked: Vec<Key>,
    pub(super) units: VecDeque<Key>,
    pub(in crate::fleet::worker) found: BTreeMap<Key, Result<Stored, StoreError>>,
    /// When the store answered last.
    pub(super) answered: Tick,
}

impl Reading {
    /// One that has not shown anything yet.
    pub(super) fn new(plan: (Attachment, u64), is_news: bool, now: Now) -> Reading {
        Reading {
            plan,
            is_news,
            began: now.held,
            part: None,
            asked: Vec::new(),
            units: VecDeque::new(),
            found: BTreeMap::new(),
            answered: now.held,
        }
    }

    /// The units to read next, or those again whose read has failed; none if all are read.
    pub(super) fn next(&mut self) -> Option<Vec<Key>> {
        if self.asked.is_empty() {
            let next = self.units.len().min(MANY);
            self.asked = self.units.drain(..next).collect();
        }
        (!self.asked.is_empty()).then(|| self.asked.clone())
    }

    /// Whether a reading that was broken off may go on: it is of the plan that is to be heard, and what it has shown is not old.
    pub(super) fn goes_on(&self, ctx: &HearCtx<'_>, plan: &(Attachment, u64)) -> bool {
        let is_ours = self.part.as_ref().is_some_and(|part| Some(part.to) == ctx.session);
        is_ours && self.plan == *plan && ctx.now.held.since(self.answered) < ctx.env.part(1)
    }
}
