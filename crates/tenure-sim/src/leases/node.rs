//! What is known of a process and its users: what they want, hold, and believe.

use super::LeasesScene;
use super::seat::CandidateSeat;
use super::tick_job::TickJob;
use crate::kernel;
use crate::kernel::clock::True;
use tenure_core::{Ask, Command, Fence, HolderId, Key, LeaseId, Nonce, Now, Tick, Ttl};

/// What a user knows of one lease.
#[derive(Debug, Clone)]
pub(crate) struct LeaseView {
    pub(crate) id: LeaseId,
    /// Which of the world's keys.
    pub(crate) key: usize,
    pub(crate) is_attached: bool,
    pub(crate) task: usize,
    pub(crate) stage: LeaseStage,
    /// When its last command was given.
    pub(crate) asked_at: True,
    /// It waits as long as it takes.
    pub(crate) waits: bool,
    /// It only tries.
    pub(crate) tries: bool,
    pub(crate) updating: bool,
    /// The number that is to be written with the update under way.
    pub(crate) update: i64,
    /// It was withdrawn: its belief ends then at the latest.
    pub(crate) withdrawn: Option<Tick>,
}

impl LeaseView {
    /// Under which fence it is held, if its user knows.
    pub(crate) fn fence(&self) -> Option<Fence> {
        match self.stage {
            LeaseStage::Held(belief) | LeaseStage::Ending(Some(belief)) => Some(belief.fence),
            _ => None,
        }
    }
}

/// How far a lease is, as its user knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaseStage {
    Wanted,
    Held(UserBelief),
    /// Given up, or being made a token: nobody believes in it.
    Ending(Option<UserBelief>),
    /// A token is being used.
    Token,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UserBelief {
    pub(crate) fence: Fence,
    /// The end of belief, for one that renews itself; zero while suspended.
    pub(crate) until: Tick,
    /// The last end of belief that was told.
    pub(crate) deadline: Tick,
    /// The place of this tenure among those of all keys, in the order in which the store made them.
    pub(crate) order: u64,
    /// Since when it is held.
    pub(crate) since: True,
}

/// What a user is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaseActivity {
    Idle,
    Waiting(LeaseId),
    Holding {
        lease: LeaseId,
        ends: True,
    },
    /// Between a check and its effect.
    Busy {
        lease: LeaseId,
        ends: True,
    },
    Ending,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct UserTask {
    pub(crate) doing: LeaseActivity,
    /// Only the newest of a task's appointments counts.
    pub(crate) turn: u32,
}

/// What reaches a process from outside, besides answers, hints and wake-ups.
pub(crate) enum LeaseCall {
    /// A task's turn.
    User(u8, u32),
    Token(Box<tenure_core::Token>),
    Stop,
    /// A candidate's turn, by its key.
    Lead(u8),
    /// A candidate's wake-up, which is not its newest if the number differs.
    Candidate(u8, u32),
    /// What a candidate wants of the holder.
    Command(Box<Command>),
}

/// A write of a lease of this process's own that took effect: what belief may be built on.
#[derive(Debug, Clone)]
pub(crate) struct Heartbeat {
    pub(crate) key: Key,
    pub(crate) fence: Fence,
    /// The clocks before it was sent.
    pub(crate) sent: Now,
    pub(crate) ttl: Ttl,
}

/// What a process must not write any more.
#[derive(Debug, Clone)]
pub(crate) struct Closed {
    pub(crate) key: Key,
    pub(crate) fence: Fence,
    /// Steps that were taken later than this count.
    pub(crate) since: Tick,
    /// It may be vacated from then on, and not be renewed.
    pub(crate) vacate_from: Tick,
}

pub(crate) type Node = kernel::Node<LeasesScene>;

