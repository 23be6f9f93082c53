//! What must hold in a fleet: one file for each promise, its statement and source on top. What is the same for any lease
//! is in `crate::invariants`.

pub(crate) mod c1;
pub(crate) mod fair;
pub(crate) mod l2;
pub(crate) mod l3;
pub(crate) mod s1;
pub(crate) mod s10;
pub(crate) mod s2;
pub(crate) mod s3;
pub(crate) mod s4;
pub(crate) mod s5;
pub(crate) mod s6;

use crate::clock::True;
use crate::invariants::{Rule, Violation, p2, s2 as tenures};

/// What checks remember of a world, and the first violation.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    pub(crate) tenures: tenures::Tenures,
    pub(crate) resource: p2::Resource,
    /// How long units of the dead lay idle, in hundredths of a ttl.
    pub(crate) takeovers: Vec<u32>,
    /// Pages that were listed while all was settled, and for how long it was.
    pub(crate) settled_lists: u64,
    /// Audits that were told of.
    pub(crate) settled_marks: u64,
    /// How often the board was raised then, where there is a unit that nobody can write.
    pub(crate) settled_raises: u64,
    /// Requests that were refused then, and not for a moment, but for what those write who have the unit: as forbidden, and as the
    /// record is damaged.
    pub(crate) settled_refusals: [u64; 2],
    pub(crate) settled_time: True,
    pub(crate) excused: Vec<Rule>,
    pub(crate) broken: Option<Violation>,
}

impl Checks {
    /// Reports what a check found.
    pub(crate) fn check(&mut self, at: True, rule: Rule, found: Result<(), String>) {
        if let Err(text) = found
            && self.broken.is_none()
            && !self.excused.contains(&rule)
        {
            self.broken = Some(Violation { rule, at, text });
        }
    }
}
