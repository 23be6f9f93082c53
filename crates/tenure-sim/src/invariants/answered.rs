//! Answered: every command is answered, once faults have stopped: an attempt that only tries, a release, a token's use.
//!
//! Source: `tenure_core::Command`, which says by what each is answered.

use crate::clock::{SECOND, True};
use crate::node::{Node, Stage, View};

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
