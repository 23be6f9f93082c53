//! Once per tick: policy over one lease, whose record keeps the runs of the ticks.
//!
//! A *tick* is named by its scheduled time, which is the same on all hosts whatever their clocks show. The holder of the
//! lease reads in its record which tick came last. A later tick is due. Its start is written first, under the lease.
//! The body runs only once that write is known to stand, and the lease is still held. So no clock, stall or death lets two processes begin the
//! same tick: one of the two writes is refused, or finds the other.
//!
//! | what the record shows of this tick | at most once | at least once |
//! |---|---|---|
//! | nothing, or an earlier tick | it is due | it is due |
//! | it has begun, and the process that began it is gone (otherwise the lease would not be ours) | it has run | it is due |
//! | it has ended, or a later tick has begun | it has run | it has run |
//!
//! Clocks matter for one thing. A host whose clock is ahead begins ticks early, before they are due on other hosts.
//! So a tick that lies ahead of the host's own clock is refused. If the record shows one that lies ahead by more than
//! clocks may differ, the machine reports it, for that tick keeps this key from running at all.
//!
//! The machine sends nothing by itself. It gets the lease's notices, and answers with commands for the lease.

mod history;

pub use history::{History, Run, RunState, kept_until};

use crate::bugs::{Bug, Bugs};
use crate::values::error::{InvalidInput, StoreError};
use crate::values::fence::Fence;
use crate::values::key::HolderId;
use crate::values::metadata::Metadata;
use crate::values::time::{Wall, millis};
use std::time::Duration;

/// What becomes of a tick whose host dies in the middle of it.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Delivery {
    /// It has run.
    #[default]
    AtMostOnce,
    /// Another host runs it from the start, if one asks for it.
    AtLeastOnce,
}

/// One tick of one key, as one process would run it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Once {
    tick: Wall,
    delivery: Delivery,
    /// How far clocks may differ.
    skew: Duration,
    /// How long after a tick it may be asked for; its record is kept from gc for as long, by all clocks.
    keep: Duration,
    holder: HolderId,
    bugs: Bugs,
    state: OnceState,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum OnceState {
    /// The lease is not had yet.
    Waiting,
    /// The lease is had, and that the tick begins is being written.
    Beginning(History),
    /// The body runs.
    Running(History),
    Over,
}

/// What becomes of the lease, and of the body under it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OnceEvent {
    /// It is held, with this fence, and its record carries this.
    Held(Fence, Metadata),
    /// What was to be written stands there; and whether the lease is believed in at this instant. The answer may have come late.
    Written {
        /// It is.
        is_held: bool,
    },
    /// It does not, or nobody knows.
    NotWritten,
    /// The body has ended: well or not, with this to be said of it.
    Ended(bool, String),
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OnceAction {
    /// Write this into the record, on the strength of the lease.
    Write(Metadata),
    /// Run the body.
    Run,
    /// Give the lease up, with this in the same write, if given.
    Release(Option<Metadata>),
    /// Say why nothing runs.
    Tell(Refusal),
}

/// Why a tick is not run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// It, or a later one, has run or runs: here is the last one.
    Ran(Run),
    /// The record shows a tick that lies ahead of this host's clock by more than clocks may differ. One of the two clocks is wrong.
    Ahead(Run),
    /// The record can't be understood.
    Damaged(StoreError),
}

impl Once {
    /// How far clocks may differ, unless told otherwise.
    pub const SKEW: Duration = Duration::from_secs(60);
    /// How long records are kept from gc after their last tick, unless told otherwise: those of monthly jobs, too.
    pub const KEEP: Duration = Duration::from_secs(40 * 86_400);

    /// The tick that is scheduled for then, run by this process.
    #[must_use]
    pub fn new(tick: Wall, holder: HolderId) -> Once {
        let (delivery, state) = (Delivery::default(), OnceState::Waiting);
        Once { tick, delivery, skew: Once::SKEW, keep: Once::KEEP, holder, bugs: Bugs::default(), state }
    }

    /// What becomes of it when its host dies.
    #[must_use]
    pub fn delivery(mut self, delivery: Delivery) -> Once {
        self.delivery = delivery;
        self
    }

    /// How far the clocks of hosts may differ.
    #[must_use]
    pub fn skew(mut self, skew: Duration) -> Once {
        self.skew = skew;
        self
    }

    /// For how long after a tick its record is kept from gc: for as long as some host may come with that tick.
    #[must_use]
    pub fn keep(mut self, keep: Duration) -> Once {
        self.keep = keep;
        self
    }

