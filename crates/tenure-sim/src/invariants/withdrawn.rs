//! Withdrawn: a letter is told to the holder that it was written to, a revocation ends the lease that it names and no other,
//! and no later than at the deadline that its holder had when it was told.
//!
//! What becomes plain data, or is, is withdrawn like everything else: it is not prolonged any more, but for whoever takes it up and
//! is told of the letter by that.
//!
//! Source: the promise S5, and *Mail* in ARCHITECTURE.md. `L4` excuses what was withdrawn, and this says what may be.

use crate::leases::node::{LeaseStage, LeaseView, Node};
use tenure_core::{Ask, Fence, Key, LeaseId, Letter, Loss, Record, Tick};

/// A user is told of a letter about `key`, which it holds under `fence`, if it knows. `letters`: those that were written, each with the record that it
/// was written into.
pub(crate) fn was_written(
    node: &Node,
    key: &Key,
    fence: Option<Fence>,
    ask: Ask,
    letters: &[(Key, Letter)],
) -> Result<(), String> {
    let reaches = |to: &Key| *to == node.session || to == key;
    let concerns = |letter: &Letter| fence.is_none_or(|fence| letter.concerns(fence));
    let is_it = |letter: &Letter| letter.key == *key && letter.ask == ask && concerns(letter);
    if letters.iter().any(|(to, letter)| is_it(letter) && reaches(to)) {
        return Ok(());
    }
    Err(format!("{} is told of a letter that nobody wrote to it: {ask:?} {key} of {fence:?}", node.who))
}

/// A user is told to believe until `until`.
pub(crate) fn not_prolonged(node: usize, view: &LeaseView, until: Tick) -> Result<(), String> {
    match view.withdrawn {
        Some(end) if until > end => Err(format!(
            "n{node} believes in k{} until {}, which was withdrawn with {} as its end",
            view.key, until.0, end.0
        )),
        _ => Ok(()),
    }
}

/// A user is told of the loss of `lease`.
pub(crate) fn was_asked(
    node: &Node,
    lease: LeaseId,
    now: Tick,
    loss: &Loss,
    letters: &[(Key, Letter)],
) -> Result<(), String> {
    let Some(view) = node.own.views.iter().find(|view| view.id == lease).filter(|_| *loss == Loss::Revoked)
    else {
        return Ok(());
    };
    let asks = |(_, letter): &(Key, Letter)| letter.ask == Ask::Revoke;
    match view.withdrawn {
        // What is plain data, or was to become that, nobody believes in: it ends as soon as the letter is found.
        _ if matches!(view.stage, LeaseStage::Ending(_) | LeaseStage::Token) && letters.iter().any(asks) => {
            Ok(())
        }
        Some(end) if now >= end => Ok(()),
        end => Err(format!(
            "{} is told at {} that k{} was withdrawn, and the end that was told of is {end:?}",
            node.who, now.0, view.key
        )),
    }
}

/// A user is given a lease as plain data.
pub(crate) fn not_detached(node: usize, view: &LeaseView) -> Result<(), String> {
    match view.withdrawn {
        Some(_) => Err(format!("n{node} made plain data of k{}, which was withdrawn", view.key)),
        None => Ok(()),
    }
}

/// A write took effect over a record that says that its key is withdrawn: so whoever wrote has read that.
pub(crate) fn not_beaten(key: &Key, before: Option<&Record>, after: &Record) -> Result<(), String> {
    let old = before.and_then(|record| record.tenure.as_ref());
    let (Some(old), Some(new)) = (old, &after.tenure) else { return Ok(()) };
    let is_withdrawn = old.mail.iter().any(|letter| letter.ask == Ask::Revoke && letter.key == *key);
    if is_withdrawn && old.id == new.id && old.heartbeat != new.heartbeat {
        return Err(format!("{} prolonged its tenure of {key}, which was withdrawn", new.holder));
    }
    Ok(())
}
