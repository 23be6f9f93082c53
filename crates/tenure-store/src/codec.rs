//! The native layout: a record as bytes.
//!
//! Two bytes say what it is (`T` and the layout's version), the rest is CBOR (RFC 8949): a map with small integer keys.
//! Fields may be added within a version; a reader skips those that it doesn't know. A record of a newer version is
//! refused as foreign, so that it isn't written over by a program that does not understand it.
//!
//! **What a new field needs.** Programs of several versions write one record: others than its holder leave letters and marks there. Each writes the
//! record as a whole, without the fields that it doesn't know. These are not kept, as they may contradict what that writer has changed: the fences of
//! letters would make a record damaged that has one letter more.
//!
//! - What may be lost with any write is a field more of this version. Marks and the fences of letters are such: without them a record is as sound.
//! - What has to stay as long as a tenure is a name in the reserved field of the metadata. Whoever else writes keeps that as it stands.
//! - What an older program must not miss needs a higher [`VERSION`]. So do a longer array, another meaning, and another kind of value.
//!
//! PostgreSQL, Redis and DynamoDB have a vacant record taken unread, by what stands beside its bytes. A vacant record of a higher version has to look
//! held there, or older programs write over it.

mod value;

use minicbor::data::Type;
use minicbor::decode::Error as DecodeError;
use minicbor::encode::Write as CborWrite;
use minicbor::{Decoder, Encoder};
use tenure_core::section::{self, SectionLedger};
use tenure_core::{
    Ask, Attachment, Fence, HolderId, InvalidInput, Key, Letter, MAILBOX, MARKS, Mark, Metadata, Nonce,
    Record, StoreError, Tenure, Tick, Ttl, Wall,
};
use tenure_core::{fleet, semaphore};

/// The layout's version. What a higher one is for, and what goes with it, says the text of this module.
pub const VERSION: u8 = 1;
/// The most bytes that an encoded record may have.
pub const MAX_BYTES: usize = 256 * 1024;
/// The most bytes of encoded metadata that a record is written with, but for a section's, a semaphore's, and a worker's part of a fleet's plan.
pub const MAX_METADATA_BYTES: usize = 8192;
/// So many more are there for what tenure itself adds to the metadata of users, such as how often a fleet's unit has failed.
const RESERVED_BYTES: usize = 1024;
/// The most bytes of encoded metadata that a section's or a semaphore's record is written with: all of its leases are in there. A store
/// whose [`record_bytes`](crate::Capabilities::record_bytes) are fewer takes fewer.
pub const MAX_SECTION_BYTES: usize = SectionLedger::MAX_BYTES + 64;

const MAGIC: u8 = b'T';

/// Whether `record` can be written.
///
/// # Errors
/// As [`encode`].
pub fn check(record: &Record) -> Result<(), StoreError> {
    check_bounds(record)?;
    encode_metadata(&record.metadata, || most_metadata(record))?;
    Ok(())
}

fn most_metadata(record: &Record) -> usize {
    let is_large = section::is_section(record)
        || section::is_cover(record)
        || semaphore::is_semaphore(record)
        || fleet::is_part(record);
    match () {
        () if is_large => MAX_SECTION_BYTES,
        () if record.metadata.contains_key(tenure_core::RESERVED) => MAX_METADATA_BYTES + RESERVED_BYTES,
        () => MAX_METADATA_BYTES,
    }
}

/// What [`decode`] would refuse must not be written in the first place.
fn check_bounds(record: &Record) -> Result<(), StoreError> {
    if record.fence > Fence::MAX {
        let (is, most) = (record.fence, Fence::MAX);
        return Err(StoreError::invalid(format!("a fence of {is} is over the limit of {most}")));
    }
    let letters = record.tenure.as_ref().map_or(0, |tenure| tenure.mail.len());
    if letters > MAILBOX {
        return Err(StoreError::invalid(format!(
            "{letters} letters are over the limit of {MAILBOX} for a record"
        )));
    }
    let mut named = record.tenure.iter().flat_map(|tenure| &tenure.mail).filter_map(|letter| letter.fence);
    if let Some(fence) = named.find(|fence| *fence > Fence::MAX) {
        let most = Fence::MAX;
        return Err(StoreError::invalid(format!("a letter's fence of {fence} is over the limit of {most}")));
    }
    let marks = record.tenure.as_ref().map_or(0, |tenure| tenure.marks.len());
    if marks > MARKS {
        return Err(StoreError::invalid(format!("{marks} marks are over the limit of {MARKS} for a record")));
    }
    Ok(())
}

