//! Who waits for what.

use crate::belief::LeaseCell;
use crate::cells::{EndedLease, LeaseCells};
use crate::ending::Ending;
use crate::error::{AcquireError, LeaseError};
use crate::renewals::Renewals;
use std::collections::BTreeMap;
use std::sync::Arc;
use tenure_core::{Command, Fence, LeaseId, Loss, Metadata, Notice, StoreError, Tick, Token};
use tokio::sync::{mpsc, oneshot};

/// Who waits for what.
pub(crate) struct LeaseUsers {
    pub(crate) cells: LeaseCells,
    pub(crate) replies: BTreeMap<LeaseId, (PendingCommand, oneshot::Sender<CommandReply>)>,
    pub(crate) ending: Ending,
    /// All is being given up: nothing that is acquired is believed in any more.
    pub(crate) is_stopping: bool,
    /// Those who hear all that is told of a lease, in place of a reply.
    pub(crate) listeners: BTreeMap<LeaseId, mpsc::UnboundedSender<HeardNotice>>,
    pub(crate) sessions: Renewals,
    pub(crate) leases: Renewals,
}

/// What is told of a lease, for those who listen.
#[derive(Debug)]
pub(crate) struct HeardNotice {
    pub(crate) notice: Notice,
    /// Of a lease that was acquired.
    pub(crate) cell: Option<Arc<LeaseCell>>,
}

/// What was asked of the machine about a lease. A later question takes the place of one whose asker has gone away, and
/// must not get the earlier one's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PendingCommand {
    Acquire,
    Update,
    Release,
    Lapse,
    Token,
}

impl PendingCommand {
    pub(crate) fn of(command: &Command) -> PendingCommand {
        match command {
            Command::Update(..) => PendingCommand::Update,
            Command::Release(..) | Command::Return(..) => PendingCommand::Release,
            Command::Lapse(_) => PendingCommand::Lapse,
            Command::Detach(..) | Command::Refresh(..) => PendingCommand::Token,
            _ => PendingCommand::Acquire,
        }
    }

    fn is_answered_by(self, reply: &CommandReply) -> bool {
        match reply {
            CommandReply::Acquired { .. } => self == PendingCommand::Acquire,
            CommandReply::Updated => self == PendingCommand::Update,
            CommandReply::Token(_) => self == PendingCommand::Token,
            CommandReply::Released(_) => matches!(self, PendingCommand::Release | PendingCommand::Lapse),
            CommandReply::Refused(_) => !matches!(self, PendingCommand::Release | PendingCommand::Lapse),
            CommandReply::Gone(_) => true,
        }
    }
}

/// The answer to a command.
#[derive(Debug)]
pub(crate) enum CommandReply {
    Acquired { fence: Fence, metadata: Metadata, cell: Arc<LeaseCell> },
    Refused(AcquireError),
    Updated,
    Released(bool),
    Token(Box<Token>),
    Gone(LeaseError),
}

impl LeaseUsers {
    pub(crate) fn new() -> LeaseUsers {
        LeaseUsers {
            cells: LeaseCells::default(),
            replies: BTreeMap::new(),
            ending: Ending::default(),
            is_stopping: false,
            listeners: BTreeMap::new(),
            sessions: Renewals::of_sessions(),
            leases: Renewals::of_leases(),
        }
    }

    /// Tells those who listen to its lease, or all if it is about all.
    pub(crate) fn pass_on(&self, notice: &Notice) {
        let news = || HeardNotice { notice: notice.clone(), cell: None };
        match notice.lease() {
            Some(lease) => {
                if let Some(listener) = self.listeners.get(&lease) {
                    // Whoever has gone away gave its lease up.
                    let _ = listener.send(news());
                }
            }
            None => {
                for listener in self.listeners.values() {
                    let _ = listener.send(news());
                }
            }
        }
    }

    /// Whether a change of a lease has no answer yet, though its asker may have gone away.
    pub(crate) fn is_changing(&self, lease: LeaseId) -> bool {
        self.replies.get(&lease).is_some_and(|(asked, _)| *asked == PendingCommand::Update)
    }

    /// Who is to have this answer, if anybody waits for it.
    pub(crate) fn asker(
        &mut self,
        lease: LeaseId,
        reply: &CommandReply,
    ) -> Option<oneshot::Sender<CommandReply>> {
        let fits = self.replies.get(&lease).is_some_and(|(asked, _)| asked.is_answered_by(reply));
        if fits { self.replies.remove(&lease).map(|(_, asker)| asker) } else { None }
    }

    /// Nothing more is told of a lease. Whoever asked anything else of it than its end hears that it is gone; mostly nobody waits any more.
    pub(crate) fn over(&mut self, lease: LeaseId, loss: &Loss) {
        let waits = self.replies.get(&lease).map(|(asked, _)| *asked);
        if waits.is_none_or(|asked| asked.is_answered_by(&CommandReply::Released(false))) {
            return;
        }
        let asker = self.replies.remove(&lease).map(|(_, asker)| asker);
        // Without an answer the wait ends, too: all is stopped.
        if let Some(asker) = asker.filter(|_| !self.is_stopping) {
            let _ = asker.send(CommandReply::Gone(LeaseError::Lost(loss.clone())));
        }
    }

    /// All hear that it is over.
    pub(crate) fn stop(&mut self, now: Tick) -> Vec<EndedLease> {
        self.replies.clear();
        self.listeners.clear();
        let all = self.cells.end_all(now);
        for ended in &all {
            ended.cell.lost(Loss::Stopped);
        }
        self.ending.end();
        all
    }
}

/// A reply that makes no sense to what was asked, or none because the driver is gone.
pub(crate) fn unexpected(reply: Option<CommandReply>) -> LeaseError {
    match reply {
        None => LeaseError::Stopped,
        Some(CommandReply::Gone(error)) => error,
        Some(CommandReply::Refused(AcquireError::Store(error))) => LeaseError::Store(error),
        Some(other) => {
            LeaseError::Store(StoreError::invalid(format!("two things were asked at a time: {other:?}")))
        }
    }
}
