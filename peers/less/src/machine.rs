//! The rules of a candidate, without I/O, clock or randomness.
//!
//! A candidate *follows* or *leads*, and has one call to the storage under way at the most. Whoever drives it calls `step` when a call
//! was answered, a wake-up is due, or somebody wishes something; and `told` with each answer.
//!
//! **Leading** rests on a write of one's own that was answered: on the take, or on the last renewal. Belief is counted from before that
//! was sent, by elapsed time, and lasts `(ttl − skew)·(1−ρ)/(1+ρ)`. So it is over before the row's deadline is past by any clock that is
//! within the margin. If the wall clock has gained more than a second on elapsed time since then, time was hidden: the leader steps down.
//!
//! **Following** looks at the row. A row is taken when two things hold. Its deadline has been past for the margin, by the storage's clock. And
//! this candidate has itself seen the row unchanged for a ttl less the margin, which is longer than the belief of whoever wrote it can last. So a
//! clock that jumps deceives nobody. Neither does a renewal of less's that lands late: it renews whatever row is there, and may set its deadline
//! back while the leader believes. Only the very row that was seen is taken. All this rests on a ttl that all candidates of a key share.
//!
//! **An unknown outcome** of a take may have made this candidate the leader. It does not believe that, but renews: only then is the
//! answer's time known. The same holds for a leader that stepped down while the row is still its own.
//!
//! **A release** removes the very row that a look has shown. It may land long after it was given up, when this candidate leads again under the
//! same id: each take and each renewal makes another row of it, which the release then leaves alone. Where a release fails, it is tried again
//! after a pause. In the end the row is left to expire, and watched like another's: whoever resigned must not lead again by a renewal of it.

mod giving_back;

use crate::options::CandidateOptions;
use crate::storage::{LeaderRow, Seen, StorageGone};
use std::fmt;
use tenure_core::{ErrorKind, Now, StoreError, Tick};

/// A call to the storage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StorageCall {
    Look,
    Take { over: Option<LeaderRow> },
    Renew,
    Release { row: LeaderRow },
}

/// What the storage said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StorageAnswer {
    Seen(Seen),
    /// A take, a renewal or a release took effect.
    Done,
    /// The row is not as the call wanted it.
    Refused,
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MachineStep {
    Ask(StorageCall),
    /// Nothing until then, on the holder's time line.
    Wait(Tick),
    /// It is stopped.
    Over,
}

/// Why a leadership has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EndCause {
    /// The candidate resigned.
    Resigned,
    /// The candidate was stopped.
    Stopped,
    /// As many renewals in a row have failed as its options allow, or one whose storage is [gone](crate::StorageGone).
    Errors,
    /// No renewal was answered before the deadline.
    Deadline,
    /// The row is another's, or was removed.
    Taken,
    /// The wall clock shows that time was hidden from this process.
    HiddenTime,
}

/// As a log has it.
impl fmt::Display for EndCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EndCause::Resigned => "it resigned",
            EndCause::Stopped => "it was stopped",
            EndCause::Errors => "too many renewals in a row have failed",
            EndCause::Deadline => "no renewal was answered in time",
            EndCause::Taken => "the row is another's, was removed, or its deadline was set back",
            EndCause::HiddenTime => "the wall clock shows that time was hidden from this process",
        })
    }
}

/// What has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LeadershipNotice {
    /// It leads, surely until the tick.
    Elected(Tick),
    /// It leads for longer.
    Renewed(Tick),
    Ended(EndCause),
    /// Another leads, or nobody.
    Leader(Option<String>),
    Failing(StoreError),
    /// The row has this candidate's own id, but is none that it wrote.
    SameId,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Following,
    Leading { founded: Now, deadline: Tick, errors: u32 },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Intent {
    Lead,
    Resign,
    Stop,
    /// As `Stop`, but a row of its own is left to expire.
    Lapse,
}

/// A row that another leads by, and from when on it may be taken, on the waiter's time line.
#[derive(Debug)]
struct WatchedRow {
    row: LeaderRow,
    takable: Tick,
}

/// What the last look showed.
#[derive(Debug)]
enum Sight {
    Unknown,
    Vacant,
    Watched(WatchedRow),
}

#[derive(Debug)]
pub(crate) struct LeadershipMachine {
    options: CandidateOptions,
    id: String,
    phase: Phase,
    wish: Intent,
    /// The row may be this candidate's own.
    may_be_mine: bool,
    sight: Sight,
    /// The next call, on the holder's time line.
    next: Tick,
    /// Until then a candidate that resigned lets others lead.
    stands_back: Tick,
    asked: Option<(StorageCall, Now)>,
    /// What was seen by the last look may be taken once it has been watched for long enough.
    is_due: bool,
    /// It has tried to take the row at some time.
    has_taken: bool,
    /// Its own row, as a look has shown it that was made to give it back.
    own: Option<LeaderRow>,
    failed_releases: u32,
    /// No sooner is it tried again, on the holder's time line.
    next_release: Tick,
    /// For how long at the least one that resigns tries to give its row back.
    gives_back_until: Tick,
    /// It has given a leadership up, and nobody was seen to lead since.
    has_resigned: bool,
    leader: Option<String>,
    notices: Vec<LeadershipNotice>,
}