    /// Mistakes that are switched on.
    #[must_use]
    pub fn bugs(mut self, bugs: Bugs) -> Once {
        self.bugs = bugs;
        self
    }

    /// Whether the tick may be asked for now: not before its time, and not when its record may be gone.
    ///
    /// # Errors
    /// It may not, and what to do.
    pub fn check(&self, now: Wall) -> Result<(), InvalidInput> {
        let tick = self.tick;
        if tick > now {
            let early = tick.since(now);
            return Err(InvalidInput::new(format!(
                "the tick {tick} lies {early:?} ahead of this host's clock; ask for the last one that is due"
            )));
        }
        if now.since(tick) >= self.keep {
            let (late, keep) = (now.since(tick), self.keep);
            return Err(InvalidInput::new(format!(
                "the tick {tick} was due {late:?} ago, and what ran is kept for {keep:?}; ask for a later one, or keep it for longer"
            )));
        }
        Ok(())
    }

    /// Why the tick is not to be run, by what its record shows; none if it is due.
    #[must_use]
    pub fn refusal(&self, now: Wall, seen: &Metadata) -> Option<Refusal> {
        let history = match History::of(seen) {
            Ok(history) => history,
            Err(error) => return Some(Refusal::Damaged(error)),
        };
        let last = history.last()?;
        if last.tick.0 > now.0.saturating_add(millis(self.skew)) {
            return Some(Refusal::Ahead(last.clone()));
        }
        let has_run = match last.tick.cmp(&self.tick) {
            std::cmp::Ordering::Less => false,
            std::cmp::Ordering::Greater => !self.bugs.has(Bug::OlderTickRuns),
            std::cmp::Ordering::Equal if self.bugs.has(Bug::TickRunsAgain) => false,
            std::cmp::Ordering::Equal if last.state == RunState::Begun => match self.delivery {
                Delivery::AtMostOnce => !self.bugs.has(Bug::BegunRunsAgain),
                Delivery::AtLeastOnce => self.bugs.has(Bug::BegunIsDone),
            },
            std::cmp::Ordering::Equal => true,
        };
        has_run.then(|| Refusal::Ran(last.clone()))
    }

    /// What is to be done next, in this order.
    pub fn on(&mut self, now: Wall, event: OnceEvent) -> Vec<OnceAction> {
        match (std::mem::replace(&mut self.state, OnceState::Over), event) {
            (OnceState::Waiting, OnceEvent::Held(fence, seen)) => self.held(now, fence, &seen),
            (OnceState::Beginning(history), OnceEvent::Written { is_held })
                if is_held || self.bugs.has(Bug::RunsUnheld) =>
            {
                self.state = OnceState::Running(history);
                vec![OnceAction::Run]
            }
            (OnceState::Beginning(history), OnceEvent::NotWritten) if self.bugs.has(Bug::UnwrittenRuns) => {
                self.state = OnceState::Running(history);
                vec![OnceAction::Run]
            }
            // It may stand there, and then the tick has begun. Who asks for it next finds out; or has done so already, where the lease is over.
            (OnceState::Beginning(_), OnceEvent::NotWritten | OnceEvent::Written { .. }) => {
                vec![OnceAction::Release(None)]
            }
            (OnceState::Running(mut history), OnceEvent::Ended(is_well, says)) => {
                history.ended(now, is_well, &says);
                let fields =
                    if self.bugs.has(Bug::EndForgotten) { Metadata::new() } else { history.fields() };
                vec![OnceAction::Release(Some(fields))]
            }
            // What was written late, or once more.
            (state, _) => {
                self.state = state;
                Vec::new()
            }
        }
    }

    fn held(&mut self, now: Wall, fence: Fence, seen: &Metadata) -> Vec<OnceAction> {
        if let Some(refusal) = self.refusal(now, seen) {
            return vec![OnceAction::Release(None), OnceAction::Tell(refusal)];
        }
        let mut history = History::of(seen).unwrap_or_default();
        // A host whose clock is behind may ask for it until then by its own.
        let keep = millis(self.keep.saturating_add(self.skew));
        let kept_until = Wall(self.tick.0.saturating_add(keep));
        history.begun(Run::begun(self.tick, self.holder.clone(), fence, now), kept_until);
        let fields = history.fields();
        if self.bugs.has(Bug::BeginNotAwaited) {
            self.state = OnceState::Running(history);
            return vec![OnceAction::Write(fields), OnceAction::Run];
        }
        self.state = OnceState::Beginning(history);
        vec![OnceAction::Write(fields)]
    }
}

#[cfg(test)]
mod tests;
