//! The meaning of a store's answers for a semaphore.

use super::{SeenSemaphore, Semaphore, SemaphoreInFlight};
use crate::bugs::Bug;
use crate::holder::ctx::Ctx;
use crate::holder::notice::Notice;
use crate::op::{Answer, OpId, Outcome};
use crate::semaphore::job::SemaphoreJob;
use crate::semaphore::ledger::SemaphoreLedger;
use crate::values::error::{ErrorKind, StoreError};
use crate::values::fence::{Fence, Version};
use crate::values::record::{Attachment, Record, Stored};
use std::time::Duration;

impl Semaphore {
    /// An operation's answer. Late, repeated and unasked-for ones are ignored.
    pub(crate) fn answer(&mut self, ctx: &mut Ctx<'_>, op: OpId, result: Result<Answer, StoreError>) {
        let Some(flight) = self.flight.take_if(|flight| flight.op() == op) else { return };
        match (flight, result) {
            (SemaphoreInFlight::Looking { .. }, Ok(Answer::Read(current))) => {
                self.failures = 0;
                self.see(ctx, current, op);
                self.set_look(ctx);
                // With nobody in the way there is none to look at.
                let nobody = |own: &Attachment| self.in_the_way(own).is_empty();
                if self.seen.is_some() && ctx.session.as_ref().is_none_or(nobody) {
                    self.set_sessions(ctx, op);
                }
            }
            (SemaphoreInFlight::Looking { sessions, .. }, Ok(Answer::Listed(records))) => {
                let own = records.iter().find(|listed| listed.key == self.key);
                match own.map(|listed| listed.stored.clone()).transpose() {
                    Err(error) => self.failed(ctx, error),
                    Ok(current) => {
                        self.failures = 0;
                        self.see(ctx, current, op);
                        self.set_look(ctx);
                        self.set_sessions(ctx, op);
                        self.judge(ctx, &sessions, &records);
                    }
                }
            }
            (
                SemaphoreInFlight::Writing { ledger, fence, .. },
                Ok(Answer::Write(Outcome::Won { version, .. })),
            ) => {
                (self.losses, self.failures, self.ghost, self.refused) = (0, 0, None, None);
                self.refusals = 0;
                self.wrote(ctx, *ledger, fence, version, op);
            }
            (SemaphoreInFlight::Writing { .. }, Ok(Answer::Write(Outcome::Lost(current)))) => {
                (self.failures, self.refusals) = (0, 0);
                self.losses += 1;
                self.not_landed();
                self.see(ctx, current, op);
                self.give_way(ctx);
            }
            (SemaphoreInFlight::Writing { ledger, fence, version, over, .. }, Err(error)) => {
                if error.kind() != ErrorKind::Unknown {
                    self.not_landed();
                    self.refused = self.asks().then_some(over);
                    self.refusals += u32::from(!error.is_passing());
                } else if ctx.rules.bugs.has(Bug::UnknownIsSuccess) {
                    self.wrote(ctx, *ledger, fence, version, op);
                    return self.go_on(ctx);
                } else {
                    self.ghost = Some(over);
                }
                self.failed(ctx, error);
            }
            (SemaphoreInFlight::Fencing { attachment, .. }, Ok(Answer::Write(Outcome::Won { .. }))) => {
                self.dead.insert(attachment);
            }
            (SemaphoreInFlight::Fencing { attachment, .. }, Ok(Answer::Write(Outcome::Lost(current)))) => {
                if current.is_some_and(|session| super::deaths::is_over(&attachment, &session.record)) {
                    self.dead.insert(attachment);
                } else {
                    self.judge_again(ctx, &attachment);
                }
            }
            (SemaphoreInFlight::Fencing { attachment, .. }, Err(error)) => {
                self.not_judged(ctx, &attachment, &error);
            }
            (SemaphoreInFlight::Fencing { attachment, .. }, Ok(_)) => self.judge_again(ctx, &attachment),
            (_, Err(error)) => self.failed(ctx, error),
            (_, Ok(_)) => {}
        }
        self.go_on(ctx);
    }

    /// The record shows what was written.
    fn wrote(&mut self, ctx: &Ctx<'_>, ledger: SemaphoreLedger, fence: Fence, version: Version, op: OpId) {
        (self.changes, self.is_known) = (0, true);
        self.trouble_is_over();
        self.forget_the_gone(&ledger);
        self.seen = Some(SeenSemaphore { ledger, fence, version: Some(version), op });
        self.mind_newcomers(ctx);
        self.set_look(ctx);
    }

