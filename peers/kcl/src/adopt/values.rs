//! A row's fields as a unit carries them.

use crate::Row;
use tenure_core::{Metadata, Number, StoreError, Value};
use tenure_dynamodb::aws_sdk_dynamodb::types::AttributeValue;

/// Of the same types, to the digit.
pub(super) fn typed(row: &Row) -> Result<Metadata, StoreError> {
    let fields = row.fields().iter().map(|(name, value)| Ok((name.clone(), value_of(name, value)?)));
    fields.collect()
}

fn value_of(name: &str, value: &AttributeValue) -> Result<Value, StoreError> {
    let number = |digits: &String| Ok::<_, StoreError>(Number::new(digits)?);
    Ok(match value {
        AttributeValue::Null(_) => Value::Null,
        AttributeValue::Bool(truth) => Value::Bool(*truth),
        AttributeValue::N(digits) => Value::Number(number(digits)?),
        AttributeValue::S(text) => Value::Text(text.clone()),
        AttributeValue::B(bytes) => Value::Bytes(bytes.as_ref().to_vec()),
        AttributeValue::L(values) => {
            Value::List(values.iter().map(|value| value_of(name, value)).collect::<Result<_, _>>()?)
        }
        AttributeValue::M(fields) => {
            let fields = fields.iter().map(|(key, value)| Ok((key.clone(), value_of(name, value)?)));
            Value::Map(fields.collect::<Result<_, StoreError>>()?)
        }
        AttributeValue::Ss(texts) => Value::TextSet(texts.iter().cloned().collect()),
        AttributeValue::Ns(numbers) => {
            Value::NumberSet(numbers.iter().map(number).collect::<Result<_, _>>()?)
        }
        AttributeValue::Bs(all) => Value::BytesSet(all.iter().map(|bytes| bytes.as_ref().to_vec()).collect()),
        _ => {
            return Err(StoreError::unsupported(format!(
                "the field {name:?} has a type that DynamoDB has gained since; remove the field"
            )));
        }
    })
}
