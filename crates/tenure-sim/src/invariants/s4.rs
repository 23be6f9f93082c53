//! S4, known, lost, unknown: a write whose answer was lost is neither success nor failure; until it is resolved, validity is
//! not extended. And S1's time rule: belief lasts `ttl·(1−ρ)/(1+ρ)` from *before* the write that won was sent.
//!
//! Source: DESIGN.md sections 2 and 3; openraft `docs/data/leader-lease.md`; slatedb `rfcs/0007`. The check knows which
//! writes took effect.

use crate::node::Node;
use std::time::Duration;
use tenure_core::{Drift, Fence, Key, Nonce, Tick};

/// A user was told to believe in `key` until `until`.
pub(crate) fn founded(node: &Node, key: &Key, fence: Fence, until: Tick) -> Result<(), String> {
    let Some(beat) = node.beats.iter().rev().find(|beat| beat.key == *key && beat.fence == fence) else {
        return Err(format!("node {} believes in {key} {fence}, of which no write took effect", node.index));
    };
    let allowed = beat.sent.after(Drift::default().belief(beat.ttl));
    if until > allowed {
        return Err(format!(
            "node {} believes in {key} {fence} until {}, {:?} longer than its last write that took effect allows",
            node.index,
            until.0,
            until.since(allowed)
        ));
    }
    Ok(())
}

/// Users were told to believe in the session until `until`.
pub(crate) fn session_founded(node: &Node, until: Tick) -> Result<(), String> {
    let beats = node.beats.iter().filter(|beat| beat.key == node.session);
    match beats.map(|beat| beat.sent.after(Drift::default().belief(beat.ttl))).max() {
        Some(allowed) if until <= allowed => Ok(()),
        allowed => Err(format!(
            "node {} believes in its session until {}, and its last write that took effect allows {allowed:?}",
            node.index, until.0
        )),
    }
}

/// A user was told that it did not get what it wanted. Then every claim of that attempt was looked for, or is old.
pub(crate) fn resolved(node: usize, claims: &[Claim], key: usize, now: Tick) -> Result<(), String> {
    match claims.iter().find(|c| c.key == key && !c.settled && now.since(c.sent) < c.patience) {
        Some(claim) => Err(format!(
            "node {node} told its user that it did not get k{key}, but never looked for its claim of {:?} ago",
            now.since(claim.sent)
        )),
        None => Ok(()),
    }
}

/// A claim that a process has sent, for a lease that beats for itself.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    pub(crate) id: Nonce,
    pub(crate) key: usize,
    pub(crate) sent: Tick,
    pub(crate) patience: Duration,
    /// Its answer is known, or the record was looked at since.
    pub(crate) settled: bool,
}
