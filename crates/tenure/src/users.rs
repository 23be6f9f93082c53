//! Who waits for what, and the sink of the machine's notices that tells them.

use crate::belief::LeaseCell;
use crate::cells::LeaseCells;
use crate::driver::Sink;
use crate::error::{AcquireError, LeaseError};
use crate::leases::SharedLeases;
use crate::meters;
use crate::prefixes::Prefixes;
use crate::renewals::Renewals;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Weak};
use tenure_core::{Command, Fence, Holder, LeaseId, Loss, Metadata, Notice, StoreError, Tick, Token};
use tokio::sync::{mpsc, oneshot};
use tracing::field::display;

/// Who waits for what.
pub(crate) struct LeaseUsers {
    pub(crate) cells: LeaseCells,
    pub(crate) replies: BTreeMap<LeaseId, (PendingCommand, oneshot::Sender<CommandReply>)>,
    pub(crate) stopped: Vec<oneshot::Sender<()>>,
    /// Those who hear all that is told of a lease, in place of a reply.
    pub(crate) listeners: BTreeMap<LeaseId, mpsc::UnboundedSender<HeardNotice>>,
    pub(crate) over: bool,
    sessions: Renewals,
    leases: Renewals,
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

pub(crate) struct LeaseSink {
    pub(crate) inner: Weak<SharedLeases>,
}

impl Sink<Holder> for LeaseSink {
    fn tell(&mut self, notice: Notice, commands: &mut Vec<Command>) -> ControlFlow<()> {
        let Some(inner) = self.inner.upgrade() else {
            return if notice == Notice::Stopped {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            };
        };
        inner.take(notice, commands)
    }
}

/// The driver is gone, by a panic or with its runtime: nobody is to wait for it, nor believe for long.
impl Drop for LeaseSink {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.upgrade() {
            inner.users().stop(inner.clock.held());
        }
    }
}

impl SharedLeases {
    fn take(&self, notice: Notice, commands: &mut Vec<Command>) -> ControlFlow<()> {
        let now = self.clock.held();
        let mut users = self.users();
        if !matches!(notice, Notice::Acquired { .. }) {
            users.pass_on(&notice);
        }
        let (lease, reply) = match notice {
            Notice::Acquired { lease, fence, until, metadata } => {
                meters::lease_acquired(self.prefixes.of(lease));
                let cell = users.cells.begin(lease, until, now);
                if let Some(listener) = users.listeners.get(&lease) {
                    let notice = Notice::Acquired { lease, fence, until, metadata };
                    if listener.send(HeardNotice { notice, cell: Some(cell) }).is_err() {
                        users.cells.end(lease, now);
                        commands.push(Command::Release(lease, None));
                    }
                    return ControlFlow::Continue(());
                }
                (lease, CommandReply::Acquired { fence, metadata, cell })
            }
            Notice::Held(lease, by) => (lease, CommandReply::Refused(AcquireError::Held(by))),
            Notice::Absent(lease) => (lease, CommandReply::Refused(AcquireError::Absent)),
            Notice::Failed(lease, error) => (lease, CommandReply::Refused(AcquireError::Store(error))),
            Notice::Valid(lease, until) => {
                let LeaseUsers { cells, leases, .. } = &mut *users;
                if let Some(cell) = cells.get(lease) {
                    if let Some(ttl) = cell.name().and_then(|name| name.own_ttl) {
                        leases.extended(&cell.belief, until, self.drift.belief(ttl), now);
                    }
                    cell.belief.set(until);
                }
                return ControlFlow::Continue(());
            }
            Notice::SessionValid(until) => {
                let whole = self.drift.belief(self.session_ttl);
                users.sessions.extended(&self.session, until, whole, now);
                self.session.set(until);
                return ControlFlow::Continue(());
            }
            Notice::Asked(lease, ask) => {
                if let Some(cell) = users.cells.get(lease) {
                    cell.asked(ask);
                }
                return ControlFlow::Continue(());
            }
            Notice::Lost(lease, loss) => {
                if let Some(cell) = users.cells.end(lease, now) {
                    self.tell_lost(lease, &cell, &loss);
                    cell.lost(loss.clone());
                }
                (lease, CommandReply::Gone(LeaseError::Lost(loss)))
            }
            Notice::Updated(lease) => (lease, CommandReply::Updated),
            Notice::Released(lease, ours) => {
                let cell = users.cells.end(lease, now);
                let was_given_up =
                    users.replies.get(&lease).is_some_and(|(asked, _)| *asked == PendingCommand::Release);
                match cell {
                    _ if ours => meters::lease_released(self.prefixes.of(lease)),
                    // A body ends before its lease does, so that is given up before it is lost, and then can't be.
                    Some(cell) if was_given_up => self.tell_lost(lease, &cell, &self.why_kept(&cell)),
                    _ => {}
                }
                (lease, CommandReply::Released(ours))
            }
            Notice::Detached(lease, token) => {
                users.cells.end(lease, now);
                (lease, CommandReply::Token(token))
            }
            Notice::NotOurs(lease, by) => (lease, CommandReply::Gone(LeaseError::NotOurs(by))),
            // Only told to those who listen; and only workers of a fleet announce anything, or are asked as a whole.
            Notice::Seen(..)
            | Notice::SessionAsked(_)
            | Notice::Given(_)
            | Notice::Announced
            | Notice::NotAnnounced(_) => return ControlFlow::Continue(()),
            Notice::Stopped => {
                users.stop(now);
                return ControlFlow::Break(());
            }
        };
        let asker = users.asker(lease, &reply);
        // Whoever is woken by the answer mostly asks for something at once, and would wait for the lock.
        drop(users);
        let is_acquired = matches!(reply, CommandReply::Acquired { .. });
        let is_heard = asker.is_some_and(|asker| asker.send(reply).is_ok());
        if is_acquired && !is_heard {
            // Whoever asked has gone away.
            self.forget(lease);
            commands.push(Command::Release(lease, None));
        }
        ControlFlow::Continue(())
    }
}

