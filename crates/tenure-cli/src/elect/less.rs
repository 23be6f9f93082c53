//! `tenure elect` on less's table: the same watchdog and the same end in time, and no fence.

use super::hook::{self, Hook};
use super::pause;
use crate::config;
use crate::exit::{self, Failure};
use crate::less::Place;
use crate::output;
use crate::run::{Ended, attend};
use crate::supervise::client::Watchdogs;
use crate::supervise::health::{LeaseHealth, UnknownSince, health_by_time};
use crate::supervise::signals::Signals;
use crate::supervise::tenancy::Tenancy;
use crate::supervise::watchdog::Lead;
use std::sync::Arc;
use std::time::Duration;
use tenure::{Clock, Fence, Wall};
use tenure_less::{Candidate, Cause, Term};

/// One term of a candidate.
struct Elected {
    /// What it is taken from when the command can't be ended.
    candidate: Arc<Candidate>,
    term: Term,
    clock: Arc<dyn Clock>,
}

impl Tenancy for Elected {
    fn remaining(&self) -> Duration {
        self.term.remaining()
    }

    fn health(&self, lead: Lead, _: &UnknownSince) -> LeaseHealth {
        health_by_time(self.term.remaining(), lead)
    }

    fn fence(&self) -> Option<Fence> {
        None
    }

    fn wall(&self) -> Wall {
        self.clock.now().wall
    }

    async fn loss(&self) -> Option<String> {
        if self.term.is_held() {
            return None;
        }
        let why = match self.term.ended().await {
            Some(Cause::Taken) => "the row is another's, was removed, or its deadline was set back",
            Some(Cause::Errors) => "too many renewals in a row have failed",
            Some(Cause::Deadline) => "no renewal was answered in time",
            Some(Cause::HiddenTime) => "the wall clock shows that time was hidden from this process",
            Some(_) | None => "the term is over",
        };
        Some(match self.term.trouble() {
            Some(error) => format!("{why}: {error}"),
            None => why.to_owned(),
        })
    }

    fn trouble(&self) -> Option<String> {
        self.term.trouble().map(|error| error.to_string())
    }

    async fn release(self) {
        self.candidate.resign();
    }

    async fn lapse(self) {
        self.candidate.lapse();
    }
}

pub(super) async fn elect(place: &Place, plan: config::Elect) -> Result<u8, Failure> {
    let config::Elect { term, on_change } = plan;
    let options = place.options(&term.key, term.ttl);
    options.check()?;
    let lead = Lead::new(term.ttl, term.grace);
    let mut signals = Signals::listen().map_err(|error| Failure::new(exit::INTERNAL, error.to_string()))?;
    let clock: Arc<dyn Clock> = tenure::clock::system();
    let storage = place.open(Arc::clone(&clock)).await?;
    let candidate = Arc::new(Candidate::start(storage, options, Arc::clone(&clock), tenure::clock::uuid)?);
    let watching = match on_change {
        Some(command) => {
            let hook = Hook::start(command, term.key.clone(), candidate.id().to_owned())?;
            Some(tokio::spawn(pass_on(Arc::clone(&candidate), hook)))
        }
        None => None,
    };
    let result = terms(&candidate, &clock, &term, lead, &mut signals).await;
    if let Some(watching) = watching {
        watching.abort();
        // With the task the hook is over, and a command that it runs.
        let _aborted = watching.await;
    }
    let mut changes = candidate.changes();
    // Its handle gone, the candidate gives its row back, which takes a moment.
    drop(candidate);
    tokio::select! {
        () = async { while changes.changed().await.is_ok() {} } => {}
        () = tokio::time::sleep(term.ttl) => {}
        _ = signals.next() => {}
    }
    result
}

/// Term after term, until the command ends by itself or the user stops us.
async fn terms(
    candidate: &Arc<Candidate>,
    clock: &Arc<dyn Clock>,
    plan: &config::Run,
    lead: Lead,
    signals: &mut Signals,
) -> Result<u8, Failure> {
    loop {
        let term = stand_by(candidate, signals).await?;
        let watchdogs = Watchdogs::start(candidate.id(), lead)?;
        let elected = Elected { candidate: Arc::clone(candidate), term, clock: Arc::clone(clock) };
        let ended = attend(elected, plan, &watchdogs, signals).await?;
        match &ended {
            Ended::Done(status) => return Ok(*status),
            Ended::Asked(by) | Ended::AtOnce(by) => return Err(Failure::asked(*by)),
            // What can't be killed may still act: to start another beside it would be worse than to end.
            Ended::Stuck => return Err(Failure::new(exit::LOST, ended.lost(&plan.key))),
            Ended::Lost(_) | Ended::Withdrawn => {
                output::note(format!("{}; standing by", ended.lost(&plan.key)));
            }
        }
    }
}

/// Waits to be elected, through any trouble that may pass, which is told when it begins and when it is over.
async fn stand_by(candidate: &Candidate, signals: &mut Signals) -> Result<Term, Failure> {
    let mut changes = candidate.changes();
    let mut is_failing = false;
    loop {
        let trouble = changes.borrow_and_update().trouble.clone();
        match trouble {
            Some(error) if !error.is_passing() => return Err(error.into()),
            Some(error) if !is_failing => output::note(format!("the store fails: {error}; trying on")),
            None if is_failing => output::note("the store answers again"),
            _ => {}
        }
        is_failing = changes.borrow().trouble.is_some();
        tokio::select! {
            elected = candidate.elected() => {
                return elected.map_err(|stopped| Failure::new(exit::INTERNAL, stopped.to_string()));
            }
            _ = changes.changed() => {}
            signal = signals.next() => return Err(Failure::by_signal(signal)),
        }
        // A storage that fails at once must not keep this busy.
        if is_failing && let Err(signal) = pause(Duration::from_millis(20), signals).await {
            return Err(Failure::by_signal(signal));
        }
    }
}

/// Tells the hook of each leader.
async fn pass_on(candidate: Arc<Candidate>, hook: Hook) {
    let mut changes = candidate.changes();
    let mut last = None;
    loop {
        let leader = changes.borrow_and_update().leader.clone();
        if leader != last {
            hook.tell(leader.clone().map(|id| hook::Leader { id, fence: None }));
            last = leader;
        }
        if changes.changed().await.is_err() {
            return;
        }
    }
}
