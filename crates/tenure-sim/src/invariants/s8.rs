//! S8, permits: at no instant are more permits of a key believed in than there are, nor is one that is held exclusively beside any
//! other. That is provided that clock rates stay within ±ρ and no elapsed time is hidden. And what S2, S3 and S4 say of permits: each grant has a
//! greater fence than every earlier one of its key, belief is built only on what was granted, and nobody takes out what its
//! holder believes in.
//!
//! Source: the promise S8; Dijkstra 1965, Courtois et al. 1971. Belief only grows when permits are acquired or a session is renewed, so it is
//! enough to look at each such moment.

use std::collections::BTreeMap;
use tenure_core::semaphore::{Grant, Mode, SemaphoreLedger};
use tenure_core::{Fence, HolderId};

/// Permits that a user believes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BelievedPermits<'a> {
    pub(crate) holder: &'a HolderId,
    pub(crate) fence: Fence,
    pub(crate) mode: Mode,
    pub(crate) permits: u32,
}

/// All that are believed in of one key that has so many permits.
pub(crate) fn no_more_than_there_are<'a>(
    key: usize,
    permits: u32,
    believed: impl Iterator<Item = BelievedPermits<'a>>,
) -> Result<(), String> {
    let all: Vec<BelievedPermits<'a>> = believed.collect();
    let tell = || {
        let each = all
            .iter()
            .map(|one| format!("{} {:?} {} (fence {})", one.holder, one.mode, one.permits, one.fence));
        each.collect::<Vec<_>>().join(", ")
    };
    if all.len() > 1 && all.iter().any(|one| one.mode == Mode::Exclusive) {
        return Err(format!("k{key} is held exclusively beside others: {}", tell()));
    }
    let out: u64 = all.iter().map(|one| u64::from(one.permits)).sum();
    if out > u64::from(permits) {
        return Err(format!("{out} of {permits} permits of k{key} are out: {}", tell()));
    }
    Ok(())
}

/// Which grants a key has had.
#[derive(Debug, Default)]
pub(crate) struct Grants {
    highest: Fence,
    /// What was granted under which fence, and its place in the order of all grants.
    landed: BTreeMap<Fence, (Grant, u64)>,
    pub(crate) count: u64,
}

impl Grants {
    /// A write has made `after` of `before`.
    pub(crate) fn landed(&mut self, before: &SemaphoreLedger, after: &SemaphoreLedger) -> Result<(), String> {
        for grant in &after.holders {
            if let Some(old) = before.grant(grant.ticket.id) {
                if old != grant {
                    return Err(format!("what was granted with fence {} was changed", old.fence));
                }
                continue;
            }
            self.count += 1;
            if grant.fence <= self.highest {
                let highest = self.highest;
                return Err(format!(
                    "a grant has the fence {}, and there was one with {highest}",
                    grant.fence
                ));
            }
            self.highest = grant.fence;
            self.landed.insert(grant.fence, (grant.clone(), self.count));
        }
        Ok(())
    }

    /// The record was deleted or put back by hand: later grants have higher fences than what it shows now.
    pub(crate) fn put_back(&mut self, now: &SemaphoreLedger) {
        self.highest = now.holders.iter().map(|grant| grant.fence).max().unwrap_or_default();
    }

    /// A process says that it holds this.
    pub(crate) fn obtained(&self, new: BelievedPermits<'_>) -> Result<(), String> {
        let found = self.landed.get(&new.fence).map(|(grant, _)| &grant.ticket);
        let is_it = found.is_some_and(|ticket| {
            (&ticket.holder, ticket.mode, ticket.permits) == (new.holder, new.mode, new.permits)
        });
        let who = new.holder;
        if is_it {
            Ok(())
        } else {
            Err(format!("{who} believes in fence {} that was never granted to it", new.fence))
        }
    }

    /// The place of a grant in the order of all of its key.
    pub(crate) fn order(&self, fence: Fence) -> u64 {
        self.landed.get(&fence).map_or(0, |(_, order)| *order)
    }
}

/// Nobody takes out what its holder believes in: `who` has made `after` of `before`.
pub(crate) fn taken_out<'a>(
    before: &SemaphoreLedger,
    after: &SemaphoreLedger,
    who: &HolderId,
    mut believed: impl Iterator<Item = BelievedPermits<'a>>,
) -> Result<(), String> {
    let stands = |ledger: &SemaphoreLedger, fence| ledger.holders.iter().any(|grant| grant.fence == fence);
    match believed.find(|one| stands(before, one.fence) && !stands(after, one.fence)) {
        Some(one) => Err(format!("{who} takes out fence {} that {} believes in", one.fence, one.holder)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_are_counted_and_a_writer_is_alone() {
        let who = HolderId::new("a").unwrap();
        let one = |fence, mode, permits| BelievedPermits { holder: &who, fence: Fence(fence), mode, permits };
        let two = [one(1, Mode::Shared, 1), one(2, Mode::Shared, 2)];
        assert_eq!(no_more_than_there_are(0, 3, two.into_iter()), Ok(()));
        assert!(no_more_than_there_are(0, 2, two.into_iter()).unwrap_err().contains("3 of 2 permits"));
        let writer = [one(1, Mode::Exclusive, 1)];
        assert_eq!(no_more_than_there_are(0, 9, writer.into_iter()), Ok(()));
        let beside = [one(1, Mode::Exclusive, 1), one(2, Mode::Shared, 1)];
        assert!(no_more_than_there_are(0, 9, beside.into_iter()).unwrap_err().contains("beside others"));
    }
}
