//! The requests, as they are sent.

use super::error::LeaseKey;
use super::item::{self, ItemLease};
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

    pub(crate) async fn put(
        &self,
        key: &LeaseKey,
        standing: &ItemLease,
        asked: RequestExpressions,
    ) -> Result<Ended<()>, StoreError> {
        let options = &self.options;
        let item = item::written(&options.names, &key.pk, &key.sk, standing, options.buffer());
        let request = self.service.client().put_item().table_name(self.service.table()).set_item(Some(item));
        self.answer(under!(asked, request).send().await)
    }

    pub(crate) async fn update(
        &self,
        key: &LeaseKey,
        asked: RequestExpressions,
    ) -> Result<Ended<()>, StoreError> {
        let request = self.service.client().update_item().table_name(self.service.table());
        let request = request.set_key(Some(self.keys(key))).set_update_expression(asked.update);
        self.answer(under!(asked, request).send().await)
    }

    pub(crate) async fn delete(
        &self,
        key: &LeaseKey,
        asked: RequestExpressions,
    ) -> Result<Ended<()>, StoreError> {
        let request = self.service.client().delete_item().table_name(self.service.table());
        self.answer(under!(asked, request.set_key(Some(self.keys(key)))).send().await)
    }

    fn answer<T, E: Conditional>(
        &self,
        answer: Result<T, SdkError<E, HttpResponse>>,
    ) -> Result<Ended<()>, StoreError> {
        Ok(match self.service.ended(answer)? {
            Ended::Done(_) => Ended::Done(()),
            Ended::Refused(old) => Ended::Refused(old),
        })
    }

    /// The lease as it stands now.
    pub(crate) async fn read(&self, key: &LeaseKey) -> Result<Option<ItemLease>, StoreError> {
        let request =
            self.service.client().get_item().table_name(self.service.table()).set_key(Some(self.keys(key)));
        let answer = request.consistent_read(true).send().await;
        let answer = answer.map_err(|error| self.service.failed(Call::Read, error))?;
        answer.item().map(|item| self.understand(key, item)).transpose()
    }

    /// The lease as a refusal shows it, or as it stands now where an emulator leaves the old item out.
    pub(crate) async fn refused(
        &self,
        key: &LeaseKey,
        old: Option<Item>,
    ) -> Result<Option<ItemLease>, StoreError> {
        match old {
            Some(item) => self.understand(key, &item).map(Some),
            None => self.read(key).await,
        }
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
