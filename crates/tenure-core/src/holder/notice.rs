//! A holder's notices to its users.

use crate::holder::lease_id::LeaseId;
use crate::holder::loss::Loss;
use crate::holder::update::Token;
use crate::values::error::StoreError;
use crate::values::fence::Fence;
use crate::values::key::Key;
use crate::values::metadata::Metadata;
use crate::values::record::{Ask, Occupant, Sighting};
use crate::values::time::Tick;

/// What a [`Holder`](crate::Holder) tells its users.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Notice {
    /// The lease is held. `until`: how long to believe, for one that renews itself; one that is attached is believed while
    /// the session is.
    Acquired {
        /// Which.
        lease: LeaseId,
        /// Its fence.
        fence: Fence,
        /// The end of belief, or [`Tick::NEVER`] for a lease that is attached.
        until: Tick,
        /// The metadata that it carries.
        metadata: Metadata,
    },
    /// The patience is over, and another holds the key.
    Held(LeaseId, Option<Occupant>),
    /// To who follows or watches a key: it has another holder now, or none.
    Seen(LeaseId, Option<Box<Sighting>>),
    /// The record that was to be carried on does not exist.
    Absent(LeaseId),
    /// It could not be had.
    Failed(LeaseId, StoreError),
    /// A lease that renews itself is believed until then; not at all, for now, at tick 0. One that is attached and is withdrawn is believed no
    /// longer than that, however long its session is.
    Valid(LeaseId, Tick),
    /// The session, and all that is attached to it, is believed until then; not at all, for now, at tick 0.
    SessionValid(Tick),
    /// Someone asks something of the lease's holder.
    Asked(LeaseId, Ask),
    /// The lease is gone.
    Lost(LeaseId, Loss),
    /// The metadata is written.
    Updated(LeaseId),
    /// The lease is given up. False: it was not ours any more, or is left to expire.
    Released(LeaseId, bool),
    /// The tenure as plain data.
    Detached(LeaseId, Box<Token>),
    /// The tenure that a token stands for is over.
    NotOurs(LeaseId, Option<Occupant>),
    /// Someone asks something of the whole process.
    SessionAsked(Ask),
    /// The session can't be begun now, and no lease waits for it that would be told. Whoever wants it asks again.
    SessionFailed(StoreError),
    /// Somebody says that this key was passed on to this process, to be attached to its session.
    Given(Key),
    /// The session's record shows the metadata that was to be announced.
    Announced,
    /// It can't show that: what it shows stays.
    NotAnnounced(StoreError),
    /// Everything is given up.
    Stopped,
}

impl Notice {
    /// Which lease it is about; none if it is about the session or all.
    #[must_use]
    pub fn lease(&self) -> Option<LeaseId> {
        match self {
            Notice::Acquired { lease, .. }
            | Notice::Held(lease, _)
            | Notice::Seen(lease, _)
            | Notice::Absent(lease)
            | Notice::Failed(lease, _)
            | Notice::Valid(lease, _)
            | Notice::Asked(lease, _)
            | Notice::Lost(lease, _)
            | Notice::Updated(lease)
            | Notice::Released(lease, _)
            | Notice::Detached(lease, _)
            | Notice::NotOurs(lease, _) => Some(*lease),
            Notice::SessionValid(_)
            | Notice::SessionAsked(_)
            | Notice::SessionFailed(_)
            | Notice::Given(_)
            | Notice::Announced
            | Notice::NotAnnounced(_)
            | Notice::Stopped => None,
        }
    }
}

#[cfg(test)]
mod tests {
    //! Plan: a notice about a lease names it, whichever it is; one about all names none.
    use super::*;

    #[test]
    fn notices_name_their_leases() {
        let lease = LeaseId(7);
        let error = StoreError::unavailable("away");
        let acquired =
            Notice::Acquired { lease, fence: Fence(1), until: Tick::NEVER, metadata: Metadata::new() };
        for notice in [
            acquired,
            Notice::Held(lease, None),
            Notice::Seen(lease, None),
            Notice::Absent(lease),
            Notice::Failed(lease, error),
            Notice::Valid(lease, Tick(0)),
            Notice::Asked(lease, Ask::Revoke),
            Notice::Lost(lease, Loss::Expired),
            Notice::Updated(lease),
            Notice::Released(lease, true),
            Notice::NotOurs(lease, None),
        ] {
            assert_eq!(notice.lease(), Some(lease), "{notice:?}");
        }
        let all = [
            Notice::SessionValid(Tick(0)),
            Notice::SessionAsked(Ask::Revoke),
            Notice::SessionFailed(StoreError::unavailable("away")),
            Notice::Given(Key::new("k").unwrap()),
            Notice::Announced,
            Notice::Stopped,
        ];
        assert!(all.iter().all(|notice| notice.lease().is_none()));
    }
}
