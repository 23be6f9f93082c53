//! The next write of a semaphore: how it changes the record.

use super::{SeenSemaphore, Semaphore, SemaphoreInFlight};
use crate::bugs::Bug;
use crate::holder::ctx::Ctx;
use crate::holder::lease_id::LeaseId;
use crate::holder::notice::Notice;
use crate::holder::renewal::Loss;
use crate::op::{Expect, OpId, Write};
use crate::semaphore::job::{Giving, SemaphoreJob};
use crate::semaphore::ledger::{SemaphoreLedger, Ticket};
use crate::values::error::StoreError;
use crate::values::fence::{Fence, Nonce, Version};
use crate::values::metadata::Metadata;
use crate::values::record::{Attachment, Record};
use crate::values::time::{Now, Tick};
use std::collections::BTreeSet;

impl Semaphore {
    /// Finishes what the record as last seen decides by itself.
    pub(super) fn settle(&mut self, ctx: &Ctx<'_>) {
        let Some(seen) = self.seen.take() else { return };
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
                    self.tell(Notice::Lost(lease, lost(&seen, id, fence)));
                }
                SemaphoreJob::Giving(giving) if self.is_gone(ctx, &giving, &seen) => {
                    if giving.is_awaited {
                        self.tell(Notice::Released(lease, giving.tried));
                    }
                }
                job => drop(self.jobs.insert(lease, job)),
            }
        }
        self.seen = Some(seen);
    }

    fn hold(&mut self, lease: LeaseId, id: Nonce, fence: Fence) {
        self.tell(Notice::Acquired { lease, fence, until: Tick::NEVER, metadata: Metadata::new() });
        self.jobs.insert(lease, SemaphoreJob::Held { id, fence });
    }

    /// Whether a write that was sent may land, though it was not answered, or refused.
    fn may_land(&self) -> bool {
        self.ghost.is_some() || self.refused.is_some()
    }

    /// Whether nothing of a claim stands, nor can come to stand any more.
    fn is_gone(&self, ctx: &Ctx<'_>, giving: &Giving, seen: &SeenSemaphore) -> bool {
        let bugs = ctx.rules.bugs;
        let may_land = self.may_land() && !bugs.has(Bug::GhostForgotten);
        let stands = seen.ledger.has(giving.id) && (giving.was_held || !bugs.has(Bug::CancelLeavesTicket));
        giving.is_due(ctx.now) && !may_land && !stands && !bugs.has(Bug::ReleaseTakesAnother)
            || bugs.has(Bug::ReleaseTakesAnother) && giving.tried && !stands
    }

    /// Writes what can be written, or looks again if it is time, or what was seen may be out of date.
    pub(super) fn plan(&mut self, ctx: &mut Ctx<'_>, seen: SeenSemaphore) {
        let Some(own) = ctx.session.clone() else { return };
        let is_guess = seen.op == OpId(0);
        if !is_guess && (self.curious || self.is_time(ctx.now, &seen)) {
            self.seen = Some(seen);
            self.curious = false;
            return self.look(ctx);
        }
        let (bugs, floor) = (ctx.rules.bugs, Fence::floor(ctx.now.wall));
        let (mut ledger, mut fence) = (seen.ledger.clone(), seen.fence);
        let mut is_changed = self.take_out(ctx, &own, &mut ledger);
        is_changed |= ledger.grant_on(&mut fence, floor, bugs);
        let (added, needs_look) = self.take_in(ctx, &own, &seen, &mut ledger, &mut fence);
        let is_haunted = self.may_land() && self.jobs.values().any(|job| is_due(job, ctx.now));
        if is_changed || !added.is_empty() || is_haunted {
            return self.write(ctx, ledger, fence, seen.version, &added);
        }
        if !is_guess {
            self.seen = Some(seen);
        }
        if needs_look {
            self.look(ctx);
        }
    }

    /// Whether whoever waits is to look again.
    fn is_time(&self, now: Now, seen: &SeenSemaphore) -> bool {
        let queued =
            |job: &SemaphoreJob| matches!(job, SemaphoreJob::Wanted(wanted) if seen.ledger.has(wanted.id));
        let waits = self.jobs.values().any(queued);
        waits && now.held >= self.look_at.min(self.sessions_at)
    }

    /// Takes out the claims of the dead, and what of our own nobody wants.
    fn take_out(&self, ctx: &Ctx<'_>, own: &Attachment, ledger: &mut SemaphoreLedger) -> bool {
        let bugs = ctx.rules.bugs;
        let known: BTreeSet<Nonce> = self.jobs.values().map(SemaphoreJob::id).collect();
        let giving = |job: &SemaphoreJob| is_due(job, ctx.now).then(|| job.id());
        let mut giving: BTreeSet<Nonce> = self.jobs.values().filter_map(giving).collect();
        if bugs.has(Bug::ReleaseTakesAnother) {
            let missing = giving.iter().any(|id| ledger.grant(*id).is_none());
            giving.extend(ledger.holders.first().filter(|_| missing).map(|grant| grant.ticket.id));
        }
        if bugs.has(Bug::CancelLeavesTicket) {
            giving.retain(|id| ledger.grant(*id).is_some());
        }
        let is_gone = |ticket: &Ticket| {
            let attachment = &ticket.attachment;
            // Of an earlier session of this very process, or of one that went by its id: the present one has taken its place.
            let is_former = attachment.session == own.session && attachment.fence < own.fence;
            let is_stray = attachment == own && !known.contains(&ticket.id) && !bugs.has(Bug::StraysKept);
            let is_dead = self.dead.contains(attachment);
            is_former || is_stray || is_dead || giving.contains(&ticket.id)
        };
        ledger.remove(is_gone)
    }

    /// Grants what is wanted, or lets it join the queue; tells those who can't have it. Which were added, and whether what was seen may be
    /// too old for somebody's answer.
    fn take_in(
        &mut self,
        ctx: &Ctx<'_>,
        own: &Attachment,
        seen: &SeenSemaphore,
        ledger: &mut SemaphoreLedger,
        fence: &mut Fence,
    ) -> (Vec<LeaseId>, bool) {
        let (bugs, floor) = (ctx.rules.bugs, Fence::floor(ctx.now.wall));
        let (mut added, mut over, mut needs_look) = (Vec::new(), Vec::new(), false);
        for (lease, job) in &self.jobs {
            let SemaphoreJob::Wanted(wanted) = job else { continue };
            if ledger.has(wanted.id) {
                continue;
            }
            let (wish, is_fresh) = (&wanted.wish, seen.op > wanted.born);
            if ledger.is_empty() {
                ledger.permits = wish.permits;
            }
            let is_judged = self.looked > wanted.born || self.in_the_way_of(&seen.ledger, own).is_empty();
            if ledger.permits != wish.permits {
                if is_fresh && is_judged {
                    over.push((*lease, Some(differs(&self.key, ledger.permits, wish.permits))));
                } else {
                    needs_look = true;
                }
                continue;
            }
            let ticket = Ticket {
                id: wanted.id,
                holder: ctx.holder.clone(),
                attachment: own.clone(),
                ttl: self.ttl,
                mode: wish.mode,
                permits: wish.take,
                barges: wish.barges,
                since: wanted.since,
            };
            if ledger.take(ticket, wanted.is_patient(ctx.now), fence, floor, bugs) {
                added.push(*lease);
            } else if is_fresh && is_judged {
                over.push((*lease, None));
            } else {
                needs_look = true;
            }
        }
        while !added.is_empty() && ledger.most_bytes() > self.most_bytes {
            let Some(lease) = added.pop() else { break };
            let id = self.jobs.get(&lease).map(SemaphoreJob::id);
            ledger.remove(|ticket| Some(ticket.id) == id);
            over.push((lease, Some(full(&self.key, self.most_bytes))));
        }
        for (lease, error) in over {
            self.give_up(lease, error.ok_or_else(|| seen.ledger.occupant()));
        }
        (added, needs_look)
    }

    fn write(
        &mut self,
        ctx: &mut Ctx<'_>,
        ledger: SemaphoreLedger,
        fence: Fence,
        over: Option<Version>,
        added: &[LeaseId],
    ) {
        let expect = match over {
            _ if ctx.rules.bugs.has(Bug::SemaphoreUnconditional) => Expect::Vacant,
            Some(version) => Expect::Unchanged(version),
            None => Expect::Absent,
        };
        let fence = if over.is_none() { fence.max(Fence::floor(ctx.now.wall)) } else { fence };
        let (nonce, (metadata, _)) = (ctx.nonces.draw(), ledger.to_metadata());
        let record = Record { fence, nonce, stamp: ctx.now.wall, tenure: None, metadata };
        let version = record.version();
        let op = ctx.write(Write { key: self.key.clone(), expect, record }, self.ttl);
        for lease in added {
            if let Some(SemaphoreJob::Wanted(wanted)) = self.jobs.get_mut(lease) {
                wanted.sent = Some(ctx.now.held);
            }
        }
        for job in self.jobs.values_mut() {
            if let SemaphoreJob::Giving(giving) = job {
                giving.tried = giving.was_held && giving.is_due(ctx.now);
            }
        }
        self.is_known = true;
        self.flight = Some(SemaphoreInFlight::Writing { op, ledger: Box::new(ledger), fence, version, over });
    }
}

