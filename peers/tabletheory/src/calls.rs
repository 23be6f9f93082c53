//! The requests, as they are sent.

use super::error::LeaseKey;
use super::item::{self, ItemLease};
use super::machine::{ItemAnswer, ItemRequest};
use super::options::TableTheoryOptions;
use super::request::RequestExpressions;
use tenure_core::StoreError;
use tenure_dynamodb::aws_sdk_dynamodb::config::http::HttpResponse;
use tenure_dynamodb::aws_sdk_dynamodb::error::SdkError;
use tenure_dynamodb::aws_sdk_dynamodb::types::ReturnValuesOnConditionCheckFailure::AllOld;
use tenure_dynamodb::service::{Call, Conditional, Ended, Item, Service, text};

/// The table, and who asks.
#[derive(Debug)]
pub(crate) struct Calls {
    pub(crate) service: Service,
    pub(crate) options: TableTheoryOptions,
}

/// A request under the condition that is asked for, with the item that it did not hold for in the answer. The SDK's requests have no
/// trait in common.
macro_rules! under {
    ($asked:ident, $request:expr) => {
        $request
            .condition_expression($asked.condition)
            .set_expression_attribute_names(Some($asked.names.into_iter().collect()))
            .set_expression_attribute_values(Some($asked.values.into_iter().collect()))
            .return_values_on_condition_check_failure(AllOld)
    };
}

impl Calls {
    /// What names the item of a lease.
    pub(crate) fn keys(&self, key: &LeaseKey) -> Item {
        let names = &self.options.names;
        [(names.partition_key.clone(), text(&key.pk)), (names.sort_key.clone(), text(&key.sk))].into()
    }

    /// Sends a request, once.
    pub(crate) async fn send(&self, key: &LeaseKey, request: &ItemRequest) -> Result<ItemAnswer, StoreError> {
        let Some(asked) = RequestExpressions::of(&self.options, request) else {
            return self.read(key).await.map(ItemAnswer::Seen);
        };
        let (client, table) = (self.service.client(), self.service.table());
        match request {
            ItemRequest::Claim { claim, .. } => {
                let options = &self.options;
                let item = item::written(&options.names, &key.pk, &key.sk, claim, options.buffer());
                let request = client.put_item().table_name(table).set_item(Some(item));
                self.answer(key, under!(asked, request).send().await)
            }
            ItemRequest::Refresh { .. } => {
                let request = client.update_item().table_name(table).set_key(Some(self.keys(key)));
                let request = request.set_update_expression(asked.update);
                self.answer(key, under!(asked, request).send().await)
            }
            ItemRequest::Release { .. } | ItemRequest::Look => {
                let request = client.delete_item().table_name(table).set_key(Some(self.keys(key)));
                self.answer(key, under!(asked, request).send().await)
            }
        }
    }

    fn answer<T, E: Conditional>(
        &self,
        key: &LeaseKey,
        answer: Result<T, SdkError<E, HttpResponse>>,
    ) -> Result<ItemAnswer, StoreError> {
        match self.service.ended(answer)? {
            Ended::Done(_) => Ok(ItemAnswer::Done),
            Ended::Refused(old) => {
                let old = old.map(|item| self.understand(key, &item)).transpose();
                old.map(ItemAnswer::Refused)
            }
        }
    }

    /// The lease as it stands now.
    pub(crate) async fn read(&self, key: &LeaseKey) -> Result<Option<ItemLease>, StoreError> {
        let request =
            self.service.client().get_item().table_name(self.service.table()).set_key(Some(self.keys(key)));
        let answer = request.consistent_read(true).send().await;
        let answer = answer.map_err(|error| self.service.failed(Call::Read, error))?;
        answer.item().map(|item| self.understand(key, item)).transpose()
    }

    fn understand(&self, key: &LeaseKey, item: &Item) -> Result<ItemLease, StoreError> {
        item::read(&self.options.names, item).map_err(|reason| {
            StoreError::foreign(format!(
                "{}: the item {key} is no lease ({reason}), and is left as it is; name another key, or remove the item by hand",
                self.service
            ))
        })
    }
}
