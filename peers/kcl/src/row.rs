//! One row of the table, which is one lease.
//!
//! Three attributes are the protocol's (four in the KCL's layout); all others belong to whoever put them there, are read and
//! written as they are, and are in no condition.

use super::format::{Format, Unowned};
use std::collections::BTreeMap;
use tenure_core::StoreError;
use tenure_dynamodb::aws_sdk_dynamodb::types::AttributeValue;
use tenure_dynamodb::service::{Item, number, text};

pub(crate) const LEASE_KEY: &str = "leaseKey";
pub(crate) const LEASE_OWNER: &str = "leaseOwner";
pub(crate) const LEASE_COUNTER: &str = "leaseCounter";
/// The KCL's: who still works on a lease whose `leaseOwner` is to have it next.
pub(crate) const CHECKPOINT_OWNER: &str = "checkpointOwner";
pub(crate) const OWNER_SWITCHES: &str = "ownerSwitchesSinceCheckpoint";
/// Ours: the counter at which a worker of tenure that had the lease alone gave it back. Peers write no new one; a8m's may put an older one back.
pub(crate) const GIVEN_BACK: &str = "tenureGivenBack";
const ENTITY_TYPE: &str = "entityType";

/// What `a8m/lease` writes for "nobody".
const NULL: &str = "NULL";
/// The counter of a new row.
const FIRST: u64 = 1;
/// DynamoDB's limit for a HASH key.
const LONGEST_KEY: usize = 2048;

/// The attributes of a row that are its users', by name.
pub type Fields = BTreeMap<String, AttributeValue>;

/// One row of a lease table, as it was read. Changes are conditional on what is in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    key: String,
    pub(crate) counter: u64,
    /// As it stands there, for conditions: "nobody" has several spellings.
    pub(crate) owner: Option<AttributeValue>,
    pub(crate) checkpoint_owner: Option<AttributeValue>,
    /// The counter at which one of ours that had it alone gave it back.
    pub(crate) given_back: Option<u64>,
    pub(crate) fields: Fields,
}

impl Row {
    /// A row that is not there yet. The KCL can't read rows without a checkpoint, so one that has none gets the one that the KCL
    /// begins with.
    pub(crate) fn new(format: Format, key: &str, fields: Fields) -> Result<Row, StoreError> {
        check_key(key)?;
        check_fields(format, fields.keys())?;
        let owner = match format.unowned {
            Unowned::Absent => None,
            Unowned::Null => Some(text(NULL)),
        };
        let mut row = Row {
            key: key.to_owned(),
            counter: FIRST,
            owner,
            checkpoint_owner: None,
            given_back: None,
            fields,
        };
        if format.is_kcl() {
            let begin = [
                ("checkpoint", text("TRIM_HORIZON")),
                ("checkpointSubSequenceNumber", number(0)),
                (OWNER_SWITCHES, number(0)),
            ];
            for (name, value) in begin {
                row.fields.entry(name.to_owned()).or_insert(value);
            }
        }
        Ok(row)
    }

