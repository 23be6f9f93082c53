//! What a user runs at a tick.

use tenure_core::once::{Once, OnceAction};
use tenure_core::{LeaseId, Wall};

/// What a user runs at a tick, under a lease.
#[derive(Debug)]
pub(crate) struct TickJob {
    pub(crate) lease: LeaseId,
    pub(crate) key: usize,
    pub(crate) tick: Wall,
    pub(crate) once: Once,
    /// What is to be done about it next.
    pub(crate) next: Vec<OnceAction>,
    /// When its body ends, once that runs.
    pub(crate) ends: Option<u64>,
    pub(crate) is_over: bool,
}
