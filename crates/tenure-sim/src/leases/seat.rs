//! A candidate, as its world knows it.

use crate::kernel::clock::True;
use tenure_core::election::{Election, Terms};
use tenure_core::{Bugs, Tick};

/// One candidate.
#[derive(Debug)]
pub(crate) struct CandidateSeat {
    pub(crate) election: Election,
    /// Bodies that run under the present leadership.
    pub(crate) bodies: u32,
    /// It stands back until then.
    pub(crate) tries_from: Tick,
    /// Only the newest of its wake-ups counts.
    pub(crate) wake_turn: u32,
    /// It was stopped, while its process lives on: it tries no more, and has stopped once its bodies have ended.
    pub(crate) stopping: Option<True>,
    pub(crate) has_stopped: bool,
}

impl CandidateSeat {
    pub(crate) fn new(terms: Terms, bugs: Bugs) -> CandidateSeat {
        let election = Election::new(terms, bugs);
        CandidateSeat {
            election,
            bodies: 0,
            tries_from: Tick(0),
            wake_turn: 0,
            stopping: None,
            has_stopped: false,
        }
    }
}