    /// Reads a row. None if it is one of the KCL's that is no lease.
    pub(crate) fn read(format: Format, item: &Item) -> Result<Option<Row>, StoreError> {
        let key = match item.get(LEASE_KEY) {
            Some(AttributeValue::S(key)) => key.clone(),
            _ => return Err(StoreError::foreign("a row has no leaseKey of type S; is this a lease table?")),
        };
        let foreign = |what: &str, found: Option<&AttributeValue>| {
            let found = found.map_or_else(|| "nothing".to_owned(), |value| format!("{value:?}"));
            let found: String = found.chars().take(60).collect();
            StoreError::foreign(format!("the row of lease {key:?} is left as it is: its {what}, but {found}"))
        };
        if format.is_kcl()
            && item.get(ENTITY_TYPE).is_some_and(|kind| kind.as_s().is_ok_and(|kind| kind != "LEASE"))
        {
            return Ok(None);
        }
        let counter = match item.get(LEASE_COUNTER) {
            Some(AttributeValue::N(digits)) => digits.parse::<u64>().ok().filter(|n| *n < u64::MAX >> 1),
            _ => None,
        };
        let counter = counter
            .ok_or_else(|| foreign("leaseCounter should be a number from 0", item.get(LEASE_COUNTER)))?;
        let owner = item.get(LEASE_OWNER).cloned();
        if !matches!(&owner, None | Some(AttributeValue::S(_) | AttributeValue::Null(true))) {
            return Err(foreign("leaseOwner should be a text", owner.as_ref()));
        }
        let checkpoint_owner = item.get(CHECKPOINT_OWNER).filter(|_| format.is_kcl()).cloned();
        if !matches!(&checkpoint_owner, None | Some(AttributeValue::S(_))) {
            return Err(foreign("checkpointOwner should be a text", checkpoint_owner.as_ref()));
        }
        // Damaged or written by others: then it says nothing.
        let given_back = match item.get(GIVEN_BACK) {
            Some(AttributeValue::N(digits)) => digits.parse().ok(),
            _ => None,
        };
        let fields = item.iter().filter(|(name, _)| !is_ours(format, name));
        let fields = fields.map(|(name, value)| (name.clone(), value.clone())).collect();
        Ok(Some(Row { key, counter, owner, checkpoint_owner, given_back, fields }))
    }

    /// The whole item.
    pub(crate) fn item(&self) -> Item {
        let mut item: Item = self.fields.clone().into_iter().collect();
        item.insert(LEASE_KEY.to_owned(), text(&self.key));
        item.insert(LEASE_COUNTER.to_owned(), number(self.counter));
        for (name, value) in [(LEASE_OWNER, &self.owner), (CHECKPOINT_OWNER, &self.checkpoint_owner)] {
            if let Some(value) = value {
                item.insert(name.to_owned(), value.clone());
            }
        }
        item.extend(self.given_back.map(|counter| (GIVEN_BACK.to_owned(), number(counter))));
        item
    }

    /// The lease's name.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The counter, which grows with each write of an owner.
    #[must_use]
    pub fn counter(&self) -> u64 {
        self.counter
    }

    /// Whose it is, or is to be when a handoff is under way.
    #[must_use]
    pub fn owner(&self) -> Option<&str> {
        named(self.owner.as_ref())
    }

    /// Who still works on it, if the KCL is handing it over to its [owner](Self::owner).
    #[must_use]
    pub fn handing_over(&self) -> Option<&str> {
        named(self.checkpoint_owner.as_ref())
    }

    /// Who works on it now: who is handing it over, else its owner.
    #[must_use]
    pub fn holder(&self) -> Option<&str> {
        self.handing_over().or_else(|| self.owner())
    }

    /// Whether nobody has it and nobody can believe to: it was never taken, or one of tenure's workers that had it alone gave it
    /// back. Where a peer evicted, or gave up what it had just stolen, the one from whom it was stolen may not know yet.
    #[must_use]
    pub fn is_surely_free(&self) -> bool {
        self.was_never_taken() || self.was_given_back()
    }

    /// Whether nobody has it since one of tenure's workers gave it back that had it alone.
    #[must_use]
    pub fn was_given_back(&self) -> bool {
        self.holder().is_none() && self.given_back == Some(self.counter)
    }

    /// Whether nobody has had it since it was made.
    pub(crate) fn was_never_taken(&self) -> bool {
        let switches = self.fields.get(OWNER_SWITCHES).and_then(|value| value.as_n().ok());
        let has_no_past = self.counter <= FIRST && switches.is_none_or(|switches| switches == "0");
        self.holder().is_none() && has_no_past
    }

    /// Whether it has what no lease of the KCL's is without.
    pub(crate) fn has_checkpoint(&self) -> bool {
        self.fields.contains_key("checkpoint")
    }

    /// Whether it says that nobody has it as `a8m/lease` does.
    pub(crate) fn is_spelled_null(&self) -> bool {
        self.owner.as_ref().and_then(|owner| owner.as_s().ok()).is_some_and(|owner| owner == NULL)
    }

    /// Its users' own attributes.
    #[must_use]
    pub fn fields(&self) -> &Fields {
        &self.fields
    }

