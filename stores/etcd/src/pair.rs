//! One record as a key and a value of etcd.
//!
//! The name is the prefix, `:`, and the key. The value begins with nine bytes that comparisons go by: whether somebody holds it, and
//! the fence. A value whose head contradicts its record was not written by tenure, and is left alone.

use crate::wire::KeyValue;
use tenure_core::{Fence, Key, Record, StoreError, Stored};
use tenure_store::codec;

const HELD: u8 = b'h';
const VACANT: u8 = b'v';
/// How long the head is.
const HEAD: usize = 9;

pub(crate) fn name(prefix: &str, key: &Key) -> Vec<u8> {
    below(prefix, key.as_str())
}

/// What the names of all keys begin with that begin with `keys`.
pub(crate) fn below(prefix: &str, keys: &str) -> Vec<u8> {
    format!("{prefix}:{keys}").into_bytes()
}

/// The key of a name.
pub(crate) fn key(prefix: &str, name: &[u8]) -> Result<Key, StoreError> {
    // Only what was written around tenure has such a name. Leaving it out would hide it, and no key can name it.
    Key::from_bytes(name.get(prefix.len() + 1..).unwrap_or_default()).map_err(|error| {
        StoreError::foreign(format!(
            "{:?} below tenure's prefix is no key ({error}); delete that one by hand",
            String::from_utf8_lossy(name)
        ))
    })
}

pub(crate) fn value(record: &Record) -> Result<Vec<u8>, StoreError> {
    let record_bytes = codec::encode(record)?;
    let mut value = Vec::with_capacity(HEAD + record_bytes.len());
    value.extend(head(record.tenure.is_some(), record.fence));
    value.extend(record_bytes);
    Ok(value)
}

/// What a value begins with whose record is held, or isn't, and has this fence.
pub(crate) fn head(is_held: bool, fence: Fence) -> [u8; HEAD] {
    let mut head = [if is_held { HELD } else { VACANT }; HEAD];
    head[1..].copy_from_slice(&fence.0.to_be_bytes());
    head
}

/// The encoded record in a value, or what is left of it.
pub(crate) fn record_bytes(value: &[u8]) -> &[u8] {
    value.get(HEAD..).unwrap_or_default()
}

/// The fence that a value's head tells.
pub(crate) fn fence_at(value: &[u8]) -> Option<Fence> {
    let bytes: [u8; 8] = value.get(1..HEAD)?.try_into().ok()?;
    [HELD, VACANT].contains(&value[0]).then(|| Fence(u64::from_be_bytes(bytes)))
}

/// The record of a pair.
pub(crate) fn stored(key: &Key, pair: &KeyValue) -> Result<Stored, StoreError> {
    let read = || -> Result<Stored, StoreError> {
        let record = codec::decode(record_bytes(&pair.value))?;
        if !pair.value.starts_with(&head(record.tenure.is_some(), record.fence)) {
            return Err(StoreError::foreign("its head contradicts its record; it was changed by hand"));
        }
        Ok(Stored::new(record))
    };
    read().map_err(|error| error.about_record("what is stored for", key))
}

#[cfg(test)]
mod tests {
    //! Plan: names of different prefixes never meet; a value comes back, and one with another head does not.
    use super::*;
    use tenure_core::{ErrorKind, Nonce, Wall};

    #[test]
    fn names_of_different_prefixes_never_meet() {
        // A prefix has no colon, so a name's first one ends it.
        let key_of = |text: &str| Key::new(text).unwrap();
        assert_eq!(name("a/b", &key_of("c:d")), b"a/b:c:d");
        assert_ne!(name("a", &key_of("b:c")), name("a/b", &key_of("c")));
        assert_eq!(key("a/b", b"a/b:c:d").unwrap(), key_of("c:d"));
        assert_eq!(key("a", b"a:\xff").unwrap_err().kind(), ErrorKind::Foreign);
        assert_eq!(key("a", b"a:").unwrap_err().kind(), ErrorKind::Foreign);
    }

    #[test]
    fn a_value_with_another_head_is_foreign() {
        let record = Record {
            fence: Fence(7),
            nonce: Nonce(1),
            stamp: Wall(0),
            tenure: None,
            metadata: Default::default(),
        };
        let key = Key::new("k").unwrap();
        let pair = |value| KeyValue { value, ..KeyValue::default() };
        let whole = value(&record).unwrap();
        assert_eq!(stored(&key, &pair(whole.clone())).unwrap().record, record);
        assert_eq!(fence_at(&whole), Some(Fence(7)));
        for (at, byte) in [(0, HELD), (8, 9), (9, b'X')] {
            let mut other = whole.clone();
            other[at] = byte;
            assert_eq!(stored(&key, &pair(other)).unwrap_err().kind(), ErrorKind::Foreign, "{at}");
        }
        for length in 0..whole.len() {
            assert!(stored(&key, &pair(whole[..length].to_vec())).is_err(), "{length}");
        }
    }
}
