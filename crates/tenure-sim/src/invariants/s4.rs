//! S4, known, lost, unknown: a write whose answer was lost is neither success nor failure; until it is resolved, validity is
//! not extended. And S1's time rule: belief lasts `ttl·(1−ρ)/(1+ρ)` from *before* the write that won was sent.
//!
//! Source: the promise S4; openraft on leader leases; slatedb's RFC 7. The check knows which
//! writes took effect. Of these, one that was sent before the wall clock gained on elapsed time founds nothing: that time was
//! hidden, and others may have counted it. And what a user was told as written was written, so that it survives a crash.

use crate::kernel::clock::True;
use crate::leases::node::{Heartbeat, LeaseStage, Node};
use std::fmt;
use std::time::Duration;
use tenure_core::{Drift, Fence, HolderId, Key, Nonce, Now, Tick};

/// A wall clock that gains more than this on elapsed time has seen time that the process's clocks have not.
const GAP: Duration = Duration::from_secs(1);

/// A user is told, in a step that began at `now`, to believe in `key` until `until`.
pub(crate) fn founded(node: &Node, key: &Key, fence: Fence, until: Tick, now: Now) -> Result<(), String> {
    let heartbeats =
        || node.own.heartbeats.iter().filter(|heartbeat| heartbeat.key == *key && heartbeat.fence == fence);
    if heartbeats().next().is_none() {
        return Err(format!("{} believes in {key} {fence}, of which no write took effect", node.who));
    }
    founded_on(&node.who, format_args!("{key} {fence}"), heartbeats(), until, now)
}

/// Users are told, in a step that began at `now`, to believe in the session until `until`.
pub(crate) fn session_founded<'a>(
    who: &HolderId,
    session: &Key,
    heartbeats: impl Iterator<Item = &'a Heartbeat>,
    until: Tick,
    now: Now,
) -> Result<(), String> {
    let heartbeats = heartbeats.filter(|heartbeat| heartbeat.key == *session);
    founded_on(who, format_args!("its session"), heartbeats, until, now)
}

/// There is a write that took effect and allows that belief; and by that step's own clocks no time was hidden since it was sent.
fn founded_on<'a>(
    who: &HolderId,
    what: fmt::Arguments<'_>,
    heartbeats: impl Iterator<Item = &'a Heartbeat>,
    until: Tick,
    now: Now,
) -> Result<(), String> {
    let end = |heartbeat: &Heartbeat| heartbeat.sent.held.after(Drift::default().belief(heartbeat.ttl));
    let (mut last, mut gap) = (None, false);
    for heartbeat in heartbeats {
        last = last.max(Some(end(heartbeat)));
        if until <= end(heartbeat) {
            if now.wall.since(heartbeat.sent.wall) <= now.held.since(heartbeat.sent.held) + GAP {
                return Ok(());
            }
            gap = true;
        }
    }
    Err(if gap {
        format!("{who} believes in {what} on a write from before a time that was hidden, as its clocks show")
    } else {
        format!(
            "{who} believes in {what} until {}, and its last write that took effect allows {last:?}",
            until.0
        )
    })
}

/// A third of a ttl after a time that was hidden, and that its wall clock shows, a process has noticed that, whether or not a renewal
/// was under way: what it believes in now was sent since.
pub(crate) fn gap_noticed(node: &Node, t: True) -> Result<(), String> {
    let Some(gap) = node.own.gap else { return Ok(()) };
    let view = node.own.views.iter().filter(|view| node.believes(view, t)).find(|view| {
        let LeaseStage::Held(belief) = view.stage else { return false };
        let until = if view.is_attached { node.own.session_until } else { belief.until };
        let end = |heartbeat: &Heartbeat| heartbeat.sent.held.after(Drift::default().belief(heartbeat.ttl));
        node.own.heartbeats.iter().any(|heartbeat| heartbeat.sent.held < gap && end(heartbeat) == until)
    });
    match view {
        None => Ok(()),
        Some(view) => {
            Err(format!("{} believes in k{} on a write from before a gap in its time", node.who, view.key))
        }
    }
}

/// A user was told that `n` is written with the lease of `key` that has this fence. `written`: the last that took effect.
pub(crate) fn updated(
    node: &Node,
    key: &Key,
    fence: Fence,
    n: i64,
    written: &[(Fence, i64)],
) -> Result<(), String> {
    if written.contains(&(fence, n)) {
        return Ok(());
    }
    Err(format!(
        "{} was told that {n} is written with {key} {fence}, and no such write took effect: {written:?}",
        node.who
    ))
}

/// A user was told that it did not get what it wanted. Then every claim of that attempt was looked for, or is old.
pub(crate) fn resolved(node: usize, claims: &[SentClaim], key: usize, now: Tick) -> Result<(), String> {
    match claims.iter().find(|c| c.key == key && !c.settled && now.since(c.sent) < c.searched_for) {
        Some(claim) => Err(format!(
            "n{node} told its user that it did not get k{key}, but never looked for its claim of {:?} ago",
            now.since(claim.sent)
        )),
        None => Ok(()),
    }
}

/// A claim that a process has sent, for a lease that renews itself.
#[derive(Debug, Clone)]
pub(crate) struct SentClaim {
    pub(crate) id: Nonce,
    pub(crate) key: usize,
    pub(crate) sent: Tick,
    pub(crate) searched_for: Duration,
    /// Its answer is known, or the record was looked at since.
    pub(crate) settled: bool,
}
