//! The thread that reads, on a connection of its own, so that reads don't wait behind writes.

use crate::boot::BootClock;
use crate::error::undone;
use crate::place::{Place, identity};
use crate::row::{Reading, RowError};
use crate::writer::moved;
use rusqlite::Connection;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use tenure_core::{Key, StoreError, Stored};
use tenure_store::Listed;
use tokio::sync::oneshot;

/// What is asked of the reader.
#[derive(Debug)]
pub(crate) enum Query {
    Read {
        key: Key,
        reply: oneshot::Sender<Result<Option<Stored>, StoreError>>,
    },
    ReadMany {
        keys: Vec<Key>,
        reply: oneshot::Sender<Result<Vec<Listed>, StoreError>>,
    },
    List {
        prefix: String,
        after: Option<Key>,
        limit: usize,
        reply: oneshot::Sender<Result<Vec<Listed>, StoreError>>,
    },
}

pub(crate) struct Reader {
    pub(crate) connection: Connection,
    pub(crate) place: Arc<Place>,
    pub(crate) identity: Option<(u64, u64)>,
    pub(crate) clock: Arc<dyn BootClock>,
}

impl Reader {
    /// Works until no one can ask any more.
    pub(crate) fn run(self, queries: &Receiver<Query>) {
        let mut statements = None;
        for query in queries {
            // Those who have gone away are not answered, which is why failures to send are ignored.
            match query {
                Query::Read { reply, .. } if reply.is_closed() => {}
                Query::ReadMany { reply, .. } | Query::List { reply, .. } if reply.is_closed() => {}
                Query::Read { key, reply } => {
                    let _ = reply.send(self.ask(&mut statements, |reading| {
                        let standing = reading.read(&key)?;
                        Ok(standing.map(|standing| standing.stored(self.clock.now())))
                    }));
                }
                Query::ReadMany { keys, reply } => {
                    let _ = reply.send(self.ask(&mut statements, |reading| {
                        let now = self.clock.now();
                        let read = |key: Key| match reading.read(&key) {
                            Ok(standing) => {
                                Ok(standing.map(|standing| Listed { key, stored: Ok(standing.stored(now)) }))
                            }
                            Err(RowError::Record(error)) => Ok(Some(Listed { key, stored: Err(error) })),
                            Err(error) => Err(error),
                        };
                        keys.into_iter().map(read).filter_map(Result::transpose).collect()
                    }));
                }
                Query::List { prefix, after, limit, reply } => {
                    let _ = reply.send(self.ask(&mut statements, |reading| {
                        let page = reading.list(&prefix, after.as_ref(), limit)?;
                        let now = self.clock.now();
                        let listed = |(key, standing): (Key, Result<crate::row::Standing, StoreError>)| {
                            Listed { key, stored: standing.map(|standing| standing.stored(now)) }
                        };
                        Ok(page.into_iter().map(listed).collect())
                    }));
                }
            }
        }
    }

    fn ask<'c, T>(
        &'c self,
        statements: &mut Option<Reading<'c>>,
        query: impl FnOnce(&mut Reading<'c>) -> Result<T, RowError>,
    ) -> Result<T, StoreError> {
        if identity(&self.place.path) != self.identity {
            return Err(StoreError::unavailable(moved(&self.place)));
        }
        let failed = |error: &rusqlite::Error| undone(&self.place.path, error);
        let mut reading = match statements.take() {
            Some(reading) => reading,
            None => Reading::prepare(&self.connection).map_err(|error| failed(&error))?,
        };
        let result = query(&mut reading);
        *statements = Some(reading);
        result.map_err(|error| match error {
            RowError::Record(error) => error,
            RowError::Sql(error) => failed(&error),
        })
    }
}
