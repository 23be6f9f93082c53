//! What is asked of the service: expressions, names and values. Nothing here does I/O.

use super::item;
use super::machine::ItemRequest;
use super::options::{Names, TableTheoryOptions};
use std::collections::BTreeMap;
use tenure_dynamodb::aws_sdk_dynamodb::types::AttributeValue;
use tenure_dynamodb::service::{number, text};

/// The expressions of a request, with the names and values in them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RequestExpressions {
    pub(crate) update: Option<String>,
    pub(crate) condition: String,
    pub(crate) names: BTreeMap<String, String>,
    pub(crate) values: BTreeMap<String, AttributeValue>,
}

impl RequestExpressions {
    pub(crate) fn new(
        condition: &str,
        names: &[(&str, &String)],
        values: impl IntoIterator<Item = (&'static str, AttributeValue)>,
    ) -> RequestExpressions {
        RequestExpressions {
            update: None,
            condition: condition.to_owned(),
            names: names.iter().map(|(sign, name)| ((*sign).to_owned(), (*name).clone())).collect(),
            values: values.into_iter().map(|(sign, value)| (sign.to_owned(), value)).collect(),
        }
    }

    /// Of a write; none of a look, which has no condition.
    pub(crate) fn of(options: &TableTheoryOptions, request: &ItemRequest) -> Option<RequestExpressions> {
        let names = &options.names;
        match request {
            ItemRequest::Claim { now, .. } => Some(RequestExpressions::acquire(names, *now)),
            ItemRequest::Refresh { token, next, expires_at, now } => {
                Some(RequestExpressions::refresh(options, token, next.as_deref(), *expires_at, *now))
            }
            ItemRequest::Release { token } => Some(RequestExpressions::is_of(names, token)),
            ItemRequest::Look => None,
        }
    }

    /// The item is put where there is none, or over one whose time is over: as peers do it, to the second.
    ///
    /// One thing more is asked: that what is put over *is* a lease, with a token. Peers write over whatever has a number of
    /// that name, if it is small enough. (Where the number is missing, or is a text, their condition does not hold either.)
    fn acquire(names: &Names, now: i64) -> RequestExpressions {
        RequestExpressions::new(
            "attribute_not_exists(#pk) OR (#lease_expires_at <= :now AND attribute_type(#lease_token, :text))",
            &[
                ("#pk", &names.partition_key),
                ("#lease_expires_at", &names.expires_at),
                ("#lease_token", &names.token),
            ],
            [(":now", number(now)), (":text", text("S"))],
        )
    }

    /// The expiry of `token`'s lease is set, and its ttl too; or else that is removed, so that DynamoDB does not delete a live
    /// lease by one that another left there. With `next`, the lease gets that token.
    fn refresh(
        options: &TableTheoryOptions,
        token: &str,
        next: Option<&str>,
        expires_at: i64,
        now: i64,
    ) -> RequestExpressions {
        let names = &options.names;
        let mut asked = RequestExpressions::new(
            "#lease_token = :token AND #lease_expires_at > :now",
            &[("#lease_token", &names.token), ("#lease_expires_at", &names.expires_at), ("#ttl", &names.ttl)],
            [(":token", text(token)), (":now", number(now)), (":exp", number(expires_at))],
        );
        let mut update = "SET #lease_expires_at = :exp".to_owned();
        if let Some(next) = next {
            update.push_str(", #lease_token = :next");
            asked.values.insert(":next".to_owned(), text(next));
        }
        match item::ttl(expires_at, options.buffer()) {
            Some(ttl) => {
                update.push_str(", #ttl = :ttl");
                asked.values.insert(":ttl".to_owned(), ttl);
            }
            None => update.push_str(" REMOVE #ttl"),
        }
        asked.update = Some(update);
        asked
    }

    /// That the lease is still `token`'s, expired or not: for a release, which then deletes the item, and for guarded
    /// transactions.
    pub(crate) fn is_of(names: &Names, token: &str) -> RequestExpressions {
        RequestExpressions::new(
            "#lease_token = :token",
            &[("#lease_token", &names.token)],
            [(":token", text(token))],
        )
    }

    /// That it is still one of both: a refresh has given the lease the token `next`, or may do so.
    pub(crate) fn is_of_either(names: &Names, token: &str, next: &str) -> RequestExpressions {
        RequestExpressions::new(
            "#lease_token = :token OR #lease_token = :next",
            &[("#lease_token", &names.token)],
            [(":token", text(token)), (":next", text(next))],
        )
    }
}
