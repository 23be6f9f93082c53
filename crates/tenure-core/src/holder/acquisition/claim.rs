//! The writes of an acquisition: the claim of the key, and before it, where need be, the end of a dead session.

use super::{Acquisition, AcquisitionEnd, AcquisitionState, MetadataPolicy, Won};
use crate::bugs::Bug;
use crate::holder::ctx::{Attempt, Ctx};
use crate::op::{Expect, Write};
use crate::values::error::{ErrorKind, StoreError};
use crate::values::fence::{Fence, Version};
use crate::values::key::Key;
use crate::values::metadata::Metadata;
use crate::values::record::{Record, Stored, Tenure};
use crate::values::time::Tick;

impl Acquisition {
    pub(super) fn claim_failed(
        &mut self,
        ctx: &mut Ctx<'_>,
        attempt: Attempt,
        metadata: Metadata,
        error: StoreError,
    ) -> Option<AcquisitionEnd> {
        if error.kind() == ErrorKind::Unknown {
            if ctx.rules.bugs.has(Bug::UnknownIsSuccess) {
                let fence = Fence::floor(ctx.now.wall);
                let version = Version::of(attempt.nonce, fence);
                let Attempt { sent, wall, .. } = attempt;
                let since = ctx.now.wall;
                return self.won(ctx, Won { id: attempt.nonce, fence, version, sent, wall, since, metadata });
            }
            if !ctx.rules.bugs.has(Bug::UnknownIsFailure) {
                self.unresolved.push(attempt);
                self.unanswered = Some(error.clone());
                self.resolve_by = attempt.sent.after(self.goal.ttl.duration());
            }
        }
        self.pause(ctx, error)
    }

    /// Beyond the user's patience another claim is worth it for half a ttl only. From then on it is found out what became of those that were
    /// sent: a store that answers looks and no claims would be asked for ever.
    fn claims_no_more(&self, ctx: &Ctx<'_>) -> bool {
        let Some(first) = self.unresolved.first() else { return false };
        let end = self.goal.wait_policy.patience_ends();
        // Of claims from long before the end nothing can land any more.
        let is_open = self.resolve_by > end;
        let is_late = ctx.now.held >= end.max(first.sent.after(self.goal.ttl.part(2)));
        is_open && is_late && !ctx.rules.bugs.has(Bug::TryClaimsOn)
    }

    /// Looks until claims that were sent can't land any more.
    fn only_resolves(&mut self, ctx: &Ctx<'_>) -> Option<AcquisitionEnd> {
        if ctx.now.held >= self.resolve_by {
            return self.unanswered.take().map(AcquisitionEnd::Failed);
        }
        let next = ctx.now.held.after(self.goal.ttl.part(4));
        self.state = AcquisitionState::Waiting { until: next.min(self.resolve_by) };
        None
    }

    pub(super) fn fence_session(
        &mut self,
        ctx: &mut Ctx<'_>,
        key: Key,
        session: Stored,
        seen: Stored,
    ) -> Option<AcquisitionEnd> {
        if self.stands_aside(ctx) {
            return None;
        }
        let fence = match session.record.fence.next(Fence::floor(ctx.now.wall)) {
            Ok(fence) => fence,
            Err(error) => return self.pause(ctx, error),
        };
        let record =
            Record { fence, nonce: ctx.nonces.draw(), stamp: ctx.now.wall, tenure: None, ..session.record };
        let write = Write { key, expect: Expect::Unchanged(session.version), record };
        self.state = AcquisitionState::Fencing { op: ctx.write(write, self.goal.ttl), seen: Box::new(seen) };
        None
    }

    /// The least fence of a claim that is sent now.
    fn floor(&self, ctx: &Ctx<'_>) -> Fence {
        Fence::floor(ctx.now.wall).max(self.goal.least)
    }

    pub(super) fn claim_vacant(&mut self, ctx: &mut Ctx<'_>) -> Option<AcquisitionEnd> {
        if self.stands_aside(ctx) {
            return None;
        }
        let metadata = match &self.goal.metadata_policy {
            MetadataPolicy::Replace(metadata) => metadata.clone(),
            MetadataPolicy::Keep(_) => Metadata::new(),
        };
        let forgets = ctx.rules.bugs.has(Bug::FenceForgetsClock);
        let floor = if forgets { Fence(1) } else { self.floor(ctx) };
        self.claim(ctx, Expect::Vacant, floor, metadata)
    }

