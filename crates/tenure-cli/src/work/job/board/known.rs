//! One unit, as this process knows it.

use super::Local;
use tenure::Key;

/// A unit, as the board has it.
#[derive(Debug)]
pub(super) struct KnownUnit {
    pub(super) key: Key,
    pub(super) local: Local,
    /// It was open when a listing of all units began, which has not shown it yet.
    pub(super) is_unshown: bool,
    /// Somebody else had it when it was seen last.
    pub(super) is_others: bool,
}

impl KnownUnit {
    /// Whether somebody else has it, as far as is known, and it has not come to its end there.
    pub(super) fn is_with_others(&self) -> bool {
        self.is_others && matches!(self.local, Local::Open | Local::Ours)
    }
}
