//! What goes wrong with the processes, and what others do to the item.

use super::super::{SKEW, seconds_of};
use super::{ManagersEvent, ManagersWorld};
use crate::item;
use crate::machine::ItemRequest;
use std::sync::Arc;
use tenure_dynamodb::aws_sdk_dynamodb::types::AttributeValue;
use tenure_dynamodb::service::{Item, number, text};

/// How far a clock is set back, in milliseconds: longer than any lease.
const SET_BACK: u64 = 60_000;

impl ManagersWorld {
    /// An operator deletes the item, or writes another one over it that is no lease, and later removes that.
    pub(super) fn hand(&mut self) {
        let lease = self.standing();
        let is_foreign = self.table.0.is_some() && lease.is_none();
        if !self.is_rough() || !self.faults.hands {
            self.table.0.take_if(|_| is_foreign);
            return;
        }
        if let Some(lease) = lease {
            self.undone.insert(lease.token);
        }
        self.table.0 = (!is_foreign && self.rng.one_in(3)).then(|| {
            let mut item: Item = [("pk".to_owned(), text("job")), ("sk".to_owned(), text("LOCK"))].into();
            if self.rng.one_in(2) {
                item.insert("lease_expires_at".to_owned(), number(1));
            }
            item
        });
        let next = if self.table.0.is_some() { 8_000 } else { 40_000 };
        let next = 1 + self.rng.below(next);
        self.push(next, ManagersEvent::Hand);
    }

    /// DynamoDB deletes the item some time after its ttl.
    pub(super) fn sweep(&mut self) {
        let ttl = self.table.0.as_ref().and_then(|item| item.get("ttl").cloned());
        if let Some(AttributeValue::N(ttl)) = ttl
            && seconds_of(self.at) > ttl.parse::<i64>().unwrap()
        {
            self.table.0 = None;
            self.counts.swept += 1;
        }
        let next = 1 + self.rng.below(2_000);
        self.push(next, ManagersEvent::Sweep);
    }

    /// Some process's wall clock is set, within what clocks may differ.
    pub(super) fn set_clock(&mut self) {
        let n = self.rng.below(self.processes.len() as u64) as usize;
        self.processes[n].ahead = self.rng.below(self.faults.apart + 1);
        let next = 1 + self.rng.below(10_000);
        self.push(next, ManagersEvent::SetClock);
    }

    /// Some process stands still for a while. Its clock may be wrong meanwhile.
    pub(super) fn stall(&mut self) {
        if !self.is_rough() || !self.faults.stalls {
            return;
        }
        let n = self.rng.below(self.processes.len() as u64) as usize;
        let span = self.rng.below(15_000);
        if self.processes[n].frozen <= self.at {
            self.processes[n].frozen = self.at + span;
            if self.faults.sets_back && self.rng.one_in(2) {
                self.processes[n].set_back = SET_BACK;
                self.push(span, ManagersEvent::SetRight(n));
            }
        }
        let next = 1 + self.rng.below(10_000);
        self.push(next, ManagersEvent::Stall);
    }

    /// Some process dies and begins anew. What it has sent may still arrive.
    pub(super) fn crash(&mut self) {
        if !self.is_rough() || !self.faults.crashes {
            return;
        }
        let n = self.rng.below(self.processes.len() as u64) as usize;
        for caller in 0..self.callers.len() {
            if self.callers[caller].process == n {
                self.forget(caller);
                self.callers[caller].running = None;
                self.callers[caller].call += 1;
                self.wake_in(caller, 5_000);
            }
        }
        self.processes[n].orphans = Arc::default();
        self.processes[n].starts += 1;
        let next = 1 + self.rng.below(30_000);
        self.push(next, ManagersEvent::Crash);
    }

    /// The lease is not wanted any more. Its token is handed over if nothing that was asked with it is on its way: whoever has it next knows of
    /// nothing else.
    pub(super) fn forget(&mut self, n: usize) {
        let Some(lease) = self.callers[n].lease.take() else { return };
        self.callers[n].gives_back = false;
        let is_quiet = lease.next().is_none()
            && !self.queue.values().any(|event| match event {
                ManagersEvent::Lands { request, .. } => asked_with(request) == Some(&lease.token),
                _ => false,
            });
        if is_quiet && self.faults.hands_over {
            self.relic = Some(lease.token);
        }
    }

    /// The item, if it is a lease.
    pub(super) fn standing(&self) -> Option<item::ItemLease> {
        self.table.0.as_ref().and_then(|item| item::read(&self.options.names, item).ok())
    }

    /// By how much longer than it should one of ours may believe, by the clocks of this world.
    pub(super) fn excess(&self) -> u64 {
        self.faults.apart.saturating_sub(SKEW)
    }
}

/// The token that a write is about.
fn asked_with(request: &ItemRequest) -> Option<&String> {
    match request {
        ItemRequest::Claim { claim, .. } => Some(&claim.token),
        ItemRequest::Refresh { token, .. } | ItemRequest::Release { token } => Some(token),
        ItemRequest::Look => None,
    }
}
