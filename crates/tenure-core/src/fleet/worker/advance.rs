//! Whether the generation of the board is to be advanced. A worker that has changed something makes all workers look again.
//!
//! It is *idle*, wanted *at* some time, or *sent*. What happens after it was sent is told by another one. While the store does not let this worker write
//! the board, it is tried ever more seldom, whatever happens.

use super::env::FleetEnv;
use crate::backoff::refusal::LastingRefusal;
use crate::op::Write;
use crate::values::error::{ErrorKind, StoreError};
use crate::values::fence::Fence;
use crate::values::time::{Now, Tick};
use std::time::Duration;

/// Whether the generation of the board is to be advanced.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
enum Advance {
    #[default]
    Idle,
    At(Tick),
    Sent {
        write: Box<Write>,
        /// The generation that made the first attempt fail: a higher one than this does as well as our own.
        lost_to: Option<Fence>,
        /// Something more has happened since.
        again: bool,
    },
}

/// The advance of the board that is wanted or under way, and how the store takes it.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(super) struct BoardAdvance {
    state: Advance,
    /// The store does not let this worker raise the board.
    refused: Option<LastingRefusal>,
    /// The board is to be raised for no other reason than that nobody plans.
    only_fills: bool,
}

impl BoardAdvance {
    pub(super) fn is_idle(&self) -> bool {
        self.state == Advance::Idle
    }

    /// When it is wanted, whether the store lets this worker or not.
    pub(super) fn wanted_at(&self) -> Option<Tick> {
        if let Advance::At(at) = self.state { Some(at) } else { None }
    }

    /// When the board is raised next. While the store does not let this worker write it, that is not hastened by all that happens.
    pub(super) fn wake_at(&self) -> Option<Tick> {
        let refused = self.refused.map(|refusal| refusal.again_at);
        self.wanted_at().map(|at| refused.map_or(at, |again_at| at.max(again_at)))
    }

    /// Whether it is wanted for no other reason than that nobody plans.
    pub(super) fn only_fills(&self) -> bool {
        self.only_fills
    }

    pub(super) fn is_refused(&self) -> bool {
        self.refused.is_some()
    }

    /// Whether it is wanted, and the store has not let this worker for so long.
    pub(super) fn waits_in_vain(&self, now: Now, least: Duration) -> bool {
        self.wanted_at().is_some() && self.refused.is_some_and(|refusal| refusal.stood(now) >= least)
    }

    /// The board can be written, or may be by now.
    pub(super) fn forget_refusal(&mut self) {
        self.refused = None;
    }

    /// Something has changed that the others should look into.
    pub(super) fn want(&mut self, at: Tick) {
        self.only_fills = false;
        match &mut self.state {
            Advance::Idle => self.state = Advance::At(at),
            Advance::At(planned) => *planned = (*planned).min(at),
            Advance::Sent { again, .. } => *again = true,
        }
    }

    /// Nobody plans, and nothing else is to be told.
    pub(super) fn fill(&mut self, at: Tick) {
        (self.state, self.only_fills) = (Advance::At(at), true);
    }

    /// Nothing is to be told any more.
    pub(super) fn end(&mut self) {
        self.state = Advance::Idle;
    }

    pub(super) fn sent(&mut self, write: Write, lost_to: Option<Fence>) {
        let again = self.is_wanted_again();
        self.state = Advance::Sent { write: Box::new(write), lost_to, again };
    }

    /// The write under way, and the generation that made the first attempt fail.
    pub(super) fn under_way(&self) -> Option<(Write, Option<Fence>)> {
        let Advance::Sent { write, lost_to, .. } = &self.state else { return None };
        Some(((**write).clone(), *lost_to))
    }

    pub(super) fn is_wanted_again(&self) -> bool {
        matches!(self.state, Advance::Sent { again: true, .. })
    }

    /// The board was raised. What has happened meanwhile is told by another raise.
    pub(super) fn raised(&mut self, again_at: Tick) {
        self.state = if self.is_wanted_again() { Advance::At(again_at) } else { Advance::Idle };
    }

    pub(super) fn failed(&mut self, again_at: Tick) {
        self.state = Advance::At(again_at);
    }

    /// What to do about a board that can't be written, after an answer.
    pub(super) fn judge(&mut self, now: Now, env: &FleetEnv, failed: Option<&StoreError>, retry: Tick) {
        self.refused = match failed {
            None => None,
            // A damaged board is in everybody's way, and somebody mends it.
            Some(error) if error.is_passing() || error.kind() == ErrorKind::Foreign => self.refused,
            Some(_) => {
                let next = LastingRefusal::next(self.refused, now, env.part(1), false);
                Some(next.at_the_soonest(retry))
            }
        };
    }
}