fn is_due(job: &SemaphoreJob, now: Now) -> bool {
    matches!(job, SemaphoreJob::Giving(giving) if giving.is_due(now))
}

/// What became of permits with this fence that the record does not show any more.
fn lost(seen: &SeenSemaphore, id: Nonce, fence: Fence) -> Loss {
    if seen.version.is_none() || seen.fence < fence || seen.ledger.has(id) {
        return Loss::Deleted;
    }
    Loss::Taken(seen.ledger.occupant())
}

fn differs(key: &crate::Key, are: u32, said: u32) -> StoreError {
    // Whoever is merely shared or exclusive has said no number.
    StoreError::invalid(match (are, said) {
        (_, SemaphoreLedger::MOST_PERMITS) => format!(
            "{key} has {are} permits as long as it is used, and is not for shared and exclusive holders: ask for permits, or wait until nobody uses it"
        ),
        (SemaphoreLedger::MOST_PERMITS, _) => format!(
            "{key} is for shared and exclusive holders as long as it is used, and has not {said} permits: ask as they do, or wait until nobody uses it"
        ),
        _ => format!(
            "{key} has {are} permits as long as it is used, and not {said}: say the same number everywhere, or wait until nobody uses it"
        ),
    })
}

fn full(key: &crate::Key, most: usize) -> StoreError {
    StoreError::invalid(format!(
        "{key} has too many holders and waiters for one record of {most} bytes; divide them among several semaphores"
    ))
}