/// What the world knows of a node and the process on it.
#[derive(Default)]
pub(crate) struct LeaseNodeState {
    /// Names its machine's boot.
    pub(crate) boot: u64,
    /// The id that its next process goes by, if it is not one of its own.
    pub(crate) goes_by: Option<HolderId>,
    /// Records whose last renewal was made to fail: the next two will not be.
    pub(crate) stumbled: Vec<(Key, u8)>,
    pub(crate) tasks: Vec<UserTask>,
    // All the rest ends with the process.
    pub(crate) views: Vec<LeaseView>,
    pub(crate) session_until: Tick,
    pub(crate) session_deadline: Option<Tick>,
    pub(crate) heartbeats: Vec<Heartbeat>,
    pub(crate) closed: Vec<Closed>,
    /// Tokens that were used here: what is written for them is not written for what was lost.
    pub(crate) tokens: Vec<(Key, Fence)>,
    /// When users announced what they have not heard of as announced.
    pub(crate) announced: Option<True>,
    /// Letters that users were told of, newest last.
    pub(crate) asked: Vec<(usize, Ask, True)>,
    /// Claims that it was told to have won, with their fences: a claim that lands once more has another, and nobody hears of that.
    pub(crate) won: Vec<(Nonce, Fence)>,
    /// Attached leases that were given up though the store would not have it, and when.
    pub(crate) denied: Vec<(usize, Fence, True)>,
    /// What its users run at ticks.
    pub(crate) jobs: Vec<TickJob>,
    /// Its candidates, one for each key, where there are elections.
    pub(crate) seats: Vec<CandidateSeat>,
    /// When time was last hidden from it for so long that its wall clock shows it, by its other clocks.
    pub(crate) gap: Option<Tick>,
}

impl LeaseNodeState {
    /// What is left of it when its process is gone.
    pub(super) fn without_process(&mut self) -> LeaseNodeState {
        let LeaseNodeState { boot, goes_by, stumbled, tasks, .. } = std::mem::take(self);
        LeaseNodeState { boot, goes_by, stumbled, tasks, ..LeaseNodeState::default() }
    }
}

impl LeaseView {
    pub(crate) fn is_held(&self) -> bool {
        matches!(self.stage, LeaseStage::Held(_))
    }
}

impl Node {
    /// Whether the user of `view` would be told, right now, that it is held.
    pub(crate) fn believes(&self, view: &LeaseView, t: True) -> bool {
        let LeaseStage::Held(belief) = view.stage else { return false };
        let until = if view.is_attached { self.own.session_until.min(belief.until) } else { belief.until };
        self.clock.held(t) < until
    }

    pub(crate) fn view(&mut self, id: LeaseId) -> Option<&mut LeaseView> {
        self.own.views.iter_mut().find(|view| view.id == id)
    }

    pub(crate) fn forget(&mut self, id: LeaseId) -> Option<LeaseView> {
        let at = self.own.views.iter().position(|view| view.id == id)?;
        Some(self.own.views.swap_remove(at))
    }

    pub(crate) fn note_heartbeat(&mut self, heartbeat: Heartbeat) {
        // Only the last few of each tenure can found a belief.
        let same = |known: &Heartbeat| known.key == heartbeat.key && known.fence == heartbeat.fence;
        if self.own.heartbeats.iter().filter(|known| same(known)).count() >= 4
            && let Some(oldest) = self.own.heartbeats.iter().position(same)
        {
            self.own.heartbeats.remove(oldest);
        }
        // Those that renew no more go first.
        if self.own.heartbeats.len() >= 48 {
            self.own.heartbeats.remove(0);
        }
        self.own.heartbeats.push(heartbeat);
    }

    pub(crate) fn uses_token(&self, key: &Key, fence: Fence) -> bool {
        self.own.tokens.iter().any(|(known, with)| known == key && *with == fence)
    }

    pub(crate) fn close(&mut self, closed: Closed) {
        if self.own.closed.len() >= 16 {
            self.own.closed.remove(0);
        }
        self.own.closed.push(closed);
    }
}
