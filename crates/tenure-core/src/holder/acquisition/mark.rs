//! Marks: what a process that won't be there any more when silence is certain leaves for those who come later. One write for
//! each time that a holder is found silent, and none while it renews.

use super::{Acquisition, AcquisitionEnd, AcquisitionState, WaitPolicy};
use crate::bugs::Bug;
use crate::holder::ctx::Ctx;
use crate::holder::failure_detector::{is_doubtful, is_marked, is_misled, since_marked};
use crate::op::{Expect, Write};
use crate::values::fence::Nonce;
use crate::values::key::Key;
use crate::values::record::{Ask, Letter, Stored, Tenure};
use crate::values::time::host;
use crate::values::time::{Tick, Ttl, Wall};

impl Acquisition {
    /// Whether its own observation comes to nothing: it has given up by then.
    pub(super) fn is_short(&self, ctx: &Ctx<'_>, until: Tick) -> bool {
        match self.goal.wait_policy {
            WaitPolicy::Try => true,
            WaitPolicy::Until(end) => ctx.now.held < end && end < until,
            WaitPolicy::Forever | WaitPolicy::Follow { .. } | WaitPolicy::Watch { .. } => false,
        }
    }

    /// Whether the stamp of a record that counts as live is to be replaced by our own.
    pub(super) fn corrects(&self, ctx: &Ctx<'_>, stored: &Stored, ttl: Ttl, until: Tick) -> bool {
        self.is_short(ctx, until)
            && is_misled(ctx.now, stored, ttl, ctx.rules)
            && !ctx.rules.bugs.has(Bug::StampNotCorrected)
    }

    /// Whether to say in an attached lease's record that its session is missing: where the store tells how long ago that was said.
    pub(super) fn marks_missing(&self, ctx: &Ctx<'_>, seen: &Stored, tenure: &Tenure, until: Tick) -> bool {
        let is_said = is_marked(tenure, &self.goal.key) && !is_misled(ctx.now, seen, tenure.ttl, ctx.rules);
        let helps = ctx.rules.first_sight && seen.times.is_some();
        self.is_short(ctx, until) && helps && !is_said && !ctx.rules.bugs.has(Bug::MissingNotMarked)
    }

    pub(super) fn mark_missing(&mut self, ctx: &mut Ctx<'_>, mut seen: Stored) -> Option<AcquisitionEnd> {
        let key = self.goal.key.clone();
        if let Some(tenure) = &mut seen.record.tenure
            && !is_marked(tenure, &key)
        {
            // Nobody else writes to an attached lease there, so there is room.
            tenure.post(Letter::new(key.clone(), Ask::Confirm));
        }
        self.mark(ctx, key, seen, ctx.now.wall)
    }

    /// Whether to leave what this host's clocks show: the store tells no ages, and none of the host's marks tells how long the claim has
    /// been silent. `is_missing`: its session is, so it certainly is.
    pub(super) fn marks_host(&self, ctx: &Ctx<'_>, stored: &Stored, until: Tick, is_missing: bool) -> bool {
        let Some(tenure) = &stored.record.tenure else { return false };
        let is_untold = stored.times.is_none() && since_marked(ctx.now, tenure, ctx.rules).is_none();
        let helps = ctx.rules.first_sight && ctx.rules.host.is_some() && is_untold;
        let is_silent = is_missing || is_doubtful(ctx.now, stored, tenure.ttl);
        self.is_short(ctx, until) && helps && is_silent && !ctx.rules.bugs.has(Bug::HostNotMarked)
    }

    /// Writes the record once more as it stands, with a mark of this host. What the clocks showed was read after the answer that shows the
    /// record, and the write is conditional on that still standing: so the claim was not renewed since.
    pub(super) fn mark_host(
        &mut self,
        ctx: &mut Ctx<'_>,
        key: Key,
        mut seen: Stored,
    ) -> Option<AcquisitionEnd> {
        let nonce = ctx.nonces.draw();
        if let Some(tenure) = &mut seen.record.tenure {
            leave_mark(ctx, tenure, nonce);
        }
        seen.record.nonce = nonce;
        let write = Write { key, expect: Expect::Unchanged(seen.version), record: seen.record };
        self.state = AcquisitionState::Marking { op: ctx.write(write, self.goal.ttl), tells: false };
        None
    }

    /// Writes the record once more as it stands, with another stamp. The beat stays: nothing is prolonged by it.
    pub(super) fn mark(
        &mut self,
        ctx: &mut Ctx<'_>,
        key: Key,
        seen: Stored,
        stamp: Wall,
    ) -> Option<AcquisitionEnd> {
        let mut record = seen.record;
        (record.nonce, record.stamp) = (ctx.nonces.draw(), stamp);
        let write = Write { key, expect: Expect::Unchanged(seen.version), record };
        self.state = AcquisitionState::Marking { op: ctx.write(write, self.goal.ttl), tells: true };
        None
    }

    /// `tells`: not if the store had other things to say, or what was written tells nothing before a ttl is over. Whoever finds nothing
    /// written does it in turn.
    pub(super) fn has_marked(&mut self, ctx: &mut Ctx<'_>, tells: bool) -> Option<AcquisitionEnd> {
        match self.goal.wait_policy {
            WaitPolicy::Try => Some(AcquisitionEnd::Held(self.occupant.take())),
            _ if tells => self.look(ctx),
            // It may be refused for good, and is not worth more than a few tries.
            _ => {
                if let Some(version) = self.told_meanwhile() {
                    return self.changed(ctx, version);
                }
                self.state = AcquisitionState::Waiting { until: ctx.jittered(self.goal.ttl.part(4)) };
                None
            }
        }
    }
}

/// Leaves this host's mark in a tenure that is written again, by this write.
pub(super) fn leave_mark(ctx: &Ctx<'_>, tenure: &mut Tenure, write: Nonce) {
    if let Some(host) = ctx.rules.host {
        host::leave(&mut tenure.marks, host.mark(ctx.now), write.0 as u64);
    }
}
