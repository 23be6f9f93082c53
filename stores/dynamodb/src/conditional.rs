//! How a conditional write ends: it took effect, or its condition did not hold, or nothing better than an error is known.

use crate::error::failed;
use crate::item::Item;
use crate::location::TableLocation;
use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::delete_item::DeleteItemError;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::error::ConditionalCheckFailedException;
use std::error::Error;
use tenure_core::StoreError;
use tenure_store::parts::Call;

/// What came of a conditional write.
#[derive(Debug)]
pub enum Ended<T> {
    /// It took effect, and this was the answer.
    Done(T),
    /// Its condition did not hold for the item that came along. None came if there was none, or if this is an emulator that
    /// leaves it out.
    Refused(Option<Item>),
}

/// Errors of requests that take a condition: those of `PutItem`, `UpdateItem` and `DeleteItem`.
pub trait Conditional: ProvideErrorMetadata + Error + Send + Sync + 'static {
    /// The refusal, if that is what it is.
    fn refusal(self) -> Option<ConditionalCheckFailedException>;
    /// Whether it is one.
    fn is_refusal(&self) -> bool;
}

macro_rules! conditional {
    ($($error:ident),*) => {$(
        impl Conditional for $error {
            fn refusal(self) -> Option<ConditionalCheckFailedException> {
                if let $error::ConditionalCheckFailedException(refusal) = self { Some(refusal) } else { None }
            }
            fn is_refusal(&self) -> bool {
                self.is_conditional_check_failed_exception()
            }
        }
    )*};
}

conditional!(PutItemError, UpdateItemError, DeleteItemError);

/// The end of a write to that table.
pub(crate) fn ended<T, E: Conditional>(
    place: &TableLocation,
    answer: Result<T, SdkError<E, HttpResponse>>,
) -> Result<Ended<T>, StoreError> {
    match answer {
        Ok(answer) => Ok(Ended::Done(answer)),
        Err(SdkError::ServiceError(error)) if error.err().is_refusal() => {
            let old = error.into_err().refusal().and_then(|refusal| refusal.item);
            Ok(Ended::Refused(old.filter(|item| !item.is_empty())))
        }
        Err(error) => Err(failed(place, Call::Write, error)),
    }
}
