//! A value as it is, whatever is in it, and its removal on the word of a person.

use crate::client::EtcdClient;
use crate::error::Call;
use crate::pair;
use crate::wire::{KeyValue, RangeResponse, path, range};
use crate::write::replace;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tenure_core::{Key, Record, StoreError};
use tenure_store::{Image, codec};

async fn found(inner: &EtcdClient, key: &Key) -> Result<Option<KeyValue>, StoreError> {
    let question = range(&pair::name(&inner.prefix, key), false);
    let found: RangeResponse = inner.channels.ask(Call::Read, path::RANGE, question).await?;
    Ok(found.kvs.into_iter().next())
}

/// A pair as what etcd's gateway takes: `curl http://HOST:2379/v3/kv/put -d COPY` puts it back.
fn copy(found: &KeyValue) -> String {
    format!(
        "{{\"key\": \"{}\", \"value\": \"{}\"}}",
        STANDARD.encode(&found.key),
        STANDARD.encode(&found.value)
    )
}

pub(crate) async fn image(inner: &EtcdClient, key: &Key) -> Result<Option<Image>, StoreError> {
    let Some(found) = found(inner, key).await? else { return Ok(None) };
    let record = pair::stored(key, &found).map(|stored| stored.record);
    let bytes = pair::record_bytes(&found.value);
    Ok(Some(Image::new(copy(&found), record, bytes, pair::fence_at(&found.value))))
}

/// What stands there must be just what was seen; another write in between makes it another one.
pub(crate) async fn mend(
    inner: &EtcdClient,
    key: &Key,
    seen: &Image,
    instead: Option<Record>,
) -> Result<bool, StoreError> {
    instead.as_ref().map_or(Ok(()), codec::check)?;
    match found(inner, key).await? {
        Some(found) if copy(&found) == seen.copy => replace(inner, key, &found, instead.as_ref()).await,
        _ => Ok(false),
    }
}
