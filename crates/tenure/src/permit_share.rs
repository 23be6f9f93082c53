//! How much of a semaphore is wanted.

use tenure_core::semaphore::Mode;

/// Permits of a semaphore that are wanted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PermitShare {
    pub(crate) permits: u32,
    pub(crate) take: u32,
    pub(crate) mode: Mode,
    pub(crate) barges: bool,
    /// Of a semaphore that is spread: whoever asks for a part measures the wait for the whole.
    pub(crate) is_part: bool,
}

impl PermitShare {
    /// How many permits that is; what is exclusive counts as one.
    pub(crate) fn weight(&self) -> u32 {
        if self.mode == Mode::Exclusive { 1 } else { self.take }
    }
}
