//! An adopter beside four workers that steal much, in simulated time: as `fleet adopt` takes rows, keeps, and deletes them.
//!
//! The adopter's own code, which waits on two stores, is run on DynamoDB Local (tests/adopt.rs). What it asks of the table
//! is written down here once more, so that what a whole fleet does about it can be measured for each unit.

use super::super::time::{FAILOVER, Micros};
use super::{Happens, KclWorld, WalkTerms};
use crate::change::{Edit, RowChange};
use crate::format::Format;
use crate::row::Row;
use crate::settling::ChangeAnswer;
use std::collections::BTreeMap;

const UNITS: usize = 200;
/// What a unit may be without a worker, beyond the time that its last one has to notice: five seconds of ten.
const TO_SPARE: Micros = FAILOVER / 2;

/// How far the adopter is with a row.
#[derive(Debug, Clone)]
enum AdopterMove {
    /// It has read the row so.
    Read(Row),
    /// It has taken it so, and keeps it until its last owner must have noticed.
    Keeps(Row, Micros),
}

/// All that is moved, and how long each unit was without a worker.
#[derive(Debug, Default)]
pub(super) struct Adoption {
    moves: BTreeMap<String, AdopterMove>,
    takes: u64,
    renewals: u64,
    left_at: BTreeMap<String, Micros>,
    idle: BTreeMap<String, Micros>,
}

impl Adoption {
    pub(super) fn is_had(&mut self, key: &str) {
        self.left_at.remove(key);
    }

    pub(super) fn is_left(&mut self, key: &str, now: Micros) {
        self.left_at.entry(key.to_owned()).or_insert(now);
    }
}

impl KclWorld {
    fn begin_adoption(&mut self) {
        self.adoption = Some(Adoption::default());
        let keys: Vec<String> = self.rows.keys().cloned().collect();
        for key in keys {
            let at = self.now + self.delay();
            self.at(at, 0, Happens::Adopt(key));
        }
    }

    /// The adopter's next request about a row, and what follows from its answer.
    pub(super) fn adopt(&mut self, key: String) {
        let Some(mut adoption) = self.adoption.take() else { return };
        let (now, format) = (self.now, self.terms.format);
        let next = match adoption.moves.remove(&key) {
            None => {
                let row = self.rows.get(&key).cloned();
                row.map(|row| (AdopterMove::Read(row), now))
            }
            Some(AdopterMove::Read(row)) => {
                // Each under an id of its own.
                let id = format!("tenure-adopt-{}", adoption.takes);
                let change = RowChange::take(format, &row, &id);
                match self.perform(&change) {
                    ChangeAnswer::Made(_) => {
                        adoption.takes += 1;
                        Some((AdopterMove::Keeps(change.after, now + FAILOVER), now + FAILOVER / 3))
                    }
                    ChangeAnswer::Refused(_) => None,
                }
            }
            Some(AdopterMove::Keeps(row, quiet)) if now < quiet => {
                adoption.renewals += 1;
                let change = RowChange::renew(format, &row, &Edit::new());
                let at = quiet.min(now + FAILOVER / 3);
                matches!(self.perform(&change), ChangeAnswer::Made(_))
                    .then_some((AdopterMove::Keeps(change.after, quiet), at))
            }
            Some(AdopterMove::Keeps(row, _)) => {
                if let ChangeAnswer::Made(_) = self.perform(&RowChange::delete(format, &row)) {
                    let left = adoption.left_at.remove(&key).unwrap_or(now);
                    adoption.idle.insert(key.clone(), now - left);
                    self.adoption = Some(adoption);
                    return;
                }
                None
            }
        };
        let at = match next {
            Some((step, at)) => {
                adoption.moves.insert(key.clone(), step);
                at
            }
            // It is another's: read it again.
            None => now,
        };
        self.adoption = Some(adoption);
        let at = at + self.delay() + self.delay();
        self.at(at, 0, Happens::Adopt(key));
    }
}

#[test]
fn two_hundred_units_are_adopted_calmly_and_none_is_idle_for_long() {
    for (seed, format) in [(1, Format::kcl()), (2, Format::a8m())] {
        let mut world = KclWorld::new(WalkTerms { moves: Some(UNITS), ..WalkTerms::usual(seed, format) });
        let mut began = 0;
        while !(world.is_all_had() && world.shares().iter().all(|share| *share > UNITS / 8)) {
            began += FAILOVER;
            assert!(began < 20 * FAILOVER, "they don't share: {:?}", world.shares());
            world.run_until(began).unwrap();
        }
        world.begin_adoption();
        world.run_until(began + 3 * FAILOVER).unwrap();
        let Adoption { takes, idle, .. } = world.adoption.take().unwrap();
        let longest = idle.values().copied().max().unwrap_or(0);
        assert_eq!(idle.len(), UNITS, "all moved in a failover time and two more: {:?}", world.table());
        assert!(longest <= FAILOVER + TO_SPARE, "a unit was idle for {longest} us");
        assert!(takes * 10 <= UNITS as u64 * 11, "{takes} takes");
    }
}
