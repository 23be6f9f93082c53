//! S7, ranges are disjoint: within a section no two live leases overlap; and what S2, S3, S4 and S6 say of a section's leases:
//! each has a greater fence than every earlier one and an id that none had before, nobody takes out a lease that its holder
//! believes in, belief is built only on writes that took effect and from before they were sent, and what could not be ended is
//! left to expire. Where somebody deletes the record by hand, or puts an older copy in its place, leases from before that may overlap with later ones:
//! then fences protect.
//!
//! Source: the promise S7; LUCI's `txndefer` lessor, whose leases of partitions these are. Belief in a lease of a range
//! only begins, when it is obtained, and never grows, so it is enough to look at each such moment.

use crate::kernel::clock::True;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tenure_core::range::RangeSet;
use tenure_core::section::{Entry, SectionLedger};
use tenure_core::{Drift, Fence, HolderId, Nonce, Tick};

/// A lease that a user believes in.
#[derive(Debug, Clone)]
pub(crate) struct BelievedRanges {
    pub(crate) holder: HolderId,
    pub(crate) fence: Fence,
    pub(crate) parts: RangeSet,
}

/// A process has obtained `new`, and these are all that are believed in at this instant.
pub(crate) fn disjoint<'a>(
    new: &BelievedRanges,
    others: impl Iterator<Item = &'a BelievedRanges>,
) -> Result<(), String> {
    for other in others.filter(|other| other.fence != new.fence) {
        let common = other.parts.intersection(&new.parts);
        if !common.is_empty() {
            let (one, two) = (&new.holder, &other.holder);
            return Err(format!(
                "{common} is held by {one} (fence {}) and by {two} (fence {})",
                new.fence, other.fence
            ));
        }
    }
    Ok(())
}

/// Which leases a section has had.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    highest: Fence,
    ids: BTreeSet<Nonce>,
    /// Which fences came of which entries.
    landed: BTreeMap<Fence, (Entry, u64)>,
    pub(crate) count: u64,
}

impl Entries {
    /// A write has made `after` of `before`.
    pub(crate) fn landed(&mut self, before: &SectionLedger, after: &SectionLedger) -> Result<(), String> {
        for entry in &after.entries {
            let stood = before.entries.iter().filter(|old| old.id == entry.id);
            if let Some(old) = stood.clone().find(|old| old.fence == entry.fence) {
                if (&old.parts, &old.holder, old.duration) != (&entry.parts, &entry.holder, entry.duration) {
                    return Err(format!("the lease with fence {} was changed", entry.fence));
                }
                continue;
            }
            self.count += 1;
            if !self.ids.insert(entry.id) {
                return Err(format!("the id of the lease with fence {} was used before", entry.fence));
            }
            if entry.fence <= self.highest {
                return Err(format!(
                    "a lease has the fence {}, and there was one with {}",
                    entry.fence, self.highest
                ));
            }
            self.highest = entry.fence;
            self.landed.insert(entry.fence, (entry.clone(), self.count));
        }
        Ok(())
    }

    /// A process says that it has obtained a lease, to be believed in until `until`. `sent` is its clock when it sent the write.
    pub(crate) fn obtained(
        &self,
        new: &BelievedRanges,
        sent: Option<Tick>,
        until: Tick,
    ) -> Result<(), String> {
        let Some(entry) = self.entry(new.fence).filter(|entry| entry.holder == new.holder) else {
            return Err(format!(
                "{} believes in a lease with fence {} that was never written",
                new.holder, new.fence
            ));
        };
        if entry.parts != new.parts {
            return Err(format!("{} was told {} and holds {}", new.holder, new.parts, entry.parts));
        }
        let most = sent.map(|sent| sent.after(Drift::default().belief(entry.duration)));
        if most.is_none_or(|most| until > most) {
            return Err(format!(
                "{} believes longer in fence {} than from before the write was sent",
                new.holder, new.fence
            ));
        }
        Ok(())
    }

    /// What was written with this fence.
    pub(crate) fn entry(&self, fence: Fence) -> Option<&Entry> {
        self.landed.get(&fence).map(|(entry, _)| entry)
    }

