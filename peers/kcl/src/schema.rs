//! What the table is like: one HASH key, `leaseKey`.

use super::row::LEASE_KEY;
use tenure_dynamodb::service::Layout;

/// What the table is like, and what a remedy names.
pub(crate) fn layout() -> Layout {
    Layout {
        whose: "those of the KCL's leases",
        hash: LEASE_KEY.to_owned(),
        range: None,
        actions: "the actions GetItem, PutItem, UpdateItem, DeleteItem, Scan and DescribeTable",
        creation: "create one with `tenure doctor --create-table`, or as your other programs do",
        removal: "old rows",
    }
}
