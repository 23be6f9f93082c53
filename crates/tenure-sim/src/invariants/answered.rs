//! Answered: every command is answered, once faults have stopped: an attempt that only tries, a release, a token's use. And
//! truly: what is told as given up is given up, and no one is blamed for what he did not do.
//!
//! Source: `tenure_core::Command`, which says by what each is answered.

use crate::kernel::clock::{SECOND, True};
use crate::kernel::registers::Registers;
use crate::leases::node::{LeaseStage, LeaseView, Node};
use tenure_core::{ErrorKind, Fence, Holder, Key, Record, StoreError};

/// A user was told that it gave a lease up: then the record does not show it any more.
pub(crate) fn given_up(
    node: &Node,
    key: &Key,
    fence: Fence,
    standing: Option<&Record>,
) -> Result<(), String> {
    match standing {
        Some(record) if record.fence == fence && record.tenure.is_some() && !node.uses_token(key, fence) => {
            Err(format!("{} was told that it gave up {key} {fence}, which stands", node.who))
        }
        _ => Ok(()),
    }
}

/// A user was told that its attempt failed: never by a mistake of its own, as these users make none. `shares_ids`: two processes may
/// go by one holder id.
pub(crate) fn not_blamed(node: usize, error: &StoreError, shares_ids: bool) -> Result<(), String> {
    let text = error.to_string();
    // A second process under one holder id is a mistake, and is told so.
    let is_known = text.contains("over the limit") || (shares_ids && text.contains("its own holder id"));
    if error.kind() == ErrorKind::Invalid && !is_known {
        return Err(format!("n{node} is told of a mistake that it did not make: {error}"));
    }
    Ok(())
}

/// A user was told that a record has no room for one more. `was_full`: it had little, at some time since that was asked for.
pub(crate) fn is_full(node: usize, key: usize, was_full: bool) -> Result<(), String> {
    if was_full {
        return Ok(());
    }
    Err(format!(
        "n{node} is told that the record of k{key} is full, which it was not since that was asked for"
    ))
}

/// Users are told that the session's record shows what they announced: once, and if it is so.
pub(crate) fn announced(node: &mut Node, store: &Registers) -> Result<(), String> {
    if node.own.announced.take().is_none() {
        return Err(format!("{} is told of what nobody announced, or once more", node.who));
    }
    let fence = node.machine.as_ref().and_then(Holder::session_fence);
    match store.get(&node.session) {
        Some(record) if Some(record.fence) == fence && record.metadata.is_empty() => {
            Err(format!("the session of {} shows nothing of what was announced", node.who))
        }
        _ => Ok(()),
    }
}

/// Who has announced something is told so once a session is up.
pub(crate) fn announced_in_time(node: &Node, healed: True, t: True, ttl: True) -> Result<(), String> {
    let is_up = node.machine.as_ref().is_some_and(|holder| holder.session_fence().is_some());
    let since = node.own.announced.filter(|_| is_up && !node.stopping).map(|asked| asked.max(healed));
    if since.is_none_or(|since| t.saturating_sub(since) <= ttl * BOUND / 100) {
        return Ok(());
    }
    Err(format!("{} announced something and has no answer", node.who))
}

/// How long a key may still show a lease that was given up when the store refused that, in hundredths of a ttl: time to look at it
/// three times, the gap doubling.
const DENIED: u64 = 400;

/// An attached lease that was given up is nobody's, soon after the store has stopped refusing that, whether or not anyone asks for the key:
/// nothing but its process ever would free it. `stands`: whether the key's record still shows this tenure, attached to this node's session.
pub(crate) fn freed_at_last(
    node: &Node,
    stands: impl Fn(usize, Fence) -> bool,
    healed: True,
    t: True,
    ttl: True,
) -> Result<(), String> {
    let late = |(key, fence, at): &&(usize, Fence, True)| {
        t > (*at).max(healed) + ttl * DENIED / 100 && stands(*key, *fence)
    };
    match node.own.denied.iter().find(late) {
        Some((key, fence, _)) => {
            Err(format!("{} gave up k{key} {fence}, and it still stands on its session", node.who))
        }
        None => Ok(()),
    }
}

/// How long an answer may take after everything was healed, in hundredths of a ttl.
const BOUND: u64 = 350;

/// `healed`: since when nothing goes wrong.
pub(crate) fn in_time(node: &Node, view: &LeaseView, healed: True, t: True, ttl: True) -> Result<(), String> {
    let waits = match view.stage {
        LeaseStage::Wanted => view.tries,
        LeaseStage::Held(_) => view.updating,
        LeaseStage::Ending(_) | LeaseStage::Token => true,
    };
    let since = view.asked_at.max(healed);
    if !waits || t.saturating_sub(since) <= ttl * BOUND / 100 {
        return Ok(());
    }
    Err(format!(
        "{} lease {} of k{} ({:?}) has no answer to what was asked at {:.3} s",
        node.who,
        view.id.0,
        view.key,
        view.stage,
        view.asked_at as f64 / SECOND as f64
    ))
}
