//! Elections: policy over leases. A candidate tries to get a key, holds it, and stands back for a while after it has
//! stepped down. The lease alone makes sure that there is one leader.
//!
//! [`Election`] is a passive machine like the others. It does no operations of its own. It gives commands to its process's
//! [`crate::Holder`], gets that holder's notices, and says when to wake it. So a thousand elections are attached to one session,
//! and the simulator steps the very same code as the library.
//!
//! Its belief is that of the lease. It counts from before the write that won was sent, and is over at the deadline whatever
//! happens. It is given up *before* the write that frees the key is sent ([`Output`] says so by its order).

mod machine;
mod terms;

pub use machine::Election;
pub use terms::Terms;

use crate::holder::command::Command;
use crate::holder::lease_id::LeaseId;
use crate::holder::loss::Loss;
use crate::holder::notice::Notice;
use crate::values::error::StoreError;
use crate::values::fence::Fence;
use crate::values::record::Sighting;
use crate::values::time::Tick;
use std::fmt;
use std::time::Duration;

/// What happens to an [`Election`].
#[derive(Debug, Clone, Copy)]
pub enum Input<'a> {
    /// Begin: follow the key, and lead it when that is possible. Also ends a stand-back early.
    Start,
    /// Begin, but only look at who leads.
    Observe,
    /// Step down, and stand back for the cooldown.
    Resign,
    /// Step down for good.
    Stop,
    /// Work that must not outlive the leadership has begun.
    BodyBegan,
    /// Such work has ended. Not `joined`: nobody knows, because it can't be stopped; then the key is left to expire.
    BodyEnded {
        /// Whether it is known to have ended.
        joined: bool,
    },
    /// The holder gave this notice. Those about other leases do no harm, but for the session's: every one of those is told,
    /// and at the start the latest.
    Told(&'a Notice),
    /// Time has passed.
    Wake,
}

/// What follows from an input. The changes are made known first, then the commands are given: what ends a belief goes ahead
/// of what frees the key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Output {
    /// For the users.
    pub changes: Vec<Change>,
    /// For the holder.
    pub commands: Vec<Command>,
    /// When, by [`crate::Now::held`], to come back with [`Input::Wake`] if nothing else happens before.
    pub wake_at: Option<Tick>,
}

/// What an [`Election`] tells its users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// This candidate leads.
    Elected {
        /// By this lease.
        lease: LeaseId,
        /// Under this fence.
        fence: Fence,
    },
    /// It is to lead no more: bodies must end now. It still does until they have, or until its deadline.
    StepDown(StepDownCause),
    /// It does not lead any more.
    Ended(StepDownCause),
    /// Another leads, or nobody.
    Leader(Option<Sighting>),
    /// The key can't be followed: it is tried again after a while.
    Failing(StoreError),
    /// Nothing follows any more.
    Stopped,
}

/// Why a leader does not lead any more.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StepDownCause {
    /// It resigned.
    Resigned,
    /// It was stopped.
    Stopping,
    /// It was asked to hand over, or its lease was withdrawn.
    Asked,
    /// Too many renewals in a row have failed: it fell back before its deadline.
    Failing,
    /// Work under it could not be ended.
    Stuck,
    /// The lease was lost.
    Lost(Loss),
}

/// Where a candidate stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Standing {
    /// It wants to lead and another does, or the store can't be reached.
    Following,
    /// It leads.
    Leading,
    /// It is giving its leadership up: its bodies are ending, or the key is being freed.
    SteppingDown,
    /// It has stepped down and stands back for its cooldown.
    StandingBack,
    /// It only looks at who leads.
    Observing,
    /// It is over.
    Stopped,
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Standing::Following => "following",
            Standing::Leading => "leading",
            Standing::SteppingDown => "stepping down",
            Standing::StandingBack => "standing back",
            Standing::Observing => "observing",
            Standing::Stopped => "stopped",
        })
    }
}

impl fmt::Display for StepDownCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StepDownCause::Resigned => f.write_str("it resigned"),
            StepDownCause::Stopping => f.write_str("it was stopped"),
            StepDownCause::Asked => f.write_str("it was asked to hand over"),
            StepDownCause::Failing => f.write_str("too many renewals in a row have failed"),
            StepDownCause::Stuck => f.write_str("work under it could not be ended"),
            StepDownCause::Lost(loss) => write!(f, "{loss}"),
        }
    }
}

/// A leadership, at the instant when it was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Term {
    /// The fencing token: send it along with every effect, and let the resource refuse lower ones.
    pub fence: Fence,
    /// How long it lasts if no renewal succeeds from now on.
    pub valid_for: Duration,
}

impl Term {
    /// One with this fence, that lasts for so long if no renewal succeeds from now on.
    #[must_use]
    pub fn new(fence: Fence, valid_for: Duration) -> Term {
        Term { fence, valid_for }
    }
}
