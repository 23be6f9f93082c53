//! What is told about an election.

use crate::error::describe;
use tenure_core::election::{Cause, Standing};
use tenure_core::{Fence, HolderId, Metadata, Sighting, Wall};

/// Where a candidate stands and who leads, as last heard.
///
/// For people, logs and gauges. Whether to *act* as the leader is asked of [`super::Candidate::is_leader`] right
/// before acting: what is read here may be over.
#[derive(Debug, Clone, PartialEq)]
pub struct Status {
    /// Where this candidate stands.
    pub standing: Standing,
    /// Who leads, this candidate included; none while nobody does, or before it is known, or while the store can't be asked:
    /// [`Candidate::trouble`](super::Candidate::trouble) tells these apart.
    pub leader: Option<Leader>,
}

/// Who leads.
#[derive(Debug, Clone, PartialEq)]
pub struct Leader {
    /// The candidate's id.
    pub id: HolderId,
    /// The fence of its term.
    pub fence: Fence,
    /// Since when, by its own wall clock.
    pub since: Wall,
    /// Its labels.
    pub labels: Metadata,
}

impl From<Sighting> for Leader {
    fn from(seen: Sighting) -> Leader {
        let Sighting { occupant, metadata } = seen;
        Leader { id: occupant.holder, fence: occupant.fence, since: occupant.since, labels: metadata }
    }
}

/// A cause in words, for the log.
pub(super) fn words(cause: &Cause) -> String {
    match cause {
        Cause::Resigned => "it resigned".to_owned(),
        Cause::Stopping => "it was stopped".to_owned(),
        Cause::Asked => "it was asked to hand over".to_owned(),
        Cause::Failing => "too many renewals in a row have failed".to_owned(),
        Cause::Stuck => "work under it could not be ended".to_owned(),
        Cause::Lost(loss) => describe(loss),
        other => format!("{other:?}"),
    }
}
