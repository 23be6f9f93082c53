//! The machine of one candidate, from its start to its stop.

use super::{Cause, Change, Input, Output, Standing, Term, Terms};
use crate::bugs::{Bug, Bugs};
use crate::holder::command::{Command, LeaseId};
use crate::holder::notice::Notice;
use crate::holder::renewal::Loss;
use crate::values::fence::Fence;
use crate::values::record::Ask;
use crate::values::time::{Now, Tick};

/// A leadership: the lease that it is, and until when that is believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Lead {
    lease: LeaseId,
    fence: Fence,
    /// Of one that renews itself: not at all, for now, at tick 0.
    until: Tick,
    /// The last end of belief that was told.
    deadline: Tick,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Idle,
    Observing(LeaseId),
    Following(LeaseId),
    Leading(Lead),
    /// It is to be given up as soon as the bodies have ended.
    Retiring(Lead, Cause),
    /// It is given up, but the holder has not said yet that it is done.
    Leaving(Lead, Cause),
    /// It is lost, and bodies are still ending.
    Waning,
    /// Stands back, looking on.
    Cooling(LeaseId, Tick),
    /// The holder could not do what was asked: once more, then.
    Pausing(Tick),
    Stopped,
}

/// The machine of one candidate.
#[derive(Debug, Clone)]
pub struct Election {
    terms: Terms,
    bugs: Bugs,
    state: State,
    observes: bool,
    stopping: bool,
    bodies: u32,
    /// A body of this leadership could not be joined.
    stuck: bool,
    session_until: Tick,
    session_deadline: Tick,
    /// Until then it stands back.
    cool_until: Tick,
}

impl Election {
    /// A candidate that has not begun. The terms must have passed their [`Terms::check`].
    #[must_use]
    pub fn new(terms: Terms, bugs: Bugs) -> Election {
        Election {
            terms,
            bugs,
            state: State::Idle,
            observes: false,
            stopping: false,
            bodies: 0,
            stuck: false,
            session_until: Tick(0),
            session_deadline: Tick(0),
            cool_until: Tick(0),
        }
    }

    /// What it goes by.
    #[must_use]
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Where it stands.
    #[must_use]
    pub fn standing(&self) -> Standing {
        match self.state {
            State::Leading(_) => Standing::Leading,
            State::Retiring(..) | State::Leaving(..) => Standing::SteppingDown,
            State::Cooling(..) => Standing::StandingBack,
            State::Observing(_) => Standing::Observing,
            State::Stopped => Standing::Stopped,
            State::Idle | State::Following(_) | State::Waning | State::Pausing(_) => Standing::Following,
        }
    }

    /// The leadership at this instant: none past the deadline, whatever was or was not told.
    #[must_use]
    pub fn leadership(&self, now: Now) -> Option<Term> {
        let lead = match &self.state {
            State::Leading(lead) | State::Retiring(lead, _) => lead,
            State::Leaving(lead, _) if self.bugs.has(Bug::ResignedStillLeads) => lead,
            _ => return None,
        };
        let mut until = if self.terms.is_attached { lead.until.min(self.session_until) } else { lead.until };
        if self.bugs.has(Bug::StaleLeadership) && until > Tick(0) {
            until = Tick::NEVER;
        }
        if self.bugs.has(Bug::ErrorsOutlastDeadline) && until > Tick(0) {
            until = until.after(self.terms.tolerance(true));
        }
        let valid_for = until.since(now.held);
        (!valid_for.is_zero()).then_some(Term { fence: lead.fence, valid_for })
    }

    /// Takes one input. `next_lease` names a lease that was never used before.
    pub fn step(&mut self, now: Now, input: Input<'_>, next_lease: &mut dyn FnMut() -> LeaseId) -> Output {
        let mut stage = Stage { now, output: Output::default(), next_lease };
        match input {
            Input::Start => self.start(&mut stage, false),
            Input::Observe => self.start(&mut stage, true),
            Input::Resign => self.retire(&mut stage, Cause::Resigned),
            Input::Stop => self.stop(&mut stage),
            Input::BodyBegan => self.bodies += 1,
            Input::BodyEnded { joined } => self.body_ended(&mut stage, joined),
            Input::Told(notice) => self.told(&mut stage, notice),
            Input::Wake => {}
        }
        self.mind_time(&mut stage);
        let mut output = stage.output;
        output.wake_at = self.wake_at();
        output
    }

