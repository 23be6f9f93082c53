//! Withdrawn: a letter is told to the holder that it was written to, a revocation ends the lease that it names and no other,
//! and no later than at the deadline that its holder had when it was told.
//!
//! Source: DESIGN.md sections 2 and 4. `L4` excuses what was withdrawn, and this says what may be.

use crate::node::{Node, View};
use tenure_core::{Ask, Key, LeaseId, Letter, Loss, Tick};

/// A user is told of a letter about `key`. `letters`: those that were written, each with the record that it was written into.
pub(crate) fn was_written(node: &Node, key: &Key, ask: Ask, letters: &[(Key, Letter)]) -> Result<(), String> {
    let reaches = |to: &Key| *to == node.session || to == key;
    if letters.iter().any(|(to, letter)| letter.key == *key && letter.ask == ask && reaches(to)) {
        return Ok(());
    }
    Err(format!("node {} is told of a letter that nobody wrote to it: {ask:?} {key}", node.index))
}

/// A user is told to believe until `until`.
pub(crate) fn not_prolonged(node: usize, view: &View, until: Tick) -> Result<(), String> {
    match view.withdrawn {
        Some(end) if until > end => Err(format!(
            "node {node} believes in k{} until {}, which was withdrawn with {} as its end",
            view.key, until.0, end.0
        )),
        _ => Ok(()),
    }
}

/// A user is told of the loss of `lease`.
pub(crate) fn was_asked(node: &Node, lease: LeaseId, now: Tick, loss: &Loss) -> Result<(), String> {
    let Some(view) = node.views.iter().find(|view| view.id == lease).filter(|_| *loss == Loss::Revoked)
    else {
        return Ok(());
    };
    match view.withdrawn {
        Some(end) if now >= end => Ok(()),
        end => Err(format!(
            "node {} is told at {} that k{} was withdrawn, and the end that was told of is {end:?}",
            node.index, now.0, view.key
        )),
    }
}
