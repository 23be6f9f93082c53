//! The meaning of a store's answers for a semaphore.

use super::{SeenSemaphore, Semaphore, SemaphoreInFlight};
use crate::backoff::{self, doubled};
use crate::bugs::Bug;
use crate::holder::ctx::Ctx;
use crate::op::{Answer, Listed, OpId, Outcome};
use crate::semaphore::ledger::SemaphoreLedger;
use crate::values::error::{ErrorKind, StoreError};
use crate::values::fence::{Fence, Version};
use crate::values::record::{Attachment, Stored};
use std::time::Duration;

impl Semaphore {
    /// An operation's answer. Late, repeated and unasked-for ones are ignored.
    pub(crate) fn answer(&mut self, ctx: &mut Ctx<'_>, op: OpId, result: Result<Answer, StoreError>) {
        let Some(flight) = self.flight.take_if(|flight| flight.op() == op) else { return };
        match (flight, result) {
            (SemaphoreInFlight::Looking { .. }, Ok(Answer::Read(current))) => {
                self.backoff.read();
                self.see(ctx, current, op);
                self.set_look(ctx);
                // With nobody in the way there is none to look at.
                let whom = self.whom();
                let nobody = |seen: &SeenSemaphore| {
                    let own = ctx.session.as_ref();
                    own.is_none_or(|own| self.deaths.in_the_way(&seen.ledger, own, whom).is_empty())
                };
                if let Some(seen) = self.seen.as_ref().filter(|seen| nobody(seen)) {
                    self.deaths.looked(ctx, op, Some(&seen.ledger), whom);
                }
            }
            (SemaphoreInFlight::Looking { sessions, whom, .. }, Ok(Answer::Listed(records))) => {
                let own = records.iter().find(|listed| listed.key == self.key);
                match own.map(|listed| listed.stored.clone()).transpose() {
                    Err(error) => self.failed(ctx, error),
                    Ok(current) => {
                        self.backoff.read();
                        self.see(ctx, current, op);
                        self.set_look(ctx);
                        self.deaths.looked(ctx, op, self.seen.as_ref().map(|seen| &seen.ledger), whom);
                        self.judge(ctx, &sessions, &records);
                    }
                }
            }
            (
                SemaphoreInFlight::Writing { ledger, fence, .. },
                Ok(Answer::Write(Outcome::Won { version, .. })),
            ) => {
                (self.ghost, self.refused) = (None, None);
                self.backoff.won();
                self.wrote(ctx, *ledger, fence, version, op);
            }
            (SemaphoreInFlight::Writing { .. }, Ok(Answer::Write(Outcome::Lost(current)))) => {
                self.backoff.lost();
                self.jobs.not_landed();
                self.see(ctx, current, op);
                self.backoff.give_way(ctx.now, ctx.nonces);
            }
            (SemaphoreInFlight::Writing { ledger, fence, version, over, .. }, Err(error)) => {
                if error.kind() != ErrorKind::Unknown {
                    self.jobs.not_landed();
                    self.refused = self.jobs.has_asked().then_some(over);
                    self.backoff.write_refused(&error);
                } else if ctx.rules.bugs.has(Bug::UnknownIsSuccess) {
                    self.wrote(ctx, *ledger, fence, version, op);
                    return self.go_on(ctx);
                } else {
                    self.ghost = Some(over);
                }
                self.failed(ctx, error);
            }
            (SemaphoreInFlight::Fencing { attachment, .. }, result) => {
                let ledger = self.seen.as_ref().map(|seen| &seen.ledger);
                self.deaths.fenced(ctx, ledger, attachment, result);
            }
            (_, Err(error)) => self.failed(ctx, error),
            (_, Ok(_)) => {}
        }
        self.go_on(ctx);
    }

    /// The record shows what was written.
    fn wrote(&mut self, ctx: &Ctx<'_>, ledger: SemaphoreLedger, fence: Fence, version: Version, op: OpId) {
        (self.changes, self.is_known) = (0, true);
        self.jobs.trouble_is_over();
        self.deaths.saw(ctx, &ledger);
        self.seen = Some(SeenSemaphore { ledger, fence, version: Some(version), op });
        self.set_look(ctx);
    }

    /// The record as it stands.
    fn see(&mut self, ctx: &Ctx<'_>, current: Option<Stored>, op: OpId) {
        (self.changes, self.is_known) = (0, true);
        let seen = match current {
            None => SeenSemaphore { ledger: SemaphoreLedger::default(), fence: Fence(0), version: None, op },
            Some(stored) => match SemaphoreLedger::standing(&stored.record) {
                Ok(ledger) => {
                    SeenSemaphore { ledger, fence: stored.record.fence, version: Some(stored.version), op }
                }
                Err(_) if ctx.rules.bugs.has(Bug::DamagedPermitsEmpty) => {
                    let (ledger, fence) = (SemaphoreLedger::default(), stored.record.fence);
                    SeenSemaphore { ledger, fence, version: Some(stored.version), op }
                }
                Err(error) => return self.failed(ctx, error),
            },
        };
        // What was sent over another version than that can't land any more.
        self.ghost.take_if(|over| *over != seen.version);
        self.refused.take_if(|over| *over != seen.version);
        if self.ghost.is_none() {
            self.jobs.trouble_is_over();
        }
        self.deaths.saw(ctx, &seen.ledger);
        self.seen = Some(seen);
    }

    /// Sessions in the way, as they were just read.
    fn judge(&mut self, ctx: &mut Ctx<'_>, sessions: &[Attachment], records: &[Listed]) {
        let Some(ledger) = self.seen.as_ref().map(|seen| &seen.ledger) else { return };
        self.deaths.judge(ctx, ledger, sessions, records);
        // Nobody waits for the answer.
        if let Some(question) = self.challenge.question(ctx, &self.key, ledger, records) {
            let _unawaited = ctx.write(question, self.ttl);
        }
    }

    /// Trouble with the store: look again a little later, or tell the users if that can't help.
    fn failed(&mut self, ctx: &Ctx<'_>, error: StoreError) {
        self.seen = None;
        let may_land = error.kind() == ErrorKind::Unknown || self.ghost.is_some();
        // What is told to have failed now is a claim that is to go.
        self.jobs.fail(ctx.now, &error, may_land);
        if error.is_passing() {
            let soonest = ctx.now.held.after(Duration::from_millis(1));
            self.backoff.failed(|failures| ctx.retry_at(self.ttl, failures).max(soonest));
        } else {
            // A damaged record is in everybody's way, and somebody mends it.
            let is_mended = self.jobs.gives() && error.kind() == ErrorKind::Foreign;
            let pause = |times| doubled(self.ttl.part(4), if is_mended { 1 } else { times });
            let times = self.backoff.refused(|times| ctx.jittered(pause(times)));
            if times > backoff::MOST {
                // For so long, some 64 ttls, that no copy of an earlier write is under way.
                self.refused = None;
            }
        }
        self.backoff.end_with_lapse(self.jobs.lapses_at(ctx.now));
        if self.is_stopping && !error.is_passing() {
            self.jobs.end_with_session();
        }
    }
}
