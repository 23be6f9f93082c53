//! One item of the table, which is one record.
//!
//! | attribute | type | what it is |
//! |---|---|---|
//! | `namespace`, `key` | S | the table's HASH and RANGE keys |
//! | `record` | B | the record, in tenure's own layout |
//! | `bytes` | N | how many bytes that is, so that a condition notices a record that was cut short |
//! | `version` | B | names the write; conditions compare it |
//! | `fence` | N | conditions compare it |
//! | `seal` | L | `version` and `fence` once more, so that a condition notices that one of them was changed by hand |
//! | `tenure` | B | names the tenure; absent when the record is vacant |
//! | `ride_key`, `ride_fence` | S, N | the session that the tenure rides on, if it does |
//! | `written` | N | the latest, in ms since 1970, that the service's clock can have shown when the write was sent |
//!
//! An item whose other attributes contradict its record was not written by tenure, and is left alone. There is no
//! attribute for DynamoDB's TTL, which therefore never deletes a record.

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use std::time::Duration;
use tenure_core::{Key, Record, StoreError, Stored, Version};
use tenure_store::codec;

/// An item as the SDK has it.
#[allow(clippy::disallowed_types, reason = "the SDK's own type; attributes are only looked up by name")]
pub(crate) type Item = std::collections::HashMap<String, AttributeValue>;

pub(crate) const NAMESPACE: &str = "namespace";
pub(crate) const KEY: &str = "key";
pub(crate) const RECORD: &str = "record";
pub(crate) const BYTES: &str = "bytes";
pub(crate) const VERSION: &str = "version";
pub(crate) const FENCE: &str = "fence";
pub(crate) const SEAL: &str = "seal";
pub(crate) const TENURE: &str = "tenure";
pub(crate) const RIDE_KEY: &str = "ride_key";
pub(crate) const RIDE_FENCE: &str = "ride_fence";
pub(crate) const WRITTEN: &str = "written";

pub(crate) fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}

pub(crate) fn number(value: impl ToString) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

pub(crate) fn bytes(value: impl Into<Vec<u8>>) -> AttributeValue {
    AttributeValue::B(Blob::new(value))
}

pub(crate) fn version(version: Version) -> AttributeValue {
    bytes(version.0.to_be_bytes())
}

/// Every attribute but the keys, with its value in the item of `record`, or none if it is absent there.
pub(crate) fn attributes(
    record: &Record,
    encoded: Vec<u8>,
    written: Option<u64>,
) -> [(&'static str, Option<AttributeValue>); 9] {
    let (version, fence) = (version(record.version()), number(record.fence));
    let ride = record.tenure.as_ref().and_then(|tenure| tenure.ride.as_ref());
    [
        (BYTES, Some(number(encoded.len()))),
        (RECORD, Some(bytes(encoded))),
        (SEAL, Some(AttributeValue::L(vec![version.clone(), fence.clone()]))),
        (VERSION, Some(version)),
        (FENCE, Some(fence)),
        (TENURE, record.tenure.as_ref().map(|tenure| bytes(tenure.id.0.to_be_bytes()))),
        (RIDE_KEY, ride.map(|ride| text(ride.session.as_str()))),
        (RIDE_FENCE, ride.map(|ride| number(ride.fence))),
        (WRITTEN, written.map(number)),
    ]
}

/// The record of an item, with its age if `now`, the least that the service's clock shows, and the item tell it.
pub(crate) fn stored(key: &Key, item: &Item, now: Option<u64>) -> Result<Stored, StoreError> {
    let foreign =
        |text: String| StoreError::foreign(format!("the item of key {key} is left as it is: {text}"));
    let encoded = match item.get(RECORD) {
        Some(AttributeValue::B(blob)) => blob.as_ref(),
        _ => {
            return Err(foreign(format!(
                "it has no binary attribute {RECORD:?}, so it isn't one of tenure's"
            )));
        }
    };
    let record = codec::decode(encoded).map_err(|error| foreign(error.to_string()))?;
    for (name, value) in attributes(&record, encoded.to_vec(), None) {
        if name != WRITTEN && item.get(name) != value.as_ref() {
            return Err(foreign(format!("its {name:?} contradicts its record; it was changed by hand")));
        }
    }
    let written = match item.get(WRITTEN) {
        Some(AttributeValue::N(written)) => written.parse::<u64>().ok(),
        _ => None,
    };
    let age = now.zip(written).map(|(now, written)| Duration::from_millis(now.saturating_sub(written)));
    Ok(Stored { version: record.version(), age, record })
}

/// The key that an item has in its RANGE attribute.
pub(crate) fn key(item: &Item) -> Result<Key, StoreError> {
    match item.get(KEY) {
        Some(AttributeValue::S(key)) => Key::new(key).map_err(|error| {
            StoreError::foreign(format!("an item has a key that is none ({error}); delete that item by hand"))
        }),
        _ => Err(StoreError::foreign("an item has no key; is this table tenure's?")),
    }
}

#[cfg(test)]
mod tests {
    //! Plan: what is written is what is read; every attribute that is missing, of another type or of another value is
    //! noticed, but for `written`; ages are cut at zero and never made up.
    use super::*;
    use tenure_core::{Fence, Ride};
    use tenure_testkit::Scribe;

    fn item(record: &Record, written: Option<u64>) -> Item {
        let attributes = attributes(record, codec::encode(record).unwrap(), written);
        attributes.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }

    fn riding(scribe: &Scribe) -> Record {
        let mut record = scribe.held(7);
        record.tenure.as_mut().unwrap().ride = Some(Ride { session: scribe.key("s"), fence: Fence(70) });
        record
    }

    #[test]
    fn what_is_written_is_what_is_read() {
        let scribe = Scribe::new();
        for record in [scribe.vacant(5), scribe.held(6), riding(&scribe)] {
            let read = stored(&scribe.key("a"), &item(&record, Some(17)), None).unwrap();
            assert_eq!((read.version, read.age, read.record), (record.version(), None, record));
        }
    }

    #[test]
    fn what_contradicts_the_record_is_foreign() {
        let (scribe, record) = (Scribe::new(), riding(&Scribe::new()));
        let whole = item(&record, Some(17));
        for name in [BYTES, RECORD, SEAL, VERSION, FENCE, TENURE, RIDE_KEY, RIDE_FENCE] {
            for value in [None, Some(AttributeValue::Bool(true)), Some(number(99)), Some(bytes([7; 16]))] {
                let mut item = whole.clone();
                match value {
                    Some(value) => item.insert(name.to_owned(), value),
                    None => item.remove(name),
                };
                let error = stored(&scribe.key("a"), &item, None).unwrap_err();
                assert_eq!(error.kind(), tenure_core::ErrorKind::Foreign);
                assert!(error.to_string().contains("key a"), "{error}");
            }
        }
        let mut more = item(&scribe.vacant(5), None);
        more.insert(TENURE.to_owned(), bytes([7; 16]));
        assert!(stored(&scribe.key("a"), &more, None).is_err(), "a tenure that the record doesn't have");
    }

    #[test]
    fn an_age_is_the_difference_of_the_service_s_own_times() {
        let (scribe, record) = (Scribe::new(), Scribe::new().held(5));
        let age = |written, now| stored(&scribe.key("a"), &item(&record, written), now).unwrap().age;
        assert_eq!(age(Some(5_000), Some(7_500)), Some(Duration::from_millis(2_500)));
        assert_eq!(age(Some(5_000), Some(4_000)), Some(Duration::ZERO));
        assert_eq!((age(None, Some(1)), age(Some(1), None)), (None, None));
    }
}
