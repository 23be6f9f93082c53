//! Looking at what there is to do: rounds through the open units, page by page, and listings of all of them.

use super::{Event, SHORT, Scheduler};
use crate::stores::pages::PAGE;
use crate::work::job::board::ClaimTerms;
use std::time::Duration;
use tenure::clock::boottime;
use tenure::store::Listed;
use tenure::{Key, Store, StoreError};

/// When to look, and at what.
pub(super) struct Rounds {
    /// What the order of a round is drawn from.
    seed: u64,
    /// A page of the open units is under way.
    is_fetching: bool,
    /// What the pages of this round have taken.
    fetching_took: Duration,
    next: Duration,
    gap: Duration,
    /// Units that were had in this round.
    won: usize,
    /// A listing of all units is under way.
    is_listing: bool,
    /// What its pages have taken.
    listing_took: Duration,
    /// Units may have been added, or removed: list them all.
    is_listing_due: bool,
    next_listing: Duration,
    /// Nothing open is left, and a listing after that showed nothing new.
    is_settled: bool,
}

impl Rounds {
    pub(super) fn new(seed: u64, now: Duration) -> Rounds {
        Rounds {
            seed,
            is_fetching: false,
            fetching_took: Duration::ZERO,
            next: now,
            gap: SHORT,
            won: 0,
            is_listing: false,
            listing_took: Duration::ZERO,
            is_listing_due: false,
            next_listing: now + Duration::from_secs(1),
            is_settled: false,
        }
    }

    pub(super) fn is_fetching(&self) -> bool {
        self.is_fetching
    }

    pub(super) fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// Whether all units may be listed again, to show how far the job is.
    pub(super) fn may_list(&self, now: Duration) -> bool {
        !self.is_listing && now >= self.next_listing
    }

    /// How long there is nothing to look at, if there is.
    pub(super) fn pause(&self, now: Duration) -> Option<Duration> {
        (self.next > now).then(|| self.next - now)
    }

    /// A page of the open units has come.
    fn fetched(&mut self, took: Duration) {
        self.is_fetching = false;
        self.fetching_took += took;
    }

    /// A unit was had.
    pub(super) fn won(&mut self) {
        self.won += 1;
    }

    /// The next round is not before this.
    pub(super) fn look_at(&mut self, at: Duration) {
        self.next = at;
    }

    /// Somebody may have added units, or removed some.
    pub(super) fn list_all(&mut self) {
        self.is_listing_due = true;
    }

    /// Units were added.
    pub(super) fn unsettle(&mut self) {
        self.is_settled = false;
    }
}

impl Scheduler {
    /// The round is over, and there is room for more: begin another, list everything, or find that all is settled.
    pub(super) fn next_round(&mut self) {
        let now = boottime();
        if self.prefetch.claiming() > 0 || self.rounds.is_listing || now < self.rounds.next {
            return;
        }
        let counts = self.board.counts();
        if counts.open + counts.ours == 0 && self.incoming.is_open() {
            // Nothing to do before more comes.
            return;
        }
        if self.rounds.is_listing_due || counts.open + counts.ours == 0 {
            self.audit();
            return;
        }
        if counts.open == 0 {
            // All that is left is ours. Others may add units meanwhile.
            if now >= self.rounds.next_listing {
                self.audit();
            }
            if !self.board.merge() {
                return;
            }
        }
        if self.rounds.won > 0 {
            self.rounds.gap = SHORT;
        } else {
            let longest = (self.plan.ttl / 10).clamp(SHORT, Duration::from_secs(1));
            // Looking in vain must not cost more than a fifth of the time.
            self.rounds.gap = (self.rounds.gap * 2).min(longest).max(self.rounds.fetching_took * 5);
        }
        self.rounds.won = 0;
        self.rounds.fetching_took = Duration::ZERO;
        self.rounds.next = now + self.rounds.gap;
        if let Some(due) = self.board.next_due() {
            // Sooner if a unit's next attempt is due sooner.
            let due = now + Duration::from_millis(due.saturating_sub(self.wall()) + 1);
            self.rounds.next = self.rounds.next.min(due.max(now + SHORT));
        }
        self.board.merge();
        self.rounds.seed = self.rounds.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1);
        self.board.begin_round(self.rounds.seed);
        if let Some((after, limit)) = self.board.next_page() {
            self.fetch(after, limit);
        }
    }

    pub(super) fn fetch(&mut self, after: Option<Key>, limit: usize) {
        self.rounds.is_fetching = true;
        let (store, prefix, sender) = (self.leases.store().clone(), self.name.prefix(), self.sender.clone());
        tokio::spawn(async move {
            let began = boottime();
            let page = store.list(&prefix, after.as_ref(), limit).await;
            let _over = sender.send(Event::Page { page, took: boottime().saturating_sub(began) });
        });
    }

    pub(super) fn on_page(&mut self, page: Result<Vec<Listed>, StoreError>, took: Duration) {
        self.rounds.fetched(took);
        match page {
            Ok(page) => {
                self.trouble.end();
                let terms = ClaimTerms { now: self.wall(), worker: self.leases.holder().as_str() };
                if !self.board.take_in(page, &terms, self.rounds.seed) {
                    // A unit seems to be gone: only a listing of all tells for certain.
                    self.rounds.list_all();
                }
            }
            Err(error) => self.on_trouble(&error),
        }
    }

    /// Lists everything if the last listing was long ago.
    pub(super) fn list_now_and_then(&mut self) {
        if self.rounds.may_list(boottime()) {
            self.audit();
        }
    }

    /// Lists everything, page by page.
    pub(super) fn audit(&mut self) {
        self.rounds.is_listing = true;
        self.rounds.is_listing_due = false;
        self.rounds.listing_took = Duration::ZERO;
        self.board.begin_listing();
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
        self.rounds.listing_took += took;
        if let Ok(page) = &page {
            self.board.refresh(page);
            if let (PAGE, Some(last)) = (page.len(), page.last()) {
                return self.audit_page(Some(last.key.clone()));
            }
        }
        self.rounds.is_listing = false;
        // Looking must not cost more than a twentieth of the time.
        self.rounds.next_listing = boottime() + (self.rounds.listing_took * 20).max(Duration::from_secs(2));
        match page {
            Ok(_) => {
                self.trouble.end();
                // Nobody will settle what is gone: who waited for that would wait for ever.
                self.board.end_listing();
                self.board.merge();
                let counts = self.board.counts();
                self.rounds.is_settled = counts.open + counts.ours == 0 && !self.incoming.is_open();
            }
            Err(error) => {
                self.rounds.is_listing_due = true;
                self.on_trouble(&error);
            }
        }
    }
}
