//! The meaning of a store's answers for a section.

use super::plan::LedgerPlan;
use super::{SectionInFlight, SectionMachine, SeenSection};
use crate::LeaseId;
use crate::backoff::doubled;
use crate::bugs::Bug;
use crate::holder::ctx::is_misdated;
use crate::op::{Answer, OpId, Outcome};
use crate::section::SectionNotice;
use crate::section::job::{Asker, SectionJob, Try, WantedRanges};
use crate::section::ledger::SectionLedger;
use crate::section::watch::RecordLook;
use crate::values::error::{ErrorKind, StoreError};
use crate::values::fence::{Fence, Nonce, Version};
use crate::values::record::Stored;
use crate::values::time::{Now, Tick};
use std::time::Duration;

impl SectionMachine {
    pub(super) fn answer(&mut self, now: Now, id: OpId, result: Result<Answer, StoreError>) {
        match (self.flight.take(), result) {
            (Some(SectionInFlight::Reading(op)), Ok(Answer::Read(current))) if op == id => {
                self.see(now, current, op);
            }
            (Some(SectionInFlight::Reading(op)), Err(error)) if op == id => self.failed(now, error),
            (
                Some(SectionInFlight::Writing { op, sent, plan, .. }),
                Ok(Answer::Write(Outcome::Won { version, .. })),
            ) if op == id => {
                self.won(now, op, sent, version, *plan);
            }
            (Some(SectionInFlight::Writing { op, .. }), Ok(Answer::Write(Outcome::Lost(current))))
                if op == id =>
            {
                self.not_landed(op);
                self.backoff.lost();
                self.see(now, current, op);
                self.backoff.give_way(now, &self.nonces);
            }
            (Some(SectionInFlight::Writing { op, nonce, sent, plan }), Err(error)) if op == id => {
                self.write_failed(now, op, nonce, sent, *plan, error);
            }
            // Late, repeated, or never asked for.
            (flight, _) => self.flight = flight,
        }
    }

    /// The record as it stands.
    fn see(&mut self, now: Now, current: Option<Stored>, op: OpId) {
        let times = current.as_ref().and_then(|stored| stored.times);
        let look = RecordLook { clock: times.map(|times| times.now), at: now.waited };
        let nothing = SeenSection {
            ledger: SectionLedger::default(),
            fence: Fence(0),
            version: None,
            look,
            is_set_back: false,
            op,
        };
        let seen = match current {
            None => nothing,
            Some(stored) => match SectionLedger::of(&stored.record) {
                Ok(mut ledger) => {
                    let is_set_back = times.is_some_and(|times| ledger.seen(times, &self.setup.rules));
                    let (fence, version) = (stored.record.fence, Some(stored.version));
                    SeenSection { ledger, fence, version, is_set_back, ..nothing }
                }
                Err(_) if self.has(Bug::DamagedSectionEmpty) => {
                    SeenSection { fence: stored.record.fence, version: Some(stored.version), ..nothing }
                }
                Err(error) => return self.refused(now, &error),
            },
        };
        self.backoff.read();
        self.watch.look(now, &seen.ledger);
        self.seen = Some(seen);
    }

    fn won(&mut self, now: Now, op: OpId, sent: Tick, version: Version, plan: LedgerPlan) {
        self.backoff.won();
        let LedgerPlan { ledger, fence, granted, released, collected, look } = plan;
        self.watch.look(now, &ledger);
        for (lease, id) in granted {
            let Some(SectionJob::Wanted(wanted)) = self.jobs.remove(&lease) else { continue };
            let attempt = Try { op, id, sent, over: None };
            self.landed(now, lease, &wanted, &attempt, &ledger, None);
        }
        for lease in released {
            if let Some(SectionJob::Giving { told: false, .. }) = self.jobs.remove(&lease) {
                self.tell(SectionNotice::Released(lease, true));
            }
        }
        let reclaiming = |job: &SectionJob| matches!(job, SectionJob::Reclaiming { born, .. } if *born < op);
        let reclaimed: Vec<LeaseId> =
            self.jobs.iter().filter(|(_, job)| reclaiming(job)).map(|(lease, _)| *lease).collect();
        for lease in reclaimed {
            self.jobs.remove(&lease);
            self.tell(SectionNotice::Reclaimed(lease, collected));
        }
        // Of this write's own time the store has told nothing: what is new in it is dated by whoever sees it next.
        let look = look.moved_to(now);
        self.seen = Some(SeenSection { ledger, fence, version: Some(version), look, is_set_back: false, op });
    }

