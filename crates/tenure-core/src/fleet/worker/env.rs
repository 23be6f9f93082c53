//! What all parts of a worker go by: who it is, what it was told when it began, and how soon it reacts. A part gets it with each input, and keeps none of it.

use super::pace::Pace;
use crate::backoff::MOMENT;
use crate::bugs::{Bug, Bugs};
use crate::fleet::names::FleetName;
use crate::fleet::talk::Options;
use crate::values::error::{ErrorKind, StoreError};
use crate::values::fence::Nonces;
use crate::values::key::{HolderId, Key};
use crate::values::time::Ttl;
use std::time::Duration;

/// The surroundings of a worker's parts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct FleetEnv {
    pub(super) options: Options,
    pub(super) board_key: Key,
    /// The worker's holder id, and the key of its session.
    pub(super) id: HolderId,
    pub(super) me: Key,
    pub(super) ttl: Ttl,
    pub(super) pace: Pace,
    pub(super) nonces: Nonces,
    pub(super) bugs: Bugs,
}

impl FleetEnv {
    pub(super) fn fleet(&self) -> &FleetName {
        &self.options.fleet
    }

    pub(super) fn has_bug(&self, bug: Bug) -> bool {
        self.bugs.has(bug)
    }

    /// A part of the ttl that this worker reacts by.
    pub(super) fn part(&self, n: u32) -> Duration {
        self.pace.quick() / n
    }

    /// How often a worker looks: a third of the ttl that it reacts by.
    pub(super) fn interval(&self) -> Duration {
        self.part(3)
    }

    /// By when all others have looked, without a push.
    pub(super) fn heard_within(&self) -> Duration {
        self.pace.heard() / 3
    }

    /// The pause after a call that has failed: a part of the ttl, and 5 s at most if that may be for a moment. However long the ttl is, others wait for
    /// what was to be told.
    pub(super) fn pause(&self, n: u32, error: &StoreError) -> Duration {
        if error.is_passing() { self.part(n).min(MOMENT) } else { self.part(n) }
    }

    /// The least pause between two listings, or two raises of the board, however much changes: 5 s at most. A change is told and planned soon, whatever
    /// the ttl is, and a fleet with a long one pays no more for many changes than one whose ttl is some minutes.
    pub(super) fn least_pause(&self) -> Duration {
        self.part(32).min(MOMENT)
    }

    /// The first pause after a busy store's refusal.
    pub(super) fn refusal_pause(&self) -> Duration {
        self.part(64) + self.part(64) / 256 * u32::from(self.nonces.jitter())
    }

    /// Whether the store has too much to do for this now: it has not done it, and may do so later.
    pub(super) fn finds_busy(&self, error: &StoreError) -> bool {
        error.kind() == ErrorKind::Unavailable && !self.has_bug(Bug::BusyStorePressed)
    }
}