/// Whether these metadata may be a user's.
///
/// # Errors
/// When it is too large or too deep.
pub fn check_metadata(metadata: &Metadata) -> Result<(), InvalidInput> {
    encode_metadata(metadata, || MAX_METADATA_BYTES).map(drop)
}

/// A record as bytes.
///
/// # Errors
/// `Invalid` when its metadata is too large (over 8 KiB encoded, 9 KiB with fields of tenure's own; 192 KiB for a section's, a semaphore's or a
/// part of a fleet's plan) or too deep (over 16 levels), when it has more mail than a record carries, or when its fence is beyond the highest.
pub fn encode(record: &Record) -> Result<Vec<u8>, StoreError> {
    check_bounds(record)?;
    let metadata = encode_metadata(&record.metadata, || most_metadata(record))?;
    /// Enough for a record without metadata whose names are not long.
    const USUAL: usize = 256;
    let mut bytes = Vec::with_capacity(USUAL + metadata.len());
    bytes.extend([MAGIC, VERSION]);
    infallible(encode_record(&mut Encoder::new(&mut bytes), record, &metadata));
    Ok(bytes)
}

/// `most` is asked only where the metadata are more than every record may have.
fn encode_metadata(metadata: &Metadata, most: impl FnOnce() -> usize) -> Result<Vec<u8>, InvalidInput> {
    let mut bytes = Vec::new();
    if metadata.is_empty() {
        return Ok(bytes);
    }
    let depth = metadata.values().map(tenure_core::Value::depth).max().unwrap_or(0);
    if depth > tenure_core::Value::MAX_DEPTH {
        let deepest = tenure_core::Value::MAX_DEPTH;
        return Err(InvalidInput::new(format!(
            "metadata nested {depth} deep is over the limit of {deepest}"
        )));
    }
    infallible(value::encode_fields(&mut Encoder::new(&mut bytes), metadata));
    let is = bytes.len();
    if is > MAX_METADATA_BYTES
        && let most = most()
        && is > most
    {
        return Err(InvalidInput::new(format!(
            "metadata of {is} encoded bytes is over the limit of {most}; keep large data elsewhere"
        )));
    }
    Ok(bytes)
}

type Encoded<W> = Result<(), minicbor::encode::Error<<W as CborWrite>::Error>>;

fn infallible(result: Encoded<Vec<u8>>) {
    // Writing to a Vec can't fail, and no value here has an encoding that can.
    debug_assert!(result.is_ok());
}

fn encode_record<W: CborWrite>(e: &mut Encoder<W>, record: &Record, metadata: &[u8]) -> Encoded<W> {
    let fields = 3 + u64::from(record.tenure.is_some()) + u64::from(!record.metadata.is_empty());
    e.map(fields)?;
    e.u8(0)?.u64(record.fence.0)?;
    e.u8(1)?.bytes(&record.nonce.0.to_be_bytes())?;
    e.u8(2)?.u64(record.stamp.0)?;
    if let Some(tenure) = &record.tenure {
        e.u8(3)?;
        encode_tenure(e, tenure, record.nonce)?;
    }
    if !record.metadata.is_empty() {
        e.u8(4)?;
        e.writer_mut().write_all(metadata).map_err(minicbor::encode::Error::write)?;
    }
    Ok(())
}

