//! One value of the hash, which is one record.
//!
//! The record is at its end, in tenure's own encoding. What scripts compare stands before it as text of fixed length. Clients make
//! all of it but the time of the write. A value whose head contradicts its record was not written by tenure, and is left alone.

use redis::Value;
use sha1_smol::Sha1;
use tenure_core::{Fence, Key, Record, StoreError, Stored, Times, Version};
use tenure_store::codec;

/// The head's parts, by their ends: time, digest, version, fence, tenure.
const ENDS: [usize; 5] = [16, 56, 88, 104, 136];
const NO_TENURE: &str = "--------------------------------";

/// A record's value without its time, which the server puts before it.
///
/// # Errors
/// As [`codec::encode`].
pub(crate) fn untimed(record: &Record) -> Result<Vec<u8>, StoreError> {
    let (digest_end, encoded) = (ENDS[1] - ENDS[0], codec::encode(record)?);
    let mut value = Vec::with_capacity(ENDS[4] - ENDS[0] + encoded.len());
    value.resize(digest_end, 0);
    push_head(&mut value, record);
    value.extend_from_slice(&encoded);
    let digest = digest(&value[digest_end..]);
    value[..digest_end].copy_from_slice(&digest);
    Ok(value)
}

/// What stands before the rest of a value: scripts write over none of which it is wrong.
fn digest(rest: &[u8]) -> [u8; ENDS[1] - ENDS[0]] {
    let mut digits = [0; ENDS[1] - ENDS[0]];
    for (at, byte) in Sha1::from(rest).digest().bytes().into_iter().enumerate() {
        digits[2 * at..2 * at + 2].copy_from_slice(&[digit(byte >> 4), digit(byte)]);
    }
    digits
}

/// What a head says besides its time and digest.
fn push_head(value: &mut Vec<u8>, record: &Record) {
    push_digits::<32>(value, record.version().0);
    push_digits::<16>(value, record.fence.0.into());
    match &record.tenure {
        Some(tenure) => push_digits::<32>(value, tenure.id.0),
        None => value.extend_from_slice(NO_TENURE.as_bytes()),
    }
}

/// A version as scripts compare it.
pub(crate) fn version_digits(version: Version) -> Vec<u8> {
    let mut digits = Vec::with_capacity(32);
    push_digits::<32>(&mut digits, version.0);
    digits
}

/// A fence as scripts compare it.
pub(crate) fn fence_digits(fence: Fence) -> Vec<u8> {
    let mut digits = Vec::with_capacity(16);
    push_digits::<16>(&mut digits, fence.0.into());
    digits
}

/// A number in hexadecimal digits with leading zeros. All of them are made for each write, and the formatter takes its time.
fn push_digits<const N: u32>(value: &mut Vec<u8>, number: u128) {
    value.extend((0..N).rev().map(|place| digit((number >> (4 * place)) as u8)));
}

/// The last hexadecimal digit of a byte.
fn digit(byte: u8) -> u8 {
    b"0123456789abcdef"[usize::from(byte & 15)]
}

/// Microseconds since 1970 by the server's clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServerTime(u64);

impl ServerTime {
    pub(crate) fn parse(bytes: &[u8]) -> Option<ServerTime> {
        std::str::from_utf8(bytes).ok()?.parse().ok().map(ServerTime)
    }
}

/// The record of a value that was read at `now`; without a time, none are told.
pub(crate) fn stored(key: &Key, now: Option<ServerTime>, value: &[u8]) -> Result<Stored, StoreError> {
    let read = || -> Result<Stored, StoreError> {
        let short = || StoreError::foreign("it is not one of tenure's values");
        let record_bytes = record_bytes(value).ok_or_else(short)?;
        let mut record = codec::decode(record_bytes)?;
        // Where a vacant record was written over, the server has raised the fence beyond that of the bytes.
        record.fence = record.fence.max(fence(value).ok_or_else(short)?);
        let mut head = Vec::with_capacity(ENDS[4] - ENDS[1]);
        push_head(&mut head, &record);
        if value[ENDS[1]..ENDS[4]] != *head {
            return Err(changed_by_hand());
        }
        // A bit that has flipped in its metadata contradicts nothing else.
        if value[ENDS[0]..ENDS[1]] != digest(&value[ENDS[1]..]) {
            return Err(changed_by_hand());
        }
        let written = ServerTime::parse(&value[..ENDS[0]]).ok_or_else(short)?;
        let times = now.map(|now| Times { clock: 0, written: written.0, now: now.0 });
        Ok(Stored::new(record).timed(times))
    };
    read().map_err(|error| about(key, &error))
}

