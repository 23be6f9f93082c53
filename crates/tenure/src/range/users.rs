//! Who waits for what of a section.

use crate::ending::Ending;
use std::collections::BTreeMap;
use tenure_core::LeaseId;
use tenure_core::section::SectionNotice;
use tokio::sync::oneshot;

/// Who waits for what.
#[derive(Default)]
pub(super) struct SectionUsers {
    waiting: BTreeMap<LeaseId, oneshot::Sender<SectionNotice>>,
    pub(super) ending: Ending,
}

impl SectionUsers {
    /// After the end nobody would answer: the sender is dropped, and with it the wait ends.
    pub(super) fn wait(&mut self, lease: LeaseId, sender: oneshot::Sender<SectionNotice>) {
        if !self.ending.is_over() {
            self.waiting.insert(lease, sender);
        }
    }

    pub(super) fn take(&mut self, lease: LeaseId) -> Option<oneshot::Sender<SectionNotice>> {
        self.waiting.remove(&lease)
    }

    pub(super) fn end(&mut self) {
        self.waiting.clear();
        self.ending.end();
    }
}
