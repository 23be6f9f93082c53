//! The jobs of a semaphore's users, from the wish to the end of the claim, and what their users are to be told of that.

use super::SeenSemaphore;
use crate::bugs::{Bug, Bugs};
use crate::holder::ctx::Ctx;
use crate::holder::lease_id::LeaseId;
use crate::holder::loss::Loss;
use crate::holder::notice::Notice;
use crate::op::OpId;
use crate::semaphore::job::{Giving, SemaphoreJob, WantedPermits};
use crate::semaphore::ledger::SemaphoreLedger;
use crate::values::error::StoreError;
use crate::values::fence::{Fence, Nonce};
use crate::values::metadata::Metadata;
use crate::values::record::Occupant;
use crate::values::time::{Now, Tick, Ttl};
use std::collections::BTreeMap;

/// The jobs of all leases of one key, each of which has one claim.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(super) struct SemaphoreJobs {
    jobs: BTreeMap<LeaseId, SemaphoreJob>,
    notices: Vec<Notice>,
}

impl SemaphoreJobs {
    /// Permits are wanted from now on.
    pub(super) fn want(&mut self, lease: LeaseId, wanted: WantedPermits) {
        self.jobs.insert(lease, SemaphoreJob::Wanted(Box::new(wanted)));
    }

    /// Permits, or the attempt to get them, are given up. Whether the record is to be written for that.
    pub(super) fn release(&mut self, lease: LeaseId) -> bool {
        let (id, was_held) = match self.jobs.get_mut(&lease) {
            Some(SemaphoreJob::Wanted(wanted)) if wanted.sent.is_some() => (wanted.id, false),
            Some(SemaphoreJob::Held { id, .. }) => (*id, true),
            // Its user has been told of its end, or will be.
            Some(SemaphoreJob::Giving(Giving { is_awaited: true, .. })) => return false,
            job => {
                if let Some(SemaphoreJob::Wanted(_)) = job {
                    self.jobs.remove(&lease);
                }
                self.tell(Notice::Released(lease, false));
                return false;
            }
        };
        let giving = Giving { id, is_awaited: true, tried: false, was_held, not_before: None };
        self.jobs.insert(lease, SemaphoreJob::Giving(giving));
        true
    }

    /// All that is not given up yet is.
    pub(super) fn release_all(&mut self) {
        let goes = |job: &SemaphoreJob| !matches!(job, SemaphoreJob::Giving(_));
        let leases = self.jobs.iter().filter(|(_, job)| goes(job)).map(|(lease, _)| *lease);
        for lease in leases.collect::<Vec<_>>() {
            self.release(lease);
        }
    }

    /// Permits are given up, and their claim is left to stand until then. False if there is nothing that could be left so.
    pub(super) fn lapse(&mut self, lease: LeaseId, until: Tick, bugs: Bugs) -> bool {
        let not_before = Some(until);
        match self.jobs.get_mut(&lease) {
            Some(SemaphoreJob::Held { id, .. }) if !bugs.has(Bug::LapseVacates) => {
                let (id, is_awaited) = (*id, false);
                let giving = Giving { id, is_awaited, tried: false, was_held: true, not_before };
                self.jobs.insert(lease, SemaphoreJob::Giving(giving));
            }
            Some(SemaphoreJob::Giving(giving)) if giving.not_before.is_some() => {
                giving.not_before = not_before;
            }
            _ => return false,
        }
        self.tell(Notice::Released(lease, false));
        true
    }

    /// Finishes what the record decides by itself. `may_land`: a write may land that was not answered, or refused.
    pub(super) fn settle(&mut self, ctx: &Ctx<'_>, seen: &SeenSemaphore, may_land: bool) {
        let bugs = ctx.rules.bugs;
        for (lease, job) in std::mem::take(&mut self.jobs) {
            match job {
                SemaphoreJob::Wanted(wanted) => match seen.ledger.grant(wanted.id).map(|grant| grant.fence) {
                    None if bugs.has(Bug::TicketBelieved) && seen.ledger.has(wanted.id) => {
                        self.hold(lease, wanted.id, seen.fence);
                    }
                    None => drop(self.jobs.insert(lease, SemaphoreJob::Wanted(wanted))),
                    Some(fence) => self.hold(lease, wanted.id, fence),
                },
                // Of an older copy that somebody has put back, it may have been granted anew since, under another fence.
                SemaphoreJob::Held { id, fence }
                    if seen.ledger.grant(id).is_none_or(|grant| grant.fence != fence)
                        && !bugs.has(Bug::TicketBelieved) =>
                {
                    self.tell(Notice::Lost(lease, lost(seen, id, fence)));
                }
                SemaphoreJob::Giving(giving) if is_gone(ctx, &giving, seen, may_land) => {
                    if giving.is_awaited {
                        self.tell(Notice::Released(lease, giving.tried));
                    }
                }
                job => drop(self.jobs.insert(lease, job)),
            }
        }
    }

