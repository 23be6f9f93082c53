//! The sink of the machine's notices, which tells whoever waits for them.

use crate::belief::LeaseCell;
use crate::cells::EndedLease;
use crate::driver::Sink;
use crate::error::{AcquireError, LeaseError};
use crate::meters;
use crate::renewals::Renewed;
use crate::request::Request;
use crate::shared::SharedLeases;
use crate::users::{CommandReply, HeardNotice, LeaseUsers, PendingCommand};
use std::ops::ControlFlow;
use std::sync::Weak;
use tenure_core::{Command, Holder, LeaseId, Loss, Notice, Tick};
use tenure_store::tell;
use tokio::sync::oneshot;
use tracing::field::display;

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
            // Candidates wait for nothing else.
            let _over = inner.take(Notice::Stopped, &mut Vec::new());
        }
    }
}

/// What is left to do about a notice once nothing is locked. Whoever is told, measured for or answered may ask for something at once, and would wait for the lock.
enum NoticeEffect {
    Nothing,
    Renewed(Option<Renewed>),
    /// Nobody waits any more for what was acquired.
    Unwanted(LeaseId),
    Answer {
        lease: LeaseId,
        ended: Option<EndedLease>,
        news: EndNews,
        reply: CommandReply,
        asker: Option<oneshot::Sender<CommandReply>>,
    },
    Stopped(Vec<EndedLease>),
}

/// How a lease ended, as it is told once nothing is locked.
enum EndNews {
    None,
    Released,
    Lost(Loss),
    /// It was to be given up, and could not be.
    Kept,
}

impl EndNews {
    fn of_release(users: &LeaseUsers, lease: LeaseId, ours: bool) -> EndNews {
        let was_given_up =
            users.replies.get(&lease).is_some_and(|(asked, _)| *asked == PendingCommand::Release);
        match (ours, was_given_up) {
            (true, _) => EndNews::Released,
            // A body ends before its lease does, so that is given up before it is lost, and then can't be.
            (false, true) => EndNews::Kept,
            (false, false) => EndNews::None,
        }
    }
}

impl SharedLeases {
    fn take(&self, notice: Notice, commands: &mut Vec<Command>) -> ControlFlow<()> {
        let now = self.clock.held();
        if let Notice::Acquired { lease, .. } = &notice {
            let of = self.prefixes.of(*lease);
            meters::lease_acquired(of);
            meters::lease_begun(of);
        }
        let effect = self.note(&mut self.users(), notice, now);
        self.carry_out(effect, commands)
    }

    /// Notes what a notice says, and tells those who listen.
    fn note(&self, users: &mut LeaseUsers, notice: Notice, now: Tick) -> NoticeEffect {
        if !matches!(notice, Notice::Acquired { .. }) {
            users.pass_on(&notice);
        }
        let (mut ended, mut news) = (None, EndNews::None);
        let (lease, reply) = match notice {
            Notice::Acquired { lease, fence, until, metadata } => {
                let cell = users.cells.begin(lease, until, now);
                if users.is_stopping {
                    cell.lost(Loss::Stopped);
                }
                if let Some(listener) = users.listeners.get(&lease) {
                    let notice = Notice::Acquired { lease, fence, until, metadata };
                    let is_heard = listener.send(HeardNotice { notice, cell: Some(cell) }).is_ok();
                    return if is_heard { NoticeEffect::Nothing } else { NoticeEffect::Unwanted(lease) };
                }
                (lease, CommandReply::Acquired { fence, metadata, cell })
            }
            Notice::Held(lease, by) => (lease, CommandReply::Refused(AcquireError::Held(by))),
            Notice::Absent(lease) => (lease, CommandReply::Refused(AcquireError::Absent)),
            Notice::Failed(lease, error) => (lease, CommandReply::Refused(AcquireError::Store(error))),
            Notice::Valid(lease, until) => {
                return NoticeEffect::Renewed(self.valid(users, lease, until, now));
            }
            Notice::SessionValid(until) => {
                return NoticeEffect::Renewed(self.session_valid(users, until, now));
            }
            Notice::Asked(lease, ask) => {
                if let (Some(cell), Some(request)) = (users.cells.get(lease), Request::of(ask)) {
                    cell.asked(request);
                }
                return NoticeEffect::Nothing;
            }
            Notice::Lost(lease, loss) => {
                ended = users.cells.end(lease, now);
                if let Some(ended) = &ended {
                    ended.cell.belief.end();
                    news = EndNews::Lost(loss.clone());
                }
                (lease, CommandReply::Gone(LeaseError::Lost(loss)))
            }
            Notice::Updated(lease) => (lease, CommandReply::Updated),
            Notice::Released(lease, ours) => {
                ended = users.cells.end(lease, now);
                news = EndNews::of_release(users, lease, ours);
                users.over(lease, &Loss::Released);
                (lease, CommandReply::Released(ours))
            }
            Notice::Detached(lease, token) => {
                ended = users.cells.end(lease, now);
                (lease, CommandReply::Token(token))
            }
            Notice::NotOurs(lease, by) => (lease, CommandReply::Gone(LeaseError::NotOurs(by))),
            // Only told to those who listen; and only workers of a fleet announce anything, or are asked as a whole.
            Notice::Seen(..)
            | Notice::SessionAsked(_)
            | Notice::SessionFailed(_)
            | Notice::Given(_)
            | Notice::Announced
            | Notice::NotAnnounced(_) => return NoticeEffect::Nothing,
            Notice::Stopped => return NoticeEffect::Stopped(users.stop(now)),
        };
        let asker = users.asker(lease, &reply);
        NoticeEffect::Answer { lease, ended, news, reply, asker }
    }

