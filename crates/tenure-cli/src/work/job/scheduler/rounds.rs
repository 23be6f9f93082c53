//! Looking at what there is to do: rounds through the open units, page by page, and listings of all of them.

use super::{Event, SHORT, Scheduler};
use crate::stores::pages::PAGE;
use std::time::Duration;
use tenure::clock::boottime;
use tenure::{Key, Listed, Store, StoreError};

impl Scheduler {
    /// The round is over, and there is room for more: begin another, list everything, or find that all is settled.
    pub(super) fn next_round(&mut self) {
        let now = boottime();
        if self.claiming > 0 || self.is_auditing || now < self.next_round {
            return;
        }
        let counts = self.board.counts();
        if counts.open + counts.ours == 0 && self.incoming.is_open() {
            // Nothing to do before more comes.
            return;
        }
        if self.audit_due || counts.open + counts.ours == 0 {
            self.audit();
            return;
        }
        if counts.open == 0 {
            // All that is left is ours. Others may add units meanwhile.
            if now >= self.next_audit {
                self.audit();
            }
            if !self.board.merge() {
                return;
            }
        }
        if self.won_in_round > 0 {
            self.gap = SHORT;
        } else {
            let longest = (self.plan.ttl / 10).clamp(SHORT, Duration::from_secs(1));
            // Looking in vain must not cost more than a fifth of the time.
            self.gap = (self.gap * 2).min(longest).max(self.fetching_took * 5);
        }
        self.won_in_round = 0;
        self.fetching_took = Duration::ZERO;
        self.next_round = now + self.gap;
        if let Some(due) = self.board.next_due {
            // Sooner if a unit's next attempt is due sooner.
            let due = now + Duration::from_millis(due.saturating_sub(self.wall()) + 1);
            self.next_round = self.next_round.min(due.max(now + SHORT));
        }
        self.board.merge();
        self.seed = self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1);
        self.board.begin_round(self.seed);
        if let Some((after, limit)) = self.board.next_page() {
            self.fetch(after, limit);
        }
    }

    pub(super) fn fetch(&mut self, after: Option<Key>, limit: usize) {
        self.is_fetching = true;
        let (store, prefix, sender) = (self.leases.store().clone(), self.name.prefix(), self.sender.clone());
        tokio::spawn(async move {
            let began = boottime();
            let page = store.list(&prefix, after.as_ref(), limit).await;
            let _over = sender.send(Event::Page { page, took: boottime().saturating_sub(began) });
        });
    }

    /// Lists everything, page by page.
    pub(super) fn audit(&mut self) {
        self.is_auditing = true;
        self.audit_due = false;
        self.audit_took = Duration::ZERO;
        self.audit_page(None);
    }

    fn audit_page(&mut self, after: Option<Key>) {
        let (store, prefix, sender) = (self.leases.store().clone(), self.name.prefix(), self.sender.clone());
        tokio::spawn(async move {
            let began = boottime();
            let page = store.list(&prefix, after.as_ref(), PAGE).await;
            let _over = sender.send(Event::Audit { page, took: boottime().saturating_sub(began) });
        });
    }

    pub(super) fn on_audit(&mut self, page: Result<Vec<Listed>, StoreError>, took: Duration) {
        self.audit_took += took;
        if let Ok(page) = &page {
            self.board.refresh(page);
            if let (PAGE, Some(last)) = (page.len(), page.last()) {
                return self.audit_page(Some(last.key.clone()));
            }
        }
        self.is_auditing = false;
        // Looking must not cost more than a twentieth of the time.
        self.next_audit = boottime() + (self.audit_took * 20).max(Duration::from_secs(2));
        match page {
            Ok(_) => {
                self.trouble = None;
                self.board.merge();
                let counts = self.board.counts();
                self.is_settled = counts.open + counts.ours == 0;
            }
            Err(error) => {
                self.audit_due = true;
                self.on_trouble(&error);
            }
        }
    }
}