    /// Whether it was given back, or taken from another, since `earlier`, as far as what else is in it can tell.
    pub(crate) fn has_changed_hands(&self, earlier: &Row) -> bool {
        let switches = |row: &Row| {
            let digits = row.fields.get(OWNER_SWITCHES).and_then(|value| value.as_n().ok());
            digits.and_then(|digits| digits.parse::<u64>().ok()).unwrap_or_default()
        };
        let was_given_back = self.given_back.is_some_and(|counter| counter >= earlier.counter);
        // A handoff may be counted as a switch before it is one.
        was_given_back || (self.handing_over().is_none() && switches(self) > switches(earlier))
    }

    /// Whether nothing has happened to it since `earlier`, as far as conditions can tell.
    pub(crate) fn is_same(&self, earlier: &Row) -> bool {
        self.counter == earlier.counter
            && self.owner == earlier.owner
            && self.checkpoint_owner == earlier.checkpoint_owner
    }
}

/// The name in a row, if it has one, whatever else is in it.
pub(crate) fn name(item: &Item) -> Option<String> {
    item.get(LEASE_KEY).and_then(|key| key.as_s().ok()).cloned()
}

/// The name in a row that has one and no counter.
pub(crate) fn bare(item: &Item) -> Option<String> {
    name(item).filter(|_| !item.contains_key(LEASE_COUNTER))
}

/// What [`Row::read`] says of such a row.
pub(crate) fn bare_error(format: Format, key: &str) -> Option<StoreError> {
    Row::read(format, &[(LEASE_KEY.to_owned(), text(key))].into()).err()
}

fn named(value: Option<&AttributeValue>) -> Option<&str> {
    let name = value.and_then(|value| value.as_s().ok())?;
    Some(name.as_str()).filter(|name| !name.is_empty() && *name != NULL)
}

fn is_ours(format: Format, name: &str) -> bool {
    [LEASE_KEY, LEASE_OWNER, LEASE_COUNTER, GIVEN_BACK].contains(&name)
        || (format.is_kcl() && name == CHECKPOINT_OWNER)
}

/// Whether users may write attributes of these names.
pub(crate) fn check_fields<'n>(
    format: Format,
    mut names: impl Iterator<Item = &'n String>,
) -> Result<(), StoreError> {
    match names.find(|name| name.is_empty() || is_ours(format, name)) {
        None => Ok(()),
        Some(name) => Err(StoreError::invalid(format!(
            "the attribute {name:?} of a lease is not for its users; choose another name"
        ))),
    }
}

fn check_key(key: &str) -> Result<(), StoreError> {
    if key.is_empty() || key.len() > LONGEST_KEY {
        let bytes = key.len();
        return Err(StoreError::invalid(format!(
            "a lease's name of {bytes} bytes is outside 1 to {LONGEST_KEY}; choose another"
        )));
    }
    Ok(())
}

