//! A unit that this worker has, claims, or is giving up.

use super::asked::Asked;
use crate::fleet::talk::{Reason, Taken};
use crate::fleet::unit::UnitSpec;
use crate::holder::lease_id::LeaseId;
use crate::values::fence::{Fence, Nonce};
use crate::values::key::Key;
use crate::values::time::Tick;

/// What a unit is to this worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Stage {
    Acquiring,
    Held,
    /// The user was asked to end what is done for it.
    Draining,
    /// It is being given up.
    Going,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Own {
    pub(super) lease: LeaseId,
    pub(super) stage: Stage,
    pub(super) fence: Fence,
    /// Names the tenure that it is held by, once it is.
    pub(super) tenure: Option<Nonce>,
    pub(super) spec: UnitSpec,
    /// The changes that are under way or wait for that, and who waits for its end.
    pub(super) asked: Asked,
    /// The session of the worker that it is planned for.
    pub(super) transferee: Option<Key>,
    /// Users have chosen that worker: nobody there expects it.
    pub(super) chosen: bool,
    /// It was passed on to this worker, though the plan would have it elsewhere.
    pub(super) given: bool,
    /// Why it has to go, if it has to.
    pub(super) goes: Option<Reason>,
    /// How this worker came to it.
    pub(super) how: Taken,
    /// Whether a letter told this worker of it.
    pub(super) letter: bool,
    /// Whether users know of it.
    pub(super) told: bool,
    /// Since when they work on it, or it rests.
    pub(super) since: Tick,
}
