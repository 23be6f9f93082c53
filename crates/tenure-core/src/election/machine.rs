//! The machine of one candidate, from its start to its stop.

use super::{Change, Input, Output, Standing, StepDownCause, Term, Terms};
use crate::backoff::refusal::LastingRefusal;
use crate::bugs::{Bug, Bugs};
use crate::holder::command::Command;
use crate::holder::lease_id::LeaseId;
use crate::holder::loss::Loss;
use crate::holder::notice::Notice;
use crate::values::fence::Fence;
use crate::values::time::{Now, Tick};

/// A leadership: the lease that it is, and until when that is believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Leadership {
    lease: LeaseId,
    fence: Fence,
    /// Of one that renews itself: not at all, for now, at tick 0.
    until: Tick,
    /// The last end of belief that was told.
    deadline: Tick,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum CandidacyState {
    Idle,
    Observing(LeaseId),
    Following(LeaseId),
    Leading(Leadership),
    /// It is to be given up as soon as the bodies have ended.
    Retiring(Leadership, StepDownCause),
    /// It is given up, but the holder has not said yet that it is done.
    Leaving(Leadership, StepDownCause),
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
    state: CandidacyState,
    observes: bool,
    stopping: bool,
    bodies: u32,
    /// A body of this leadership could not be joined.
    stuck: bool,
    session_until: Tick,
    session_deadline: Tick,
    /// Until then it stands back.
    cool_until: Tick,
    /// The store refuses each look.
    refused: Option<LastingRefusal>,
}

impl Election {
    /// A candidate that has not begun. The terms must have passed their [`Terms::check`].
    #[must_use]
    pub fn new(terms: Terms, bugs: Bugs) -> Election {
        Election {
            terms,
            bugs,
            state: CandidacyState::Idle,
            observes: false,
            stopping: false,
            bodies: 0,
            stuck: false,
            session_until: Tick(0),
            session_deadline: Tick(0),
            cool_until: Tick(0),
            refused: None,
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
            CandidacyState::Leading(_) => Standing::Leading,
            CandidacyState::Retiring(..) | CandidacyState::Leaving(..) => Standing::SteppingDown,
            CandidacyState::Cooling(..) => Standing::StandingBack,
            CandidacyState::Observing(_) => Standing::Observing,
            CandidacyState::Stopped => Standing::Stopped,
            CandidacyState::Idle
            | CandidacyState::Following(_)
            | CandidacyState::Waning
            | CandidacyState::Pausing(_) => Standing::Following,
        }
    }

