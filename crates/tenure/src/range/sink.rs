//! The sink of a section's notices, which tells whoever waits for them.

use super::shared::SharedSection;
use crate::driver::Sink;
use std::ops::ControlFlow;
use std::sync::Weak;
use tenure_core::section::{SectionCommand, SectionMachine, SectionNotice};

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

impl Sink<SectionMachine> for SectionSink {
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