/// Whether a worker may be called that.
pub(crate) fn check_worker(worker: &str) -> Result<(), StoreError> {
    if worker.is_empty() || worker.len() > 256 || worker == NULL {
        let shown: String = worker.chars().take(40).collect();
        return Err(StoreError::invalid(format!(
            "{shown:?} can't be a worker id: it has 1 to 256 bytes, and \"NULL\" stands for nobody; choose another"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    //! Plan: what is written is what is read, with fields of every type; each spelling of "nobody"; a handoff is the KCL's only;
    //! rows that are no leases, and damaged rows.
    use super::*;
    use tenure_dynamodb::aws_sdk_dynamodb::primitives::Blob;

    pub(super) fn every_type() -> Fields {
        let nested = AttributeValue::M([("x".to_owned(), AttributeValue::L(vec![number(1)]))].into());
        [
            ("s", text("")),
            ("n", number("0.10000000000000000000000000000000000001")),
            ("b", AttributeValue::B(Blob::new([0, 255]))),
            ("bool", AttributeValue::Bool(false)),
            ("null", AttributeValue::Null(true)),
            ("l", AttributeValue::L(vec![text("a"), nested.clone()])),
            ("m", nested),
            ("ss", AttributeValue::Ss(vec!["b".into(), "a".into()])),
            ("ns", AttributeValue::Ns(vec!["2".into(), "1".into()])),
            ("bs", AttributeValue::Bs(vec![Blob::new([1]), Blob::new([])])),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    fn read(format: Format, row: &[(&str, AttributeValue)]) -> Result<Option<Row>, StoreError> {
        let item = row.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        Row::read(format, &item)
    }

    #[test]
    fn what_is_written_is_what_is_read() {
        for format in [Format::kcl(), Format::a8m(), Format::kcl().unowned(Unowned::Null)] {
            let row = Row::new(format, "shard-1", every_type()).unwrap();
            assert_eq!(Row::read(format, &row.item()), Ok(Some(row.clone())));
            assert_eq!((row.owner(), row.holder(), row.counter()), (None, None, 1));
            for (name, value) in every_type() {
                assert_eq!(row.fields().get(&name), Some(&value));
            }
            let is_spelled = row.item().contains_key(LEASE_OWNER);
            assert_eq!(is_spelled, format.unowned == Unowned::Null);
            assert_eq!(row.fields().contains_key("checkpoint"), format.is_kcl());
        }
        let mut given = every_type();
        given.insert("checkpoint".to_owned(), text("LATEST"));
        let row = Row::new(Format::kcl(), "a", given).unwrap();
        assert_eq!(row.fields().get("checkpoint"), Some(&text("LATEST")), "a given checkpoint stays");
    }

    #[test]
    fn nobody_has_several_spellings_and_each_is_kept_for_conditions() {
        for nobody in [None, Some(text("")), Some(text("NULL")), Some(AttributeValue::Null(true))] {
            let mut item = vec![(LEASE_KEY, text("a")), (LEASE_COUNTER, number(7))];
            item.extend(nobody.clone().map(|value| (LEASE_OWNER, value)));
            let row = read(Format::kcl(), &item).unwrap().unwrap();
            assert_eq!((row.owner(), row.counter(), &row.owner), (None, 7, &nobody));
        }
    }

    #[test]
    fn a_handoff_and_an_entity_type_are_the_kcl_s_only() {
        let item = [
            (LEASE_KEY, text("a")),
            (LEASE_COUNTER, number(7)),
            (LEASE_OWNER, text("next")),
            (CHECKPOINT_OWNER, text("now")),
        ];
        let row = read(Format::kcl(), &item).unwrap().unwrap();
        assert_eq!((row.owner(), row.holder(), row.fields().len()), (Some("next"), Some("now"), 0));
        let row = read(Format::a8m(), &item).unwrap().unwrap();
        assert_eq!((row.owner(), row.holder(), row.fields().len()), (Some("next"), Some("next"), 1));

        for (kind, is_lease) in [("LEASE", true), ("WORKER_METRICS", false)] {
            let item = [(LEASE_KEY, text("a")), (LEASE_COUNTER, number(7)), (ENTITY_TYPE, text(kind))];
            assert_eq!(read(Format::kcl(), &item).unwrap().is_some(), is_lease);
            assert!(read(Format::a8m(), &item).unwrap().is_some());
        }
    }

    #[test]
    fn nobody_can_believe_in_what_was_never_taken_or_was_given_back() {
        let free = |counter: u64, more: &[(&str, AttributeValue)]| {
            let item = [&[(LEASE_KEY, text("a")), (LEASE_COUNTER, number(counter))], more].concat();
            read(Format::kcl(), &item).unwrap().unwrap().is_surely_free()
        };
        let (owned, switched) = ((LEASE_OWNER, text("w")), (OWNER_SWITCHES, number(1)));
        let given_back = |counter: u64| (GIVEN_BACK, number(counter));
        assert!(free(0, &[]) && free(1, &[]), "as the KCL and as a8m make a row");
        assert!(!free(1, std::slice::from_ref(&owned)) && !free(2, &[]) && !free(1, &[switched]));
        assert!(free(7, &[given_back(7)]));
        let fresh = Row::new(Format::kcl(), "a", Fields::new()).unwrap();
        assert!(fresh.is_surely_free() && !fresh.was_given_back(), "it may have been made anew");
        assert!(!free(8, &[given_back(7)]), "somebody has had it since");
        assert!(!free(7, &[given_back(7), owned]) && !free(7, &[(GIVEN_BACK, text("7"))]));
        let mut row = Row::new(Format::a8m(), "a", Fields::new()).unwrap();
        row.given_back = Some(3);
        assert_eq!(Row::read(Format::a8m(), &row.item()), Ok(Some(row.clone())));
        assert!(row.fields().is_empty(), "it is none of the users' fields");
    }

    #[test]
    fn rows_tell_who_made_them() {
        use crate::format::Peers;
        use crate::table::RowListing;
        let by = |formats: &[Format]| {
            let rows = formats.iter().map(|format| Row::new(*format, "a", Fields::new()).unwrap()).collect();
            RowListing { rows, ..RowListing::default() }.made_by()
        };
        assert_eq!(by(&[Format::kcl(), Format::kcl()]), Some(Peers::Kcl));
        assert_eq!(by(&[Format::a8m()]), Some(Peers::A8m));
        assert_eq!((by(&[]), by(&[Format::kcl(), Format::a8m()])), (None, None));
    }

    #[test]
    fn leases_that_nobody_has_are_counted_if_there_is_work() {
        use crate::table::RowListing;
        let shard = |key: &str, checkpoint: &str, parent: &str| {
            let parents = AttributeValue::Ss(vec![parent.to_owned()]);
            let fields = [("checkpoint", text(checkpoint)), ("parentShardId", parents)];
            let fields = fields.map(|(name, value)| (name.to_owned(), value)).into();
            Row::new(Format::kcl(), key, fields).unwrap()
        };
        let mut owned = shard("owned", "7", "done");
        owned.owner = Some(text("w"));
        let (done, waits) = (shard("done", "SHARD_END", "-"), shard("waits", "TRIM_HORIZON", "owned"));
        let rows = vec![owned, done, waits, shard("work", "TRIM_HORIZON", "done")];
        let listing = RowListing { rows, ..RowListing::default() };
        assert_eq!((listing.unowned(true), listing.unowned(false)), (1, 3));
    }

    #[test]
    fn damaged_rows_are_foreign_and_named() {
        let counter = (LEASE_COUNTER, number(7));
        let bad = |value: AttributeValue| (LEASE_COUNTER, value);
        for more in [
            vec![],
            vec![bad(text("7"))],
            vec![bad(number("-1"))],
            vec![bad(number("1.5"))],
            vec![bad(number(u64::MAX))],
            vec![counter.clone(), (LEASE_OWNER, number(1))],
            vec![counter.clone(), (CHECKPOINT_OWNER, number(1))],
        ] {
            let item = [vec![(LEASE_KEY, text("shard-1"))], more].concat();
            let error = read(Format::kcl(), &item).unwrap_err();
            assert_eq!(error.kind(), tenure_core::ErrorKind::Foreign);
            assert!(error.to_string().contains("shard-1"), "{error}");
        }
        assert!(read(Format::kcl(), &[counter]).is_err(), "a row without a key");
    }

    #[test]
    fn names_that_can_t_be_are_refused() {
        for name in [LEASE_KEY, LEASE_OWNER, LEASE_COUNTER, GIVEN_BACK, CHECKPOINT_OWNER, ""] {
            let fields: Fields = [(name.to_owned(), number(1))].into();
            assert!(Row::new(Format::kcl(), "a", fields.clone()).is_err(), "{name}");
            assert_eq!(Row::new(Format::a8m(), "a", fields).is_ok(), name == CHECKPOINT_OWNER);
        }
        assert!(Row::new(Format::kcl(), "", Fields::new()).is_err());
        assert!(Row::new(Format::kcl(), &"x".repeat(2049), Fields::new()).is_err());
        for worker in ["", "NULL", &"x".repeat(257)] {
            assert!(check_worker(worker).is_err(), "{worker}");
        }
        assert!(check_worker("w").is_ok());
    }
}
