//! Who waits for what of a section, and the sink of the machine's notices that tells them.

use super::section::SharedSection;
use crate::driver::Sink;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Weak;
use tenure_core::LeaseId;
use tenure_core::section::{Section, SectionCommand, SectionNotice};
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

    fn end(&mut self) {
        self.over = true;
        self.waiting.clear();
        for stopped in std::mem::take(&mut self.stopped) {
            // Perhaps nobody waits any more.
            let _ = stopped.send(());
        }
    }
}

pub(super) struct SectionSink {
    pub(super) inner: Weak<SharedSection>,
}

/// The driver is gone, by a panic or with its runtime: nobody is to wait for it.
impl Drop for SectionSink {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.upgrade() {
            inner.users().end();
        }
    }
}

impl Sink<Section> for SectionSink {
    fn tell(&mut self, notice: SectionNotice, commands: &mut Vec<SectionCommand>) -> ControlFlow<()> {
        let inner = self.inner.upgrade();
        let lease = match &notice {
            SectionNotice::Stopped => {
                if let Some(inner) = inner {
                    inner.users().end();
                }
                return ControlFlow::Break(());
            }
            SectionNotice::Obtained { lease, .. } => *lease,
            SectionNotice::Failed(lease, _)
            | SectionNotice::Released(lease, _)
            | SectionNotice::Listed(lease, _)
            | SectionNotice::Reclaimed(lease, _) => *lease,
        };
        let sender = inner.and_then(|inner| inner.users().take(lease));
        let is_lease = matches!(&notice, SectionNotice::Obtained { fence: Some(_), .. });
        if sender.is_none_or(|sender| sender.send(notice).is_err()) && is_lease {
            // Whoever asked has gone away.
            commands.push(SectionCommand::Release(lease));
        }
        ControlFlow::Continue(())
    }
}
