//! What an acquisition does when it is told that its key has changed, and what it has to do with others of its own process.
//!
//! A claim that is attached is written when it begins and when it ends, and hardly ever between. So a change of such a record to a
//! version that was not seen yet is mostly its end. Then the key is claimed at once: a refusal shows as much as a look would have. Of many who do so one wins,
//! and the others know without a look whom they wait for. They watch the winner only if it still has the key a little later.

use super::{Acquisition, AcquisitionEnd, AcquisitionState, Goal, MetadataPolicy, WaitPolicy, Wakeup};
use crate::bugs::Bug;
use crate::holder::ctx::Ctx;
use crate::values::fence::Version;
use crate::values::metadata::Metadata;
use crate::values::record::{Attachment, Occupant, Stored};
use crate::values::time::{Now, Tick, Ttl};

impl Goal {
    /// Whether it waits its turn among those of this process that want the same. Who follows a key wants to know of each change.
    pub(crate) fn takes_turns(&self) -> bool {
        let waits = matches!(self.wait_policy, WaitPolicy::Until(_) | WaitPolicy::Forever);
        waits && matches!(self.metadata_policy, MetadataPolicy::Replace(_))
    }
}

impl Acquisition {
    /// One that waits for its turn behind others of its process.
    pub(crate) fn behind(goal: Goal) -> Acquisition {
        Acquisition::new(goal, AcquisitionState::Behind)
    }

    /// Whether others of its process come before it.
    pub(crate) fn is_behind(&self) -> bool {
        matches!(self.state, AcquisitionState::Behind)
    }

    /// It is the first one of its process from now on. The store was not asked for it: it looks, unless this process has the key.
    pub(crate) fn come_first(&mut self, ctx: &mut Ctx<'_>, ours: Option<Version>) -> Option<AcquisitionEnd> {
        if !self.is_behind() {
            return None;
        }
        let Some(version) = ours else { return self.look(ctx) };
        self.seen = Some((version, false));
        self.state = AcquisitionState::Waiting { until: ctx.jittered(self.poll(ctx, self.goal.ttl)) };
        None
    }

    /// Whether it waits for somebody else's end, as far as is known.
    pub(crate) fn waits(&self) -> bool {
        let is_first_claim = matches!(self.state, AcquisitionState::Claiming { .. }) && self.seen.is_none();
        !is_first_claim && self.goal.wait_policy != WaitPolicy::Try
    }

    /// Who was seen to hold the key last.
    pub(crate) fn occupant(&self) -> Option<&Occupant> {
        self.occupant.as_ref()
    }

    /// Others are to have the key until then, whatever is told of it.
    pub(crate) fn leave_alone(&mut self, until: Tick) {
        self.leaves_until = until;
        if let AcquisitionState::Waiting { until: next } = &mut self.state {
            *next = until.min(*next);
        }
    }

    /// The metadata that it wants, if it can take the key over from another lease of this process: it is attached to the same
    /// session, and nothing of its own is under way.
    pub(crate) fn takes_from_here(&mut self, now: Now, attachment: &Attachment) -> Option<Metadata> {
        let is_over = self.goal.wait_policy.deadline().is_some_and(|end| now.held >= end);
        let may = self.rests() && !is_over && self.goal.attachment.as_ref() == Some(attachment);
        match &self.goal.metadata_policy {
            MetadataPolicy::Replace(metadata) if may => {
                self.awaits = true;
                Some(metadata.clone())
            }
            _ => None,
        }
    }

    /// What was handed on did not come to it.
    pub(crate) fn not_given(&mut self, ctx: &mut Ctx<'_>) -> Option<AcquisitionEnd> {
        self.awaits = false;
        self.wake(ctx, Wakeup::Changed(None))
    }

    /// Whether it may be given what was written for it at `sent`: it is wanted still and has not begun anything else, nor was the key
    /// withdrawn since.
    pub(crate) fn may_be_given(&self, sent: Tick) -> bool {
        self.rests() && self.withdrawn.is_none_or(|(at, _)| at < sent)
    }

    /// Whether it is wanted, and nothing of its own is under way, or may have landed, that could get it the key.
    fn rests(&self) -> bool {
        matches!(
            self.state,
            AcquisitionState::Behind
                | AcquisitionState::Waiting { .. }
                | AcquisitionState::Looking { .. }
                | AcquisitionState::Asking { .. }
        ) && !self.may_be_orphaned()
    }

    /// What was told of the key while something was under way, if that is news.
    pub(super) fn told_meanwhile(&mut self) -> Option<Option<Version>> {
        self.hinted.take().filter(|version| self.is_news(*version))
    }

    /// Whether a change to this version tells anything: not if that is what was seen, or what it claimed the key for.
    pub(super) fn is_news(&self, version: Option<Version>) -> bool {
        let knows =
            |version| self.seen.is_some_and(|(seen, _)| seen == version) || self.raced == Some(version);
        !(self.goal.takes_turns() && version.is_some_and(knows))
    }

    /// The key has changed.
    pub(super) fn changed(&mut self, ctx: &mut Ctx<'_>, version: Option<Version>) -> Option<AcquisitionEnd> {
        let was_attached = self.seen.is_some_and(|(_, was_attached)| was_attached);
        match version {
            Some(version) if was_attached && self.may_race() => self.race(ctx, version),
            _ => self.look(ctx),
        }
    }

    /// This process has just vacated the key, in this version.
    pub(crate) fn freed(&mut self, ctx: &mut Ctx<'_>, version: Version) -> Option<AcquisitionEnd> {
        self.awaits = false;
        let rests =
            matches!(self.state, AcquisitionState::Waiting { .. }) && ctx.now.held >= self.leaves_until;
        if rests && self.may_race() && !self.patience_is_over(ctx) {
            return self.race(ctx, version);
        }
        self.wake(ctx, Wakeup::Changed(Some(version)))
    }

    fn may_race(&self) -> bool {
        self.goal.takes_turns() && !self.may_be_orphaned()
    }

    fn race(&mut self, ctx: &mut Ctx<'_>, version: Version) -> Option<AcquisitionEnd> {
        self.hinted = None;
        self.raced = Some(version);
        self.claim_vacant(ctx)
    }

    /// Whether the winner of a race is left alone for a while: nobody knows yet whether it will give the key up before long.
    pub(super) fn lets_the_winner_be(&mut self, ctx: &Ctx<'_>, winner: &Stored) -> bool {
        self.seen = Some((winner.version, true));
        self.is_patient(ctx.now) && self.goal.takes_turns()
    }

    pub(super) fn lost_race(&mut self, ctx: &mut Ctx<'_>, ttl: Ttl) -> Option<AcquisitionEnd> {
        let watches = !ctx.rules.bugs.has(Bug::WinnerUnwatched);
        let until = if watches { ctx.jittered(ttl.part(64)) } else { Tick::NEVER };
        self.state = AcquisitionState::Waiting { until };
        self.told_meanwhile().and_then(|version| self.changed(ctx, version))
    }
}