    /// An entry of ours stands in the record. `look`: that is how it became known, as the write was not answered.
    pub(super) fn landed(
        &mut self,
        now: Now,
        lease: LeaseId,
        wanted: &WantedRanges,
        attempt: &Try,
        ledger: &SectionLedger,
        look: Option<&RecordLook>,
    ) {
        let Some(entry) = ledger.entries.iter().find(|entry| entry.id == attempt.id) else { return };
        let age = look.and_then(|look| look.stood(now, entry));
        let is_misdated = is_misdated(now, attempt.sent, age, &self.setup.rules);
        let over = attempt.sent.after(wanted.duration.duration());
        let late = now.held.after(Duration::from_secs(1));
        let sent = if self.has(Bug::ValidFromAnswer) { now.held } else { attempt.sent };
        let until = self.until(sent, wanted.duration);
        let is_believable = !is_misdated && (now.held < until || self.has(Bug::StaleWinBelieved));
        let give = |told| SectionJob::Giving { id: attempt.id, give_up: over.max(late), tried: false, told };
        let job = match wanted.asker {
            Asker::Waits if is_believable => {
                let (parts, fence) = (entry.parts.clone(), Some(entry.fence));
                self.tell(SectionNotice::Obtained { lease, parts, fence, until });
                SectionJob::Held { id: attempt.id, over }
            }
            Asker::Waits => {
                let error = StoreError::unavailable(if is_misdated {
                    "time was hidden from this host, so that others may take the lease for over; ask again"
                } else {
                    "the store's answer came when the lease was over already"
                });
                self.tell(SectionNotice::Failed(lease, error));
                give(true)
            }
            Asker::Gave => give(false),
            Asker::Gone => give(true),
        };
        self.jobs.insert(lease, job);
    }

    /// A write is known to have had, and to have, no effect.
    fn not_landed(&mut self, op: OpId) {
        for job in self.jobs.values_mut() {
            match job {
                SectionJob::Wanted(wanted) => wanted.tries.retain(|attempt| attempt.op != op),
                SectionJob::Giving { tried, .. } => *tried = false,
                _ => {}
            }
        }
    }

    fn write_failed(
        &mut self,
        now: Now,
        op: OpId,
        nonce: Nonce,
        sent: Tick,
        plan: LedgerPlan,
        error: StoreError,
    ) {
        if error.kind() == ErrorKind::Unknown {
            if self.has(Bug::UnknownIsSuccess) {
                let version = Version::of(nonce, plan.fence);
                return self.won(now, op, sent, version, plan);
            }
            if self.has(Bug::UnknownIsFailure) {
                self.not_landed(op);
            }
        } else {
            self.not_landed(op);
            self.backoff.write_refused(&error);
        }
        self.failed(now, error);
    }

    /// Trouble with the store: look again a little later, or tell the users if that can't help.
    fn failed(&mut self, now: Now, error: StoreError) {
        const SHORTEST: Duration = Duration::from_millis(5);
        self.seen = None;
        if !error.is_passing() {
            return self.refused(now, &error);
        }
        for job in self.jobs.values_mut() {
            if let SectionJob::Wanted(wanted) = job {
                wanted.last_error = Some(error.clone());
            }
        }
        let nonces = &self.nonces;
        self.backoff.failed(|failures| now.held.after(nonces.jittered(doubled(SHORTEST, failures - 1))));
    }

    /// Trying again can't help whoever waits. What is to be taken out is tried ever more seldom until its time is over, as the
    /// store may refuse it for a moment only.
    fn refused(&mut self, now: Now, error: &StoreError) {
        const SHORTEST: Duration = Duration::from_secs(1);
        self.seen = None;
        let jobs = std::mem::take(&mut self.jobs);
        for (lease, job) in jobs {
            match job {
                SectionJob::Held { .. } => drop(self.jobs.insert(lease, job)),
                SectionJob::Giving { id, give_up, tried, told } => {
                    if !told {
                        self.tell(SectionNotice::Released(lease, false));
                    }
                    self.jobs.insert(lease, SectionJob::Giving { id, give_up, tried, told: true });
                }
                SectionJob::Wanted(mut wanted) => {
                    wanted.last_error = Some(error.clone());
                    self.give_up_wanted(now, lease, *wanted);
                }
                SectionJob::Listing { .. } | SectionJob::Reclaiming { .. } => {
                    self.tell(SectionNotice::Failed(lease, error.clone()));
                }
            }
        }
        // The end of a process does not wait for what may be refused for good.
        if self.stopping || self.has(Bug::DenialIsFinal) {
            self.jobs.retain(|_, job| !job.is_work());
        }
        let nonces = &self.nonces;
        self.backoff.refused(|times| now.held.after(nonces.jittered(doubled(SHORTEST, times - 1))));
    }
}
