//! The audit: a slow look at the records of leases attached to the session, a few after each of its renewals, in turn.
//!
//! A lease that renews itself meets its own record a few times in each ttl. An attached lease never does. If its record were deleted,
//! or an older copy put in its place, it would never notice. The audit finds that within ⌈n / [`Rules::AUDIT`]⌉ + 1
//! renewals for n leases, and costs less than the renewals do, whatever n is. A finding in a recent state is checked
//! in the latest state before anything follows from it.
//!
//! [`Rules::AUDIT`]: crate::Rules::AUDIT

use crate::bugs::Bug;
use crate::holder::Holder;
use crate::holder::ctx::OpOwner;
use crate::holder::lease::LeaseState;
use crate::holder::lease_id::LeaseId;
use crate::holder::loss::Loss;
use crate::holder::notice::Notice;
use crate::op::{Answer, Freshness, Listed, OpId};
use crate::rules::Rules;
use crate::values::error::StoreError;
use crate::values::key::Key;
use crate::values::record::Record;
use crate::values::time::Now;
use std::collections::BTreeSet;

/// The most leases that are passed over for one turn: those that are being claimed or changed need no audit.
const PASSED: usize = 64;

/// Where the audit is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Audit {
    /// Where the next turn begins.
    next: LeaseId,
    /// Leases whose records seem to show something else: the latest state tells.
    doubtful: BTreeSet<LeaseId>,
    look: Option<AuditRead>,
}

/// A read under way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct AuditRead {
    op: OpId,
    leases: Vec<LeaseId>,
    freshness: Freshness,
}

impl Default for Audit {
    fn default() -> Self {
        Audit { next: LeaseId(0), doubtful: BTreeSet::new(), look: None }
    }
}

impl Holder {
    /// The session was renewed: time to look at a few more of what is attached to it.
    pub(crate) fn audit(&mut self, now: Now) {
        if self.audit.look.is_some() || self.env.rules.bugs.has(Bug::AttachedUnaudited) {
            return;
        }
        let most = self.env.rules.audit;
        let (leases, freshness) = if self.audit.doubtful.is_empty() {
            (self.next_attached(most), Freshness::Recent)
        } else {
            // What is held no more must not take the places of the others.
            let doubtful = self.audit.doubtful.iter().filter(|id| self.attached_key(**id).is_some());
            (doubtful.copied().take(most.max(Rules::AUDIT)).collect(), Freshness::Latest)
        };
        // A key may be held twice, by one lease that does not know yet that it is lost.
        let keys: BTreeSet<Key> = leases.iter().filter_map(|id| self.attached_key(*id)).collect();
        if keys.is_empty() {
            self.audit.doubtful.clear();
            return;
        }
        let (keys, ttl) = (keys.into_iter().collect(), self.env.identity.ttl);
        let op = self.lend(now, OpOwner::Audit, |ctx| ctx.read_many(keys, freshness, ttl));
        self.audit.look = Some(AuditRead { op, leases, freshness });
    }

    /// Somebody has reason to doubt that the record still shows this lease.
    pub(crate) fn examine(&mut self, now: Now, id: LeaseId) {
        self.audit.doubtful.insert(id);
        self.audit(now);
    }

    fn next_attached(&mut self, most: usize) -> Vec<LeaseId> {
        if most == 0 {
            return Vec::new();
        }
        let (page, next) = self.leases.page(self.audit.next, PASSED.max(most));
        let mut attached =
            page.into_iter().filter(|(_, lease)| matches!(lease, LeaseState::Attached(_))).map(|(id, _)| id);
        let turn: Vec<LeaseId> = attached.by_ref().take(most).collect();
        // The rest of the page has its turn next time; after the last one, all begins anew.
        self.audit.next = attached.next().or(next).unwrap_or(LeaseId(0));
        turn
    }

    fn attached_key(&self, id: LeaseId) -> Option<Key> {
        match self.leases.get(&id) {
            Some(LeaseState::Attached(attached)) => Some(attached.key().clone()),
            _ => None,
        }
    }

    pub(crate) fn answer_audit(&mut self, now: Now, op: OpId, result: Result<Answer, StoreError>) {
        let Some(look) = self.audit.look.take_if(|look| look.op == op) else { return };
        // Trouble is no look: what was doubted stays so, and the others have their turn again.
        let Ok(Answer::Listed(records)) = result else { return };
        for id in look.leases {
            let was_doubted = look.freshness == Freshness::Latest && self.audit.doubtful.remove(&id);
            // What is being changed meets its record by itself.
            let Some(LeaseState::Attached(attached)) = self.leases.get(&id) else { continue };
            let found = records.iter().find(|listed| listed.key == *attached.key());
            let record = match found {
                None => None,
                Some(Listed { stored: Ok(stored), .. }) => Some(&stored.record),
                // What can't be read can't be had by anybody else either.
                Some(Listed { stored: Err(_), .. }) => continue,
            };
            if self.shows(id, record) {
                continue;
            }
            if was_doubted {
                self.deposed(now, id, record);
            } else {
                self.audit.doubtful.insert(id);
            }
        }
        if !self.audit.doubtful.is_empty() {
            self.audit(now);
        }
    }

    /// Whether `record` shows the tenure that is held here as this lease.
    fn shows(&self, id: LeaseId, record: Option<&Record>) -> bool {
        let Some(LeaseState::Attached(attached)) = self.leases.get(&id) else { return false };
        let Some(record) = record else { return false };
        let Some(tenure) = &record.tenure else { return false };
        if self.env.rules.bugs.has(Bug::AuditByName) {
            return tenure.holder == self.env.identity.holder;
        }
        tenure.id == attached.id() && record.fence == attached.fence()
    }

    /// The record shows that a lease is over.
    fn deposed(&mut self, now: Now, id: LeaseId, record: Option<&Record>) {
        let Some(LeaseState::Attached(attached)) = self.leases.remove(&id) else { return };
        self.forget_wake(id);
        self.env.detector.end(attached.key());
        self.turns.over(attached.key());
        self.tell(Notice::Lost(id, Loss::shown_by(record, attached.fence())));
        self.look_anew_for_orphan(now, attached.key());
        let session = self.session.attachment();
        let attachment =
            record.and_then(|record| record.tenure.as_ref()).and_then(|tenure| tenure.attachment.as_ref());
        if session.is_some() && attachment == session.as_ref() {
            // An old claim of this very session was put back: nobody else could ever free the key.
            self.settle_orphan(now, attached.key().clone());
        }
    }
}