    /// Its place among all leases, in the order in which the store made them.
    pub(crate) fn order(&self, fence: Fence) -> u64 {
        self.landed.get(&fence).map_or(0, |(_, order)| *order)
    }
}

/// Nobody believes in an entry of its own that a record shows to be older than the write that it sent at `sent`: time was hidden meanwhile. `age`: what the
/// record says.
pub(crate) fn not_misdated(
    new: &BelievedRanges,
    sent: Option<Tick>,
    age: Option<Duration>,
    now: Tick,
) -> Result<(), String> {
    /// What stores round by.
    const ROUNDING: Duration = Duration::from_millis(1);
    let (Some(sent), Some(age)) = (sent, age) else { return Ok(()) };
    if age <= Drift::default().most(now.since(sent)) + ROUNDING {
        return Ok(());
    }
    Err(format!(
        "{} believes in fence {}, which it sent {:?} ago, and the store shows that it stands for {age:?}",
        new.holder,
        new.fence,
        now.since(sent)
    ))
}

/// Nobody takes out a lease that its holder believes in: `who` has made `after` of `before`.
pub(crate) fn taken_out<'a>(
    before: &SectionLedger,
    after: &SectionLedger,
    who: &HolderId,
    mut believed: impl Iterator<Item = &'a BelievedRanges>,
) -> Result<(), String> {
    let is_gone = |fence: Fence| {
        before.entries.iter().any(|entry| entry.fence == fence)
            && !after.entries.iter().any(|entry| entry.fence == fence)
    };
    match believed.find(|lease| is_gone(lease.fence)) {
        Some(lease) => {
            Err(format!("{who} takes out fence {} that {} believes in", lease.fence, lease.holder))
        }
        None => Ok(()),
    }
}

/// Whoever looks is shown every lease that was believed in when it asked, and still is.
pub(crate) fn all_listed<'a>(
    entries: &[Entry],
    mut believed: impl Iterator<Item = &'a BelievedRanges>,
) -> Result<(), String> {
    match believed.find(|lease| !entries.iter().any(|entry| entry.fence == lease.fence)) {
        Some(lease) => Err(format!(
            "the lease with fence {} that {} believes in is not listed",
            lease.fence, lease.holder
        )),
        None => Ok(()),
    }
}

/// What a process sent before it stopped in good order, and others would have to wait for, does not land after that. `posted`:
/// when each lease was sent.
pub(crate) fn nothing_of_who_stopped(
    before: &SectionLedger,
    after: &SectionLedger,
    stopped: &BTreeMap<HolderId, True>,
    posted: &BTreeMap<Nonce, True>,
) -> Result<(), String> {
    let stays = |entry: &Entry| {
        let (Some(stopped), Some(sent)) = (stopped.get(&entry.holder), posted.get(&entry.id)) else {
            return false;
        };
        // By its own clock, which may be fast, it was over sooner.
        *stopped < sent + entry.duration.duration().as_nanos() as True * 9 / 10
    };
    let is_new = |entry: &&Entry| !before.entries.iter().any(|old| old.id == entry.id);
    match after.entries.iter().filter(is_new).find(|entry| stays(entry)) {
        Some(entry) => {
            Err(format!("{} has stopped, and its lease with fence {} lands", entry.holder, entry.fence))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overlap_of_two_beliefs_is_told_and_neighbours_are_none() {
        let lease = |fence: u64, parts: &str| BelievedRanges {
            holder: HolderId::new(format!("n{fence}")).unwrap(),
            fence: Fence(fence),
            parts: parts.split(' ').map(|part| part.parse().unwrap()).collect(),
        };
        let (one, neighbour, other) = (lease(1, "0_8 10_18"), lease(2, "8_10 18_20"), lease(3, "17_19"));
        assert_eq!(disjoint(&neighbour, [&one, &neighbour].into_iter()), Ok(()));
        let found = disjoint(&other, [&one, &neighbour, &other].into_iter()).unwrap_err();
        assert_eq!(found, "17_18 is held by n3 (fence 3) and by n1 (fence 1)");
    }
}
