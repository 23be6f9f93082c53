//! What must come about once all faults have healed.

use super::{PermitView, SemaphoreDue, What, World};
use crate::invariants::Rule;
use crate::kernel::fault::FaultKind;
use crate::kernel::trace::Story;
use tenure_core::semaphore::{Grant, SemaphoreLedger, Ticket};
use tenure_core::{Holder, LeaseId};

impl World {
    /// Whether the process that made this claim runs, on the same session.
    pub(super) fn lives(&self, ticket: &Ticket) -> bool {
        self.nodes.iter().any(|node| {
            let fence = node.machine.as_ref().and_then(Holder::session_fence);
            node.who == ticket.holder && node.acts() && fence == Some(ticket.attachment.fence)
        })
    }

    /// The keys that may be looked at: of one that is forbidden nobody hears anything.
    fn permitted(&self) -> Vec<usize> {
        let is_forbidden = |key: &usize| self.store.is_forbidden(&self.scene.keys[*key]);
        (0..self.scene.keys.len()).filter(|key| !is_forbidden(key)).collect()
    }

    pub(super) fn look(&mut self) {
        if self.healed.is_none() {
            return;
        }
        self.at(self.t + self.per_mille(100), What::Own(SemaphoreDue::Look));
        let is_scarce = self.scenario.most_bytes < SemaphoreLedger::MAX_BYTES;
        let bound = if self.scenario.trying == 100 || is_scarce { 2500 } else { 1700 };
        let (mut untold, mut dead, mut strays) = (Vec::new(), Vec::new(), Vec::new());
        for key in self.permitted() {
            let ledger = self.ledger(key);
            let is_told =
                |grant: &&Grant| self.is_told(key, grant) || self.scene.put_back.contains(&grant.ticket.id);
            let live = ledger.holders.iter().filter(|grant| self.lives(&grant.ticket));
            untold.extend(live.filter(|grant| !is_told(grant)).map(|grant| grant.ticket.id));
            if self.scenario.trying == 100 {
                // Nobody waits: those who try find out who is dead.
                let gone = ledger.holders.iter().filter(|grant| !self.lives(&grant.ticket));
                dead.extend(gone.map(|grant| (grant.ticket.id, grant.ticket.id)));
            }
            if is_scarce && self.is_full_of_the_dead(&ledger) {
                dead.extend(ledger.tickets().map(|ticket| (ticket.id, ticket.id)));
            }
            for waiter in ledger.queue.iter().filter(|ticket| self.lives(ticket)) {
                let place = ledger.place(waiter.id).unwrap_or(0);
                let ahead = ledger.holders.iter().map(|grant| &grant.ticket).chain(&ledger.queue[..place]);
                dead.extend(ahead.filter(|ticket| !self.lives(ticket)).map(|ticket| (ticket.id, waiter.id)));
                let stray = ledger
                    .holders
                    .iter()
                    .filter(|grant| self.lives(&grant.ticket) && !self.is_known(key, grant));
                strays.extend(stray.map(|grant| (grant.ticket.id, waiter.id)));
            }
        }
        // A poll is a quarter of a ttl at the most.
        if let Some(id) = self.scene.untold.look(self.t, self.per_mille(500), untold) {
            self.check(Rule::L5, Err(format!("claim {id} was granted, and its user is not told")));
        }
        if let Some((id, _)) = self.scene.dead.look(self.t, self.per_mille(bound), dead) {
            self.check(Rule::L5, Err(format!("claim {id} is of the dead, and in the way of who waits")));
        }
        // They are asked about one after the other, each after two ttls.
        if let Some((id, _)) = self.scene.strays.look(self.t, self.per_mille(8000), strays) {
            self.check(
                Rule::L5,
                Err(format!("nobody knows of claim {id}, and it is in the way of who waits")),
            );
        }
        // What the store refuses for good is answered when the session ends.
        let is_forbidden = |lease: &LeaseId| {
            let views = self.nodes.iter().filter_map(|node| node.own.views.get(lease));
            let views = views.filter(|view| view.is_ending());
            views.map(|view| &self.scene.keys[view.key]).any(|key| self.store.is_forbidden(key))
        };
        let mut late = self.scene.late.iter().filter(|(lease, _)| !is_forbidden(lease));
        let late = late.find(|(_, since)| self.t - **since > self.per_mille(1700));
        if let Some((lease, _)) = late {
            let found = Err(format!("a command about {} is not answered", lease.0));
            self.check(Rule::Answered, found);
        }
        self.check_behind();
    }

    /// Whether the user was told of a grant that is a live process's.
    fn is_told(&self, key: usize, grant: &Grant) -> bool {
        let node = self.nodes.iter().find(|node| node.who == grant.ticket.holder);
        node.is_some_and(|node| node.own.told.contains(&(key, grant.fence)))
    }

    /// Whether somebody there still has it, if it was put back by hand.
    fn is_known(&self, key: usize, grant: &Grant) -> bool {
        if !self.scene.put_back.contains(&grant.ticket.id) {
            return true;
        }
        let node = self.nodes.iter().find(|node| node.who == grant.ticket.holder);
        let holds = |view: &PermitView| view.key == key && view.fence() == Some(grant.fence);
        node.is_some_and(|node| node.own.views.values().any(holds))
    }

    /// S10: what was done behind a holder's back has reached it when its session was renewed once for each key and once more.
    fn check_behind(&mut self) {
        let Some(healed) = self.healed else { return };
        if self.t - healed < self.per_mille(2500) {
            return;
        }
        let shows = |ledger: &SemaphoreLedger, fence| ledger.holders.iter().any(|grant| grant.fence == fence);
        for key in self.permitted() {
            let ledger = self.ledger(key);
            for node in self.nodes.iter().filter(|node| node.acts()) {
                let held =
                    node.own.views.values().filter(|view| view.key == key).filter_map(PermitView::fence);
                let behind = |fence: &tenure_core::Fence| {
                    self.scene.behind.contains(&(key, *fence)) && !shows(&ledger, *fence)
                };
                if let Some(fence) = held.into_iter().find(behind) {
                    let who = node.who.clone();
                    let found =
                        Err(format!("{who} holds fence {fence} of k{key}, and its record does not show it"));
                    return self.check(Rule::S10, found);
                }
            }
        }
    }

    /// In the calm, somebody dies now and then, and whoever waits is served in time.
    pub(super) fn death(&mut self) {
        if self.healed.is_none() {
            return;
        }
        self.later(self.per_mille(4000), What::Own(SemaphoreDue::Death));
        let index = self.rng.index(self.nodes.len());
        if self.nodes[index].acts() {
            self.tally.faults[FaultKind::Crash as usize] += 1;
            self.tell(|world| Story::Fault(Some(world.name(index)), "dies in the calm".to_owned()));
            self.kill(index);
        }
    }
}
