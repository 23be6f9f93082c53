//! Answered, in sections: each command is answered exactly once, by what `SectionCommand` says; also those that are under way when
//! the section is stopped, and before that is told.
//!
//! Source: `tenure_core::section::SectionCommand`. A lease that is given up is told as given up once, however often it was, and
//! nothing else is told of it any more.

use std::collections::BTreeMap;
use tenure_core::LeaseId;
use tenure_core::section::{SectionCommand, SectionNotice};

/// What a process was asked for and has not answered.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    open: BTreeMap<LeaseId, Kind>,
    stopping: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Acquire,
    GiveUp,
    List,
    Reclaim,
}

impl Asked {
    pub(crate) fn ask(&mut self, command: &SectionCommand) {
        let (lease, kind) = match command {
            SectionCommand::Acquire(lease, ..) => (*lease, Kind::Acquire),
            SectionCommand::Release(lease) | SectionCommand::Lapse(lease) => (*lease, Kind::GiveUp),
            SectionCommand::List(lease) => (*lease, Kind::List),
            SectionCommand::Reclaim(lease) => (*lease, Kind::Reclaim),
            SectionCommand::Stop => return self.stopping = true,
        };
        self.open.insert(lease, kind);
    }

    pub(crate) fn answer(&mut self, notice: &SectionNotice) -> Result<(), String> {
        let (lease, of): (LeaseId, &[Kind]) = match notice {
            SectionNotice::Obtained { lease, .. } => (*lease, &[Kind::Acquire]),
            SectionNotice::Failed(lease, _) => (*lease, &[Kind::Acquire, Kind::List, Kind::Reclaim]),
            SectionNotice::Released(lease, _) => (*lease, &[Kind::GiveUp]),
            SectionNotice::Listed(lease, _) => (*lease, &[Kind::List]),
            SectionNotice::Reclaimed(lease, _) => (*lease, &[Kind::Reclaim]),
            SectionNotice::Stopped if !std::mem::take(&mut self.stopping) => {
                return Err("a stop is told that nobody asked for, or once more".to_owned());
            }
            SectionNotice::Stopped => return self.nothing_is_open(),
        };
        match self.open.remove(&lease) {
            Some(kind) if of.contains(&kind) => Ok(()),
            Some(kind) => Err(format!("{kind:?} of {} is answered by {notice:?}", lease.0)),
            None => Err(format!("nobody waits for {notice:?}")),
        }
    }

    pub(crate) fn nothing_is_open(&self) -> Result<(), String> {
        match self.open.first_key_value() {
            Some((lease, kind)) => Err(format!("{kind:?} of {} was never answered", lease.0)),
            None => Ok(()),
        }
    }
}