    fn carry_out(&self, effect: NoticeEffect, commands: &mut Vec<Command>) -> ControlFlow<()> {
        match effect {
            NoticeEffect::Nothing => {}
            NoticeEffect::Renewed(renewed) => renewed.iter().for_each(Renewed::measure),
            NoticeEffect::Unwanted(lease) => self.give_back(lease, commands),
            NoticeEffect::Answer { lease, ended, news, reply, asker } => {
                self.tell_end(lease, ended.as_ref(), news);
                let is_acquired = matches!(reply, CommandReply::Acquired { .. });
                let is_heard = asker.is_some_and(|asker| asker.send(reply).is_ok());
                if is_acquired && !is_heard {
                    self.give_back(lease, commands);
                }
            }
            NoticeEffect::Stopped(all) => {
                all.iter().for_each(|ended| ended.measure(&self.prefixes));
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    fn give_back(&self, lease: LeaseId, commands: &mut Vec<Command>) {
        self.forget(lease);
        commands.push(Command::Release(lease, None));
    }

    /// A lease is believed in until then: what its renewal is measured by, if it has one of its own.
    fn valid(&self, users: &mut LeaseUsers, lease: LeaseId, until: Tick, now: Tick) -> Option<Renewed> {
        let LeaseUsers { cells, leases, .. } = users;
        let cell = cells.get(lease)?;
        let own_ttl = cell.name().and_then(|name| name.own_ttl);
        let renewed =
            own_ttl.and_then(|ttl| leases.extended(&cell.belief, until, self.drift.belief(ttl), now));
        cell.belief.set(until);
        renewed
    }

    /// The session is believed in until then, and with it what is attached to it.
    fn session_valid(&self, users: &mut LeaseUsers, until: Tick, now: Tick) -> Option<Renewed> {
        let whole = self.drift.belief(self.session_ttl);
        let renewed = users.sessions.extended(&self.session, until, whole, now);
        self.session.set(until);
        renewed
    }

    /// What is told of a lease's end, if that is one.
    fn tell_end(&self, lease: LeaseId, ended: Option<&EndedLease>, news: EndNews) {
        // First, so that whoever sees that belief is over also sees why.
        if let (EndNews::Lost(loss), Some(ended)) = (&news, ended) {
            ended.cell.lost(loss.clone());
        }
        if let Some(ended) = ended {
            ended.measure(&self.prefixes);
        }
        match (news, ended.map(|ended| &ended.cell)) {
            (EndNews::Released, _) => meters::lease_released(self.prefixes.of(lease)),
            (EndNews::Lost(loss), Some(cell)) => self.tell_lost(lease, cell, &loss),
            (EndNews::Kept, Some(cell)) => self.tell_lost(lease, cell, &self.why_kept(cell)),
            (EndNews::None | EndNews::Lost(_) | EndNews::Kept, _) => {}
        }
    }

    /// Tells of a lease as lost while it is still ours, if it is. It is believed in no longer than until then, whatever is renewed.
    pub(crate) fn tell_losing(&self, lease: LeaseId, until: Tick, loss: &Loss) {
        // A thread of the parent's may have had the lock as it forked.
        if self.process.is_forked() {
            return;
        }
        let now = self.clock.held();
        let ended = self.users().cells.end(lease, now);
        if let Some(ended) = ended {
            ended.cell.belief.cap(until);
            ended.measure(&self.prefixes);
            self.tell_lost(lease, &ended.cell, loss);
        }
    }

    fn tell_lost(&self, lease: LeaseId, cell: &LeaseCell, loss: &Loss) {
        meters::lease_lost(loss, self.prefixes.of(lease));
        let (key, fence) = cell.name().map(|name| (display(&name.key), display(name.fence))).unzip();
        let holder = &self.holder;
        tell!(
            warn, name: "lease.lost", target: "tenure::lease", key, fence, %holder, reason = %loss, loss = loss.name(),
            "lease lost"
        );
    }

    /// Why a lease could not be given up.
    fn why_kept(&self, cell: &LeaseCell) -> Loss {
        let key = cell.name().map_or("", |name| name.key.as_str());
        let trouble = self.troubles.worst(Some([key, self.session_key.as_str()]));
        trouble.map_or(Loss::Taken(None), |trouble| trouble.error.into())
    }
}
