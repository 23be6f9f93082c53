//! A value as it is, whatever is in it, and its removal on the word of a person.

use crate::client::RedisClient;
use crate::read::raw;
use crate::scripts::Invocation;
use crate::value::{fence, record_bytes, stored, untimed};
use redis::Value;
use tenure_core::{Key, Record, StoreError};
use tenure_store::Image;

/// A value as the commands that put it back, as `redis-cli` reads them.
fn copy(inner: &RedisClient, key: &Key, value: &[u8]) -> String {
    let ([records, index], key, value) = (&inner.keys, quoted(key.as_str().as_bytes()), quoted(value));
    format!("HSET {records} {key} {value}\nZADD {index} 0 {key}")
}

fn quoted(bytes: &[u8]) -> String {
    let escaped = bytes.iter().map(|byte| match byte {
        b'"' => "\\\"".to_owned(),
        b'\\' => "\\\\".to_owned(),
        0x20..=0x7e => char::from(*byte).to_string(),
        _ => format!("\\x{byte:02x}"),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

pub(crate) async fn image(inner: &RedisClient, key: &Key) -> Result<Option<Image>, StoreError> {
    Ok(raw(inner, key).await?.map(|value| {
        let record = stored(key, None, &value).map(|stored| stored.record);
        let bytes = record_bytes(&value).unwrap_or_default();
        Image::new(copy(inner, key, &value), record, bytes, fence(&value))
    }))
}

/// The value must be just what was seen, the time of its writing too.
pub(crate) async fn mend(
    inner: &RedisClient,
    key: &Key,
    seen: &Image,
    instead: Option<Record>,
) -> Result<bool, StoreError> {
    let instead = instead.as_ref().map(untimed).transpose()?;
    let Some(value) = raw(inner, key).await? else { return Ok(false) };
    if copy(inner, key, &value) != seen.copy {
        return Ok(false);
    }
    let mut script =
        Invocation::new(&inner.scripts.mend, &inner.keys).arg(key.as_str().as_bytes()).arg(&value);
    if let Some(instead) = &instead {
        script = script.arg(instead);
    }
    let written = inner.connections.write(&script).await?;
    let is_done = written.answer == Value::Int(1);
    if is_done {
        written.confirm().await?;
    } else {
        written.refused().await?;
    }
    Ok(is_done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_quoted_as_redis_cli_reads_them() {
        assert_eq!(quoted(b"a \"b\\\n\xff"), "\"a \\\"b\\\\\\x0a\\xff\"");
    }
}