    fn hold(&mut self, lease: LeaseId, id: Nonce, fence: Fence) {
        self.tell(Notice::Acquired { lease, fence, until: Tick::NEVER, metadata: Metadata::new() });
        self.jobs.insert(lease, SemaphoreJob::Held { id, fence });
    }

    /// A write is sent, which asks for permits of these leases, and takes out what is due.
    pub(super) fn sent(&mut self, now: Now, added: &[LeaseId]) {
        for lease in added {
            if let Some(SemaphoreJob::Wanted(wanted)) = self.jobs.get_mut(lease) {
                wanted.sent = Some(now.held);
            }
        }
        for job in self.jobs.values_mut() {
            if let SemaphoreJob::Giving(giving) = job {
                giving.tried = giving.was_held && giving.is_due(now);
            }
        }
    }

    /// A write is known to have had, and to have, no effect.
    pub(super) fn not_landed(&mut self) {
        for job in self.jobs.values_mut() {
            if let SemaphoreJob::Giving(giving) = job {
                giving.tried = false;
            }
        }
    }

    /// Trouble with the store: who can't be helped by waiting is told. `may_land`: a write may land that was sent.
    pub(super) fn fail(&mut self, now: Now, error: &StoreError, may_land: bool) {
        let mut over = Vec::new();
        for (lease, job) in &mut self.jobs {
            let SemaphoreJob::Wanted(wanted) = job else { continue };
            wanted.last_error = Some(error.clone());
            let is_unclear = wanted.sent.is_some() && may_land;
            if !error.is_passing() || !wanted.is_patient(now) && !is_unclear {
                over.push(*lease);
            }
        }
        for lease in over {
            self.give_up(lease, Ok(error.clone()));
        }
    }

    pub(super) fn trouble_is_over(&mut self) {
        for job in self.jobs.values_mut() {
            if let SemaphoreJob::Wanted(wanted) = job {
                wanted.last_error = None;
            }
        }
    }

    /// Those who have waited for long enough are told so.
    pub(super) fn give_up_overdue(&mut self, now: Now, ttl: Ttl, seen: Option<&SemaphoreLedger>) {
        let overdue = |(lease, job): (&LeaseId, &SemaphoreJob)| match job {
            SemaphoreJob::Wanted(wanted) => {
                wanted.gives_up_at(ttl).is_some_and(|by| now.held >= by).then_some(*lease)
            }
            _ => None,
        };
        for lease in self.jobs.iter().filter_map(overdue).collect::<Vec<_>>() {
            let error = match self.jobs.get_mut(&lease) {
                Some(SemaphoreJob::Wanted(wanted)) => wanted.last_error.take(),
                _ => None,
            };
            self.give_up(lease, error.ok_or_else(|| seen.and_then(SemaphoreLedger::occupant)));
        }
    }

    /// An attempt is over without permits: because of an error, or of somebody who holds them.
    pub(super) fn give_up(&mut self, lease: LeaseId, why: Result<StoreError, Option<Occupant>>) {
        let Some(SemaphoreJob::Wanted(wanted)) = self.jobs.remove(&lease) else { return };
        self.tell(match why {
            Ok(error) => Notice::Failed(lease, error),
            Err(occupant) => Notice::Held(lease, occupant),
        });
        if wanted.sent.is_some() {
            let (id, is_awaited, was_held) = (wanted.id, false, false);
            let giving = Giving { id, is_awaited, tried: false, was_held, not_before: None };
            self.jobs.insert(lease, SemaphoreJob::Giving(giving));
        }
    }

    /// The session that all of it is attached to is gone. Whoever waits, waits on: behind those who came meanwhile.
    pub(super) fn session_lost(&mut self, ctx: &mut Ctx<'_>, loss: &Loss) {
        for (lease, job) in std::mem::take(&mut self.jobs) {
            match job {
                SemaphoreJob::Wanted(mut wanted) => {
                    // It has no place any more, and is behind all who have come since.
                    (wanted.id, wanted.sent, wanted.born) = (ctx.nonces.draw(), None, OpId(*ctx.last_op));
                    self.jobs.insert(lease, SemaphoreJob::Wanted(wanted));
                }
                SemaphoreJob::Held { .. } if ctx.rules.bugs.has(Bug::AttachedOutlivesSession) => {}
                SemaphoreJob::Held { .. } => self.tell(Notice::Lost(lease, loss.clone())),
                SemaphoreJob::Giving(Giving { is_awaited: true, .. }) => {
                    self.tell(Notice::Released(lease, false));
                }
                SemaphoreJob::Giving(_) => {}
            }
        }
    }

