//! One item of the table, which is one record.
//!
//! | attribute | type | what it is |
//! |---|---|---|
//! | `namespace`, `key` | S | the table's HASH and RANGE keys: the namespace, or one of its shards, and the record's key |
//! | `encoded` | B | the record, in tenure's own layout |
//! | `terms` | L | what conditions go by, in the order below |
//! | `seal` | L | `terms` once more, so that a condition notices that one of the two was changed by hand |
//!
//! | in `terms` | type | what it is |
//! |---|---|---|
//! | 0 | B | 1 if there is a tenure, 0 if the record is vacant; and the fence |
//! | 1 | B | the version, which names the write |
//! | 2 | N | how many bytes `encoded` has, so that a condition notices a record that was cut short |
//! | 3 | B | the latest, in ms since 1970, that the service's clock can have shown when the write was sent; NULL if unknown, and in what somebody else has written into a tenure, as a letter |
//! | 4 | B | 0 if the tenure renews itself; 1, a fence and a key if it is attached to that session; absent when the record is vacant |
//!
//! Whatever is a number but the length is eight bytes, the highest first: DynamoDB compares bytes as it compares such numbers.
//! So "vacant, and with a lower fence" is one comparison.
//!
//! With an attribute for each of these, an acquisition and a release took a seventh more processor time of the client and of DynamoDB
//! Local together. These three have names that are no reserved words, so that expressions are short and need no placeholders for
//! names; `terms` and `seal` are sent as one value and compared at once; and only one of the terms is a number.
//!
//! An item whose terms contradict its record was not written by tenure, and is left alone. There is no
//! attribute for DynamoDB's TTL, which therefore never deletes a record.

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use tenure_core::{Attachment, Fence, Key, Record, StoreError, Stored, Times, Version};
use tenure_store::codec;

/// An item as the SDK has it.
#[allow(clippy::disallowed_types, reason = "the SDK's own type; attributes are only looked up by name")]
pub type Item = std::collections::HashMap<String, AttributeValue>;

pub(crate) const NAMESPACE: &str = "namespace";
pub(crate) const KEY: &str = "key";
pub(crate) const RECORD: &str = "encoded";
/// What a record is in, besides its keys.
pub(crate) const ATTRIBUTES: [&str; 3] = [RECORD, TERMS, SEAL];
const TERMS: &str = "terms";
const SEAL: &str = "seal";
/// Where `terms` has what is not compared with the record.
const WRITTEN: usize = 3;

/// Writes a record, with the values of [`values`].
pub(crate) const UPDATE: &str = "SET encoded = :encoded, terms = :terms, seal = :terms";
/// That there is no item.
pub(crate) const ABSENT: &str = "attribute_not_exists(namespace)";
/// That there is no item, or one of a vacant record with a fence lower than in `:below`, of [`vacant`]; which is as long as it
/// was written, and nobody has changed what conditions go by: a vacant record has no version that the acquirer knows.
pub(crate) const VACANT: &str = "attribute_not_exists(namespace) OR \
                                 (terms[0] < :below AND terms = seal AND size(encoded) = terms[2])";
/// That the item is the one with the version `:version`, and as long as it was written.
pub(crate) const UNCHANGED: &str = "terms[1] = :version AND size(encoded) = terms[2]";
/// That there is the tenure `:held`, of [`held`], and it is attached as `:attachment` says, of [`attachment`].
pub(crate) const HELD_SO: &str = "terms[0] = :held AND terms[4] = :attachment";
/// That there is the tenure `:held`, of [`held`].
pub(crate) const HELD: &str = "terms[0] = :held";

/// What names an item of the table.
pub(crate) fn keys(partition: &str, key: &str) -> Item {
    [(NAMESPACE, partition), (KEY, key)].map(|(name, value)| (name.to_owned(), text(value))).into()
}

/// A text.
#[must_use]
pub fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}

/// A number, as it is written in decimal.
#[must_use]
pub fn number(value: impl ToString) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

pub(crate) fn bytes(value: impl Into<Vec<u8>>) -> AttributeValue {
    AttributeValue::B(Blob::new(value))
}

pub(crate) fn version(version: Version) -> AttributeValue {
    bytes(version.0.to_be_bytes())
}

