//! What is kept of a unit's record once it is listed. There may be a million of them, so what most do not have takes no room.

use super::unit::{Status, UnitSpec};
use crate::values::fence::{Fence, Nonce};
use crate::values::metadata::Metadata;
use crate::values::record::{Record, Stored, Tenure};
use crate::values::time::Wall;
use std::collections::BTreeSet;
use std::ops::Deref;

/// A record by which its unit can be claimed without another look. It need not tell times if it is vacant.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum ListedRecord {
    /// Vacant, and of the version that its nonce and fence tell.
    Vacant { fence: Fence, nonce: PackedNonce, stamp: Wall, metadata: Option<Box<Metadata>> },
    /// Any other.
    Whole(Box<Stored>),
}

impl ListedRecord {
    pub(super) fn tenure(&self) -> Option<&Tenure> {
        match self {
            ListedRecord::Vacant { .. } => None,
            ListedRecord::Whole(stored) => stored.record.tenure.as_ref(),
        }
    }

    pub(super) fn stored(self) -> Box<Stored> {
        match self {
            ListedRecord::Vacant { fence, nonce, stamp, metadata } => {
                let metadata = metadata.map(|metadata| *metadata).unwrap_or_default();
                Box::new(Stored::new(Record { fence, nonce: nonce.into(), stamp, tenure: None, metadata }))
            }
            ListedRecord::Whole(stored) => stored,
        }
    }
}

impl From<Stored> for ListedRecord {
    fn from(stored: Stored) -> ListedRecord {
        if stored.record.tenure.is_some() || stored.version != stored.record.version() {
            return ListedRecord::Whole(Box::new(stored));
        }
        let Record { fence, nonce, stamp, metadata, .. } = stored.record;
        let metadata = (!metadata.is_empty()).then(|| Box::new(metadata));
        ListedRecord::Vacant { fence, nonce: nonce.into(), stamp, metadata }
    }
}

/// A nonce that can stand beside smaller values without a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct PackedNonce(u64, u64);

impl From<Nonce> for PackedNonce {
    fn from(nonce: Nonce) -> PackedNonce {
        PackedNonce((nonce.0 >> 64) as u64, nonce.0 as u64)
    }
}

impl From<PackedNonce> for Nonce {
    fn from(PackedNonce(high, low): PackedNonce) -> Nonce {
        Nonce(u128::from(high) << 64 | u128::from(low))
    }
}

/// The id and the fence of a tenure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct TenureId(PackedNonce, Fence);

impl From<(Nonce, Fence)> for TenureId {
    fn from((id, fence): (Nonce, Fence)) -> TenureId {
        TenureId(id.into(), fence)
    }
}

impl From<TenureId> for (Nonce, Fence) {
    fn from(TenureId(id, fence): TenureId) -> (Nonce, Fence) {
        (id.into(), fence)
    }
}

/// What a record says to the plan; most say nothing.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Says(Option<Box<UnitSpec>>);

static NOTHING: UnitSpec =
    UnitSpec { weight: 1, needs: BTreeSet::new(), status: Status::Open, pin: None, retry: None };

impl From<UnitSpec> for Says {
    fn from(spec: UnitSpec) -> Says {
        Says((spec != NOTHING).then(|| Box::new(spec)))
    }
}

impl Deref for Says {
    type Target = UnitSpec;

    fn deref(&self) -> &UnitSpec {
        self.0.as_deref().unwrap_or(&NOTHING)
    }
}

#[cfg(test)]
mod tests {
    //! Plan: what was put in comes out, whatever a record or its spec says.
    use super::*;
    use crate::fleet::worker::alone::*;
    use crate::values::fence::Version;
    use crate::values::metadata::Value;
    use crate::values::record::Attachment;

    #[test]
    fn what_was_put_in_comes_out() {
        let attachment = Attachment { session: session(1), fence: Fence(7) };
        let plain = |mut stored: Stored| {
            stored.version = stored.record.version();
            stored
        };
        let mut other = plain(*vacant());
        other.record.nonce = Nonce(3 << 70 | 5);
        let mut told = plain(*vacant());
        told.record.metadata.insert("at".to_owned(), Value::from("page 3"));
        let all = [*vacant(), plain(*vacant()), plain(other), told, record(Some(Some(attachment)), &NOTHING)];
        for (stored, is_small) in all.into_iter().zip([false, true, true, true, false]) {
            let seen = ListedRecord::from(stored.clone());
            assert_eq!(seen.tenure(), stored.record.tenure.as_ref());
            assert_eq!(matches!(seen, ListedRecord::Vacant { .. }), is_small);
            assert_eq!(*seen.stored(), stored);
        }
        assert_eq!(vacant().version, Version(1));
        for spec in
            [UnitSpec::default(), UnitSpec::default().weight(7), UnitSpec::default().status(Status::Done)]
        {
            assert_eq!((*Says::from(spec.clone())).clone(), spec);
        }
        assert_eq!(Says::from(UnitSpec::default()).0, None);
        let held = (Nonce(u128::MAX - 1), Fence(9));
        assert_eq!(<(Nonce, Fence)>::from(TenureId::from(held)), held);
    }
}
