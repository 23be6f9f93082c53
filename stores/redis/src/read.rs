//! Reading: one record, several, or a page in the order of the keys. Each is one call.

use crate::client::RedisClient;
use crate::error::Call;
use crate::scripts::Invocation;
use crate::value::{bytes, stored, timed};
use redis::Value;
use tenure_core::op::Listed;
use tenure_core::{Key, StoreError, Stored};
use tenure_store::parts::end_of_prefix;

pub(crate) async fn one(inner: &RedisClient, key: &Key) -> Result<Option<Stored>, StoreError> {
    let listed = many(inner, std::slice::from_ref(key)).await?;
    listed.into_iter().next().map(|listed| listed.stored).transpose()
}

pub(crate) async fn many(inner: &RedisClient, keys: &[Key]) -> Result<Vec<Listed>, StoreError> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let script = Invocation::new(&inner.scripts.read, &inner.keys)
        .args(keys.iter().map(|key| key.as_str().as_bytes()));
    let answer = read(inner, &script).await?;
    let (now, found) = timed(&inner.connections.place, &answer).map_err(|error| unclear(&error))?;
    let values = keys.iter().zip(found).filter_map(|(key, value)| Some((key, bytes(value)?)));
    Ok(values
        .map(|(key, value)| Listed { key: key.clone(), stored: stored(key, inner.told(now), value) })
        .collect())
}

pub(crate) async fn list(
    inner: &RedisClient,
    prefix: &str,
    after: Option<&Key>,
    limit: usize,
) -> Result<Vec<Listed>, StoreError> {
    if limit == 0 {
        return Ok(Vec::new());
    }
    let (from, to) = bounds(prefix.as_bytes(), after.map(|after| after.as_str().as_bytes()));
    let limit = limit.to_string();
    let script = Invocation::new(&inner.scripts.page, &inner.keys).arg(&from).arg(&to).arg(limit.as_bytes());
    let answer = read(inner, &script).await?;
    let (now, page) = timed(&inner.connections.place, &answer).map_err(|error| unclear(&error))?;
    let listed = |pair: &[Value]| {
        let (Some(key), Some(value)) = (bytes(&pair[0]), bytes(&pair[1])) else {
            return Err(StoreError::unavailable("a page was answered unclearly"));
        };
        // Only a value written around tenure has such a key. Leaving it out would hide it, and no key can name it.
        let key = Key::from_bytes(key).map_err(|error| {
            StoreError::foreign(format!("a record has a key that is none ({error}); remove it by HDEL"))
        })?;
        let stored = stored(&key, inner.told(now), value);
        Ok(Listed { key, stored })
    };
    page.chunks_exact(2).map(listed).collect()
}

/// What lies under a key, byte for byte.
pub(crate) async fn raw(inner: &RedisClient, key: &Key) -> Result<Option<Vec<u8>>, StoreError> {
    let script = Invocation::new(&inner.scripts.read, &inner.keys).arg(key.as_str().as_bytes());
    let answer = read(inner, &script).await?;
    let (_, found) = timed(&inner.connections.place, &answer).map_err(|error| unclear(&error))?;
    Ok(found.first().and_then(bytes).map(<[u8]>::to_vec))
}

async fn read(inner: &RedisClient, script: &Invocation<'_>) -> Result<Value, StoreError> {
    inner.connections.call(Call::Read, script).await
}

/// Reading changes nothing, so there is nothing about it that could be unknown.
fn unclear(error: &StoreError) -> StoreError {
    StoreError::unavailable(error.to_string())
}

/// Where a listing begins and ends, as ZRANGEBYLEX has it.
fn bounds(prefix: &[u8], after: Option<&[u8]>) -> (Vec<u8>, Vec<u8>) {
    let with = |mark: &[u8], bytes: &[u8]| [mark, bytes].concat();
    let from = match after {
        Some(after) if after >= prefix => with(b"(", after),
        _ if prefix.is_empty() => b"-".to_vec(),
        _ => with(b"[", prefix),
    };
    (from, end_of_prefix(prefix).map_or_else(|| b"+".to_vec(), |end| with(b"(", &end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_begins_after_what_was_seen_or_with_the_prefix() {
        let bounds = |prefix: &str, after: Option<&str>| {
            let (from, to) = bounds(prefix.as_bytes(), after.map(str::as_bytes));
            (String::from_utf8(from).unwrap(), String::from_utf8(to).unwrap())
        };
        let pair = |from: &str, to: &str| (from.to_owned(), to.to_owned());
        assert_eq!(bounds("", None), pair("-", "+"));
        assert_eq!(bounds("a/", None), pair("[a/", "(a0"));
        assert_eq!(bounds("a/", Some("a/1")), pair("(a/1", "(a0"));
        assert_eq!(bounds("a/", Some("a")), pair("[a/", "(a0"));
        assert_eq!(bounds("", Some("-")), pair("(-", "+"));
    }
}