impl LeadershipMachine {
    pub(crate) fn new(options: CandidateOptions, id: String) -> LeadershipMachine {
        LeadershipMachine {
            options,
            id,
            phase: Phase::Following,
            wish: Intent::Lead,
            may_be_mine: false,
            sight: Sight::Unknown,
            next: Tick(0),
            stands_back: Tick(0),
            asked: None,
            is_due: false,
            has_taken: false,
            own: None,
            failed_releases: 0,
            next_release: Tick(0),
            gives_back_until: Tick(0),
            has_resigned: false,
            leader: None,
            notices: Vec::new(),
        }
    }

    pub(crate) fn resign(&mut self) {
        if self.wish == Intent::Lead {
            self.wish = Intent::Resign;
        }
    }

    /// Whoever lapsed before, lapses still: the row must last for as long as its work may.
    pub(crate) fn stop(&mut self) {
        if self.wish != Intent::Lapse {
            self.wish = Intent::Stop;
        }
    }

    pub(crate) fn lapse(&mut self) {
        self.wish = Intent::Lapse;
    }

    pub(crate) fn notices(&mut self) -> Vec<LeadershipNotice> {
        std::mem::take(&mut self.notices)
    }

    /// Whether it leads, for whoever has just made a step.
    #[cfg(test)]
    pub(crate) fn believes(&self, held: Tick) -> bool {
        matches!(self.phase, Phase::Leading { deadline, .. } if held < deadline)
    }

    /// What is to be done now. `random` is any number: a follower comes up to a tenth sooner than its rate, so that not all ask at once.
    pub(crate) fn step(&mut self, now: Now, random: u64) -> MachineStep {
        self.mind_the_time(now);
        self.mind_the_wish(now);
        let until = match self.phase {
            Phase::Leading { deadline, .. } => deadline,
            Phase::Following => Tick::NEVER,
        };
        if self.asked.is_some() {
            return MachineStep::Wait(until);
        }
        if let Some(step) = self.give_up(now) {
            return step;
        }
        if now.held < self.next {
            return MachineStep::Wait(self.next.min(until));
        }
        let ask = match self.phase {
            Phase::Leading { .. } => StorageCall::Renew,
            Phase::Following if self.may_be_mine => StorageCall::Renew,
            Phase::Following => self.follow(now, random),
        };
        self.ask(ask, now)
    }

    fn ask(&mut self, ask: StorageCall, now: Now) -> MachineStep {
        self.asked = Some((ask.clone(), now));
        MachineStep::Ask(ask)
    }

    /// A leader whose time is over, or from whom time was hidden, is none any more.
    fn mind_the_time(&mut self, now: Now) {
        let Phase::Leading { founded, deadline, .. } = self.phase else { return };
        if now.held >= deadline {
            self.step_down(EndCause::Deadline, now);
        } else if now.has_gap(founded.held, founded.wall) {
            self.step_down(EndCause::HiddenTime, now);
        }
    }

    /// The next call of a follower that is due.
    fn follow(&mut self, now: Now, random: u64) -> StorageCall {
        let is_due = self.is_due && now.held >= self.stands_back;
        match &self.sight {
            _ if !is_due => {}
            Sight::Vacant => return self.take(None),
            Sight::Watched(watch) if now.waited >= watch.takable => {
                return self.take(Some(watch.row.clone()));
            }
            Sight::Watched(_) | Sight::Unknown => {}
        }
        let sooner = self.options.follow.mul_f64((random % 100) as f64 / 1000.0);
        self.next = now.held.after(self.options.follow.saturating_sub(sooner));
        StorageCall::Look
    }

    /// One attempt for each look: the storage may know better, and what it knows the next look shows.
    fn take(&mut self, over: Option<LeaderRow>) -> StorageCall {
        self.is_due = false;
        self.has_taken = true;
        StorageCall::Take { over }
    }

