//! What must hold: one file for each promise, its statement and source on top. docs/promises.md has all of them, by the files' names. What one
//! promise says of something else, such as ranges, is in a file of its own, whose name begins with the promise's. `leads` has what five promises
//! say of leaders.
//!
//! Safety is checked all the time. Liveness is checked after all faults were healed.

pub(crate) mod answered;
pub(crate) mod answered_once;
pub(crate) mod answered_sections;
pub(crate) mod c1;
pub(crate) mod l1;
pub(crate) mod l1_ranges;
pub(crate) mod l1_tries;
pub(crate) mod l3;
pub(crate) mod l4;
pub(crate) mod l5;
pub(crate) mod l6;
pub(crate) mod leads;
pub(crate) mod mail;
pub(crate) mod p2;
pub(crate) mod s1;
pub(crate) mod s10;
pub(crate) mod s2;
pub(crate) mod s3;
pub(crate) mod s4;
pub(crate) mod s5;
pub(crate) mod s6;
pub(crate) mod s7;
pub(crate) mod s8;
pub(crate) mod ticks;
pub(crate) mod turns;
pub(crate) mod withdrawn;

use crate::kernel::clock::True;
use crate::kernel::kinds::kinds;
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
    S8,
    S10,
    P2,
    L1,
    L2,
    L3,
    L4,
    L5,
    L6,
    C1,
    Mail,
    Withdrawn,
    Answered,
    Cooldown,
    Turns,
    Ticks,
}

kinds! { Rule,
    S1 "S1": "at no instant do two holders both believe that they hold a key",
    S2 "S2": "each tenure's fence is greater than every earlier one of its key",
    S3 "S3": "after its loss, a tenure changes nothing",
    S4 "S4": "belief is built only on writes that took effect, from before they were sent",
    S5 "S5": "loss is told no later than the local deadline",
    S6 "S6": "what could not be ended is left to expire, not given up",
    S7 "S7": "within a section no two live leases overlap",
    S8 "S8": "never are more permits of a key out than there are, nor a writer beside anyone",
    S10 "S10": "what others do to a lease's record reaches its holder in time",
    P2 "P2": "a resource that checks fences never accepts a deposed holder",
    L1 "L1": "a dead holder's key is held again within 1.4 ttl, or 1.15 ttl with age or push",
    L2 "L2": "units are soon at their planned owners; with nothing changing, nothing moves",
    L3 "L3": "a key that someone waits for does not stay free",
    L4 "L4": "a holder does not lose its lease by itself",
    L5 "L5": "permits that are free go to the head of the queue at once, and those of the dead in time",
    L6 "L6": "nobody is granted permits before an earlier ticket",
    C1 "C1": "holding costs one renewal a process, whatever it holds",
    Mail "Mail": "a holder's renewal shows it its mail",
    Withdrawn "Withdrawn": "a letter ends what it names and no more, in time",
    Answered "Answered": "every command is answered",
    Cooldown "Cooldown": "a leader that has stepped down stands back for its cooldown",
    Turns "Turns": "a process that hands a key on among its own leases lets others have it in time",
    Ticks "Ticks": "a tick is begun once at most over all processes, or until it has ended, as is asked for",
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
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
    pub(crate) tenures: s2::TenureLog,
    pub(crate) resource: p2::FencedResource,
    pub(crate) excused: &'static [Rule],
    /// If there is one, nothing but this is looked at.
    pub(crate) only: Option<Rule>,
    pub(crate) broken: Option<Violation>,
}

impl Checks {
    /// Reports what a check found that is never excused.
    pub(crate) fn must(&mut self, at: True, rule: Rule, found: Result<(), String>) {
        if self.only.is_some_and(|only| only != rule) {
            return;
        }
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
