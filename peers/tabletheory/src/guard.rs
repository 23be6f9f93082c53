//! A lease as a condition of the caller's own transaction.

use super::error::LeaseError;
use super::lease::HeldLease;
use super::manager::Manager;
use super::request::RequestExpressions;
use tenure_core::StoreError;
use tenure_dynamodb::aws_sdk_dynamodb::types::{ConditionCheck, TransactWriteItem};

impl Manager {
    /// A condition for the caller's own `TransactWriteItems` in the same region: with it, the transaction is refused once the
    /// lease was given back or taken by another, however late it comes, and whatever the clocks did. It is as near as these
    /// leases come to a fence, for what is in DynamoDB itself.
    ///
    /// A lease that has ended and that nobody has taken yet still satisfies it. It goes by the token, so it is to be made of the
    /// lease as it is after its last refresh; of one that is kept in the background, [`Hold::guard`](super::Hold::guard) makes it. The
    /// role needs `dynamodb:ConditionCheckItem`.
    ///
    /// # Errors
    /// [`LeaseError::Invalid`]: the lease has no token.
    pub fn guard(&self, lease: &HeldLease) -> Result<TransactWriteItem, LeaseError> {
        self.options().check_lease(lease)?;
        let calls = self.calls();
        let (names, token) = (&calls.options.names, lease.token());
        let asked = match lease.next() {
            Some(next) => RequestExpressions::is_of_either(names, token, &next.token),
            None => RequestExpressions::is_of(names, token),
        };
        let check = ConditionCheck::builder()
            .table_name(calls.service.table())
            .set_key(Some(calls.keys(lease.key())))
            .condition_expression(asked.condition)
            .set_expression_attribute_names(Some(asked.names.into_iter().collect()))
            .set_expression_attribute_values(Some(asked.values.into_iter().collect()))
            .build();
        let check = check.map_err(|error| StoreError::invalid(format!("{}: {error}", calls.service)))?;
        Ok(TransactWriteItem::builder().condition_check(check).build())
    }
}
