//! Asking the session behind a claim whether it knows of it. A claim that landed long after its process gave it up would
//! otherwise stand as long as that process lives.
//!
//! Who waits asks every two ttls. Who only tries goes by how long the claim has stood: a wrong guess costs a question. Once that
//! is asked, the claim's record is written again as it stands, so that its age begins anew; the next question
//! is due when as much time has passed again as had before, or 64 ttls. So one of many tries asks, and ever more seldom.

use super::mark::leave_mark;
use super::{Acquisition, AcquisitionEnd, AcquisitionState};
use crate::bugs::Bug;
use crate::holder::ctx::Ctx;
use crate::op::{Expect, Write};
use crate::values::record::{Ask, Attachment, Letter, Stored, Tenure};
use crate::values::time::{Tick, Wall};
use std::time::Duration;

impl Acquisition {
    /// Who waits asks now and then. Nobody waits for the answer.
    pub(super) fn challenge(
        &mut self,
        ctx: &mut Ctx<'_>,
        tenure: &Tenure,
        attachment: &Attachment,
        session: Stored,
    ) {
        if !ctx.detector.doubts(ctx.now, &self.goal.key, tenure.id, asked_after(tenure)) {
            return;
        }
        let Some(letter) = self.letter(ctx, attachment, &session) else { return };
        let _unawaited = ctx.write(letter, self.goal.ttl);
    }

    /// What who won't be here for long asks about a claim that has stood for long, as far as its record tells or was watched here.
    pub(super) fn question(
        &self,
        ctx: &mut Ctx<'_>,
        seen: &Stored,
        tenure: &Tenure,
        session: &Stored,
        until: Tick,
    ) -> Option<Write> {
        if ctx.rules.bugs.has(Bug::OrphanNotAsked) {
            return None;
        }
        let mut letter = self.letter(ctx, tenure.attachment.as_ref()?, session)?;
        if self.marks_host(ctx, session, until, false)
            && let Some(renewing) = &mut letter.record.tenure
        {
            // One write for both: each makes a renewal lose that is under way.
            leave_mark(ctx, renewing, letter.record.nonce);
        }
        ctx.detector.asks(ctx.now, &self.goal.key, seen, tenure, asked_after(tenure)).then_some(letter)
    }

    /// Sends the question, and waits for that: its process may end as soon as it is told who holds the key.
    pub(super) fn ask(&mut self, ctx: &mut Ctx<'_>, question: Write, seen: Stored) -> Option<AcquisitionEnd> {
        self.state =
            AcquisitionState::Challenging { op: ctx.write(question, self.goal.ttl), seen: Box::new(seen) };
        None
    }

    /// The question is in the session's record: the claim's own record is to say so.
    pub(super) fn has_asked(&mut self, ctx: &mut Ctx<'_>, mut seen: Stored) -> Option<AcquisitionEnd> {
        if ctx.rules.bugs.has(Bug::AskedEachTime) {
            return self.has_marked(ctx, true);
        }
        let key = self.goal.key.clone();
        if let Some(tenure) = &mut seen.record.tenure {
            // The session is there. A mark that says otherwise must not get younger by this.
            tenure.mail.retain(|letter| !letter.is(Ask::Confirm, &key));
            tenure.marks.clear();
        }
        // The claimer's own clock, carried on by the store's: so the time until the next question doubles whatever our clock shows.
        let stood = seen.age().map(|age| Wall(seen.record.stamp.0.saturating_add(age.as_millis() as u64)));
        let stamp = stood.unwrap_or(ctx.now.wall);
        self.mark(ctx, key, seen, stamp)
    }

    /// The letter to `session`, unless it is there already or there is no room.
    fn letter(&self, ctx: &mut Ctx<'_>, attachment: &Attachment, session: &Stored) -> Option<Write> {
        let mut record = session.record.clone();
        let renewing = record.tenure.as_mut()?;
        let letter = Letter::new(self.goal.key.clone(), Ask::Confirm);
        if renewing.mail.iter().any(|other| other.key == letter.key) || !renewing.post(letter) {
            return None;
        }
        record.nonce = ctx.nonces.draw();
        Some(Write { key: attachment.session.clone(), expect: Expect::Unchanged(session.version), record })
    }
}

/// How long a claim stands before anybody asks about it.
pub(super) fn asked_after(tenure: &Tenure) -> Duration {
    tenure.ttl.duration() * 2
}