    /// Claims the key over the record that was seen, vacant or of a dead holder, with a higher fence.
    pub(super) fn take(&mut self, ctx: &mut Ctx<'_>, seen: Stored) -> Option<AcquisitionEnd> {
        if self.abandoned {
            return Some(AcquisitionEnd::Dropped);
        }
        if self.stands_aside(ctx) {
            return None;
        }
        let fence = match seen.record.fence.next(self.floor(ctx)) {
            Ok(_) if ctx.rules.bugs.has(Bug::FenceForgetsClock) => Fence(seen.record.fence.0.wrapping_add(1)),
            Ok(_) if ctx.rules.bugs.has(Bug::FenceResetAtTakeover) => Fence(1),
            Ok(_) if ctx.rules.bugs.has(Bug::FenceNotRaised) => seen.record.fence,
            Ok(fence) => fence,
            Err(error) => return self.pause(ctx, error),
        };
        let metadata = match &self.goal.metadata_policy {
            MetadataPolicy::Replace(metadata) => metadata.clone(),
            MetadataPolicy::Keep(_) => seen.record.metadata,
        };
        self.claim(ctx, Expect::Unchanged(seen.version), fence, metadata)
    }

    fn claim(
        &mut self,
        ctx: &mut Ctx<'_>,
        expect: Expect,
        fence: Fence,
        metadata: Metadata,
    ) -> Option<AcquisitionEnd> {
        if self.claims_no_more(ctx) {
            return self.only_resolves(ctx);
        }
        let nonce = ctx.nonces.draw();
        let tenure = Tenure {
            attachment: self.goal.attachment.clone(),
            ..Tenure::new(nonce, ctx.holder.clone(), self.goal.ttl, ctx.now.wall)
        };
        let record =
            Record { fence, nonce, stamp: ctx.now.wall, tenure: Some(tenure), metadata: metadata.clone() };
        let write = Write { key: self.goal.key.clone(), expect, record };
        let (attempt, since) = (ctx.attempt(nonce), ctx.now.wall);
        self.state =
            AcquisitionState::Claiming { op: ctx.write(write, self.goal.ttl), attempt, since, metadata };
        None
    }

    pub(super) fn won(&mut self, ctx: &mut Ctx<'_>, won: Won) -> Option<AcquisitionEnd> {
        ctx.detector.end(&self.goal.key);
        let valid_until = won.sent.after(ctx.rules.drift.belief(self.goal.ttl));
        // One that was sent before a time that was hidden is too late, too: others may have counted that.
        let is_old = ctx.now.held >= valid_until || ctx.has_gap(won.sent, won.wall);
        let is_meant = |(at, fence): (Tick, Option<Fence>)| {
            won.sent <= at && fence.is_none_or(|fence| fence == won.fence)
        };
        let withdrawn = self.withdrawn.is_some_and(is_meant);
        let withdrawn = withdrawn && !ctx.rules.bugs.has(Bug::WithdrawnClaimBelieved);
        if withdrawn && !self.abandoned {
            self.unresolved.clear();
            return self.claim_over(ctx, &won);
        }
        if is_old && !ctx.rules.bugs.has(Bug::StaleWinBelieved) {
            return self.won_in_vain(ctx, won);
        }
        Some(AcquisitionEnd::Won(won))
    }

    /// A claim that took effect, and can't be believed in. Nobody ever did, so the key can be claimed anew at once. One that
    /// is attached to a session is believed by that one's record.
    pub(super) fn won_in_vain(&mut self, ctx: &mut Ctx<'_>, won: Won) -> Option<AcquisitionEnd> {
        ctx.detector.end(&self.goal.key);
        if self.goal.attachment.is_some() || self.abandoned {
            return Some(AcquisitionEnd::Won(won));
        }
        self.unresolved.clear();
        self.claim_over(ctx, &won)
    }

    fn claim_over(&mut self, ctx: &mut Ctx<'_>, won: &Won) -> Option<AcquisitionEnd> {
        let fence = match won.fence.next(self.floor(ctx)) {
            Ok(fence) => fence,
            Err(error) => return self.pause(ctx, error),
        };
        self.claim(ctx, Expect::Unchanged(won.version), fence, won.metadata.clone())
    }
}
