//! Who waits for what, and the sink of the machine's notices that tells them.

use crate::belief::Cell;
use crate::cells::Cells;
use crate::driver::Sink;
use crate::error::{AcquireError, LeaseError};
use crate::leases::Inner;
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
pub(crate) struct Users {
    pub(crate) cells: Cells,
    pub(crate) replies: BTreeMap<LeaseId, (Asked, oneshot::Sender<Reply>)>,
    pub(crate) stopped: Vec<oneshot::Sender<()>>,
    /// Those who hear all that is told of a lease, in place of a reply.
    pub(crate) listeners: BTreeMap<LeaseId, mpsc::UnboundedSender<News>>,
    pub(crate) over: bool,
    sessions: Renewals,
    leases: Renewals,
}

/// What is told of a lease, for those who listen.
#[derive(Debug)]
pub(crate) struct News {
    pub(crate) notice: Notice,
    /// Of a lease that was acquired.
    pub(crate) cell: Option<Arc<Cell>>,
}

/// What was asked of the machine about a lease. A later question takes the place of one whose asker has gone away, and
/// must not get the earlier one's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    Acquire,
    Update,
    Release,
    Lapse,
    Token,
}

impl Asked {
    pub(crate) fn of(command: &Command) -> Asked {
        match command {
            Command::Update(..) => Asked::Update,
            Command::Release(..) | Command::Return(..) => Asked::Release,
            Command::Lapse(_) => Asked::Lapse,
            Command::Detach(..) | Command::Refresh(..) => Asked::Token,
            _ => Asked::Acquire,
        }
    }

    fn is_answered_by(self, reply: &Reply) -> bool {
        match reply {
            Reply::Acquired { .. } => self == Asked::Acquire,
            Reply::Updated => self == Asked::Update,
            Reply::Token(_) => self == Asked::Token,
            Reply::Released(_) => matches!(self, Asked::Release | Asked::Lapse),
            Reply::Refused(_) => !matches!(self, Asked::Release | Asked::Lapse),
            Reply::Gone(_) => true,
        }
    }
}

/// The answer to a command.
#[derive(Debug)]
pub(crate) enum Reply {
    Acquired { fence: Fence, metadata: Metadata, cell: Arc<Cell> },
    Refused(AcquireError),
    Updated,
    Released(bool),
    Token(Box<Token>),
    Gone(LeaseError),
}

pub(crate) struct Notices {
    pub(crate) inner: Weak<Inner>,
}

impl Sink<Holder> for Notices {
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
impl Drop for Notices {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.upgrade() {
            inner.users().stop(inner.clock.held());
        }
    }
}

impl Inner {
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
                    if listener.send(News { notice, cell: Some(cell) }).is_err() {
                        users.cells.end(lease, now);
                        commands.push(Command::Release(lease, None));
                    }
                    return ControlFlow::Continue(());
                }
                (lease, Reply::Acquired { fence, metadata, cell })
            }
            Notice::Held(lease, by) => (lease, Reply::Refused(AcquireError::Held(by))),
            Notice::Absent(lease) => (lease, Reply::Refused(AcquireError::Absent)),
            Notice::Failed(lease, error) => (lease, Reply::Refused(AcquireError::Store(error))),
            Notice::Valid(lease, until) => {
                let Users { cells, leases, .. } = &mut *users;
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
                (lease, Reply::Gone(LeaseError::Lost(loss)))
            }
            Notice::Updated(lease) => (lease, Reply::Updated),
            Notice::Released(lease, ours) => {
                let cell = users.cells.end(lease, now);
                let was_given_up =
                    users.replies.get(&lease).is_some_and(|(asked, _)| *asked == Asked::Release);
                match cell {
                    _ if ours => meters::lease_released(self.prefixes.of(lease)),
                    // A body ends before its lease does, so that is given up before it is lost, and then can't be.
                    Some(cell) if was_given_up => self.tell_lost(lease, &cell, &self.why_kept(&cell)),
                    _ => {}
                }
                (lease, Reply::Released(ours))
            }
            Notice::Detached(lease, token) => {
                users.cells.end(lease, now);
                (lease, Reply::Token(token))
            }
            Notice::NotOurs(lease, by) => (lease, Reply::Gone(LeaseError::NotOurs(by))),
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
        let is_acquired = matches!(reply, Reply::Acquired { .. });
        let is_heard = asker.is_some_and(|asker| asker.send(reply).is_ok());
        if is_acquired && !is_heard {
            // Whoever asked has gone away.
            self.forget(lease);
            commands.push(Command::Release(lease, None));
        }
        ControlFlow::Continue(())
    }
}

impl Inner {
    fn tell_lost(&self, lease: LeaseId, cell: &Cell, loss: &Loss) {
        meters::lease_lost(loss, self.prefixes.of(lease));
        let (key, fence) = cell.name().map(|name| (display(&name.key), display(name.fence))).unzip();
        let holder = &self.holder;
        tracing::warn!(
            name: "lease.lost", target: "tenure::lease", key, fence, %holder, reason = %loss, "lease lost"
        );
    }

    /// Why a lease could not be given up.
    fn why_kept(&self, cell: &Cell) -> Loss {
        let key = cell.name().map_or("", |name| name.key.as_str());
        let trouble = self.troubles.worst(Some([key, self.session_key.as_str()]));
        trouble.map_or(Loss::Taken(None), |trouble| Loss::Unreachable(trouble.error))
    }
}

impl Users {
    pub(crate) fn new(prefixes: Arc<Prefixes>) -> Users {
        Users {
            cells: Cells::new(prefixes),
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
        let news = || News { notice: notice.clone(), cell: None };
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
    fn asker(&mut self, lease: LeaseId, reply: &Reply) -> Option<oneshot::Sender<Reply>> {
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
pub(crate) fn unexpected(reply: Option<Reply>) -> LeaseError {
    match reply {
        None => LeaseError::Stopped,
        Some(Reply::Gone(error)) => error,
        Some(Reply::Refused(AcquireError::Store(error))) => LeaseError::Store(error),
        Some(other) => {
            LeaseError::Store(StoreError::invalid(format!("two things were asked at a time: {other:?}")))
        }
    }
}
