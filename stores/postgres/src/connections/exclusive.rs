//! A connection for several statements, which nobody else uses meanwhile.

use crate::connection::PostgresConnection;
use deadpool_postgres::Object;
use std::sync::Arc;
use tenure_core::StoreError;
use tokio_postgres::Client;

/// A connection that is its user's alone. One that is dropped in the middle of something is not used again: whoever had it next would
/// wait for that to end.
pub(crate) enum ExclusiveConnection {
    /// One that was made for that, and ends with it.
    Alone(Arc<PostgresConnection>),
    Pooled(Pooled),
}

/// One of the caller's pool. It goes out of that if it is dropped.
pub(crate) struct Pooled(pub(super) Option<Box<Object>>);

impl ExclusiveConnection {
    pub(crate) fn client(&self) -> Result<&Client, StoreError> {
        match self {
            ExclusiveConnection::Alone(connection) => Ok(connection.client()),
            ExclusiveConnection::Pooled(Pooled(object)) => {
                let client = object.as_deref().map(|object| &***object);
                client.ok_or_else(|| StoreError::unavailable("the connection is gone"))
            }
        }
    }

    /// Gives the connection back: nothing is under way on it.
    pub(crate) fn done(self) {
        if let ExclusiveConnection::Pooled(mut pooled) = self {
            drop(pooled.0.take());
        }
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        drop(self.0.take().map(|object| Object::take(*object)));
    }
}
