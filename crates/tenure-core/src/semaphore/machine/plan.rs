//! The next write of a semaphore: how it changes the record.

use super::deaths::Whom;
use super::{SeenSemaphore, Semaphore, SemaphoreInFlight};
use crate::bugs::Bug;
use crate::holder::ctx::Ctx;
use crate::holder::lease_id::LeaseId;
use crate::op::{Expect, OpId, Write};
use crate::semaphore::SemaphoreFull;
use crate::semaphore::ledger::{SemaphoreLedger, Ticket};
use crate::values::error::StoreError;
use crate::values::fence::{Fence, Nonce, Version};
use crate::values::record::{Attachment, Record};
use crate::values::time::Now;
use std::collections::BTreeSet;

impl Semaphore {
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
        let is_haunted = self.may_land() && self.jobs.due(ctx.now).next().is_some();
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
        let waits = self.jobs.wanted().any(|(_, wanted)| seen.ledger.has(wanted.id));
        waits && now.held >= self.looks_at()
    }

    /// Takes out the claims of the dead, and what of our own nobody wants.
    fn take_out(&self, ctx: &Ctx<'_>, own: &Attachment, ledger: &mut SemaphoreLedger) -> bool {
        let bugs = ctx.rules.bugs;
        let known: BTreeSet<Nonce> = self.jobs.ids().collect();
        let mut giving: BTreeSet<Nonce> = self.jobs.due(ctx.now).collect();
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
            let is_dead = self.deaths.is_dead(attachment);
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
        for (lease, wanted) in self.jobs.wanted() {
            if ledger.has(wanted.id) {
                continue;
            }
            let (wish, is_fresh) = (&wanted.wish, seen.op > wanted.born);
            if ledger.is_empty() {
                ledger.permits = wish.permits;
            }
            let is_judged = self.deaths.has_looked_since(wanted.born)
                || self.deaths.in_the_way(&seen.ledger, own, Whom::All).is_empty();
            if ledger.permits != wish.permits {
                if is_fresh && is_judged {
                    over.push((lease, Some(differs(&self.key, ledger.permits, wish.permits))));
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
                added.push((lease, wanted.id, is_fresh && is_judged));
            } else if is_fresh && is_judged {
                over.push((lease, None));
            } else {
                needs_look = true;
            }
        }
        while !added.is_empty() && ledger.most_bytes() > self.most_bytes {
            let Some((lease, id, is_known)) = added.pop() else { break };
            ledger.remove(|ticket| ticket.id == id);
            // There may be room by now. And nobody in the record may live, so whoever finds none in it looks for the dead.
            if is_known || bugs.has(Bug::FullRemembered) {
                over.push((lease, Some(full(&self.key, self.most_bytes))));
            } else {
                needs_look = true;
            }
        }
        let added = added.into_iter().map(|(lease, ..)| lease).collect();
        for (lease, error) in over {
            self.jobs.give_up(lease, error.ok_or_else(|| seen.ledger.occupant()));
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
        self.jobs.sent(ctx.now, added);
        self.is_known = true;
        self.flight = Some(SemaphoreInFlight::Writing { op, ledger: Box::new(ledger), fence, version, over });
    }
}

fn differs(key: &crate::Key, are: u32, said: u32) -> StoreError {
    let permits = |n: u32| if n == 1 { "1 permit".to_owned() } else { format!("{n} permits") };
    let (its, ours) = (permits(are), permits(said));
    // Whoever is merely shared or exclusive has said no number.
    StoreError::invalid(match (are, said) {
        (_, SemaphoreLedger::MOST_PERMITS) => format!(
            "{key} has {its} as long as it is used, and is not for shared and exclusive holders: ask for permits, or wait until nobody uses it"
        ),
        (SemaphoreLedger::MOST_PERMITS, _) => format!(
            "{key} is for shared and exclusive holders as long as it is used, and has not {ours}: ask as they do, or wait until nobody uses it"
        ),
        _ => format!(
            "{key} has {its} as long as it is used, and not {said}: say the same number everywhere, or wait until nobody uses it"
        ),
    })
}

fn full(key: &crate::Key, most: usize) -> StoreError {
    let full = SemaphoreFull { key: key.clone(), most };
    StoreError::invalid(full.to_string()).because(full)
}