    fn start(&mut self, stage: &mut Stage<'_>, observes: bool) {
        match self.state {
            State::Idle => {
                self.observes = observes;
                self.go_on(stage);
            }
            State::Cooling(watch, _) if !observes => {
                stage.output.commands.push(Command::Release(watch, None));
                self.cool_until = Tick(0);
                self.go_on(stage);
            }
            _ => {}
        }
    }

    /// The next attempt, or what takes its place.
    fn go_on(&mut self, stage: &mut Stage<'_>) {
        if self.stopping {
            return self.stopped(stage);
        }
        let lease = (stage.next_lease)();
        let cooling = stage.now.held < self.cool_until && !self.bugs.has(Bug::CooldownIgnored);
        self.state = if self.observes {
            stage.output.commands.push(self.terms.watch(lease));
            State::Observing(lease)
        } else if cooling {
            stage.output.commands.push(self.terms.watch(lease));
            State::Cooling(lease, self.cool_until)
        } else {
            stage.output.commands.push(self.terms.acquire(lease));
            State::Following(lease)
        };
    }

    fn stop(&mut self, stage: &mut Stage<'_>) {
        self.stopping = true;
        match self.state {
            State::Leading(_) => self.retire(stage, Cause::Stopping),
            State::Observing(lease) | State::Following(lease) | State::Cooling(lease, _) => {
                stage.output.commands.push(Command::Release(lease, None));
                self.stopped(stage);
            }
            State::Idle | State::Pausing(_) => self.stopped(stage),
            State::Retiring(..) | State::Leaving(..) | State::Waning | State::Stopped => {}
        }
    }

    fn stopped(&mut self, stage: &mut Stage<'_>) {
        self.state = State::Stopped;
        stage.output.changes.push(Change::Stopped);
    }

    /// Stops leading, as soon as what runs under it has ended.
    fn retire(&mut self, stage: &mut Stage<'_>, cause: Cause) {
        let State::Leading(lead) = self.state else { return };
        stage.output.changes.push(Change::StepDown(cause.clone()));
        if self.bodies == 0 || self.bugs.has(Bug::BodyOutlivesTerm) {
            self.leave(stage, lead, cause);
        } else {
            self.state = State::Retiring(lead, cause);
        }
    }

    fn leave(&mut self, stage: &mut Stage<'_>, lead: Lead, cause: Cause) {
        stage.ended(cause.clone());
        let stuck = std::mem::take(&mut self.stuck);
        // What could not be ended may act until the deadline: then nobody may be let in before.
        let give_up = if stuck { Command::Lapse(lead.lease) } else { Command::Release(lead.lease, None) };
        stage.output.commands.push(give_up);
        self.state = State::Leaving(lead, cause);
    }

