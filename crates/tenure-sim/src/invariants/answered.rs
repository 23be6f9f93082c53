//! Answered: every command is answered, once faults have stopped: an attempt that only tries, a release, a token's use. And
//! truly: what is told as given up is given up, and no one is blamed for what he did not do.
//!
//! Source: `tenure_core::Command`, which says by what each is answered.

use crate::clock::{SECOND, True};
use crate::node::{Node, Stage, View};
use tenure_core::{ErrorKind, Fence, Key, Record, StoreError};

/// A user was told that it gave a lease up: then the record does not show it any more.
pub(crate) fn given_up(
    node: &Node,
    key: &Key,
    fence: Fence,
    standing: Option<&Record>,
) -> Result<(), String> {
    match standing {
        Some(record) if record.fence == fence && record.tenure.is_some() && !node.uses_token(key, fence) => {
            Err(format!("node {} was told that it gave up {key} {fence}, which stands", node.index))
        }
        _ => Ok(()),
    }
}

/// A user was told that its attempt failed: never by a mistake of its own, as these users make none.
pub(crate) fn not_blamed(node: usize, error: &StoreError) -> Result<(), String> {
    if error.kind() == ErrorKind::Invalid && !error.to_string().contains("changed already") {
        return Err(format!("node {node} is told of a mistake that it did not make: {error}"));
    }
    Ok(())
}

/// How long an answer may take after everything was healed, in hundredths of a ttl.
const BOUND: u64 = 350;

/// `healed`: since when nothing goes wrong.
pub(crate) fn in_time(node: &Node, view: &View, healed: True, t: True, ttl: True) -> Result<(), String> {
    let waits = match view.stage {
        Stage::Wanted => view.tries,
        Stage::Held(_) => view.updating,
        Stage::Ending(_) | Stage::Token => true,
    };
    let since = view.asked_at.max(healed);
    if !waits || t.saturating_sub(since) <= ttl * BOUND / 100 {
        return Ok(());
    }
    Err(format!(
        "node {} lease {} of k{} ({:?}) has no answer to what was asked at {:.3} s",
        node.index,
        view.id.0,
        view.key,
        view.stage,
        view.asked_at as f64 / SECOND as f64
    ))
}
