//! Who leads a fleet of the KCL's by its rule of 2.x: the only one that looks for missing leases, and for changed streams.
//!
//! Each process computes it by itself from the owners in the table, whoever they are (`DeterministicShuffleShardSyncLeaderDecider`, KCL 3.5.1):
//! sorted, shuffled by `java.util.Random` of a fixed seed, the first. Our workers can be that, and do nothing of what it does.

use crate::row::LEASE_KEY;
use crate::table::{RowListing, Table};
use std::cmp::Ordering;
use std::collections::BTreeSet;
use tenure_dynamodb::service::text;

/// The seed of the KCL's.
const SEED: u64 = 1947;

/// The item in which processes of the KCL 3.x keep what they have agreed on, and its attribute (`MigrationState`, KCL 3.5.1).
const AGREEMENT: &str = "Migration3.0";
const VERSION: &str = "cv";

impl Table {
    /// On which version the KCL's processes have agreed, as a fleet of 3.x stores it among its leases, or beside them in the table
    /// `<name>-CoordinatorState`. With `CLIENT_VERSION_3X` and `CLIENT_VERSION_3X_WITH_ROLLBACK`, their leader assigns leases. None if no version is
    /// stored, or it can't be read.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn kcl_version(&self) -> Option<String> {
        let beside = format!("{}-CoordinatorState", self.name());
        for (table, key) in [(self.name(), LEASE_KEY), (&beside, "key")] {
            let request = self.client().get_item().table_name(table).key(key, text(AGREEMENT));
            let found = request.consistent_read(true).send().await.ok().and_then(|answer| answer.item);
            if let Some(version) = found.and_then(|item| item.get(VERSION)?.as_s().ok().cloned()) {
                return Some(version);
            }
        }
        None
    }
}

impl RowListing {
    /// Who leads by the KCL's rule of 2.x. None if nobody has a lease.
    #[must_use]
    pub fn kcl_leader(&self) -> Option<&str> {
        let owners: BTreeSet<&str> = self.rows.iter().filter_map(crate::Row::owner).collect();
        let mut owners: Vec<&str> = owners.into_iter().collect();
        owners.sort_by(|a, b| as_java_sorts(a, b));
        let place = first_of_shuffled(owners.len());
        owners.get(place).copied()
    }
}

/// By UTF-16, as Java's strings are.
fn as_java_sorts(a: &str, b: &str) -> Ordering {
    a.encode_utf16().cmp(b.encode_utf16())
}

/// Which of so many is the first once `java.util.Collections.shuffle` has shuffled them.
fn first_of_shuffled(count: usize) -> usize {
    let (mut random, mut places) = (JavaRandom::new(SEED), (0..count).collect::<Vec<_>>());
    for left in (2..=count).rev() {
        let other = random.below(u32::try_from(left).unwrap_or(u32::MAX));
        places.swap(left - 1, other as usize);
    }
    places.first().copied().unwrap_or(0)
}

/// `java.util.Random`: a linear congruential generator of 48 bits.
struct JavaRandom(u64);

impl JavaRandom {
    const FACTOR: u64 = 0x5_DEEC_E66D;
    const MASK: u64 = (1 << 48) - 1;

    fn new(seed: u64) -> JavaRandom {
        JavaRandom((seed ^ Self::FACTOR) & Self::MASK)
    }

    /// 31 bits.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(Self::FACTOR).wrapping_add(0xB) & Self::MASK;
        self.0 >> 17
    }

    /// Its `nextInt(bound)`, of a bound from 1.
    fn below(&mut self, bound: u32) -> u32 {
        let bound = u64::from(bound);
        if bound.is_power_of_two() {
            return ((bound * self.next()) >> 31) as u32;
        }
        loop {
            let bits = self.next();
            let drawn = bits % bound;
            // What is over the last whole multiple of the bound would make small numbers more likely.
            if bits - drawn + (bound - 1) < 1 << 31 {
                return drawn as u32;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    //! Plan: the places are those that Java's own classes name (OpenJDK 17); owners are counted once, and sorted as Java sorts them.
    use super::*;
    use crate::Format;
    use crate::change::RowChange;
    use crate::row::{Fields, Row};

    #[test]
    fn the_first_of_a_shuffle_is_java_s() {
        let places = [
            0, 0, 2, 3, 4, 2, 2, 2, 3, 8, 6, 9, 12, 4, 10, 11, 13, 11, 0, 14, 13, 7, 1, 1, 0, 3, 9, 20, 12,
            3, 22, 19,
        ];
        for (n, place) in places.into_iter().enumerate() {
            assert_eq!(first_of_shuffled(n + 1), place, "of {}", n + 1);
        }
        assert_eq!([100, 1000, 65536].map(first_of_shuffled), [95, 748, 18712]);
        assert_eq!(first_of_shuffled(0), 0);
    }

    #[test]
    fn a_fleet_s_leader_is_one_of_its_owners_whoever_that_is() {
        let leader = |owners: &[&str]| {
            let rows = owners.iter().enumerate().map(|(n, owner)| {
                let row = Row::new(Format::kcl(), &format!("k{n}"), Fields::new()).unwrap();
                if owner.is_empty() { row } else { RowChange::take(Format::kcl(), &row, owner).after }
            });
            let listing = RowListing { rows: rows.collect(), ..RowListing::default() };
            listing.kcl_leader().map(str::to_owned)
        };
        assert_eq!(leader(&["", ""]), None);
        assert_eq!(leader(&["one"]).as_deref(), Some("one"));
        assert_eq!(leader(&["two", "one", "", "two", "one"]).as_deref(), Some("one"));
        assert_eq!(leader(&["c", "a", "b"]).as_deref(), Some("c"), "of three the last");
        // Beyond the first 65,536 characters there are two units, the first of which is smaller than the last of those.
        assert_eq!(leader(&["\u{ffee}", "\u{1f600}"]).as_deref(), Some("\u{1f600}"));
    }
}
