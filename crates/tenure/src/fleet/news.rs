//! What a worker's users have not taken up yet.

use super::shared_unit::SharedUnit;
use std::collections::VecDeque;
use std::sync::Arc;
use tenure_core::fleet::Reason;
use tenure_core::{LeaseId, Loss, Tick};

/// In the order in which it happened. A unit's news go with the unit, so there are never more than a few for each that is held.
#[derive(Default)]
pub(super) struct WorkerNews(VecDeque<NewsItem>);

pub(super) enum NewsItem {
    Assigned(Arc<SharedUnit>),
    Draining { unit: String, reason: Reason, until: Tick },
    Lost { unit: String, loss: Loss },
}

impl WorkerNews {
    pub(super) fn add(&mut self, piece: NewsItem) {
        self.0.push_back(piece);
    }

    pub(super) fn take(&mut self) -> Option<NewsItem> {
        self.0.pop_front()
    }

    /// Takes a unit back that nobody has heard of yet. False: somebody has.
    pub(super) fn take_back(&mut self, lease: LeaseId) -> bool {
        let before = self.0.len();
        self.0.retain(|piece| !matches!(piece, NewsItem::Assigned(share) if share.lease == lease));
        self.0.len() < before
    }

    /// Takes all units back: nothing is held any more.
    pub(super) fn take_all_back(&mut self) {
        self.0.retain(|piece| !matches!(piece, NewsItem::Assigned(_)));
    }
}