    /// The leadership at this instant: none past the deadline, whatever was or was not told.
    #[must_use]
    pub fn leadership(&self, now: Now) -> Option<Term> {
        let lead = match &self.state {
            CandidacyState::Leading(lead) | CandidacyState::Retiring(lead, _) => lead,
            CandidacyState::Leaving(lead, _) if self.bugs.has(Bug::ResignedStillLeads) => lead,
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
        let mut stage = StepContext { now, output: Output::default(), next_lease };
        match input {
            Input::Start => self.start(&mut stage, false),
            Input::Observe => self.start(&mut stage, true),
            Input::Resign => self.retire(&mut stage, StepDownCause::Resigned),
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

    fn start(&mut self, stage: &mut StepContext<'_>, observes: bool) {
        match self.state {
            CandidacyState::Idle => {
                self.observes = observes;
                self.go_on(stage);
            }
            CandidacyState::Cooling(watch, _) if !observes => {
                stage.output.commands.push(Command::Release(watch, None));
                self.cool_until = Tick(0);
                self.go_on(stage);
            }
            _ => {}
        }
    }

    /// The next attempt, or what takes its place.
    fn go_on(&mut self, stage: &mut StepContext<'_>) {
        if self.stopping {
            return self.stopped(stage);
        }
        let lease = (stage.next_lease)();
        let cooling = stage.now.held < self.cool_until && !self.bugs.has(Bug::CooldownIgnored);
        self.state = if self.observes {
            stage.output.commands.push(self.terms.watch(lease));
            CandidacyState::Observing(lease)
        } else if cooling {
            stage.output.commands.push(self.terms.watch(lease));
            CandidacyState::Cooling(lease, self.cool_until)
        } else {
            stage.output.commands.push(self.terms.acquire(lease));
            CandidacyState::Following(lease)
        };
    }

    fn stop(&mut self, stage: &mut StepContext<'_>) {
        self.stopping = true;
        match self.state {
            CandidacyState::Leading(_) => self.retire(stage, StepDownCause::Stopping),
            CandidacyState::Observing(lease)
            | CandidacyState::Following(lease)
            | CandidacyState::Cooling(lease, _) => {
                stage.output.commands.push(Command::Release(lease, None));
                self.stopped(stage);
            }
            CandidacyState::Idle | CandidacyState::Pausing(_) => self.stopped(stage),
            CandidacyState::Retiring(..)
            | CandidacyState::Leaving(..)
            | CandidacyState::Waning
            | CandidacyState::Stopped => {}
        }
    }

    fn stopped(&mut self, stage: &mut StepContext<'_>) {
        self.state = CandidacyState::Stopped;
        stage.output.changes.push(Change::Stopped);
    }

    /// Stops leading, as soon as what runs under it has ended.
    fn retire(&mut self, stage: &mut StepContext<'_>, cause: StepDownCause) {
        let CandidacyState::Leading(lead) = self.state else { return };
        stage.output.changes.push(Change::StepDown(cause.clone()));
        if self.bodies == 0 || self.bugs.has(Bug::BodyOutlivesTerm) {
            self.leave(stage, lead, cause);
        } else {
            self.state = CandidacyState::Retiring(lead, cause);
        }
    }

    fn leave(&mut self, stage: &mut StepContext<'_>, lead: Leadership, cause: StepDownCause) {
        stage.ended(cause.clone());
        let stuck = std::mem::take(&mut self.stuck);
        // What could not be ended may act until the deadline: then nobody may be let in before.
        let give_up = if stuck { Command::Lapse(lead.lease) } else { Command::Release(lead.lease, None) };
        stage.output.commands.push(give_up);
        self.state = CandidacyState::Leaving(lead, cause);
    }

    fn body_ended(&mut self, stage: &mut StepContext<'_>, joined: bool) {
        self.bodies = self.bodies.saturating_sub(1);
        self.stuck |= !joined;
        match std::mem::replace(&mut self.state, CandidacyState::Idle) {
            CandidacyState::Retiring(lead, cause) if self.bodies == 0 => self.leave(stage, lead, cause),
            CandidacyState::Waning if self.bodies == 0 => {
                self.stuck = false;
                self.go_on(stage);
            }
            state => {
                // Of a term that is over already, nothing is left to be given up.
                self.stuck &= matches!(
                    state,
                    CandidacyState::Leading(_) | CandidacyState::Retiring(..) | CandidacyState::Waning
                );
                self.state = state;
                if self.stuck {
                    self.retire(stage, StepDownCause::Stuck);
                }
            }
        }
    }

    fn told(&mut self, stage: &mut StepContext<'_>, notice: &Notice) {
        match notice {
            Notice::SessionValid(until) => {
                self.session_until = *until;
                self.session_deadline = if *until == Tick(0) { self.session_deadline } else { *until };
            }
            Notice::Acquired { lease, fence, until, .. } if self.follows(*lease) => {
                let (lease, fence, until) = (*lease, *fence, *until);
                self.refused = None;
                self.state = CandidacyState::Leading(Leadership { lease, fence, until, deadline: until });
                stage.output.changes.push(Change::Elected { lease, fence });
            }
            Notice::Valid(lease, until) => self.valid(*lease, *until),
            Notice::Asked(lease, ask) if self.leads(*lease) && !ask.is_question() => {
                self.retire(stage, StepDownCause::Asked);
            }
            Notice::Lost(lease, loss) => self.lost(stage, *lease, loss),
            Notice::Released(lease, _) => self.released(stage, *lease),
            Notice::Seen(lease, sighting) if self.looks(*lease) => {
                // A claim tells that nobody is known before anything is asked.
                if sighting.is_some() {
                    self.refused = None;
                }
                stage.output.changes.push(Change::Leader(sighting.as_deref().cloned()));
            }
            Notice::Failed(lease, error) if self.looks(*lease) => {
                stage.output.changes.push(Change::Failing(error.clone()));
                let (now, ttl) = (stage.now, self.terms.ttl.duration());
                let again_at = now.held.after(self.terms.follow);
                let refused = || LastingRefusal::next(self.refused, now, ttl, false).at_the_soonest(again_at);
                self.refused = (!error.is_passing()).then(refused);
                let until = self.refused.map_or(again_at, |refusal| refusal.again_at);
                self.state = CandidacyState::Pausing(until);
            }
            Notice::Held(lease, _) | Notice::Absent(lease) if self.looks(*lease) => {
                self.refused = None;
                self.state = CandidacyState::Pausing(stage.now.held.after(self.terms.follow));
            }
            Notice::Stopped if self.state != CandidacyState::Stopped => {
                if matches!(self.state, CandidacyState::Leading(_) | CandidacyState::Retiring(..)) {
                    stage.ended(StepDownCause::Stopping);
                }
                self.stopped(stage);
            }
            _ => {}
        }
    }

    fn follows(&self, lease: LeaseId) -> bool {
        self.state == CandidacyState::Following(lease)
    }

    fn looks(&self, lease: LeaseId) -> bool {
        match self.state {
            CandidacyState::Observing(id)
            | CandidacyState::Following(id)
            | CandidacyState::Cooling(id, _) => id == lease,
            _ => false,
        }
    }

    fn leads(&self, lease: LeaseId) -> bool {
        matches!(&self.state, CandidacyState::Leading(lead) | CandidacyState::Retiring(lead, _) if lead.lease == lease)
    }

    fn valid(&mut self, lease: LeaseId, until: Tick) {
        if let CandidacyState::Leading(lead) | CandidacyState::Retiring(lead, _) = &mut self.state
            && lead.lease == lease
        {
            lead.until = until;
            lead.deadline = if until == Tick(0) { lead.deadline } else { until };
        }
    }

    fn lost(&mut self, stage: &mut StepContext<'_>, lease: LeaseId, loss: &Loss) {
        if !self.leads(lease) || self.bugs.has(Bug::LostStillLeads) {
            return;
        }
        let cause = StepDownCause::Lost(loss.clone());
        if matches!(self.state, CandidacyState::Leading(_)) {
            stage.output.changes.push(Change::StepDown(cause.clone()));
        }
        stage.ended(cause);
        if self.bodies > 0 {
            self.state = CandidacyState::Waning;
        } else {
            self.stuck = false;
            self.go_on(stage);
        }
    }

    fn released(&mut self, stage: &mut StepContext<'_>, lease: LeaseId) {
        if let CandidacyState::Leaving(lead, _) = &self.state
            && lead.lease == lease
        {
            self.cool_until = stage.now.held.after(self.terms.cooldown);
            self.go_on(stage);
        }
    }

    /// Does what is due.
    fn mind_time(&mut self, stage: &mut StepContext<'_>) {
        match self.state {
            CandidacyState::Leading(lead) if stage.now.held >= self.fall_back_at(lead) => {
                self.retire(stage, StepDownCause::Failing);
            }
            CandidacyState::Cooling(watch, until) if stage.now.held >= until => {
                stage.output.commands.push(Command::Release(watch, None));
                self.go_on(stage);
            }
            CandidacyState::Pausing(until) if stage.now.held >= until => self.go_on(stage),
            _ => {}
        }
    }

    /// When so many renewals in a row have failed that it is time to fall back: before the deadline if the terms say how many, or so that the
    /// bodies have time to end. With nothing to end, there is no reason to give up what one more renewal may keep.
    fn fall_back_at(&self, lead: Leadership) -> Tick {
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
            CandidacyState::Leading(lead) => Some(self.fall_back_at(lead)).filter(|at| *at < Tick::NEVER),
            CandidacyState::Cooling(_, until) | CandidacyState::Pausing(until) => Some(until),
            _ => None,
        }
    }
}

/// One step's means.
struct StepContext<'a> {
    now: Now,
    output: Output,
    next_lease: &'a mut dyn FnMut() -> LeaseId,
}

impl StepContext<'_> {
    fn ended(&mut self, cause: StepDownCause) {
        self.output.changes.extend([Change::Ended(cause), Change::Leader(None)]);
    }
}
