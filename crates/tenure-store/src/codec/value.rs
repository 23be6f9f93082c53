//! Metadata as CBOR. Sets and decimal numbers, which CBOR has no plain types for, are tagged.

use super::Encoded;
use minicbor::data::{Tag, Type};
use minicbor::decode::Error as DecodeError;
use minicbor::encode::Write as CborWrite;
use minicbor::{Decoder, Encoder};
use std::collections::BTreeSet;
use tenure_core::{Metadata, Number, Value};

/// IANA's tag for a mathematical finite set.
const SET: Tag = Tag::new(258);
/// A decimal number as text: from the range for private use.
const NUMBER: Tag = Tag::new(65_536);

pub(super) fn encode_fields<W: CborWrite>(e: &mut Encoder<W>, fields: &Metadata) -> Encoded<W> {
    e.map(fields.len() as u64)?;
    for (name, value) in fields {
        e.str(name)?;
        encode(e, value)?;
    }
    Ok(())
}

fn encode<W: CborWrite>(e: &mut Encoder<W>, value: &Value) -> Encoded<W> {
    match value {
        Value::Bool(truth) => e.bool(*truth)?.ok(),
        Value::Number(number) => e.tag(NUMBER)?.str(number.as_str())?.ok(),
        Value::Text(text) => e.str(text)?.ok(),
        Value::Bytes(bytes) => e.bytes(bytes)?.ok(),
        Value::List(values) => {
            e.array(values.len() as u64)?;
            values.iter().try_for_each(|value| encode(e, value))
        }
        Value::Map(fields) => encode_fields(e, fields),
        Value::TextSet(set) => {
            e.tag(SET)?.array(set.len() as u64)?;
            set.iter().try_for_each(|text| e.str(text)?.ok())
        }
        Value::NumberSet(set) => {
            e.tag(SET)?.array(set.len() as u64)?;
            set.iter().try_for_each(|number| e.tag(NUMBER)?.str(number.as_str())?.ok())
        }
        Value::BytesSet(set) => {
            e.tag(SET)?.array(set.len() as u64)?;
            set.iter().try_for_each(|bytes| e.bytes(bytes)?.ok())
        }
        _ => e.null()?.ok(),
    }
}

pub(super) fn decode_fields(d: &mut Decoder<'_>, depth: usize) -> Result<Metadata, DecodeError> {
    let count = d.map()?.ok_or(DecodeError::message("a map of unknown length"))?;
    let mut fields = Metadata::new();
    for _ in 0..count {
        let name = d.str()?.to_owned();
        fields.insert(name, decode(d, depth + 1)?);
    }
    Ok(fields)
}

fn decode(d: &mut Decoder<'_>, depth: usize) -> Result<Value, DecodeError> {
    if depth > Value::MAX_DEPTH {
        return Err(DecodeError::message("metadata nested too deep"));
    }
    Ok(match d.datatype()? {
        Type::Null => {
            d.null()?;
            Value::Null
        }
        Type::Bool => Value::Bool(d.bool()?),
        Type::String => Value::Text(d.str()?.to_owned()),
        Type::Bytes => Value::Bytes(d.bytes()?.to_vec()),
        Type::Array => {
            let count = length(d)?;
            Value::List((0..count).map(|_| decode(d, depth + 1)).collect::<Result<_, _>>()?)
        }
        Type::Map => Value::Map(decode_fields(d, depth)?),
        Type::Tag => match d.tag()? {
            NUMBER => Value::Number(number(d)?),
            SET => decode_set(d)?,
            tag => return Err(DecodeError::tag_mismatch(tag)),
        },
        other => return Err(DecodeError::type_mismatch(other)),
    })
}

/// A set: of what kind, its first member tells. An empty one is a set of texts.
fn decode_set(d: &mut Decoder<'_>) -> Result<Value, DecodeError> {
    let count = length(d)?;
    if count == 0 {
        return Ok(Value::TextSet(BTreeSet::new()));
    }
    Ok(match d.datatype()? {
        Type::String => Value::TextSet(members(d, count, |d| Ok(d.str()?.to_owned()))?),
        Type::Bytes => Value::BytesSet(members(d, count, |d| Ok(d.bytes()?.to_vec()))?),
        Type::Tag => Value::NumberSet(members(d, count, |d| {
            if d.tag()? == NUMBER { number(d) } else { Err(DecodeError::message("a mixed set")) }
        })?),
        other => return Err(DecodeError::type_mismatch(other)),
    })
}

fn members<'b, T: Ord>(
    d: &mut Decoder<'b>,
    count: u64,
    mut member: impl FnMut(&mut Decoder<'b>) -> Result<T, DecodeError>,
) -> Result<BTreeSet<T>, DecodeError> {
    (0..count).map(|_| member(d)).collect()
}

fn length(d: &mut Decoder<'_>) -> Result<u64, DecodeError> {
    d.array()?.ok_or(DecodeError::message("an array of unknown length"))
}

fn number(d: &mut Decoder<'_>) -> Result<Number, DecodeError> {
    Number::new(d.str()?).map_err(|_| DecodeError::message("not a decimal number"))
}
