//! Leaders: at no instant do two candidates both say that they lead a key (S1); none says so past the deadline of its lease,
//! or after it was told of its loss (S5); none gives the key up while its bodies run (S6); and who has stepped down stands
//! back for its cooldown. And nobody steps down without a cause (L4).
//!
//! Source: the promises S1, S5, S6 and L4; less (leaders that stay leaders while the storage stalls). Asked of the machine itself, as
//! users ask it, with the node's own clock.

use crate::invariants::s10::OthersActs;
use crate::kernel::clock::True;
use crate::leases::node::{LeaseStage, LeaseView, Node};
use tenure_core::election::{Input, StepDownCause, Terms};
use tenure_core::{Ask, Notice, Tick};

/// What a candidate was told when it stepped down.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Prompt {
    resign: bool,
    stop: bool,
    stuck: bool,
    asked: bool,
    lost: bool,
    /// The end of belief in its leadership that its holder has told last.
    deadline: Option<Tick>,
}

impl Prompt {
    /// `held`: the lease that it leads by.
    pub(crate) fn of(input: &Input<'_>, held: Option<&LeaseView>, session: Option<Tick>) -> Prompt {
        let about = |lease| held.is_some_and(|view| view.id == lease);
        let deadline = held.and_then(|view| match view.stage {
            LeaseStage::Held(belief) if !view.is_attached => Some(belief.deadline),
            _ => session,
        });
        let deadline = match input {
            _ if held.is_some() => deadline,
            Input::Told(Notice::Acquired { until, .. }) if *until != Tick::NEVER => Some(*until),
            Input::Told(Notice::Acquired { .. }) => session,
            _ => deadline,
        };
        Prompt {
            resign: matches!(input, Input::Resign),
            stop: matches!(input, Input::Stop | Input::Told(Notice::Stopped)),
            stuck: matches!(input, Input::BodyEnded { joined: false }),
            asked: matches!(input, Input::Told(Notice::Asked(lease, ask)) if about(*lease) && *ask != Ask::Confirm),
            lost: matches!(input, Input::Told(Notice::Lost(lease, _)) if about(*lease)),
            deadline,
        }
    }
}

/// A leader steps down: nobody does so without a cause.
pub(crate) fn has_cause(
    node: usize,
    key: usize,
    cause: &StepDownCause,
    prompt: Prompt,
    now: Tick,
    terms: &Terms,
) -> Result<(), String> {
    let is_so = match cause {
        StepDownCause::Resigned => prompt.resign,
        StepDownCause::Stopping => prompt.stop,
        StepDownCause::Stuck => prompt.stuck,
        StepDownCause::Asked => prompt.asked,
        StepDownCause::Lost(_) => prompt.lost,
        // So long after the renewal that its belief comes from was sent.
        StepDownCause::Failing => prompt
            .deadline
            .is_some_and(|deadline| now.after(terms.belief()) >= deadline.after(terms.tolerance(true))),
        _ => false,
    };
    if is_so {
        return Ok(());
    }
    Err(format!("n{node} steps down from k{key} for no cause: {cause:?} at {}, told {prompt:?}", now.0))
}

/// Asked at any instant. Of a leader whose record was changed by hand, S10 says how long it may lead on.
pub(crate) fn one_leader(nodes: &[Node], acts: &OthersActs, key: usize, t: True) -> Result<(), String> {
    let leads = |node: &&Node| {
        let seat = node.own.seats.get(key).filter(|_| node.machine.is_some());
        let term = seat.and_then(|seat| seat.election.leadership(node.clock.read(t)));
        term.is_some_and(|term| !acts.is_behind(key, term.fence))
    };
    let mut leading = nodes.iter().filter(leads);
    match (leading.next(), leading.next()) {
        (Some(one), Some(other)) => Err(format!("k{key} is led by {} and by {}", one.who, other.who)),
        _ => Ok(()),
    }
}

/// Asked at any instant: what the holder has told is the measure.
pub(crate) fn not_past_the_deadline(node: &Node, key: usize, t: True) -> Result<(), String> {
    let Some(seat) = node.own.seats.get(key).filter(|_| node.machine.is_some()) else { return Ok(()) };
    let Some(term) = seat.election.leadership(node.clock.read(t)) else { return Ok(()) };
    if node.own.views.iter().any(|view| view.key == key && node.believes(view, t)) {
        return Ok(());
    }
    Err(format!("{} says that it leads k{key} with fence {}, and its lease is over", node.who, term.fence))
}

/// The key is given up.
pub(crate) fn bodies_are_over(node: usize, key: usize, bodies: u32) -> Result<(), String> {
    if bodies == 0 {
        return Ok(());
    }
    Err(format!("n{node} gives k{key} up while {bodies} bodies run under it"))
}

/// A candidate tries to lead, or looks.
pub(crate) fn may_try(node: usize, key: usize, was_stopped: bool) -> Result<(), String> {
    if was_stopped {
        Err(format!("n{node} tries to lead k{key} after its candidate was stopped"))
    } else {
        Ok(())
    }
}

/// A candidate was stopped at `since`, and no body of it runs: it has stopped, or gives its key up as long as the store is away.
pub(crate) fn has_stopped(
    node: usize,
    key: usize,
    has_stopped: bool,
    since: Option<True>,
    t: True,
    ttl: True,
) -> Result<(), String> {
    match since {
        Some(since) if !has_stopped && t > since + ttl * 20 => {
            Err(format!("n{node} was told to stop leading k{key} 20 ttls ago, and has not"))
        }
        _ => Ok(()),
    }
}

/// A candidate tries to lead.
pub(crate) fn stood_back(node: usize, key: usize, now: Tick, tries_from: Tick) -> Result<(), String> {
    if now >= tries_from {
        return Ok(());
    }
    Err(format!("n{node} tries to lead k{key} at {}, and was to stand back until {}", now.0, tries_from.0))
}

/// At the end of a long calm in which nobody resigns.
pub(crate) fn someone_leads(nodes: &[Node], key: usize, t: True) -> Result<(), String> {
    let leads = |node: &Node| {
        node.own.seats.get(key).is_some_and(|seat| seat.election.leadership(node.clock.read(t)).is_some())
    };
    if nodes.iter().any(leads) { Ok(()) } else { Err(format!("at the end nobody leads k{key}")) }
}
