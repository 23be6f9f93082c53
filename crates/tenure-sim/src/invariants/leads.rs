//! Leaders: at no instant do two candidates both say that they lead a key (S1); none says so past the deadline of its lease,
//! or after it was told of its loss (S5); none gives the key up while its bodies run (S6); and who has stepped down stands
//! back for its cooldown.
//!
//! Source: DESIGN.md sections 2 and 6; less (leaders that stay leaders while the storage stalls). Asked of the machine itself, as
//! users ask it, with the node's own clock.

use crate::clock::True;
use crate::node::Node;
use tenure_core::Tick;

/// Asked at any instant.
pub(crate) fn one_leader(nodes: &[Node], key: usize, t: True) -> Result<(), String> {
    let leads = |node: &&Node| {
        let seat = node.seats.get(key).filter(|_| node.holder.is_some());
        seat.is_some_and(|seat| seat.election.leadership(node.clock.read(t)).is_some())
    };
    let mut leading = nodes.iter().filter(leads);
    match (leading.next(), leading.next()) {
        (Some(one), Some(other)) => Err(format!(
            "k{key} is led by node {} life {} and by node {} life {}",
            one.index, one.life, other.index, other.life
        )),
        _ => Ok(()),
    }
}

/// Asked at any instant: what the holder has told is the measure.
pub(crate) fn not_past_the_deadline(node: &Node, key: usize, t: True) -> Result<(), String> {
    let Some(seat) = node.seats.get(key).filter(|_| node.holder.is_some()) else { return Ok(()) };
    let Some(term) = seat.election.leadership(node.clock.read(t)) else { return Ok(()) };
    if node.views.iter().any(|view| view.key == key && node.believes(view, t)) {
        return Ok(());
    }
    Err(format!(
        "node {} says that it leads k{key} with fence {}, and its lease is over",
        node.index, term.fence
    ))
}

/// The key is given up.
pub(crate) fn bodies_are_over(node: usize, key: usize, bodies: u32) -> Result<(), String> {
    if bodies == 0 {
        return Ok(());
    }
    Err(format!("node {node} gives k{key} up while {bodies} bodies run under it"))
}

/// A candidate bids.
pub(crate) fn stood_back(node: usize, key: usize, now: Tick, bids_from: Tick) -> Result<(), String> {
    if now >= bids_from {
        return Ok(());
    }
    Err(format!("node {node} bids for k{key} at {}, and was to stand back until {}", now.0, bids_from.0))
}

/// At the end of a long calm in which nobody resigns.
pub(crate) fn someone_leads(nodes: &[Node], key: usize, t: True) -> Result<(), String> {
    let leads = |node: &Node| {
        node.seats.get(key).is_some_and(|seat| seat.election.leadership(node.clock.read(t)).is_some())
    };
    if nodes.iter().any(leads) { Ok(()) } else { Err(format!("at the end nobody leads k{key}")) }
}