impl SharedLeases {
    fn tell_lost(&self, lease: LeaseId, cell: &LeaseCell, loss: &Loss) {
        meters::lease_lost(loss, self.prefixes.of(lease));
        let (key, fence) = cell.name().map(|name| (display(&name.key), display(name.fence))).unzip();
        let holder = &self.holder;
        tracing::warn!(
            name: "lease.lost", target: "tenure::lease", key, fence, %holder, reason = %loss, "lease lost"
        );
    }

    /// Why a lease could not be given up.
    fn why_kept(&self, cell: &LeaseCell) -> Loss {
        let key = cell.name().map_or("", |name| name.key.as_str());
        let trouble = self.troubles.worst(Some([key, self.session_key.as_str()]));
        trouble.map_or(Loss::Taken(None), |trouble| Loss::Unreachable(trouble.error))
    }
}

impl LeaseUsers {
    pub(crate) fn new(prefixes: Arc<Prefixes>) -> LeaseUsers {
        LeaseUsers {
            cells: LeaseCells::new(prefixes),
            replies: BTreeMap::new(),
            stopped: Vec::new(),
            listeners: BTreeMap::new(),
            over: false,
            sessions: Renewals::of_sessions(),
            leases: Renewals::of_leases(),
        }
    }

    /// Tells those who listen to its lease, or all if it is about all.
    fn pass_on(&self, notice: &Notice) {
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

    /// Who is to have this answer, if anybody waits for it.
    fn asker(&mut self, lease: LeaseId, reply: &CommandReply) -> Option<oneshot::Sender<CommandReply>> {
        let fits = self.replies.get(&lease).is_some_and(|(asked, _)| asked.is_answered_by(reply));
        if fits { self.replies.remove(&lease).map(|(_, asker)| asker) } else { None }
    }

    /// All hear that it is over.
    fn stop(&mut self, now: Tick) {
        self.over = true;
        self.replies.clear();
        self.listeners.clear();
        for cell in self.cells.end_all(now) {
            cell.lost(Loss::Released);
        }
        for stopped in std::mem::take(&mut self.stopped) {
            let _ = stopped.send(());
        }
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
