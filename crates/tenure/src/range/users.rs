//! Who waits for what of a section, and the sink of the machine's notices that tells them.

use super::section::Inner;
use crate::driver::Sink;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Weak;
use tenure_core::LeaseId;
use tenure_core::section::{Section, SectionCommand, SectionNotice};
use tokio::sync::oneshot;

pub(super) type Replies = BTreeMap<LeaseId, oneshot::Sender<SectionNotice>>;

pub(super) struct Told {
    pub(super) inner: Weak<Inner>,
}

impl Sink<Section> for Told {
    fn tell(&mut self, notice: SectionNotice, commands: &mut Vec<SectionCommand>) -> ControlFlow<()> {
        let lease = match &notice {
            SectionNotice::Stopped => return ControlFlow::Break(()),
            SectionNotice::Obtained { lease, .. } => *lease,
            SectionNotice::Failed(lease, _)
            | SectionNotice::Released(lease, _)
            | SectionNotice::Listed(lease, _)
            | SectionNotice::Reclaimed(lease, _) => *lease,
        };
        let sender = self.inner.upgrade().and_then(|inner| inner.replies().remove(&lease));
        let is_lease = matches!(&notice, SectionNotice::Obtained { fence: Some(_), .. });
        if sender.is_none_or(|sender| sender.send(notice).is_err()) && is_lease {
            // Whoever asked has gone away.
            commands.push(SectionCommand::Release(lease));
        }
        ControlFlow::Continue(())
    }
}
