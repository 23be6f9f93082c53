//! Single requests, and what their answers say.

use super::Table;
use crate::change::{ChangeAim, Expressions, RowChange};
use crate::row::{LEASE_KEY, Row};
use crate::settling::ChangeAnswer;
use std::time::Duration;
use tenure_core::{ErrorKind, StoreError, Tick};
use tenure_dynamodb::aws_sdk_dynamodb::types::ReturnValue;
use tenure_dynamodb::aws_sdk_dynamodb::types::ReturnValuesOnConditionCheckFailure::AllOld;
use tenure_dynamodb::service::{Ended, Item, text};

impl Table {
    pub(super) async fn send(&self, change: &RowChange) -> Result<ChangeAnswer, StoreError> {
        let (key, expressions) = (change.before.key(), &change.expressions);
        if change.aim == ChangeAim::Delete {
            self.remove(key, expressions).await
        } else {
            self.update(key, expressions).await
        }
    }

    pub(super) async fn update(
        &self,
        key: &str,
        expressions: &Expressions,
    ) -> Result<ChangeAnswer, StoreError> {
        let request = self.inner.service.client().update_item().table_name(self.inner.service.table());
        let request = request
            .key(LEASE_KEY, text(key))
            .update_expression(&expressions.update)
            .condition_expression(&expressions.condition)
            .set_expression_attribute_names(Some(expressions.names.clone().into_iter().collect()))
            .set_expression_attribute_values(values(expressions))
            .return_values(ReturnValue::AllNew)
            .return_values_on_condition_check_failure(AllOld);
        match self.inner.service.ended(request.send().await)? {
            // What can't be read there any more is as it was meant to be.
            Ended::Done(answer) => Ok(ChangeAnswer::Made(self.row(answer.attributes()).ok().flatten())),
            Ended::Refused(old) => self.standing(key, old).await.map(ChangeAnswer::Refused),
        }
    }

    async fn remove(&self, key: &str, expressions: &Expressions) -> Result<ChangeAnswer, StoreError> {
        let request = self.inner.service.client().delete_item().table_name(self.inner.service.table());
        let names =
            expressions.names.clone().into_iter().chain([("#leaseKey".to_owned(), LEASE_KEY.to_owned())]);
        let request = request
            .key(LEASE_KEY, text(key))
            .condition_expression(format!("attribute_not_exists(#leaseKey) OR ({})", expressions.condition))
            .set_expression_attribute_names(Some(names.collect()))
            .set_expression_attribute_values(values(expressions))
            .return_values_on_condition_check_failure(AllOld);
        match self.inner.service.ended(request.send().await)? {
            Ended::Done(_) => Ok(ChangeAnswer::Made(None)),
            Ended::Refused(old) => self.standing(key, old).await.map(ChangeAnswer::Refused),
        }
    }

    /// What stands in the way of a write that was refused.
    pub(super) async fn standing(&self, key: &str, item: Option<Item>) -> Result<Option<Row>, StoreError> {
        match item {
            Some(item) => self.row(Some(&item)),
            None => self.read(key).await,
        }
    }

    pub(super) fn row(&self, item: Option<&Item>) -> Result<Option<Row>, StoreError> {
        let Some(item) = item.filter(|item| !item.is_empty()) else { return Ok(None) };
        match Row::read(self.inner.format, item)? {
            Some(row) => Ok(Some(row)),
            None => Err(StoreError::foreign(format!(
                "{}: the row is another thing than a lease",
                self.inner.service
            ))),
        }
    }

    /// Waits before the next attempt; or gives up, if that can't help or there is no time left.
    pub(super) async fn pause_or(
        &self,
        pause: &mut RetryPause,
        error: StoreError,
        deadline: Tick,
    ) -> Result<(), StoreError> {
        let left = deadline.since(self.inner.clock.held());
        if !error.is_passing() || left <= RetryPause::FIRST {
            return Err(error);
        }
        tokio::time::sleep(pause.next(left)).await;
        Ok(())
    }
}

/// Where an earlier request may have done what was asked for, no later error says that it was not done.
pub(super) fn open_if(may_be_made: bool, error: StoreError) -> StoreError {
    if may_be_made { error.of_kind(ErrorKind::Unknown) } else { error }
}

/// Pauses between attempts: each is twice as long as the one before, so that many requests don't use up what a throttled table has left.
#[derive(Debug)]
pub(super) struct RetryPause(Duration);

impl Default for RetryPause {
    fn default() -> RetryPause {
        RetryPause(RetryPause::FIRST)
    }
}

impl RetryPause {
    const FIRST: Duration = Duration::from_millis(25);
    const LONGEST: Duration = Duration::from_secs(1);

    /// The next one. `left`: how long it may be tried still, of which no pause is more than an eighth.
    fn next(&mut self, left: Duration) -> Duration {
        let pause = self.0.min((left / 8).max(RetryPause::FIRST));
        self.0 = (self.0 * 2).min(RetryPause::LONGEST);
        pause
    }
}

fn values(expressions: &Expressions) -> Option<Item> {
    Some(expressions.values.clone().into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_and_are_short_where_little_time_is_left() {
        let mut pause = RetryPause::default();
        let ms = Duration::from_millis;
        let pauses: Vec<Duration> = (0..8).map(|_| pause.next(ms(60_000))).collect();
        assert_eq!(pauses, [25, 50, 100, 200, 400, 800, 1000, 1000].map(ms));
        assert_eq!((pause.next(ms(2_000)), pause.next(ms(50))), (ms(250), ms(25)));
    }
}
