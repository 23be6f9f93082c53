//! What the table of a layout is like, and what a remedy names there.

use crate::item::{KEY, NAMESPACE};
use aws_sdk_dynamodb::types::KeyType;

/// What the table of a layout is like, and what a remedy names there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Whose it is, as in "these keys are not tenure's".
    pub whose: &'static str,
    /// The name of the HASH key, of type S.
    pub hash: String,
    /// That of the RANGE key if there is one, of type S too.
    pub range: Option<String>,
    /// What a role needs, as in "the role needs …".
    pub actions: &'static str,
    /// How a table comes to be, as in "or create it with …".
    pub creation: &'static str,
    /// How room is made, as in "remove the indexes, or …".
    pub removal: &'static str,
}

impl Layout {
    /// tenure's own.
    pub(crate) fn native() -> Layout {
        Layout {
            whose: "tenure's",
            hash: NAMESPACE.to_owned(),
            range: Some(KEY.to_owned()),
            actions: "the actions of the crate's docs/iam-policy.json (those of docs/iam-policy-operator.json, where records are removed or the table is made)",
            creation: "create one with `tenure doctor --create-table`",
            removal: "old records with `tenure gc`",
        }
    }

    /// The keys and their roles, in order.
    pub(crate) fn keys(&self) -> Vec<(String, KeyType)> {
        let hash = (self.hash.clone(), KeyType::Hash);
        let range = self.range.clone().map(|name| (name, KeyType::Range));
        std::iter::once(hash).chain(range).collect()
    }

    /// The keys in words.
    pub(crate) fn described(&self) -> String {
        match &self.range {
            Some(range) => {
                format!("a HASH key {:?} and a RANGE key {range:?}, both of type S", self.hash)
            }
            None => format!("a HASH key {:?} of type S and no other", self.hash),
        }
    }
}
