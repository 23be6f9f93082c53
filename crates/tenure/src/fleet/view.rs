//! Units and workers, as their records show them, and units that are to be.

use tenure_core::fleet::{About, UnitSpec};
use tenure_core::{Fence, HolderId, Metadata, Occupant, Record, StoreError, Stored};

/// A unit that is to be created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewUnit {
    pub(super) name: String,
    pub(super) spec: UnitSpec,
    pub(super) fields: Metadata,
}

impl NewUnit {
    /// A unit of this name, of weight 1, that any worker may have.
    #[must_use]
    pub fn named(name: impl Into<String>) -> NewUnit {
        NewUnit { name: name.into(), spec: UnitSpec::default(), fields: Metadata::new() }
    }

    /// What it weighs where workers plan by weight: 1 to 2^53.
    #[must_use]
    pub fn weight(mut self, weight: u64) -> NewUnit {
        self.spec.weight = weight;
        self
    }

    /// A label that its worker must have. May be called more than once.
    #[must_use]
    pub fn needs(mut self, label: impl Into<String>) -> NewUnit {
        self.spec.needs.insert(label.into());
        self
    }

    /// What it carries for its users.
    #[must_use]
    pub fn fields(mut self, fields: Metadata) -> NewUnit {
        self.fields = fields;
        self
    }
}

/// A unit, as its record shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct UnitView {
    /// Its name.
    pub name: String,
    /// What the plan knows of it.
    pub spec: UnitSpec,
    /// What it carries for its users.
    pub fields: Metadata,
    /// Its fence.
    pub fence: Fence,
    /// Who holds it by its record. A worker that died is still shown until another has taken over.
    pub holder: Option<Occupant>,
}

/// All units of a fleet.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Units {
    /// Those that can be read, by name; not the deleted ones.
    pub units: Vec<UnitView>,
    /// Those that can't, with the reason. They are left alone.
    pub damaged: Vec<(String, StoreError)>,
}

/// All workers of a fleet.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Roster {
    /// Those whose sessions can be read, by name.
    pub members: Vec<Member>,
    /// The names of those whose sessions can't, with the reason. They may live.
    pub damaged: Vec<(String, StoreError)>,
}

/// A worker, as its session shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Member {
    /// Its name.
    pub holder: HolderId,
    /// What it offers.
    pub about: About,
    /// What it says of itself, for people.
    pub metadata: Metadata,
    /// The fence of its session.
    pub fence: Fence,
    /// How long ago it last renewed, where the store tells.
    pub age: Option<std::time::Duration>,
    /// How long it may be silent before it counts as dead.
    pub ttl: std::time::Duration,
}

pub(super) fn view(name: &str, stored: Stored) -> Result<UnitView, StoreError> {
    let holder = Occupant::of(&stored.record);
    let Record { fence, metadata, .. } = stored.record;
    let (spec, fields) = UnitSpec::parse(metadata)?;
    Ok(UnitView { name: name.to_owned(), spec, fields, fence, holder })
}

pub(super) fn member(stored: Stored) -> Option<Member> {
    let about = About::parse(&stored.record.metadata)?;
    let (fence, age) = (stored.record.fence, stored.age());
    let tenure = stored.record.tenure?;
    let mut metadata = stored.record.metadata;
    metadata.remove(tenure_core::RESERVED);
    Some(Member { holder: tenure.holder, about, metadata, fence, age, ttl: tenure.ttl.duration() })
}
