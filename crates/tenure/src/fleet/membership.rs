//! Whether a worker takes part in its fleet.

use tenure_core::StoreError;

/// Whether a worker takes part.
#[derive(Debug, Default)]
pub(super) enum Membership {
    #[default]
    Awaited,
    Joined,
    Refused(StoreError),
    /// It was told to go before it could take part.
    Left,
}

impl Membership {
    /// It takes part. Whether that is new.
    pub(super) fn joined(&mut self) -> bool {
        let is_new = matches!(self, Membership::Awaited);
        if is_new {
            *self = Membership::Joined;
        }
        is_new
    }

    /// It is told to go. Whether that is before it takes part.
    pub(super) fn leaves(&mut self) -> bool {
        let is_new = matches!(self, Membership::Awaited);
        if is_new {
            *self = Membership::Left;
        }
        is_new
    }

    /// What came of it, once that is known.
    pub(super) fn outcome(&self) -> Option<Result<(), StoreError>> {
        match self {
            Membership::Awaited => None,
            Membership::Joined => Some(Ok(())),
            Membership::Refused(error) => Some(Err(error.clone())),
            Membership::Left => Some(Err(StoreError::unavailable("the worker has left its fleet"))),
        }
    }
}