    /// The record as it stands.
    fn see(&mut self, ctx: &Ctx<'_>, current: Option<Stored>, op: OpId) {
        (self.changes, self.is_known) = (0, true);
        let seen = match current {
            None => SeenSemaphore { ledger: SemaphoreLedger::default(), fence: Fence(0), version: None, op },
            Some(stored) => match ledger_of(&stored.record) {
                Ok(ledger) => {
                    SeenSemaphore { ledger, fence: stored.record.fence, version: Some(stored.version), op }
                }
                Err(error) => return self.failed(ctx, error),
            },
        };
        // What was sent over another version than that can't land any more.
        self.ghost.take_if(|over| *over != seen.version);
        self.refused.take_if(|over| *over != seen.version);
        if self.ghost.is_none() {
            self.trouble_is_over();
        }
        self.forget_the_gone(&seen.ledger);
        self.seen = Some(seen);
        self.mind_newcomers(ctx);
    }

    fn forget_the_gone(&mut self, ledger: &SemaphoreLedger) {
        let stands =
            |attachment: &Attachment| ledger.tickets().any(|ticket| ticket.attachment == *attachment);
        self.dead.retain(stands);
        self.judged.retain(stands);
        self.unjudged.retain(|attachment, _| stands(attachment));
    }

    fn trouble_is_over(&mut self) {
        for job in self.jobs.values_mut() {
            if let SemaphoreJob::Wanted(wanted) = job {
                wanted.last_error = None;
            }
        }
    }

    /// Whether a write was sent for somebody that asks for permits.
    fn asks(&self) -> bool {
        self.jobs.values().any(|job| match job {
            SemaphoreJob::Wanted(wanted) => wanted.sent.is_some(),
            SemaphoreJob::Giving(giving) => !giving.was_held,
            SemaphoreJob::Held { .. } => false,
        })
    }

    /// A write is known to have had, and to have, no effect.
    fn not_landed(&mut self) {
        for job in self.jobs.values_mut() {
            if let SemaphoreJob::Giving(giving) = job {
                giving.tried = false;
            }
        }
    }

    /// Trouble with the store: look again a little later, or tell the users if that can't help.
    fn failed(&mut self, ctx: &Ctx<'_>, error: StoreError) {
        /// After so many failures in a row, pauses grow no longer.
        const MOST: u32 = 7;
        self.seen = None;
        self.failures += 1;
        let passes = error.is_passing();
        self.is_refused = !passes;
        // A damaged record is in everybody's way, and somebody mends it.
        let gives = self.jobs.values().any(|job| matches!(job, SemaphoreJob::Giving(_)));
        let most = if gives && error.kind() == ErrorKind::Foreign { 1 } else { MOST };
        // Some 64 ttls have passed: no copy is under way for as long.
        let refusals = self.failures.max(self.refusals);
        self.refused.take_if(|_| !passes && refusals > MOST);
        // What is refused, and may be for good, is repeated ever more seldom, and never let go.
        let longer = || self.ttl.part(4).saturating_mul(1 << refusals.min(most));
        let pause = if passes { ctx.retry_at(self.ttl, self.failures) } else { ctx.jittered(longer()) };
        self.pause = Some(pause.max(ctx.now.held.after(Duration::from_millis(1))));
        self.end_pause_with_lapses(ctx.now);
        let may_land = error.kind() == ErrorKind::Unknown || self.ghost.is_some();
        let mut over = Vec::new();
        for (lease, job) in &mut self.jobs {
            let SemaphoreJob::Wanted(wanted) = job else { continue };
            wanted.last_error = Some(error.clone());
            let is_unclear = wanted.sent.is_some() && may_land;
            if !passes || !wanted.is_patient(ctx.now) && !is_unclear {
                over.push(*lease);
            }
        }
        for lease in over {
            self.give_up(lease, Ok(error.clone()));
        }
        if self.is_stopping && !passes {
            self.end_with_session();
        }
    }

    /// The process stops, and the store won't have it give anything up: all of it ends with the session.
    fn end_with_session(&mut self) {
        for (lease, job) in std::mem::take(&mut self.jobs) {
            match job {
                SemaphoreJob::Giving(giving) if giving.not_before.is_some() => {
                    drop(self.jobs.insert(lease, job))
                }
                SemaphoreJob::Giving(giving) if giving.is_awaited => {
                    self.tell(Notice::Released(lease, false))
                }
                _ => {}
            }
        }
    }
}

/// A record that says nothing is one of a semaphore that nobody uses: whoever mends a damaged one leaves such.
fn ledger_of(record: &Record) -> Result<SemaphoreLedger, StoreError> {
    if record.tenure.is_none() && record.metadata.is_empty() {
        return Ok(SemaphoreLedger::default());
    }
    SemaphoreLedger::of(record)
}
