//! What is told about an election.

use std::fmt;
use tenure_core::election::Standing;
use tenure_core::{Fence, HolderId, Metadata, Sighting, Wall};

/// Where a candidate stands and who leads, as last heard.
///
/// For people, logs and gauges. Whether to *act* as the leader is asked of [`super::Candidate::is_leader`] right
/// before acting: what is read here may be over.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Status {
    /// Where this candidate stands.
    pub standing: Standing,
    /// Who leads, this candidate included; none while nobody does, or before it is known, or while the store can't be asked:
    /// [`Candidate::trouble`](super::Candidate::trouble) tells these apart.
    pub leader: Option<Leader>,
}

/// Who leads.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Leader {
    /// The candidate's name.
    pub holder: HolderId,
    /// The fence of its term.
    pub fence: Fence,
    /// Since when, by its own wall clock. All others see when its claim was sent; it says itself when it heard that it had won, which is the
    /// answer's way later.
    pub since: Wall,
    /// What it says of itself: where to reach it, for example.
    pub metadata: Metadata,
}

/// As `b-17 (fence 8)`.
impl fmt::Display for Leader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (fence {})", self.holder, self.fence)
    }
}

/// As `following, led by b-17 (fence 8)`.
impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.leader {
            Some(leader) => write!(f, "{}, led by {leader}", self.standing),
            None => write!(f, "{}, led by nobody that is known of", self.standing),
        }
    }
}

impl From<Sighting> for Leader {
    fn from(seen: Sighting) -> Leader {
        let Sighting { occupant, metadata, .. } = seen;
        Leader { holder: occupant.holder, fence: occupant.fence, since: occupant.since, metadata }
    }
}
