//! The item of a lease.
//!
//! | attribute | type | what it is |
//! |---|---|---|
//! | `pk`, `sk` | S | the table's HASH and RANGE keys |
//! | `lease_token` | S | names the tenure |
//! | `lease_expires_at` | N | when it ends, in Unix seconds |
//! | `ttl` | N | from when on DynamoDB may delete the item, in Unix seconds; absent if it may not |

use super::options::Names;
use tenure_dynamodb::aws_sdk_dynamodb::types::AttributeValue;
use tenure_dynamodb::service::{Item, number, text};

/// A lease as its item shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemLease {
    /// The token of whoever holds it, or held it.
    pub token: String,
    /// When it ends or ended, in Unix seconds.
    pub expires_at: i64,
}

/// The item of a lease.
pub(crate) fn written(names: &Names, pk: &str, sk: &str, standing: &ItemLease, buffer: Option<u64>) -> Item {
    let mut item: Item = [
        (names.partition_key.clone(), text(pk)),
        (names.sort_key.clone(), text(sk)),
        (names.token.clone(), text(&standing.token)),
        (names.expires_at.clone(), number(standing.expires_at)),
    ]
    .into();
    if let Some(ttl) = ttl(standing.expires_at, buffer) {
        item.insert(names.ttl.clone(), ttl);
    }
    item
}

/// The value of the ttl, if there is one.
pub(crate) fn ttl(expires_at: i64, buffer: Option<u64>) -> Option<AttributeValue> {
    buffer.map(|buffer| number(expires_at.saturating_add_unsigned(buffer)))
}

/// What an item says, or why it is not a lease's.
pub(crate) fn read(names: &Names, item: &Item) -> Result<ItemLease, String> {
    let token = match item.get(&names.token) {
        Some(AttributeValue::S(token)) => token.clone(),
        Some(_) => return Err(format!("its {} is not a text", names.token)),
        None => return Err(format!("it has no {}", names.token)),
    };
    let expires_at = match item.get(&names.expires_at) {
        Some(AttributeValue::N(digits)) => seconds(digits),
        Some(_) => return Err(format!("its {} is not a number", names.expires_at)),
        None => return Err(format!("it has no {}", names.expires_at)),
    };
    match expires_at {
        Some(expires_at) => Ok(ItemLease { token, expires_at }),
        None => Err(format!("its {} can't be read", names.expires_at)),
    }
}

/// A number as peers round and write it: whole as a rule, but DynamoDB has others, and compares them too.
fn seconds(digits: &str) -> Option<i64> {
    if let Ok(whole) = digits.parse() {
        return Some(whole);
    }
    let number: f64 = digits.parse().ok()?;
    #[allow(clippy::cast_possible_truncation, reason = "saturates, as is meant")]
    number.is_finite().then(|| number.floor() as i64)
}

#[cfg(test)]
mod tests {
    //! Plan: items to the byte, with every attribute renamed, with and without ttl; what is read back, in every rounding; what
    //! is not a lease, with the reason.
    use super::*;

    fn standing(expires_at: i64) -> ItemLease {
        ItemLease { token: "0e8f".into(), expires_at }
    }

    #[test]
    fn an_item_is_as_peers_write_it() {
        let item = written(&Names::default(), "job#1", "LOCK", &standing(1_700_000_030), Some(3600));
        let meant: Item = [
            ("pk".to_owned(), AttributeValue::S("job#1".into())),
            ("sk".to_owned(), AttributeValue::S("LOCK".into())),
            ("lease_token".to_owned(), AttributeValue::S("0e8f".into())),
            ("lease_expires_at".to_owned(), AttributeValue::N("1700000030".into())),
            ("ttl".to_owned(), AttributeValue::N("1700003630".into())),
        ]
        .into();
        assert_eq!(item, meant);
        let mut without = meant;
        without.remove("ttl");
        assert_eq!(written(&Names::default(), "job#1", "LOCK", &standing(1_700_000_030), None), without);
    }

    #[test]
    fn attributes_have_the_names_that_were_chosen() {
        let [partition_key, sort_key, token, expires_at, ttl] = ["a", "b", "c", "d", "e"].map(str::to_owned);
        let names = Names { partition_key, sort_key, token, expires_at, ttl };
        let item = written(&names, "p", "s", &standing(7), Some(1));
        let mut found: Vec<&str> = item.keys().map(String::as_str).collect();
        found.sort_unstable();
        assert_eq!(found, ["a", "b", "c", "d", "e"]);
        assert_eq!(read(&names, &item), Ok(standing(7)));
        assert!(read(&Names::default(), &item).is_err());
    }

    #[test]
    fn every_number_is_read_and_nothing_else() {
        let names = Names::default();
        for (digits, seconds) in [
            ("1700000030", 1_700_000_030),
            ("1700000030.9", 1_700_000_030),
            ("1.7E+9", 1_700_000_000),
            ("-5", -5),
            ("-0.5", -1),
            ("1E+30", i64::MAX),
        ] {
            let mut item = written(&names, "p", "s", &standing(1), None);
            item.insert("lease_expires_at".into(), AttributeValue::N(digits.into()));
            assert_eq!(read(&names, &item), Ok(standing(seconds)), "{digits}");
        }
        for (name, value, says) in [
            ("lease_token", None, "no lease_token"),
            ("lease_token", Some(AttributeValue::N("1".into())), "lease_token is not a text"),
            ("lease_token", Some(AttributeValue::Null(true)), "lease_token is not a text"),
            ("lease_expires_at", None, "no lease_expires_at"),
            ("lease_expires_at", Some(AttributeValue::S("1700000030".into())), "is not a number"),
            ("lease_expires_at", Some(AttributeValue::N("x".into())), "can't be read"),
        ] {
            let mut item = written(&names, "p", "s", &standing(1), None);
            match value {
                Some(value) => item.insert(name.into(), value),
                None => item.remove(name),
            };
            let reason = read(&names, &item).unwrap_err();
            assert!(reason.contains(says), "{reason}");
        }
    }
}
