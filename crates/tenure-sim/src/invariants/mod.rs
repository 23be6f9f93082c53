//! What must hold: one file for each promise, its statement and source on top. docs/promises.md has all of them.
//!
//! Safety is checked all the time. Liveness is checked after all faults were healed.

pub(crate) mod answered;
pub(crate) mod asked;
pub(crate) mod c1;
pub(crate) mod l1;
pub(crate) mod l3;
pub(crate) mod l4;
pub(crate) mod leads;
pub(crate) mod mail;
pub(crate) mod once;
pub(crate) mod p2;
pub(crate) mod reach;
pub(crate) mod s1;
pub(crate) mod s10;
pub(crate) mod s2;
pub(crate) mod s3;
pub(crate) mod s4;
pub(crate) mod s5;
pub(crate) mod s6;
pub(crate) mod s7;
pub(crate) mod tried;
pub(crate) mod turns;
pub(crate) mod withdrawn;

use crate::kernel::clock::True;
use std::fmt;

/// A promise, which is stated at the top of its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each is stated in its own file, and by `Rule::about`")]
pub enum Rule {
    S1,
    S2,
    S3,
    S4,
    S5,
    S6,
    S7,
    S10,
    P2,
    L1,
    L2,
    L3,
    L4,
    C1,
    Mail,
    Withdrawn,
    Answered,
    Cooldown,
    Turns,
}

impl Rule {
    /// Every promise that is checked.
    pub const ALL: &'static [Rule] = &[
        Rule::S1,
        Rule::S2,
        Rule::S3,
        Rule::S4,
        Rule::S5,
        Rule::S6,
        Rule::S7,
        Rule::S10,
        Rule::P2,
        Rule::L1,
        Rule::L2,
        Rule::L3,
        Rule::L4,
        Rule::C1,
        Rule::Mail,
        Rule::Withdrawn,
        Rule::Answered,
        Rule::Cooldown,
        Rule::Turns,
    ];

    /// The promise in one line.
    #[must_use]
    pub fn about(self) -> &'static str {
        match self {
            Rule::S1 => "at no instant do two holders both believe that they hold a key",
            Rule::S2 => "each tenure's fence is greater than every earlier one of its key",
            Rule::S3 => "after its loss, a tenure changes nothing",
            Rule::S4 => "belief is built only on writes that took effect, from before they were sent",
            Rule::S5 => "loss is told no later than the local deadline",
            Rule::S6 => "what could not be ended is left to expire, not given up",
            Rule::S7 => "within a section no two live leases overlap",
            Rule::S10 => "what others do to a lease's record reaches its holder in time",
            Rule::P2 => "a resource that checks fences never accepts a deposed holder",
            Rule::L1 => "a dead holder's key is held again within 1.4 ttl, or 1.15 ttl with age or push",
            Rule::L2 => "units are soon at their planned owners; with nothing changing, nothing moves",
            Rule::L3 => "a key that someone waits for does not stay free",
            Rule::L4 => "a holder does not lose its lease by itself",
            Rule::C1 => "holding costs one renewal a process, whatever it holds",
            Rule::Mail => "a holder's renewal shows it its mail",
            Rule::Withdrawn => "a letter ends what it names and no more, in time",
            Rule::Answered => "every command is answered",
            Rule::Turns => "a process that hands a key on among its own leases lets others have it in time",
            Rule::Cooldown => "a leader that has stepped down stands back for its cooldown",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

/// A promise that was broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub rule: Rule,
    /// In nanoseconds of the world's time.
    pub at: True,
    /// How.
    pub text: String,
}

/// What checks of every world remember, and the first violation.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    pub(crate) tenures: s2::Tenures,
    pub(crate) resource: p2::Resource,
    pub(crate) excused: &'static [Rule],
    pub(crate) broken: Option<Violation>,
}

impl Checks {
    /// Reports what a check found that is never excused.
    pub(crate) fn must(&mut self, at: True, rule: Rule, found: Result<(), String>) {
        if let (Err(text), None) = (found, &self.broken) {
            self.broken = Some(Violation { rule, at, text });
        }
    }

    /// Reports what a check found.
    pub(crate) fn check(&mut self, at: True, rule: Rule, found: Result<(), String>) {
        if !self.excused.contains(&rule) {
            self.must(at, rule, found);
        }
    }
}
