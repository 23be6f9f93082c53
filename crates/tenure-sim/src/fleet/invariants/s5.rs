//! S5, loss is always told, in time: a step that is taken at or after the session's deadline tells the loss of all units,
//! and the machine asks to be woken no later than then.
//!
//! Source: the promise S5.

use super::super::post::Post;
use tenure_core::Tick;

/// After a step, its notices told.
pub(crate) fn told_in_time(post: &Post, now: Tick, wake_at: Option<Tick>) -> Result<(), String> {
    let Some(work) = post.works.values().find(|work| work.runs()) else { return Ok(()) };
    if post.stopping {
        return Ok(());
    }
    if now >= post.deadline {
        return Err(format!("w{} was not told of the loss of {} at its deadline", post.index, work.unit));
    }
    if wake_at.is_none_or(|at| at > post.deadline) {
        return Err(format!(
            "w{} has {} until {} and wants to be woken at {wake_at:?}",
            post.index, work.unit, post.deadline.0
        ));
    }
    Ok(())
}