    /// The session can't be begun now. Who only tries is told; who waits, waits on.
    pub(super) fn session_failed(&mut self, now: Now, error: &StoreError) {
        for (lease, job) in std::mem::take(&mut self.jobs) {
            match job {
                SemaphoreJob::Wanted(wanted) if !wanted.is_patient(now) || !error.is_passing() => {
                    self.tell(Notice::Failed(lease, error.clone()));
                }
                SemaphoreJob::Wanted(mut wanted) => {
                    wanted.last_error = Some(error.clone());
                    self.jobs.insert(lease, SemaphoreJob::Wanted(wanted));
                }
                job => drop(self.jobs.insert(lease, job)),
            }
        }
    }

    /// The process stops, and the store won't have it give anything up: all of it ends with the session, but for what is left to expire.
    pub(super) fn end_with_session(&mut self) {
        for (lease, job) in std::mem::take(&mut self.jobs) {
            match job {
                SemaphoreJob::Giving(giving) if giving.not_before.is_some() => {
                    drop(self.jobs.insert(lease, job));
                }
                SemaphoreJob::Giving(giving) if giving.is_awaited => {
                    self.tell(Notice::Released(lease, false));
                }
                _ => {}
            }
        }
    }

    pub(super) fn tell(&mut self, notice: Notice) {
        self.notices.push(notice);
    }

    pub(super) fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// When somebody's patience ends, or what is left to expire has expired.
    pub(super) fn wake_at(&self, now: Now, ttl: Ttl) -> Option<Tick> {
        let ends = self.wanted().filter_map(|(_, wanted)| wanted.gives_up_at(ttl)).min();
        ends.into_iter().chain(self.lapses_at(now)).min()
    }

    /// When the next claim is given up that is left to stand for now.
    pub(super) fn lapses_at(&self, now: Now) -> Option<Tick> {
        self.giving().filter_map(|giving| giving.not_before).filter(|at| now.held < *at).min()
    }

    pub(super) fn wanted(&self) -> impl Iterator<Item = (LeaseId, &WantedPermits)> {
        self.jobs.iter().filter_map(|(lease, job)| match job {
            SemaphoreJob::Wanted(wanted) => Some((*lease, &**wanted)),
            _ => None,
        })
    }

    fn giving(&self) -> impl Iterator<Item = &Giving> {
        self.jobs.values().filter_map(|job| match job {
            SemaphoreJob::Giving(giving) => Some(giving),
            _ => None,
        })
    }

    /// The claims that are to go from the record now.
    pub(super) fn due(&self, now: Now) -> impl Iterator<Item = Nonce> {
        self.giving().filter(move |giving| giving.is_due(now)).map(|giving| giving.id)
    }

    /// Whether a write was sent for somebody that asks for permits.
    pub(super) fn has_asked(&self) -> bool {
        self.wanted().any(|(_, wanted)| wanted.sent.is_some()) || self.giving().any(|giving| !giving.was_held)
    }

    /// Whether a claim is given up, now or later.
    pub(super) fn gives(&self) -> bool {
        self.giving().next().is_some()
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.wanted().next().is_some()
    }

    /// The leases that hold permits.
    pub(super) fn held(&self) -> impl Iterator<Item = LeaseId> {
        self.jobs.iter().filter(|(_, job)| matches!(job, SemaphoreJob::Held { .. })).map(|(lease, _)| *lease)
    }

    pub(super) fn leases(&self) -> impl Iterator<Item = LeaseId> {
        self.jobs.keys().copied()
    }

    /// The claims of all of them.
    pub(super) fn ids(&self) -> impl Iterator<Item = Nonce> {
        self.jobs.values().map(SemaphoreJob::id)
    }

    pub(super) fn has(&self, lease: LeaseId) -> bool {
        self.jobs.contains_key(&lease)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Whether something of a lease is left, but for what is left to expire.
    pub(super) fn is_open(&self) -> bool {
        self.jobs.values().any(|job| !job.is_lapsing())
    }

    /// Whether something is left to expire.
    pub(super) fn is_lapsing(&self) -> bool {
        self.jobs.values().any(SemaphoreJob::is_lapsing)
    }
}

/// Whether nothing of a claim stands, nor can come to stand any more.
fn is_gone(ctx: &Ctx<'_>, giving: &Giving, seen: &SeenSemaphore, may_land: bool) -> bool {
    let bugs = ctx.rules.bugs;
    let may_land = may_land && !bugs.has(Bug::GhostForgotten);
    let stands = seen.ledger.has(giving.id) && (giving.was_held || !bugs.has(Bug::CancelLeavesTicket));
    giving.is_due(ctx.now) && !may_land && !stands && !bugs.has(Bug::ReleaseTakesAnother)
        || bugs.has(Bug::ReleaseTakesAnother) && giving.tried && !stands
}

/// What became of permits with this fence that the record does not show any more.
fn lost(seen: &SeenSemaphore, id: Nonce, fence: Fence) -> Loss {
    if seen.version.is_none() || seen.fence < fence || seen.ledger.has(id) {
        return Loss::Deleted;
    }
    Loss::Taken(seen.ledger.occupant())
}

#[cfg(test)]
mod tests;
