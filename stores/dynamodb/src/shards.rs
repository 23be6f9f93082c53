//! Shards: the partition keys over which the records of a namespace are spread, since the service does so much a second for each and no more.
//!
//! A record's shard follows from its key and the number of shards. With another number it would be sought elsewhere, and a lease would have
//! two holders. So whoever opens a namespace says the number, and the first write fixes it in an item of the namespace's own. Everybody else
//! is refused who says another one, when opening and before its first write.
//!
//! | partition key | has |
//! |---|---|
//! | `NAMESPACE` | all records, if there is one shard |
//! | `NAMESPACE#K/N` | those of shard K of N |
//! | `NAMESPACE#shards` | the item that fixes the number, in `shards` |

pub(crate) mod claim;

use crate::error::failed;
use crate::item::{self, Item};
use crate::location::TableLocation;
use aws_sdk_dynamodb::Client;
use fnv::FnvHasher;
use std::hash::Hasher as _;
use std::sync::OnceLock;
use tenure_core::{Key, StoreError};
use tenure_store::parts::{Call, SharedCall};

/// The most that there can be: each page of a listing asks all of them.
pub(crate) const MOST: u16 = 128;

/// What the item is called, and its number.
const SHARDS: &str = "shards";

/// A namespace, and over how many shards it is spread.
#[derive(Debug)]
pub(crate) struct Shards {
    namespace: String,
    count: u16,
    /// The item is known to say this number.
    is_fixed: OnceLock<()>,
    /// What fixes it, for all who are about to write.
    fixing: SharedCall<Result<(), StoreError>>,
}

impl Shards {
    /// Looks up what is fixed already.
    pub(crate) async fn open(
        client: &Client,
        place: &TableLocation,
        namespace: String,
        count: u16,
    ) -> Result<Shards, StoreError> {
        let shards = Shards::new(namespace, count);
        let request = client.get_item().table_name(&place.table).set_key(Some(shards.own_keys()));
        let answer = request.consistent_read(true).send().await;
        if let Some(found) = answer.map_err(|error| failed(place, Call::Read, error))?.item {
            shards.check(place, &found)?;
            // Nobody else has it yet.
            let _was_empty = shards.is_fixed.set(());
        }
        Ok(shards)
    }

    fn new(namespace: String, count: u16) -> Shards {
        Shards { namespace, count, is_fixed: OnceLock::new(), fixing: SharedCall::default() }
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    pub(crate) fn count(&self) -> u16 {
        self.count
    }

    /// The partition key of a record.
    pub(crate) fn partition(&self, key: &Key) -> String {
        // FNV-1a is the same in all versions and on all machines.
        let mut hasher = FnvHasher::default();
        hasher.write(key.as_str().as_bytes());
        self.nth(hasher.finish() % u64::from(self.count))
    }

    /// The partition keys of all records.
    pub(crate) fn partitions(&self) -> impl Iterator<Item = String> {
        (0..self.count).map(|n| self.nth(n.into()))
    }

    fn nth(&self, n: u64) -> String {
        match self.count {
            1 => self.namespace.clone(),
            count => format!("{}#{n}/{count}", self.namespace),
        }
    }

    fn own_keys(&self) -> Item {
        item::keys(&format!("{}#{SHARDS}", self.namespace), SHARDS)
    }

    fn check(&self, place: &TableLocation, found: &Item) -> Result<(), StoreError> {
        let (namespace, count) = (&self.namespace, self.count);
        let fixed = found.get(SHARDS).and_then(|value| value.as_n().ok()?.parse::<u16>().ok());
        match fixed.filter(|fixed| (1..=MOST).contains(fixed)) {
            Some(fixed) if fixed == count => Ok(()),
            Some(fixed) => Err(StoreError::invalid(format!(
                "{place}: the namespace {namespace:?} was begun with shards={fixed}, and this says shards={count}; say shards={fixed}, or take another namespace"
            ))),
            None => Err(StoreError::foreign(format!(
                "{place}: the item {namespace:?}#{SHARDS} says no number of shards; restore what it was"
            ))),
        }
    }
}

/// Whether this could be the partition key of another namespace's shard.
pub(crate) fn is_partition_of_another(namespace: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    namespace.rsplit_once('#').is_some_and(|(_, end)| {
        end == SHARDS || end.split_once('/').is_some_and(|(n, count)| is_number(n) && is_number(count))
    })
}

#[cfg(test)]
mod tests {
    //! Plan: a record's shard is the same for ever; keys are spread evenly; one shard is the namespace itself; no namespace is called as
    //! another's shard.
    use super::*;

    fn shards(count: u16) -> Shards {
        Shards::new("n".to_owned(), count)
    }

    #[test]
    fn a_records_shard_never_changes() {
        let at = |count, key: &str| shards(count).partition(&Key::new(key).unwrap());
        assert_eq!((at(1, "a"), at(1, "fleet/f/board")), ("n".to_owned(), "n".to_owned()));
        // Whatever is in a table already was put there by these.
        assert_eq!(at(16, "a"), "n#12/16");
        assert_eq!(at(16, "fleet/f/board"), "n#5/16");
        assert_eq!(at(7, "session/h-1"), "n#5/7");
        assert_eq!(shards(3).partitions().collect::<Vec<_>>(), ["n#0/3", "n#1/3", "n#2/3"]);
        assert_eq!(shards(1).partitions().collect::<Vec<_>>(), ["n"]);
    }

    #[test]
    fn keys_are_spread_evenly() {
        let shards = shards(16);
        let mut counts = std::collections::BTreeMap::<String, usize>::new();
        for n in 0..16_000 {
            *counts.entry(shards.partition(&Key::new(format!("fleet/f/unit/{n}")).unwrap())).or_default() +=
                1;
        }
        assert_eq!(counts.len(), 16);
        assert!(counts.values().all(|count| (850..1150).contains(count)), "{counts:?}");
    }

    #[test]
    fn no_namespace_is_called_as_anothers_shard() {
        for taken in ["n#shards", "n#0/16", "a#b#3/7", "#1/2"] {
            assert!(is_partition_of_another(taken), "{taken}");
        }
        for free in ["n", "n#", "n#x", "n#1", "n#1/", "n#/2", "n#1/2/3", "n#a/2", "shards", "1/2"] {
            assert!(!is_partition_of_another(free), "{free}");
        }
    }
}