/// That there is a tenure with this fence.
pub(crate) fn held(fence: Fence) -> AttributeValue {
    bytes([&[1], &fence.0.to_be_bytes()[..]].concat())
}

/// That there is none, and this was the last one's fence.
pub(crate) fn vacant(fence: Fence) -> AttributeValue {
    bytes([&[0], &fence.0.to_be_bytes()[..]].concat())
}

/// What a tenure is attached to, if to anything.
pub(crate) fn attachment(attachment: Option<&Attachment>) -> AttributeValue {
    let Some(Attachment { session, fence }) = attachment else { return bytes([0]) };
    bytes([&[1], &fence.0.to_be_bytes()[..], session.as_str().as_bytes()].concat())
}

/// What conditions go by, of a record that is encoded in so many bytes.
fn terms(record: &Record, length: usize, written: AttributeValue) -> AttributeValue {
    let state = if record.tenure.is_some() { held } else { vacant };
    let mut terms = Vec::with_capacity(5);
    terms.extend([state(record.fence), version(record.version()), number(length), written]);
    terms.extend(record.tenure.as_ref().map(|tenure| attachment(tenure.attachment.as_ref())));
    AttributeValue::L(terms)
}

/// The values of [`UPDATE`].
pub(crate) fn values(
    record: &Record,
    encoded: Vec<u8>,
    written: Option<u64>,
) -> [(&'static str, AttributeValue); 2] {
    let written = written.map_or(AttributeValue::Null(true), |millis| bytes(millis.to_be_bytes()));
    [(":terms", terms(record, encoded.len(), written)), (":encoded", bytes(encoded))]
}

/// The record of an item, with its age if `now`, the least that the service's clock shows, and the item tell it.
pub(crate) fn stored(key: &Key, item: &Item, now: Option<u64>) -> Result<Stored, StoreError> {
    let about = |error: StoreError| error.about_record("the item of", key);
    let foreign = |text: String| about(StoreError::foreign(text));
    let encoded = match item.get(RECORD) {
        Some(AttributeValue::B(blob)) => blob.as_ref(),
        _ => {
            return Err(foreign(format!(
                "it has no binary attribute {RECORD:?}, so it isn't one of tenure's"
            )));
        }
    };
    let record = codec::decode(encoded).map_err(about)?;
    let written = match item.get(TERMS) {
        Some(AttributeValue::L(found)) => found.get(WRITTEN),
        _ => None,
    };
    let expected = terms(&record, encoded.len(), written.cloned().unwrap_or(AttributeValue::Null(true)));
    let written = match written {
        Some(AttributeValue::B(millis)) => millis.as_ref().try_into().ok().map(u64::from_be_bytes).map(Some),
        Some(AttributeValue::Null(true)) => Some(None),
        _ => None,
    };
    for name in [TERMS, SEAL] {
        if item.get(name) != Some(&expected) || written.is_none() {
            return Err(foreign(format!("its {name:?} contradicts its record; it was changed by hand")));
        }
    }
    let written = written.flatten();
    // Both are bounds: the item's date is not before the write, and the answer's is not after the answer.
    let micros = |millis: u64| millis.saturating_mul(1000);
    let times =
        now.zip(written).map(|(now, written)| Times { clock: 0, written: micros(written), now: micros(now) });
    Ok(Stored::new(record).timed(times))
}

/// What fences an item tells in what conditions go by, though it may be damaged.
pub(crate) fn fences(item: &Item) -> Vec<Fence> {
    let terms =
        [TERMS, SEAL].into_iter().filter_map(|name| item.get(name)?.as_l().ok()?.first()?.as_b().ok());
    let fence = |state: &Blob| state.as_ref().get(1..)?.try_into().ok().map(u64::from_be_bytes).map(Fence);
    terms.filter_map(fence).collect()
}

/// The key that an item has in its RANGE attribute; or why that is none, with all that names the item.
pub(crate) fn key(item: &Item) -> Result<Key, String> {
    let text = |name| match item.get(name) {
        Some(AttributeValue::S(text)) => Some(text),
        _ => None,
    };
    let (Some(partition), Some(key)) = (text(NAMESPACE), text(KEY)) else {
        return Err("an item has no key; is this table tenure's?".to_owned());
    };
    Key::new(key).map_err(|error| {
        format!(
            "the item with the namespace {partition:?} and the key {key:?} is no record, and no listing gets past it ({error}); delete that \
             item by hand"
        )
    })
}

#[cfg(test)]
mod tests {
    //! Plan: what is written is what is read; whatever is missing, of another type or of another value is noticed, in `terms`,
    //! in `seal` and in both, but for another time of writing in both; ages are cut at zero and never made up.
    use super::*;
    use std::time::Duration;
    use tenure_testkit::RecordFactory;

    fn item(record: &Record, written: Option<u64>) -> Item {
        let [(_, terms), (_, encoded)] = values(record, codec::encode(record).unwrap(), written);
        [(RECORD, encoded), (TERMS, terms.clone()), (SEAL, terms)]
            .map(|(name, value)| (name.to_owned(), value))
            .into()
    }

    fn attached_to(factory: &RecordFactory) -> Record {
        let mut record = factory.held(7);
        record.tenure.as_mut().unwrap().attachment =
            Some(Attachment { session: factory.key("s"), fence: Fence(70) });
        record
    }

    fn assert_foreign(item: &Item, what: &str) {
        let error = stored(&RecordFactory::new().key("a"), item, None).expect_err(what);
        assert_eq!(error.kind(), tenure_core::ErrorKind::Foreign, "{what}");
        assert!(error.to_string().contains("key a"), "{error}");
    }

    #[test]
    fn what_is_written_is_what_is_read() {
        let factory = RecordFactory::new();
        for record in [factory.vacant(5), factory.held(6), attached_to(&factory)] {
            for written in [Some(17), None] {
                let read = stored(&factory.key("a"), &item(&record, written), None).unwrap();
                assert_eq!((read.version, read.age(), read.record), (record.version(), None, record.clone()));
            }
        }
    }

    #[test]
    fn what_contradicts_the_record_is_foreign() {
        let record = attached_to(&RecordFactory::new());
        let whole = item(&record, Some(17));
        let others = || {
            [
                None,
                Some(AttributeValue::Bool(true)),
                Some(number(99)),
                Some(bytes(99u64.to_be_bytes())),
                Some(bytes([7; 16])),
            ]
        };
        for name in [RECORD, TERMS, SEAL] {
            for value in others() {
                let mut item = whole.clone();
                match value {
                    Some(value) => item.insert(name.to_owned(), value),
                    None => item.remove(name),
                };
                assert_foreign(&item, name);
            }
        }
        let terms = whole[TERMS].as_l().unwrap();
        for (place, value) in (0..terms.len()).flat_map(|place| others().map(|value| (place, value))) {
            let is_time = place == WRITTEN && value == Some(bytes(99u64.to_be_bytes()));
            let mut changed = terms.clone();
            match value {
                Some(value) => changed[place] = value,
                None => drop(changed.remove(place)),
            }
            for names in [&[TERMS][..], &[SEAL], &[TERMS, SEAL]] {
                let mut item = whole.clone();
                for name in names {
                    item.insert((*name).to_owned(), AttributeValue::L(changed.clone()));
                }
                if is_time && names.len() == 2 {
                    assert!(stored(&RecordFactory::new().key("a"), &item, None).is_ok());
                } else {
                    assert_foreign(&item, &format!("{place} of {names:?}: {:?}", changed.get(place)));
                }
            }
        }
        let mut more = item(&RecordFactory::new().vacant(5), None);
        for name in [TERMS, SEAL] {
            let mut terms = more[name].as_l().unwrap().clone();
            terms.push(attachment(None));
            more.insert(name.to_owned(), AttributeValue::L(terms));
        }
        assert_foreign(&more, "a tenure that the record doesn't have");
    }

    #[test]
    fn an_age_is_the_difference_of_the_service_s_own_times() {
        let (factory, record) = (RecordFactory::new(), RecordFactory::new().held(5));
        let age = |written, now| stored(&factory.key("a"), &item(&record, written), now).unwrap().age();
        assert_eq!(age(Some(5_000), Some(7_500)), Some(Duration::from_millis(2_500)));
        assert_eq!(age(Some(5_000), Some(4_000)), Some(Duration::ZERO));
        assert_eq!((age(None, Some(1)), age(Some(1), None)), (None, None));
    }
}
