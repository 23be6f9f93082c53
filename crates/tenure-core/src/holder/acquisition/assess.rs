//! What does the key's record show, and what follows?

use super::challenge::asked_after;
use super::{Acquisition, AcquisitionEnd, AcquisitionState, MetadataPolicy, Won};
use crate::bugs::Bug;
use crate::holder::ctx::{Ctx, OpOwner};
use crate::holder::failure_detector::HolderVerdict;
use crate::values::fence::Nonce;
use crate::values::record::{Ask, Attachment, Occupant, Stored, Tenure};
use crate::values::time::Tick;

impl Acquisition {
    /// The heart of it: what does the key's record show, and what follows?
    pub(super) fn assess(&mut self, ctx: &mut Ctx<'_>, current: Option<Stored>) -> Option<AcquisitionEnd> {
        let Some(seen) = current else { return self.assess_absent(ctx) };
        self.seen = Some((seen.version, false));
        let Some(tenure) = &seen.record.tenure else { return self.assess_vacant(ctx, seen) };
        if let Some(attempt) = self.unresolved.iter().find(|attempt| attempt.nonce == tenure.id).copied() {
            let is_misdated = attempt.is_misdated(ctx.now, &seen, ctx.rules);
            if tenure.mail.iter().any(|letter| letter.is(Ask::Revoke, &self.goal.key)) {
                self.withdraw(ctx.now.held, Some(seen.record.fence));
            }
            let won = Won {
                id: attempt.nonce,
                fence: seen.record.fence,
                version: seen.version,
                sent: attempt.sent,
                wall: attempt.wall,
                since: tenure.since,
                metadata: seen.record.metadata,
            };
            return if is_misdated { self.won_in_vain(ctx, won) } else { self.won(ctx, won) };
        }
        if self.abandoned {
            return Some(AcquisitionEnd::Dropped);
        }
        // Only the session itself may do that: to anyone else of this process it is held, as to the others.
        let own_session =
            ctx.part == OpOwner::Session && self.goal.key == *ctx.session_key && ctx.nonces.made(tenure.id);
        if own_session && !ctx.rules.bugs.has(Bug::OwnSessionForeign) {
            // A session of this very process that it does not believe in any more, or never did: no need to wait.
            return self.take(ctx, seen);
        }
        self.occupant = Occupant::of(&seen.record);
        self.note(&seen.record);
        match &tenure.attachment {
            None => match ctx.detector.judge(ctx.now, &self.goal.key, &seen, tenure, ctx.rules) {
                HolderVerdict::Suspected => self.take(ctx, seen),
                HolderVerdict::Live { until } if self.corrects(ctx, &seen, tenure.ttl, until) => {
                    let key = self.goal.key.clone();
                    self.mark(ctx, key, seen, ctx.now.wall)
                }
                HolderVerdict::Live { until } if self.marks_host(ctx, &seen, until, false) => {
                    let key = self.goal.key.clone();
                    self.mark_host(ctx, key, seen)
                }
                HolderVerdict::Live { until } => self.held_by_another(ctx, tenure, until, None),
            },
            Some(attachment) if self.is_of_this_process(ctx, tenure.id, attachment) => {
                // Our own process's session: no need to ask the store whether it lives.
                let live = ctx.session.as_ref().is_some_and(|session| session.fence == attachment.fence);
                // What was passed on to this process was claimed by another: only what was claimed here is looked for here.
                if live && ctx.nonces.made(tenure.id) && ctx.is_ours(tenure.id) {
                    self.held_by_another(ctx, tenure, Tick::NEVER, None)
                } else {
                    self.take(ctx, seen)
                }
            }
            Some(_) if ctx.rules.bugs.has(Bug::AgeIgnoresAttachment) => {
                match ctx.detector.judge(ctx.now, &self.goal.key, &seen, tenure, ctx.rules) {
                    HolderVerdict::Suspected => self.take(ctx, seen),
                    HolderVerdict::Live { until } => self.held_by_another(ctx, tenure, until, None),
                }
            }
            Some(_) if self.raced.is_some() && self.lets_the_winner_be(ctx, &seen) => {
                self.lost_race(ctx, tenure.ttl)
            }
            Some(attachment) => {
                self.seen = Some((seen.version, true));
                let op = ctx.read(&attachment.session.clone(), self.goal.ttl);
                self.state = AcquisitionState::Asking { op, seen: Box::new(seen) };
                None
            }
        }
    }

    /// Whether a claim is attached to a session of this very process: one that it has now, or had before. Another process may go by the
    /// same holder id, and so by the same session key, be it by mistake or because it is the one that this one replaces.
    fn is_of_this_process(&self, ctx: &Ctx<'_>, claim: Nonce, attachment: &Attachment) -> bool {
        let ours = match &ctx.session {
            // Its earlier tenures are over, whosever they were: each new one has a higher fence.
            Some(session) => attachment.fence <= session.fence,
            None => ctx.nonces.made(claim),
        };
        attachment.session == *ctx.session_key && (ours || ctx.rules.bugs.has(Bug::SameIdIsOurs))
    }

