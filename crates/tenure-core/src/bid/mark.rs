//! Marks: what a process that won't be there any more when silence is certain leaves for those who come later. One write for
//! each time that a holder is found silent, and none while it beats.

use super::{Bid, BidEnd, Patience, State};
use crate::bugs::Bug;
use crate::ctx::Ctx;
use crate::key::Key;
use crate::op::{Expect, Write};
use crate::record::{Ask, Letter, Stored, Tenure};
use crate::time::{Tick, Ttl, Wall};
use crate::vigil::{is_marked, is_misled};

impl Bid {
    /// Whether its own observation comes to nothing: it has given up by then.
    pub(super) fn is_short(&self, ctx: &Ctx<'_>, until: Tick) -> bool {
        match self.goal.patience {
            Patience::Try => true,
            Patience::Until(end) => ctx.now.held < end && end < until,
            Patience::Forever | Patience::Follow { .. } | Patience::Watch { .. } => false,
        }
    }

    /// Whether the stamp of a record that counts as live is to be replaced by our own.
    pub(super) fn corrects(&self, ctx: &Ctx<'_>, stored: &Stored, ttl: Ttl, until: Tick) -> bool {
        self.is_short(ctx, until)
            && is_misled(ctx.now, stored, ttl, ctx.rules)
            && !ctx.rules.bugs.has(Bug::StampNotCorrected)
    }

    /// Whether to say in a rider's record that its session is missing: where the store tells how long ago that was said.
    pub(super) fn marks_missing(&self, ctx: &Ctx<'_>, seen: &Stored, tenure: &Tenure, until: Tick) -> bool {
        let is_said = is_marked(tenure, &self.goal.key) && !is_misled(ctx.now, seen, tenure.ttl, ctx.rules);
        let helps = ctx.rules.first_sight && seen.times.is_some();
        self.is_short(ctx, until) && helps && !is_said && !ctx.rules.bugs.has(Bug::MissingNotMarked)
    }

    pub(super) fn mark_missing(&mut self, ctx: &mut Ctx<'_>, mut seen: Stored) -> Option<BidEnd> {
        let key = self.goal.key.clone();
        if let Some(tenure) = &mut seen.record.tenure
            && !is_marked(tenure, &key)
        {
            // Nobody else writes to a rider there, so there is room.
            tenure.post(Letter { key: key.clone(), ask: Ask::Confirm });
        }
        self.mark(ctx, key, seen, ctx.now.wall)
    }

    /// Writes the record once more as it stands, with another stamp. The beat stays: nothing is prolonged by it.
    pub(super) fn mark(&mut self, ctx: &mut Ctx<'_>, key: Key, seen: Stored, stamp: Wall) -> Option<BidEnd> {
        let mut record = seen.record;
        (record.nonce, record.stamp) = (ctx.nonces.draw(), stamp);
        let write = Write { key, expect: Expect::Unchanged(seen.version), record };
        self.state = State::Marking { op: ctx.write(write, self.goal.ttl) };
        None
    }

    /// `is_written`: not if the store had other things to say. Whoever finds nothing written does it in turn.
    pub(super) fn has_marked(&mut self, ctx: &mut Ctx<'_>, is_written: bool) -> Option<BidEnd> {
        match self.goal.patience {
            Patience::Try => Some(BidEnd::Held(self.occupant.take())),
            _ if is_written => self.look(ctx),
            // It may be refused for good, and is not worth more than a few tries.
            _ => {
                self.state = State::Waiting { until: ctx.jittered(self.goal.ttl.part(4)) };
                None
            }
        }
    }
}