    /// The call that is under way was answered, or given up as unknown.
    pub(crate) fn told(&mut self, told: Result<StorageAnswer, StoreError>, now: Now) {
        self.mind_the_time(now);
        let Some((ask, sent)) = self.asked.take() else { return };
        if let Err(error) = &told {
            self.notices.push(LeadershipNotice::Failing(error.clone()));
        }
        let is_unknown = matches!(&told, Err(error) if error.kind() == ErrorKind::Unknown);
        match (ask, told) {
            (StorageCall::Look, Ok(StorageAnswer::Seen(seen))) if self.is_giving_back() => {
                self.sight = if seen.row.is_none() { Sight::Vacant } else { Sight::Unknown };
                self.own = seen.row.filter(|row| row.value == self.id);
                self.may_be_mine = self.own.is_some();
            }
            (StorageCall::Look | StorageCall::Release { .. }, Err(_)) if self.is_giving_back() => {
                // Trouble of a moment must not use up all attempts.
                self.next_release = now.held.after(self.options.follow / 4);
                self.failed_to_give_back(now);
            }
            (StorageCall::Look, Ok(StorageAnswer::Seen(seen))) => self.look(seen, now),
            (StorageCall::Take { .. }, Ok(StorageAnswer::Done)) => self.won(sent, now),
            (StorageCall::Take { .. }, Ok(_)) => self.next = now.held.after(self.options.follow / 8),
            (StorageCall::Take { .. }, Err(_)) => {
                self.may_be_mine |= is_unknown;
                self.next = now.held.after(self.options.follow);
            }
            (StorageCall::Renew, Ok(StorageAnswer::Done)) => self.won(sent, now),
            (StorageCall::Renew, Ok(_)) => self.lost(now),
            (StorageCall::Renew, Err(error)) => self.failed(now, StorageGone::is_why(&error)),
            (StorageCall::Release { .. }, Ok(StorageAnswer::Done)) => {
                self.may_be_mine = false;
                self.sight = Sight::Vacant;
            }
            // One that is refused was renewed meanwhile, or is another's: the next look shows that.
            (StorageCall::Release { .. }, _) => self.failed_to_give_back(now),
            (StorageCall::Look, _) => {}
        }
    }

    /// A write of this candidate's own has made it the leader, or has left it so.
    fn won(&mut self, sent: Now, now: Now) {
        self.may_be_mine = true;
        self.has_resigned = false;
        self.sight = Sight::Unknown;
        self.next = now.held.after(self.options.hold);
        let deadline = sent.held.after(self.options.belief());
        if now.has_gap(sent.held, sent.wall) || now.held >= deadline {
            // The write is too old to rest on: the next one decides.
            self.next = now.held;
            return;
        }
        let was_leading = matches!(self.phase, Phase::Leading { .. });
        if !was_leading && self.wish != Intent::Lead {
            // It does not lead for a moment only: the row is given back, or left to expire.
            return;
        }
        self.phase = Phase::Leading { founded: sent, deadline, errors: 0 };
        if was_leading {
            self.notices.push(LeadershipNotice::Renewed(deadline));
        } else {
            self.leader = Some(self.id.clone());
            self.notices.push(LeadershipNotice::Elected(deadline));
        }
    }

    /// The row is not this candidate's, or not any more.
    fn lost(&mut self, now: Now) {
        self.may_be_mine = false;
        self.sight = Sight::Unknown;
        self.next = now.held;
        if matches!(self.phase, Phase::Leading { .. }) {
            self.step_down(EndCause::Taken, now);
        }
    }

    /// A renewal has failed, or its outcome is unknown. `is_final`: no later one will do.
    fn failed(&mut self, now: Now, is_final: bool) {
        let Phase::Leading { errors, .. } = &mut self.phase else {
            self.next = now.held.after(self.options.follow);
            return;
        };
        *errors += 1;
        let enough = is_final || *errors >= self.options.errors;
        self.next = now.held.after(self.options.hold);
        if enough {
            self.step_down(EndCause::Errors, now);
        }
    }

    fn step_down(&mut self, cause: EndCause, now: Now) {
        self.phase = Phase::Following;
        self.leader = None;
        self.next = self.next.min(now.held.after(self.options.follow));
        self.notices.push(LeadershipNotice::Ended(cause));
    }

    /// A look was answered.
    fn look(&mut self, seen: Seen, now: Now) {
        let leader = seen.row.as_ref().filter(|row| row.deadline >= seen.now).map(|row| row.value.clone());
        self.let_others_go_first(&seen, now);
        self.sight = match (std::mem::replace(&mut self.sight, Sight::Unknown), &seen.row) {
            (_, None) => Sight::Vacant,
            (Sight::Watched(watch), Some(row)) if watch.row == *row => Sight::Watched(watch),
            (_, Some(row)) => {
                if row.value == self.id && !self.has_taken {
                    self.notices.push(LeadershipNotice::SameId);
                }
                let left = row.deadline.after(self.options.skew).since(seen.now);
                let mut wait = left.max(self.options.ttl.saturating_sub(self.options.skew));
                if row.value == self.id && self.has_resigned {
                    // It could not be given back. Others go first, once it has expired.
                    wait += self.options.follow * 2;
                }
                Sight::Watched(WatchedRow { row: row.clone(), takable: now.waited.after(wait) })
            }
        };
        self.is_due = true;
        let due = match &self.sight {
            Sight::Watched(watch) => {
                let left = watch.row.deadline.after(self.options.skew).since(seen.now);
                now.expect(watch.takable).max(now.held.after(left))
            }
            Sight::Vacant | Sight::Unknown => now.held,
        };
        self.next = self.next.min(due.max(self.stands_back));
        if leader != self.leader {
            self.leader.clone_from(&leader);
            self.notices.push(LeadershipNotice::Leader(leader));
        }
    }
}

#[cfg(test)]
mod tests;
