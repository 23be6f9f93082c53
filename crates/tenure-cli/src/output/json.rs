//! JSON as it is printed; spans of time and metadata, as JSON has them.

use crate::keys::JobName;
use crate::text::{date, hex};
use serde_json::{Map, json};
use std::fmt::Write as _;
use tenure::store::reserved;
use tenure::{Key, Metadata, Value, Wall};
use tenure_core::steers_terminals;

/// A document in one line.
pub(crate) fn line(document: &serde_json::Value) -> String {
    harmless(document.to_string())
}

/// A document for people, in many lines.
pub(crate) fn indented(document: &serde_json::Value) -> String {
    harmless(format!("{document:#}"))
}

/// The same JSON, in which nothing steers a terminal. Serde escapes what JSON demands, which leaves out DEL, all C1 controls and what reorders
/// text. Outside of texts there is nothing of that but line ends.
fn harmless(json: String) -> String {
    let is_harmful = |c: char| c != '\n' && steers_terminals(c);
    if !json.contains(is_harmful) {
        return json;
    }
    let mut out = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        if is_harmful(c) {
            for half in c.encode_utf16(&mut [0; 2]) {
                let _infallible = write!(out, "\\u{half:04x}");
            }
        } else {
            out.push(c);
        }
    }
    out
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
    fn what_steers_a_terminal_is_escaped_and_stays_the_same_text() {
        let text = "a\u{7f}\u{9b}2J\u{202e}\n\u{1b}é\u{1f980}";
        let document = json!({ text: [text] });
        for printed in [line(&document), indented(&document)] {
            assert!(!printed.contains(|c| c != '\n' && steers_terminals(c)), "{printed}");
            assert!(printed.contains("\\u007f\\u009b2J\\u202e\\n\\u001bé\u{1f980}"), "{printed}");
            assert_eq!(serde_json::from_str::<serde_json::Value>(&printed).unwrap(), document);
        }
        assert_eq!(indented(&json!({"a": 1})), "{\n  \"a\": 1\n}");
    }

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