fn encode_tenure<W: CborWrite>(e: &mut Encoder<W>, tenure: &Tenure, nonce: Nonce) -> Encoded<W> {
    let fields = 4
        + u64::from(tenure.heartbeat != nonce)
        + u64::from(tenure.attachment.is_some())
        + u64::from(!tenure.mail.is_empty())
        + u64::from(!tenure.marks.is_empty())
        + u64::from(names_fences(tenure));
    e.map(fields)?;
    e.u8(0)?.bytes(&tenure.id.0.to_be_bytes())?;
    if tenure.heartbeat != nonce {
        e.u8(1)?.bytes(&tenure.heartbeat.0.to_be_bytes())?;
    }
    e.u8(2)?.str(tenure.holder.as_str())?;
    e.u8(3)?.u64(tenure.ttl.millis())?;
    e.u8(4)?.u64(tenure.since.0)?;
    if let Some(attachment) = &tenure.attachment {
        e.u8(5)?.array(2)?.str(attachment.session.as_str())?.u64(attachment.fence.0)?;
    }
    if !tenure.mail.is_empty() {
        e.u8(6)?.array(tenure.mail.len() as u64)?;
        for letter in &tenure.mail {
            e.array(2)?.str(letter.key.as_str())?.u64(letter.ask.code())?;
        }
    }
    if !tenure.marks.is_empty() {
        e.u8(7)?.array(tenure.marks.len() as u64)?;
        for mark in &tenure.marks {
            e.array(4)?.u64(mark.boot)?.u64(mark.held.0)?.u64(mark.waited.0)?.u64(mark.wall.0)?;
        }
    }
    if names_fences(tenure) {
        // Beside the letters, and not in them: a reader that doesn't know it skips it, and is asked whatever its fence is.
        e.u8(8)?.array(tenure.mail.len() as u64)?;
        for letter in &tenure.mail {
            match letter.fence {
                Some(fence) => e.u64(fence.0)?,
                None => e.null()?,
            };
        }
    }
    Ok(())
}

/// Whether any letter is about one tenure only.
fn names_fences(tenure: &Tenure) -> bool {
    tenure.mail.iter().any(|letter| letter.fence.is_some())
}

/// Bytes as a record.
///
/// # Errors
/// `Foreign` when they are not a record of this layout, or of a newer version of it, or damaged.
pub fn decode(bytes: &[u8]) -> Result<Record, StoreError> {
    match bytes {
        [MAGIC, VERSION, body @ ..] if bytes.len() <= MAX_BYTES => decode_record(&mut Decoder::new(body))
            .map_err(|error| StoreError::foreign(format!("the record is damaged: {error}"))),
        [MAGIC, VERSION, ..] => Err(too_large(bytes.len() as u64)),
        [_, newer, ..] if is_newer(bytes) => Err(StoreError::newer(format!(
            "the record has layout version {newer}, this program knows up to {VERSION}; upgrade it"
        ))),
        _ => Err(StoreError::foreign("the record is not one of tenure's")),
    }
}

/// Why so many bytes are no record, without a look at them.
#[must_use]
pub fn too_large(bytes: u64) -> StoreError {
    StoreError::foreign(format!("the record is too large to be one of ours: it has {bytes} bytes"))
}

/// Whether bytes are a record of a newer version of this layout.
#[must_use]
pub fn is_newer(bytes: &[u8]) -> bool {
    matches!(bytes, [MAGIC, version, ..] if *version > VERSION)
}

fn decode_record(d: &mut Decoder<'_>) -> Result<Record, DecodeError> {
    let (mut fence, mut nonce, mut stamp, mut tenure, mut metadata) =
        (None, None, None, None, Metadata::new());
    fields(d, |d, field| {
        match field {
            0 => fence = Some(decode_fence(d)?),
            1 => nonce = Some(decode_nonce(d)?),
            2 => stamp = Some(Wall(d.u64()?)),
            3 => tenure = Some(decode_tenure(d)?),
            4 => metadata = value::decode_fields(d, 0)?,
            _ => d.skip()?,
        }
        Ok(())
    })?;
    if d.position() != d.input().len() {
        return Err(DecodeError::message("bytes after the end"));
    }
    let nonce = nonce.ok_or(DecodeError::message("no nonce"))?;
    Ok(Record {
        fence: fence.ok_or(DecodeError::message("no fence"))?,
        nonce,
        stamp: stamp.ok_or(DecodeError::message("no stamp"))?,
        tenure: tenure.map(|tenure: (Tenure, Option<Nonce>)| Tenure {
            heartbeat: tenure.1.unwrap_or(nonce),
            ..tenure.0
        }),
        metadata,
    })
}

