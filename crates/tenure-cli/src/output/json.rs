//! Spans of time and metadata, as JSON has them.

use crate::keys::JobName;
use crate::text::{date, hex};
use serde_json::{Map, json};
use std::time::Duration;
use tenure::store::reserved;
use tenure::{Key, Metadata, Value, Wall};

/// Whole milliseconds, as JSON has them.
pub(crate) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// Metadata as JSON. What JSON has no kind for is told by a list, or by the hexadecimal digits of bytes.
pub(crate) fn fields(metadata: &Metadata) -> serde_json::Value {
    metadata.iter().map(|(name, field)| (name.clone(), value(field))).collect::<Map<_, _>>().into()
}

/// The metadata of a record, in which times that tenure itself has written are told as all others are.
pub(crate) fn told(key: &Key, metadata: &Metadata) -> serde_json::Value {
    const OF_UNITS: &[&str] = &["started", "finished", "not_before"];
    const OF_TICKS: &[&str] = &["tick", "began", "ended", "keep"];
    let mut told = fields(metadata);
    if JobName::of_key(key).is_some() {
        date_all(&mut told, OF_UNITS);
    } else if key.as_str().starts_with(reserved::ONCE)
        && let Some(history) = told.get_mut("once")
    {
        date_all(history, OF_TICKS);
    }
    told
}

/// Makes dates of the numbers of these names, which are Unix milliseconds.
fn date_all(value: &mut serde_json::Value, names: &[&str]) {
    match value {
        serde_json::Value::Object(fields) => {
            for (name, field) in fields {
                match field.as_u64() {
                    Some(millis) if names.contains(&name.as_str()) => *field = date(Wall(millis)).into(),
                    _ => date_all(field, names),
                }
            }
        }
        serde_json::Value::Array(values) => values.iter_mut().for_each(|value| date_all(value, names)),
        _ => {}
    }
}

fn value(field: &Value) -> serde_json::Value {
    let number = |number: &tenure::Number| {
        // A number that JSON readers would round stays a text.
        let text = number.as_str();
        text.parse::<i64>().map_or_else(|_| json!(text), |whole| json!(whole))
    };
    match field {
        Value::Bool(truth) => json!(truth),
        Value::Number(digits) => number(digits),
        Value::Text(text) => json!(text),
        Value::Bytes(bytes) => json!(hex(bytes)),
        Value::List(values) => values.iter().map(value).collect(),
        Value::Map(map) => fields(map),
        Value::TextSet(texts) => json!(texts),
        Value::NumberSet(numbers) => numbers.iter().map(number).collect(),
        Value::BytesSet(all) => all.iter().map(|bytes| hex(bytes)).collect(),
        _ => serde_json::Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_becomes_json_of_the_nearest_kind() {
        let metadata = Metadata::from([
            ("n".to_owned(), Value::from(7)),
            ("f".to_owned(), Value::Number(tenure::Number::new("0.10").unwrap())),
            ("b".to_owned(), Value::Bytes(vec![0, 255])),
            ("l".to_owned(), Value::List(vec![Value::Null, true.into()])),
        ]);
        assert_eq!(fields(&metadata), json!({"n": 7, "f": "0.10", "b": "00ff", "l": [null, true]}));
    }
}
