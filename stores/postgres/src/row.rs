//! One row of the table, which is one record, and the statements that read and write rows.
//!
//! The record is in the column `record`. What conditions and guards compare is in columns of its own besides; a row whose
//! columns contradict its record was not written by tenure, and is left alone.

use crate::cells::RowCells;
use sha2::{Digest, Sha256};
use std::time::SystemTime;
use tenure_core::{Fence, Key, StoreError, Stored, Times, Version};
use tenure_store::codec;

/// The columns of a row, as they are read; the last are its last write and the present, by the server's clock.
pub(crate) fn columns(of: &str) -> String {
    columns_as(of, |name| format!("{of}.{name}"))
}

fn columns_as(of: &str, read: impl Fn(&str) -> String) -> String {
    let names = ["key", "version", "fence", "tenure", "ride_key", "ride_fence", "record"];
    format!("{}, {of}.written, clock_timestamp()", names.map(read).join(", "))
}

/// The same, and behind them the digest, by which [`whole_record`] judges, and the length of the record. The answers of functions have neither.
///
/// Whoever wrote around tenure may have written values of any length. The server tells the length without reading them, and those that are too long
/// stay there. What is read instead is damaged, too.
pub(crate) fn columns_and_digest(of: &str, most_of_record: usize) -> String {
    let bounded = |name: &str, most: usize| {
        format!(
            "CASE WHEN coalesce(octet_length({of}.{name}), 0) <= {most} THEN {of}.{name} ELSE ''::bytea END"
        )
    };
    let columns = columns_as(of, |name| match name {
        "version" | "tenure" => bounded(name, 16),
        "ride_key" => bounded(name, Key::MAX_BYTES),
        "record" => bounded(name, most_of_record),
        short => format!("{of}.{short}"),
    });
    format!("{columns}, {}, octet_length({of}.record)", bounded("digest", 32))
}

/// True while nobody has changed the row around tenure.
pub(crate) fn whole(row: &str) -> String {
    format!("{} = {row}.digest", digest_of(row))
}

/// What [`digest`] is, as the server makes it.
pub(crate) fn digest_of(row: &str) -> String {
    format!(
        "sha256({row}.record || coalesce({row}.tenure, '') || coalesce({row}.ride_key, '') || coalesce(int8send({row}.ride_fence), ''))"
    )
}

/// The digest of a row: of the record, and of what conditions and guards compare besides. The version and the fence are not in it, since
/// the server may raise the latter: whoever changes one of them changes what a version is compared with.
pub(crate) fn digest(columns: &Columns, record: &[u8]) -> Vec<u8> {
    let mut digest = Sha256::new_with_prefix(record);
    for part in [&columns.tenure, &columns.ride_key] {
        digest.update(part.as_deref().unwrap_or_default());
    }
    if let Some(fence) = columns.ride_fence {
        digest.update(fence.to_be_bytes());
    }
    digest.finalize().to_vec()
}

/// All are bytes, and a record's last write is known by its version.
pub(crate) type Columns = tenure_store::parts::Columns<Vec<u8>, Vec<u8>>;

pub(crate) fn version_bytes(version: Version) -> Vec<u8> {
    version.0.to_be_bytes().to_vec()
}

/// The key of a row whose columns begin at `first`; none where no row stands.
pub(crate) fn key_at(row: &impl RowCells, first: usize) -> Result<Option<Key>, StoreError> {
    let bytes: Option<Vec<u8>> = row.cell(first).map_err(|error| damaged(&error))?;
    // Only a row written around tenure has such a key. Leaving it out would hide it, and no key can name it.
    let key = bytes.map(|bytes| {
        Key::from_bytes(&bytes).map_err(|error| {
            StoreError::foreign(format!("a row has a key that is none ({error}); delete that row by hand"))
        })
    });
    key.transpose()
}

/// The record of a row whose columns begin at `first`.
pub(crate) fn stored(
    key: &Key,
    row: &impl RowCells,
    first: usize,
    tells_ages: bool,
) -> Result<Stored, StoreError> {
    let read = || -> Result<Stored, StoreError> {
        let bytes = record_bytes(row, first)?;
        let columns = columns_at(row, first).map_err(|error| damaged(&error))?;
        // Where a vacant record was written over, the server has raised the fence beyond that of the bytes.
        let mut record = codec::decode(&bytes)?;
        record.fence = record.fence.max(Fence(u64::try_from(columns.fence).unwrap_or(0)));
        columns.check(&record, record.version().0)?;
        let micros = |place: usize| {
            let time: SystemTime = row.cell(first + place).map_err(|error| damaged(&error))?;
            let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            Ok::<u64, StoreError>(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
        };
        let times = Times { clock: 0, written: micros(7)?, now: micros(8)? };
        Ok(Stored::new(record).timed(tells_ages.then_some(times)))
    };
    read().map_err(|error| error.about_record("the row of", key))
}

/// The record of a row that was read with its digest. No write goes over a row of which that is wrong, though its columns agree with its
/// record: somebody has changed its metadata, say. Where PostgreSQL's own account says that tenure wrote the row last (`xmin`), as after a bit
/// has flipped on the disk, the next write of whoever has the row's version puts it right.
pub(crate) fn whole_record(
    key: &Key,
    row: &impl RowCells,
    first: usize,
    tells_ages: bool,
) -> Result<Stored, StoreError> {
    let about = |error: StoreError| error.about_record("the row of", key);
    let length: i32 = row.cell(first + 10).map_err(|error| about(damaged(&error)))?;
    let length = u64::try_from(length).unwrap_or(0);
    if length > record_bytes(row, first).map_err(about)?.len() as u64 {
        return Err(about(codec::too_large(length)));
    }
    let stored = stored(key, row, first, tells_ages)?;
    let is_whole = || {
        let columns = columns_at(row, first)?;
        let found: Vec<u8> = row.cell(first + 9)?;
        let bytes: Vec<u8> = row.cell(first + 6)?;
        Ok::<bool, String>(found == digest(&columns, &bytes))
    };
    let error = match is_whole() {
        Ok(true) => return Ok(stored),
        Ok(false) => StoreError::foreign("its digest contradicts it; it is damaged, or was changed by hand"),
        Err(error) => damaged(&error),
    };
    Err(about(error))
}

/// The encoded record of a row whose columns begin at `first`.
pub(crate) fn record_bytes(row: &impl RowCells, first: usize) -> Result<Vec<u8>, StoreError> {
    row.cell(first + 6).map_err(|error| damaged(&error))
}

/// The fence that a row's own column tells.
pub(crate) fn fence_at(row: &impl RowCells, first: usize) -> Option<Fence> {
    row.cell::<i64>(first + 2).ok().and_then(|fence| u64::try_from(fence).ok()).map(Fence)
}

fn columns_at(row: &impl RowCells, first: usize) -> Result<Columns, String> {
    Ok(Columns {
        version: row.cell(first + 1)?,
        fence: row.cell(first + 2)?,
        tenure: row.cell(first + 3)?,
        ride_key: row.cell(first + 4)?,
        ride_fence: row.cell(first + 5)?,
    })
}

fn damaged(error: &str) -> StoreError {
    StoreError::foreign(format!("its columns are damaged: {error}"))
}
