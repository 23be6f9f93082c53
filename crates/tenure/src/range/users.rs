//! Who waits for what of a section.

use std::collections::BTreeMap;
use tenure_core::LeaseId;
use tenure_core::section::SectionNotice;
use tokio::sync::oneshot;

/// Who waits for what.
#[derive(Default)]
pub(super) struct SectionUsers {
    waiting: BTreeMap<LeaseId, oneshot::Sender<SectionNotice>>,
    stopped: Vec<oneshot::Sender<()>>,
    over: bool,
}

impl SectionUsers {
    /// After the end nobody would answer: the sender is dropped, and with it the wait ends.
    pub(super) fn wait(&mut self, lease: LeaseId, sender: oneshot::Sender<SectionNotice>) {
        if !self.over {
            self.waiting.insert(lease, sender);
        }
    }

    pub(super) fn take(&mut self, lease: LeaseId) -> Option<oneshot::Sender<SectionNotice>> {
        self.waiting.remove(&lease)
    }

    /// Told when everything is finished; none if it is.
    pub(super) fn stopped(&mut self) -> Option<oneshot::Receiver<()>> {
        let (sender, stopped) = oneshot::channel();
        (!self.over).then(|| {
            self.stopped.push(sender);
            stopped
        })
    }

    pub(super) fn end(&mut self) {
        self.over = true;
        self.waiting.clear();
        for stopped in std::mem::take(&mut self.stopped) {
            // Perhaps nobody waits any more.
            let _ = stopped.send(());
        }
    }
}
