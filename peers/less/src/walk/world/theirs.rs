//! Candidates of less, as their source describes them.

use super::super::{EPOCH, RATE, TTL};
use super::{LessWorld, WalkEvent};

/// A candidate of less: it follows, or it is the leader until it hears otherwise.
pub(super) struct Theirs {
    pub(super) leads: bool,
    pub(super) errors: u32,
    /// How far its clock is ahead, in microseconds; less than nothing is not needed, as the others may be behind.
    pub(super) ahead: u64,
    pub(super) frozen: u64,
}

/// A call of less's: it knows the deadline before it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Their {
    SetNx { deadline: u64, now: u64 },
    Renew { deadline: u64 },
    Get,
}

impl LessWorld {
    fn clock_of_theirs(&self, n: usize) -> u64 {
        EPOCH + self.at + self.theirs[n].ahead
    }

    pub(super) fn they_tick(&mut self, n: usize) {
        let now = self.clock_of_theirs(n);
        let their = if self.theirs[n].leads {
            Their::Renew { deadline: now + TTL }
        } else {
            Their::SetNx { deadline: now + TTL, now }
        };
        let there = self.flight();
        self.push(there, WalkEvent::TheirsLands(n, their));
    }

    /// What their statements do.
    pub(super) fn land_theirs(&mut self, n: usize, their: Their) -> bool {
        let me = format!("theirs-{n}");
        match their {
            Their::SetNx { deadline, now } => {
                let may = self.row.as_ref().is_none_or(|(_, until)| *until < now);
                if may {
                    self.row = Some((me, deadline));
                    self.checks.took(self.at, None);
                }
                may
            }
            // Whoever's it is.
            Their::Renew { deadline } => {
                if let Some((_, until)) = &mut self.row {
                    *until = deadline;
                }
                true
            }
            Their::Get => {
                let now = self.clock_of_theirs(n);
                self.row.as_ref().is_some_and(|(value, until)| *value == me && *until >= now)
            }
        }
    }

    pub(super) fn they_hear(&mut self, n: usize, their: Their, heard: Option<bool>) {
        let theirs = &mut self.theirs[n];
        match (their, heard) {
            (Their::SetNx { .. }, Some(true)) => {
                (theirs.leads, theirs.errors) = (true, 0);
                return self.they_tick(n);
            }
            (Their::SetNx { .. }, _) => {}
            (Their::Renew { .. }, Some(_)) => {
                let there = self.flight();
                return self.push(there, WalkEvent::TheirsLands(n, Their::Get));
            }
            (Their::Get, Some(true)) => theirs.errors = 0,
            (Their::Get, Some(false)) => theirs.leads = false,
            (_, None) => {
                theirs.errors += 1;
                theirs.leads &= theirs.errors < 3;
            }
        }
        self.push(RATE, WalkEvent::TheyTick(n));
    }
}