/// A value that a script found to be damaged, whatever of it can still be read.
pub(crate) fn damaged(key: &Key, value: &[u8]) -> StoreError {
    stored(key, None, value).err().unwrap_or_else(|| about(key, &changed_by_hand()))
}

fn changed_by_hand() -> StoreError {
    StoreError::foreign("its head contradicts its record; it is damaged, or was changed by hand")
}

fn about(key: &Key, error: &StoreError) -> StoreError {
    error.about_record("the record of", key)
}

/// The encoded record of a value.
pub(crate) fn record_bytes(value: &[u8]) -> Option<&[u8]> {
    value.get(ENDS[4]..)
}

/// The fence that a value's head tells.
pub(crate) fn fence(value: &[u8]) -> Option<Fence> {
    let text = std::str::from_utf8(value.get(ENDS[2]..ENDS[3])?).ok()?;
    u64::from_str_radix(text, 16).ok().map(Fence)
}

/// The bytes of a script's answer, if it is such.
pub(crate) fn bytes(value: &Value) -> Option<&[u8]> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        _ => None,
    }
}

/// The parts of a script's answer: the time, and what comes after it.
pub(crate) fn timed<'a>(place: &str, answer: &'a Value) -> Result<(ServerTime, &'a [Value]), StoreError> {
    let parts = || {
        let Value::Array(parts) = answer else { return None };
        let (now, rest) = parts.split_first()?;
        Some((ServerTime::parse(bytes(now)?)?, rest))
    };
    // Of a write, nothing tells then what became of it.
    parts()
        .ok_or_else(|| StoreError::unknown(format!("{place}: a script was answered unclearly: {answer:?}")))
}

#[cfg(test)]
mod tests {
    //! Plan: a value is read with its age, which is never below zero; whatever is changed in its head is noticed.
    use super::*;
    use std::time::Duration;
    use tenure_core::{Metadata, Nonce, Wall};

    fn value(record: &Record) -> Vec<u8> {
        [format!("{:016}", 1_000_000).as_bytes(), &untimed(record).unwrap()].concat()
    }

    fn vacant() -> Record {
        Record {
            fence: Fence(5),
            nonce: Nonce(9 << 64 | 7),
            stamp: Wall(1),
            tenure: None,
            metadata: Metadata::new(),
        }
    }

    #[test]
    fn a_value_is_read_with_its_age() {
        let (key, record) = (Key::new("k").unwrap(), vacant());
        let at = |micros| stored(&key, Some(ServerTime(micros)), &value(&record)).unwrap();
        assert_eq!(at(1_500_000).age(), Some(Duration::from_millis(500)));
        assert_eq!(at(900_000).age(), Some(Duration::ZERO), "a clock that was set back");
        assert_eq!((at(0).record, at(0).version), (record.clone(), record.version()));
        assert_eq!(stored(&key, None, &value(&record)).unwrap().times, None);
    }

    #[test]
    fn a_head_that_contradicts_its_record_is_noticed() {
        let (key, record) = (Key::new("k").unwrap(), vacant());
        let sound = value(&record);
        // A raised fence is the server's doing, and its version with it.
        let mut raised = sound.clone();
        let (fence, version) = (Fence(9), Version::of(record.nonce, Fence(9)));
        raised[ENDS[1]..ENDS[2]].copy_from_slice(&version_digits(version));
        raised[ENDS[2] - 1 + 16] = b'9';
        let seal = |value: &mut Vec<u8>| {
            let digest = digest(&value[ENDS[1]..]);
            value[ENDS[0]..ENDS[1]].copy_from_slice(&digest);
        };
        assert!(stored(&key, None, &raised).is_err(), "its digest is that of the former fence");
        seal(&mut raised);
        let read = stored(&key, None, &raised).unwrap();
        assert_eq!((read.record.fence, read.version), (fence, version));
        for at in [0, ENDS[0] - 1, ENDS[1], ENDS[2] - 1, ENDS[2], ENDS[3] - 1, ENDS[3], ENDS[4] - 1, ENDS[4]]
        {
            for byte in [b'1', b'z', 0xff] {
                let mut other = sound.clone();
                other[at] = byte;
                seal(&mut other);
                // A time may be any number.
                let is_time = at < ENDS[0] && byte == b'1';
                assert_eq!(stored(&key, None, &other).is_ok(), is_time, "byte {at} is {byte}");
            }
        }
        for length in [0, 16, 56, 136] {
            assert!(stored(&key, None, &sound[..length]).is_err());
        }
        let (mut other, last) = (sound.clone(), ENDS[1] - 1);
        other[last] = if other[last] == b'0' { b'1' } else { b'0' };
        let error = stored(&key, None, &other).unwrap_err();
        assert!(error.to_string().contains("by hand"), "only its digest is wrong: {error}");
        assert_eq!(damaged(&key, &other), error);
    }
}