    fn assess_absent(&mut self, ctx: &mut Ctx<'_>) -> Option<AcquisitionEnd> {
        if self.abandoned {
            return Some(AcquisitionEnd::Dropped);
        }
        match self.goal.metadata_policy {
            MetadataPolicy::Replace(_) => self.claim_vacant(ctx),
            MetadataPolicy::Keep(_) => Some(AcquisitionEnd::Absent),
        }
    }

    pub(super) fn assess_vacant(&mut self, ctx: &mut Ctx<'_>, seen: Stored) -> Option<AcquisitionEnd> {
        if self.abandoned {
            return Some(AcquisitionEnd::Dropped);
        }
        match self.goal.metadata_policy {
            MetadataPolicy::Replace(_) => self.claim_vacant(ctx),
            MetadataPolicy::Keep(_) => self.take(ctx, seen),
        }
    }

    /// `seen` is attached to `session`: is that alive?
    pub(super) fn judge_session(
        &mut self,
        ctx: &mut Ctx<'_>,
        seen: Stored,
        session: Option<Stored>,
    ) -> Option<AcquisitionEnd> {
        let Some(tenure) = &seen.record.tenure else { return self.assess_vacant(ctx, seen) };
        let Some(attachment) = &tenure.attachment else { return self.look(ctx) };
        let Some(session) = session else {
            let watched = ctx.detector.judge_missing(ctx.now, attachment, tenure.ttl, ctx.rules);
            let marked = ctx.detector.judge_marked(ctx.now, &seen, &self.goal.key, ctx.rules);
            return match marked.unwrap_or(watched) {
                HolderVerdict::Suspected => self.take(ctx, seen),
                HolderVerdict::Live { until } if self.marks_missing(ctx, &seen, tenure, until) => {
                    self.mark_missing(ctx, seen)
                }
                HolderVerdict::Live { until } if self.marks_host(ctx, &seen, until, true) => {
                    let key = self.goal.key.clone();
                    self.mark_host(ctx, key, seen)
                }
                HolderVerdict::Live { until } => self.held_by_another(ctx, tenure, until, None),
            };
        };
        ctx.detector.session_is_there(attachment);
        let renewing = match &session.record.tenure {
            Some(renewing) if session.record.fence == attachment.fence => renewing,
            _ => return self.take(ctx, seen),
        };
        match ctx.detector.judge(ctx.now, &attachment.session, &session, renewing, ctx.rules) {
            HolderVerdict::Suspected if ctx.rules.bugs.has(Bug::SessionNotFenced) => self.take(ctx, seen),
            HolderVerdict::Suspected => self.fence_session(ctx, attachment.session.clone(), session, seen),
            HolderVerdict::Live { until } if self.corrects(ctx, &session, renewing.ttl, until) => {
                self.mark(ctx, attachment.session.clone(), session, ctx.now.wall)
            }
            HolderVerdict::Live { until } if self.is_short(ctx, ctx.now.held.after(asked_after(tenure))) => {
                match self.question(ctx, &seen, tenure, &session, until) {
                    Some(question) => self.ask(ctx, question, seen),
                    None if self.marks_host(ctx, &session, until, false) => {
                        self.mark_host(ctx, attachment.session.clone(), session)
                    }
                    None => self.held_by_another(ctx, tenure, until, None),
                }
            }
            HolderVerdict::Live { until } => {
                self.held_by_another(ctx, tenure, until, Some((attachment, session.clone())))
            }
        }
    }

    fn held_by_another(
        &mut self,
        ctx: &mut Ctx<'_>,
        tenure: &Tenure,
        until: Tick,
        session: Option<(&Attachment, Stored)>,
    ) -> Option<AcquisitionEnd> {
        if let Some((attachment, session)) = session.filter(|_| !self.only_looks()) {
            self.challenge(ctx, tenure, attachment, session);
        }
        if !self.is_patient(ctx.now) {
            if ctx.rules.bugs.has(Bug::TryForgetsSilence) {
                let key = tenure.attachment.as_ref().map_or(&self.goal.key, |attachment| &attachment.session);
                ctx.detector.end(key);
                tenure.attachment.as_ref().inspect(|attachment| ctx.detector.session_is_there(attachment));
            }
            return Some(AcquisitionEnd::Held(self.occupant.take()));
        }
        self.sighted();
        if let Some(version) = self.told_meanwhile() {
            return self.changed(ctx, version);
        }
        let poll = ctx.jittered(self.poll(ctx, tenure.ttl));
        let next = until.min(poll).max(ctx.now.held.after(std::time::Duration::from_micros(100)));
        self.state = AcquisitionState::Waiting { until: next };
        None
    }
}
