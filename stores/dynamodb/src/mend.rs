//! An item as it is, whatever is in it, and its removal on the word of a person.

use crate::client::TableClient;
use crate::conditional::{Ended, ended};
use crate::dates::Dates;
use crate::item::{self, Item, KEY, NAMESPACE, RECORD};
use crate::read;
use aws_sdk_dynamodb::types::AttributeValue;
use std::collections::BTreeMap;
use tenure_core::{Key, Record, StoreError};
use tenure_store::{Image, codec};

pub(crate) async fn image(inner: &TableClient, key: &Key) -> Result<Option<Image>, StoreError> {
    Ok(read::item(inner, inner.keys(key)).await?.map(|item| image_of(inner, key, &item)))
}

fn image_of(inner: &TableClient, key: &Key, item: &Item) -> Image {
    let bytes = item.get(RECORD).and_then(|value| value.as_b().ok()).map_or(&[][..], |blob| blob.as_ref());
    let record = inner.stored(key, item).map(|stored| stored.record);
    Image::new(copy(item), record, bytes, item::fences(item))
}

/// Each attribute must be what it was, and those that make a record must not have been added.
pub(crate) async fn mend(
    inner: &TableClient,
    key: &Key,
    seen: &Image,
    instead: Option<&Record>,
) -> Result<bool, StoreError> {
    let encoded = instead.map(codec::encode).transpose()?;
    let Some(now) = read::item(inner, inner.keys(key)).await?.filter(|item| copy(item) == seen.copy) else {
        return Ok(false);
    };
    let mut condition = UnchangedItem::default();
    for (name, value) in now.iter().filter(|(name, _)| ![NAMESPACE, KEY].contains(&name.as_str())) {
        condition.is(name, value.clone());
    }
    for name in item::ATTRIBUTES.into_iter().filter(|name| !now.contains_key(*name)) {
        condition.is_absent(name);
    }
    let text = condition.text;
    let (names, mut values) = (some(condition.names), condition.values);
    let keys = Some(inner.keys(key));
    let table = &inner.place.table;
    let done = match instead.zip(encoded) {
        None => {
            let request =
                inner.client.delete_item().table_name(table).set_key(keys).condition_expression(text);
            let request =
                request.set_expression_attribute_names(names).set_expression_attribute_values(some(values));
            matches!(ended(&inner.place, request.send().await)?, Ended::Done(_))
        }
        Some((record, encoded)) => {
            let written = inner.dates.as_ref().and_then(Dates::date).map(|dated| dated.written);
            let record = item::values(record, encoded, written);
            values.extend(record.map(|(name, value)| (name.to_owned(), value)));
            let request =
                inner.client.update_item().table_name(table).set_key(keys).condition_expression(text);
            let request = request.update_expression(item::UPDATE).set_expression_attribute_names(names);
            let request = request.set_expression_attribute_values(some(values));
            matches!(ended(&inner.place, request.send().await)?, Ended::Done(_))
        }
    };
    Ok(done)
}

#[allow(clippy::disallowed_types, reason = "the SDK's own type")]
type Map<T> = std::collections::HashMap<String, T>;

/// DynamoDB refuses an empty map.
fn some<T>(map: Map<T>) -> Option<Map<T>> {
    (!map.is_empty()).then_some(map)
}

/// That an item is as it was seen.
struct UnchangedItem {
    text: String,
    names: Map<String>,
    values: Map<AttributeValue>,
}

impl Default for UnchangedItem {
    fn default() -> Self {
        UnchangedItem {
            text: format!("attribute_exists({NAMESPACE})"),
            names: Map::new(),
            values: Map::new(),
        }
    }
}

impl UnchangedItem {
    fn is(&mut self, name: &str, value: AttributeValue) {
        let n = self.names.len();
        self.text.push_str(&format!(" AND #a{n} = :a{n}"));
        self.names.insert(format!("#a{n}"), name.to_owned());
        self.values.insert(format!(":a{n}"), value);
    }

    fn is_absent(&mut self, name: &str) {
        let n = self.names.len();
        self.text.push_str(&format!(" AND attribute_not_exists(#a{n})"));
        self.names.insert(format!("#a{n}"), name.to_owned());
    }
}

/// The item as `aws dynamodb put-item --item` takes it.
fn copy(item: &Item) -> String {
    map(item)
}

fn map(item: &Item) -> String {
    let sorted: BTreeMap<&String, &AttributeValue> = item.iter().collect();
    let fields = sorted.into_iter().map(|(name, value)| format!("{}: {}", text(name), json(value)));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
}

fn list(all: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", all.into_iter().collect::<Vec<_>>().join(", "))
}

fn json(value: &AttributeValue) -> String {
    let base64 =
        |blob: &aws_sdk_dynamodb::primitives::Blob| text(&aws_smithy_types::base64::encode(blob.as_ref()));
    let (kind, value) = match value {
        AttributeValue::B(blob) => ("B", base64(blob)),
        AttributeValue::Bool(truth) => ("BOOL", truth.to_string()),
        AttributeValue::Bs(all) => ("BS", list(all.iter().map(base64))),
        AttributeValue::L(all) => ("L", list(all.iter().map(json))),
        AttributeValue::M(fields) => ("M", map(fields)),
        AttributeValue::N(number) => ("N", text(number)),
        AttributeValue::Ns(all) => ("NS", list(all.iter().map(|number| text(number)))),
        AttributeValue::Null(truth) => ("NULL", truth.to_string()),
        AttributeValue::S(string) => ("S", text(string)),
        AttributeValue::Ss(all) => ("SS", list(all.iter().map(|string| text(string)))),
        // Of a kind that this SDK does not know: it can't be put back, and never compares as the same.
        _ => ("?", "null".to_owned()),
    };
    format!("{{\"{kind}\": {value}}}")
}

/// A string as JSON has it, in ASCII.
fn text(string: &str) -> String {
    let mut out = String::from("\"");
    for unit in string.encode_utf16() {
        match u8::try_from(unit) {
            Ok(c @ (b'"' | b'\\')) => out.extend(['\\', char::from(c)]),
            Ok(c) if c.is_ascii_graphic() || c == b' ' => out.push(char::from(c)),
            _ => out.push_str(&format!("\\u{unit:04x}")),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_json_of_every_attribute_in_order() {
        let item: Item = [
            ("key", item::text("a\"\\\n\u{1f980}")),
            ("b", item::bytes([0, 255])),
            ("n", item::number(7)),
            ("l", AttributeValue::L(vec![AttributeValue::Null(true), AttributeValue::Bool(false)])),
            (
                "m",
                AttributeValue::M(
                    [("s".to_owned(), AttributeValue::Ss(vec!["x".into(), "y".into()]))].into(),
                ),
            ),
            ("ns", AttributeValue::Ns(vec!["1".into()])),
            ("bs", AttributeValue::Bs(vec![aws_sdk_dynamodb::primitives::Blob::new([1])])),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        let read: serde_json::Value = serde_json::from_str(&copy(&item)).unwrap();
        assert_eq!(
            read,
            serde_json::json!({
                "key": {"S": "a\"\\\n\u{1f980}"}, "b": {"B": "AP8="}, "n": {"N": "7"}, "l": {"L": [{"NULL": true}, {"BOOL": false}]},
                "m": {"M": {"s": {"SS": ["x", "y"]}}}, "ns": {"NS": ["1"]}, "bs": {"BS": ["AQ=="]}
            })
        );
    }
}