    fn body_ended(&mut self, stage: &mut Stage<'_>, joined: bool) {
        self.bodies = self.bodies.saturating_sub(1);
        self.stuck |= !joined;
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Retiring(lead, cause) if self.bodies == 0 => self.leave(stage, lead, cause),
            State::Waning if self.bodies == 0 => {
                self.stuck = false;
                self.go_on(stage);
            }
            state => {
                // Of a term that is over already, nothing is left to be given up.
                self.stuck &= matches!(state, State::Leading(_) | State::Retiring(..) | State::Waning);
                self.state = state;
                if self.stuck {
                    self.retire(stage, Cause::Stuck);
                }
            }
        }
    }

    fn told(&mut self, stage: &mut Stage<'_>, notice: &Notice) {
        match notice {
            Notice::SessionValid(until) => {
                self.session_until = *until;
                self.session_deadline = if *until == Tick(0) { self.session_deadline } else { *until };
            }
            Notice::Acquired { lease, fence, until, .. } if self.follows(*lease) => {
                let (lease, fence, until) = (*lease, *fence, *until);
                self.state = State::Leading(Lead { lease, fence, until, deadline: until });
                stage.output.changes.push(Change::Elected { lease, fence });
            }
            Notice::Valid(lease, until) => self.valid(*lease, *until),
            Notice::Asked(lease, ask) if self.leads(*lease) && *ask != Ask::Confirm => {
                self.retire(stage, Cause::Asked);
            }
            Notice::Lost(lease, loss) => self.lost(stage, *lease, loss),
            Notice::Released(lease, _) => self.released(stage, *lease),
            Notice::Seen(lease, sighting) if self.looks(*lease) => {
                stage.output.changes.push(Change::Leader(sighting.as_deref().cloned()));
            }
            Notice::Failed(lease, error) if self.looks(*lease) => {
                stage.output.changes.push(Change::Failing(error.clone()));
                self.state = State::Pausing(stage.now.held.after(self.terms.follow));
            }
            Notice::Held(lease, _) | Notice::Absent(lease) if self.looks(*lease) => {
                self.state = State::Pausing(stage.now.held.after(self.terms.follow));
            }
            Notice::Stopped if self.state != State::Stopped => {
                if matches!(self.state, State::Leading(_) | State::Retiring(..)) {
                    stage.ended(Cause::Stopping);
                }
                self.stopped(stage);
            }
            _ => {}
        }
    }

    fn follows(&self, lease: LeaseId) -> bool {
        self.state == State::Following(lease)
    }

    fn looks(&self, lease: LeaseId) -> bool {
        match self.state {
            State::Observing(id) | State::Following(id) | State::Cooling(id, _) => id == lease,
            _ => false,
        }
    }

    fn leads(&self, lease: LeaseId) -> bool {
        matches!(&self.state, State::Leading(lead) | State::Retiring(lead, _) if lead.lease == lease)
    }

    fn valid(&mut self, lease: LeaseId, until: Tick) {
        if let State::Leading(lead) | State::Retiring(lead, _) = &mut self.state
            && lead.lease == lease
        {
            lead.until = until;
            lead.deadline = if until == Tick(0) { lead.deadline } else { until };
        }
    }

    fn lost(&mut self, stage: &mut Stage<'_>, lease: LeaseId, loss: &Loss) {
        if !self.leads(lease) || self.bugs.has(Bug::LostStillLeads) {
            return;
        }
        let cause = Cause::Lost(loss.clone());
        if matches!(self.state, State::Leading(_)) {
            stage.output.changes.push(Change::StepDown(cause.clone()));
        }
        stage.ended(cause);
        if self.bodies > 0 {
            self.state = State::Waning;
        } else {
            self.stuck = false;
            self.go_on(stage);
        }
    }

    fn released(&mut self, stage: &mut Stage<'_>, lease: LeaseId) {
        if let State::Leaving(lead, _) = &self.state
            && lead.lease == lease
        {
            self.cool_until = stage.now.held.after(self.terms.cooldown);
            self.go_on(stage);
        }
    }

    /// Does what is due.
    fn mind_time(&mut self, stage: &mut Stage<'_>) {
        match self.state {
            State::Leading(lead) if stage.now.held >= self.fall_back_at(lead) => {
                self.retire(stage, Cause::Failing);
            }
            State::Cooling(watch, until) if stage.now.held >= until => {
                stage.output.commands.push(Command::Release(watch, None));
                self.go_on(stage);
            }
            State::Pausing(until) if stage.now.held >= until => self.go_on(stage),
            _ => {}
        }
    }

    /// When so many renewals in a row have failed that it is time to fall back: before the deadline if the terms say how many, or so that the
    /// bodies have time to end. With nothing to end, there is no reason to give up what one more renewal may keep.
    fn fall_back_at(&self, lead: Lead) -> Tick {
        if self.terms.errors.is_none() && self.bodies == 0 {
            // The lease's own end is told.
            return Tick::NEVER;
        }
        let deadline = if self.terms.is_attached { self.session_deadline } else { lead.deadline };
        if deadline == Tick(0) {
            // Nothing was heard of the session yet, nor is anything believed.
            return Tick::NEVER;
        }
        let reserve = self.terms.belief().saturating_sub(self.terms.tolerance(self.bodies > 0));
        Tick(deadline.0.saturating_sub(u64::try_from(reserve.as_nanos()).unwrap_or(u64::MAX)))
    }

    fn wake_at(&self) -> Option<Tick> {
        match self.state {
            State::Leading(lead) => Some(self.fall_back_at(lead)).filter(|at| *at < Tick::NEVER),
            State::Cooling(_, until) | State::Pausing(until) => Some(until),
            _ => None,
        }
    }
}

/// One step's means.
struct Stage<'a> {
    now: Now,
    output: Output,
    next_lease: &'a mut dyn FnMut() -> LeaseId,
}

impl Stage<'_> {
    fn ended(&mut self, cause: Cause) {
        self.output.changes.extend([Change::Ended(cause), Change::Leader(None)]);
    }
}
