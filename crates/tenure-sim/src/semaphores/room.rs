//! How much room the records of semaphores have, in a world where that is little.

use super::World;
use crate::invariants::{Rule, answered};
use crate::kernel::clock::True;
use tenure_core::StoreError;
use tenure_core::semaphore::{SemaphoreFull, SemaphoreLedger};

/// The most bytes that a claim takes, and its process's name beside the first.
const CLAIM: usize = 36;
const PARTY: usize = 16;

/// Whether a record was so full that the wishes of one process may have found no room.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RecordRoom {
    is_short: bool,
    /// The last time that it was.
    until: True,
}

impl World {
    /// Whether so many claims of one process more may be too many.
    fn lacks_room(&self, ledger: &SemaphoreLedger, claims: usize) -> bool {
        ledger.to_metadata().1 + PARTY + claims * CLAIM > self.scenario.most_bytes
    }

    /// A record was changed.
    pub(super) fn note_room(&mut self, key: usize) {
        let is_short = self.lacks_room(&self.ledger(key), self.scenario.tasks);
        let room = &mut self.scene.room[key];
        if room.is_short {
            room.until = self.t;
        }
        room.is_short = is_short;
    }

    /// A user is told an error.
    pub(super) fn check_full(&mut self, index: usize, key: usize, asked: True, error: &StoreError) {
        if SemaphoreFull::is_why(error) {
            let room = self.scene.room[key];
            let was_full = room.is_short || room.until >= asked;
            self.check(Rule::Answered, answered::is_full(index, key, was_full));
        }
    }

    /// Whether a record has room for nobody, and nothing in it is of anybody who lives: only who finds no room can find out.
    pub(super) fn is_full_of_the_dead(&self, ledger: &SemaphoreLedger) -> bool {
        self.lacks_room(ledger, 1) && !ledger.tickets().any(|ticket| self.lives(ticket))
    }
}
