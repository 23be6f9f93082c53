//! Answered, in sections: each command is answered exactly once, by what `SectionCommand` says; also those that are under way when
//! the section is stopped, and before that is told. Who asks for all or nothing gets no part.
//!
//! Source: `tenure_core::section::SectionCommand`. A lease that is given up is told as given up once, however often it was, and
//! nothing else is told of it any more.

use std::collections::BTreeMap;
use tenure_core::LeaseId;
use tenure_core::range::RangeSet;
use tenure_core::section::{Portion, SectionCommand, SectionNotice};

/// What a process was asked for and has not answered.
#[derive(Debug, Default)]
pub(crate) struct OpenRequests {
    open: BTreeMap<LeaseId, RequestKind>,
    stopping: bool,
}

#[derive(Debug)]
enum RequestKind {
    Acquire,
    /// All of this, or nothing.
    AcquireAll(RangeSet),
    GiveUp,
    List,
    Reclaim,
}

impl OpenRequests {
    pub(crate) fn ask(&mut self, command: &SectionCommand) {
        let (lease, kind) = match command {
            SectionCommand::Acquire(lease, _, _, Portion::Free) => (*lease, RequestKind::Acquire),
            SectionCommand::Acquire(lease, all, _, Portion::All) => {
                (*lease, RequestKind::AcquireAll(all.clone()))
            }
            SectionCommand::Release(lease) | SectionCommand::Lapse(lease) => (*lease, RequestKind::GiveUp),
            SectionCommand::List(lease) => (*lease, RequestKind::List),
            SectionCommand::Reclaim(lease) => (*lease, RequestKind::Reclaim),
            SectionCommand::Stop => return self.stopping = true,
        };
        self.open.insert(lease, kind);
    }

    pub(crate) fn answer(&mut self, notice: &SectionNotice) -> Result<(), String> {
        let lease = match notice {
            SectionNotice::Obtained { lease, .. } => lease,
            SectionNotice::Failed(lease, _)
            | SectionNotice::Released(lease, _)
            | SectionNotice::Listed(lease, _)
            | SectionNotice::Reclaimed(lease, _) => lease,
            SectionNotice::Stopped if !std::mem::take(&mut self.stopping) => {
                return Err("a stop is told that nobody asked for, or once more".to_owned());
            }
            SectionNotice::Stopped => return self.nothing_is_open(),
        };
        let Some(kind) = self.open.remove(lease) else { return Err(format!("nobody waits for {notice:?}")) };
        match (&kind, notice) {
            (RequestKind::AcquireAll(all), SectionNotice::Obtained { parts, .. })
                if !parts.is_empty() && parts != all =>
            {
                Err(format!("{all} was asked for, or nothing, and {parts} is had"))
            }
            (RequestKind::Acquire | RequestKind::AcquireAll(_), SectionNotice::Obtained { .. })
            | (
                RequestKind::Acquire | RequestKind::AcquireAll(_) | RequestKind::List | RequestKind::Reclaim,
                SectionNotice::Failed(..),
            )
            | (RequestKind::GiveUp, SectionNotice::Released(..))
            | (RequestKind::List, SectionNotice::Listed(..))
            | (RequestKind::Reclaim, SectionNotice::Reclaimed(..)) => Ok(()),
            (kind, _) => Err(format!("{kind:?} of {} is answered by {notice:?}", lease.0)),
        }
    }

    pub(crate) fn nothing_is_open(&self) -> Result<(), String> {
        match self.open.first_key_value() {
            Some((lease, kind)) => Err(format!("{kind:?} of {} was never answered", lease.0)),
            None => Ok(()),
        }
    }
}