fn decode_tenure(d: &mut Decoder<'_>) -> Result<(Tenure, Option<Nonce>), DecodeError> {
    let (mut id, mut heartbeat, mut holder, mut ttl, mut since, mut attachment, mut mail, mut marks) =
        (None, None, None, None, None, None, Vec::new(), Vec::new());
    fields(d, |d, field| {
        match field {
            0 => id = Some(decode_nonce(d)?),
            1 => heartbeat = Some(decode_nonce(d)?),
            2 => holder = Some(HolderId::new(d.str()?).map_err(|_| DecodeError::message("bad holder"))?),
            3 => ttl = Some(Ttl::clamped(d.u64()?)),
            4 => since = Some(Wall(d.u64()?)),
            5 => {
                pair(d)?;
                attachment = Some(Attachment { session: decode_key(d)?, fence: decode_fence(d)? });
            }
            6 => mail = decode_mail(d)?,
            7 => marks = decode_marks(d)?,
            8 => decode_fences(d, &mut mail)?,
            _ => d.skip()?,
        }
        Ok(())
    })?;
    let id = id.ok_or(DecodeError::message("no tenure id"))?;
    let tenure = Tenure {
        id,
        heartbeat: id,
        holder: holder.ok_or(DecodeError::message("no holder"))?,
        ttl: ttl.ok_or(DecodeError::message("no ttl"))?,
        since: since.unwrap_or_default(),
        attachment,
        mail,
        marks,
    };
    Ok((tenure, heartbeat))
}

fn decode_mail(d: &mut Decoder<'_>) -> Result<Vec<Letter>, DecodeError> {
    let count = d.array()?.filter(|count| *count <= MAILBOX as u64);
    let count = count.ok_or(DecodeError::message("too much mail"))?;
    let mut mail = Vec::new();
    for _ in 0..count {
        pair(d)?;
        let key = decode_key(d)?;
        mail.push(Letter::new(key, Ask::of_code(d.u64()?)));
    }
    Ok(mail)
}

/// Which tenures the letters are about.
fn decode_fences(d: &mut Decoder<'_>, mail: &mut [Letter]) -> Result<(), DecodeError> {
    if d.array()? != Some(mail.len() as u64) {
        return Err(DecodeError::message("fences of other letters"));
    }
    for letter in mail {
        if d.datatype()? == Type::Null {
            d.null()?;
        } else {
            letter.fence = Some(decode_fence(d)?);
        }
    }
    Ok(())
}

fn decode_marks(d: &mut Decoder<'_>) -> Result<Vec<Mark>, DecodeError> {
    let count = d.array()?.filter(|count| *count <= MARKS as u64);
    let count = count.ok_or(DecodeError::message("too many marks"))?;
    let mut marks = Vec::new();
    for _ in 0..count {
        if d.array()? != Some(4) {
            return Err(DecodeError::type_mismatch(Type::Array));
        }
        let (boot, held, waited, wall) = (d.u64()?, Tick(d.u64()?), Tick(d.u64()?), Wall(d.u64()?));
        marks.push(Mark { boot, held, waited, wall });
    }
    Ok(marks)
}

/// Reads a map with integer keys, each at most once.
fn fields<'b>(
    d: &mut Decoder<'b>,
    mut field: impl FnMut(&mut Decoder<'b>, u64) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    let count = d.map()?.ok_or(DecodeError::message("a map of unknown length"))?;
    let mut last = None;
    for _ in 0..count {
        let number = d.u64()?;
        if last >= Some(number) {
            return Err(DecodeError::message("fields out of order"));
        }
        last = Some(number);
        field(d, number)?;
    }
    Ok(())
}

fn pair(d: &mut Decoder<'_>) -> Result<(), DecodeError> {
    if d.array()? == Some(2) { Ok(()) } else { Err(DecodeError::type_mismatch(Type::Array)) }
}

fn decode_key(d: &mut Decoder<'_>) -> Result<Key, DecodeError> {
    Key::new(d.str()?).map_err(|_| DecodeError::message("bad key"))
}

fn decode_fence(d: &mut Decoder<'_>) -> Result<Fence, DecodeError> {
    let fence = Fence(d.u64()?);
    if fence > Fence::MAX { Err(DecodeError::message("a fence beyond the highest")) } else { Ok(fence) }
}

fn decode_nonce(d: &mut Decoder<'_>) -> Result<Nonce, DecodeError> {
    let bytes = d.bytes()?.try_into().map_err(|_| DecodeError::message("a nonce has 16 bytes"))?;
    Ok(Nonce(u128::from_be_bytes(bytes)))
}

#[cfg(test)]
mod tests;
