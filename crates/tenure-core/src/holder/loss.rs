//! Why leases end before they are given up.

use crate::values::error::{ErrorKind, StoreError};
use crate::values::fence::Fence;
use crate::values::record::{Occupant, Record};
use std::fmt;

/// Why a lease ended before its holder gave it up.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Loss {
    /// Its validity ran out: the process was stopped or too slow to renew.
    Expired,
    /// Its validity ran out while the store could not be reached, would not answer, or refused what was to keep it. The error's kind says what to do.
    Unreachable(StoreError),
    /// Another holder has it now, or has fenced the session that it was attached to.
    Taken(Option<Occupant>),
    /// The record was deleted, or put back to an older state, behind the protocol's back.
    Deleted,
    /// It was withdrawn on request.
    Revoked,
    /// It was given up by someone else who had its token.
    Released,
    /// It was held for as long as its holder had said that it may be. So ends what is never renewed.
    Overran,
    /// Its holder gave it up: it was stopped, or its candidate stepped down. Or what renewed it has ended with a panic or its runtime; then its
    /// record stands until its ttl is over.
    Stopped,
}

/// For people, as in `the lease is lost: taken: b-17 (fence 8)`.
impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Loss::Expired => f.write_str("it was not renewed in time"),
            Loss::Unreachable(error) => match error.kind() {
                ErrorKind::Unavailable | ErrorKind::Unknown => {
                    write!(f, "the store could not be reached in time ({error})")
                }
                ErrorKind::Foreign => write!(f, "a record that it rests on could not be read ({error})"),
                ErrorKind::Unsupported | ErrorKind::Invalid => {
                    write!(f, "the store refused what was to keep it ({error})")
                }
            },
            Loss::Taken(Some(by)) => write!(f, "taken: {by}"),
            Loss::Taken(None) => f.write_str("taken"),
            Loss::Deleted => f.write_str("its record was deleted"),
            Loss::Revoked => f.write_str("it was withdrawn"),
            Loss::Released => f.write_str("it was released"),
            Loss::Overran => f.write_str("it was held for as long as it may be"),
            Loss::Stopped => f.write_str("its holder has stopped, or stepped down"),
        }
    }
}

impl std::error::Error for Loss {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        if let Loss::Unreachable(error) = self { Some(error) } else { None }
    }
}

/// The loss of whoever could not renew, change or give up what it had, for such trouble with its store. Each place that knows the trouble asks
/// here, so that a reason that is new is told in all of them.
impl From<StoreError> for Loss {
    fn from(trouble: StoreError) -> Loss {
        Loss::Unreachable(trouble)
    }
}

impl Loss {
    /// A word for each, as in labels of metrics: one of `expired`, `unreachable`, `taken`, `deleted`, `revoked`, `released`, `overran`,
    /// `stopped`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Loss::Expired => "expired",
            Loss::Unreachable(_) => "unreachable",
            Loss::Taken(_) => "taken",
            Loss::Deleted => "deleted",
            Loss::Revoked => "revoked",
            Loss::Released => "released",
            Loss::Overran => "overran",
            Loss::Stopped => "stopped",
        }
    }

    /// The names of all that are counted as losses: what its own process gives up is not lost.
    pub const COUNTED: [&str; 7] =
        ["expired", "unreachable", "taken", "deleted", "revoked", "released", "overran"];

    /// What became of the tenure with this fence, by the record that stands in its place.
    pub(crate) fn shown_by(current: Option<&Record>, fence: Fence) -> Loss {
        match current {
            None => Loss::Deleted,
            // Fences only grow: whoever shows an older one has put back what stood there before.
            Some(record) if record.fence < fence => Loss::Deleted,
            Some(record) if record.tenure.is_none() && record.fence == fence => Loss::Released,
            Some(record) => Loss::Taken(Occupant::of(record)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_store_refuses_or_has_damaged_is_not_told_as_out_of_reach() {
        for (trouble, words) in [
            (StoreError::unavailable("no answer"), "the store could not be reached in time"),
            (StoreError::unknown("no answer"), "the store could not be reached in time"),
            (StoreError::foreign("cut off"), "a record that it rests on could not be read"),
            (StoreError::invalid("access denied"), "the store refused what was to keep it"),
            (StoreError::unsupported("read-only"), "the store refused what was to keep it"),
        ] {
            let told = format!("{words} ({trouble})");
            let loss = Loss::from(trouble);
            assert_eq!((loss.to_string(), loss.name()), (told, "unreachable"));
        }
    }

    #[test]
    fn each_loss_is_counted_but_that_by_its_own_process() {
        // One that is new does not compile here before it stands in the list, and in the names that are counted.
        let next = |loss: Option<&Loss>| match loss {
            None => Some(Loss::Expired),
            Some(Loss::Expired) => Some(Loss::Unreachable(StoreError::unavailable("down"))),
            Some(Loss::Unreachable(_)) => Some(Loss::Taken(None)),
            Some(Loss::Taken(_)) => Some(Loss::Deleted),
            Some(Loss::Deleted) => Some(Loss::Revoked),
            Some(Loss::Revoked) => Some(Loss::Released),
            Some(Loss::Released) => Some(Loss::Overran),
            Some(Loss::Overran) => Some(Loss::Stopped),
            Some(Loss::Stopped) => None,
        };
        let mut all = Vec::new();
        while let Some(loss) = next(all.last()) {
            all.push(loss);
        }
        let names: Vec<&str> = all.iter().map(Loss::name).filter(|name| *name != "stopped").collect();
        assert_eq!(names, Loss::COUNTED);
    }
}
