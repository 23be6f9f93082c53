//! The thread that reads, on a connection of its own, so that reads don't wait behind writes.

use crate::boot::RecordAges;
use crate::config::SqliteConfig;
use crate::error::undone;
use crate::files::OpenedFiles;
use crate::inspect::ConnectionSettings;
use crate::place::FileLocation;
use crate::row::{RowError, RowStatements, StoredRow, image};
use crate::schema;
use crate::thread;
use crate::writer::{WriterJob, WriterTask};
use rusqlite::Connection;
use std::cell::OnceCell;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use tenure_core::{Key, StoreError, Stored};
use tenure_store::{Image, Listed};
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
    Image {
        key: Key,
        reply: oneshot::Sender<Result<Option<Image>, StoreError>>,
    },
    Settings {
        reply: oneshot::Sender<Result<ConnectionSettings, StoreError>>,
    },
    List {
        prefix: String,
        after: Option<Key>,
        limit: usize,
        reply: oneshot::Sender<Result<Vec<Listed>, StoreError>>,
    },
}

pub(crate) struct DatabaseReader {
    /// Opened when something is first read: whoever only writes, as a single command under a lease does, goes without.
    pub(crate) connection: OnceCell<Connection>,
    pub(crate) config: SqliteConfig,
    pub(crate) place: Arc<FileLocation>,
    pub(crate) files: Arc<OpenedFiles>,
    pub(crate) ages: RecordAges,
    /// To the writer, for rows that are to be dated anew.
    pub(crate) jobs: Sender<WriterJob>,
}

/// The way to the reading thread. It starts with the first query, as the connection is opened then.
pub(crate) struct ReadingThread(Mutex<ReadingState>);

enum ReadingState {
    Idle(Box<DatabaseReader>),
    Running(Sender<Query>),
}

impl ReadingThread {
    pub(crate) fn of(reader: DatabaseReader) -> ReadingThread {
        ReadingThread(Mutex::new(ReadingState::Idle(Box::new(reader))))
    }

    /// Whether it takes the query in: it does not once it has ended, which only a panic does.
    ///
    /// # Errors
    /// The thread can't be started now.
    pub(crate) fn ask(&self, query: Query) -> Result<bool, StoreError> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let ReadingState::Running(queries) = &*state {
            return Ok(queries.send(query).is_ok());
        }
        // Handed over once there is a thread: without one, the next query tries again.
        let (hand_over, handed_over) = channel::<Box<DatabaseReader>>();
        let (queries, to_read) = channel();
        thread::start("tenure-read", move || {
            if let Ok(reader) = handed_over.recv() {
                reader.answer_all(&to_read);
            }
        })?;
        let is_taken = queries.send(query).is_ok();
        if let ReadingState::Idle(reader) = std::mem::replace(&mut *state, ReadingState::Running(queries)) {
            let _ended = hand_over.send(reader);
        }
        Ok(is_taken)
    }
}

impl Drop for DatabaseReader {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.get() {
            self.files.leave(connection);
        }
    }
}

impl DatabaseReader {
    /// Works until no one can ask any more.
    fn answer_all(&self, queries: &Receiver<Query>) {
        let mut statements = None;
        for query in queries {
            // Those who have gone away are not answered, which is why failures to send are ignored.
            match query {
                Query::Read { reply, .. } if reply.is_closed() => {}
                Query::ReadMany { reply, .. } | Query::List { reply, .. } if reply.is_closed() => {}
                Query::Image { reply, .. } if reply.is_closed() => {}
                Query::Settings { reply } => {
                    let _ = reply.send(
                        self.ask(&mut statements, |_, connection| Ok(ConnectionSettings::of(connection)?)),
                    );
                }
                Query::Image { key, reply } => {
                    let _ =
                        reply.send(self.ask(&mut statements, |_, connection| Ok(image(connection, &key)?)));
                }
                Query::Read { key, reply } => {
                    let read = self.ask(&mut statements, |reading, _| reading.read(&key));
                    let _ =
                        reply.send(read.map(|standing| standing.map(|standing| self.told(&key, standing))));
                }
                Query::ReadMany { keys, reply } => {
                    let _ = reply.send(self.ask(&mut statements, |reading, _| {
                        let read = |key: Key| match reading.read(&key) {
                            Ok(standing) => Ok(standing.map(|standing| self.listed(key, Ok(standing)))),
                            Err(RowError::Record(error)) => Ok(Some(self.listed(key, Err(error)))),
                            Err(error) => Err(error),
                        };
                        keys.into_iter().map(read).filter_map(Result::transpose).collect()
                    }));
                }
                Query::List { prefix, after, limit, reply } => {
                    let _ = reply.send(self.ask(&mut statements, |reading, _| {
                        let page = reading.list(&prefix, after.as_ref(), limit)?;
                        Ok(page.into_iter().map(|(key, standing)| self.listed(key, standing)).collect())
                    }));
                }
            }
        }
    }

    fn listed(&self, key: Key, standing: Result<StoredRow, StoreError>) -> Listed {
        let stored = standing.map(|standing| self.told(&key, standing));
        Listed { key, stored }
    }

    fn told(&self, key: &Key, standing: StoredRow) -> Stored {
        let now = self.ages.now();
        if standing.precedes(now) {
            // Nobody waits for that. If it comes to nothing, the next one who sees the row asks for it again.
            let job = WriterJob { task: WriterTask::Date(key.clone()), reply: oneshot::channel().0 };
            let _ = self.jobs.send(job);
        }
        standing.stored(now)
    }

    fn connected(&self) -> Result<&Connection, StoreError> {
        if let Some(connection) = self.connection.get() {
            return Ok(connection);
        }
        let whole = || self.files.fault().map_or(Ok(()), |fault| Err(StoreError::unavailable(fault)));
        whole()?;
        let connection = schema::reader(&self.place, &self.config)?;
        // What was replaced meanwhile is not the writer's, and must not be kept for when that has its name back.
        if let Err(fault) = whole() {
            self.files.leave(&connection);
            return Err(fault);
        }
        Ok(self.connection.get_or_init(|| connection))
    }

    fn ask<'c, T>(
        &'c self,
        statements: &mut Option<RowStatements<'c>>,
        query: impl FnOnce(&mut RowStatements<'c>, &Connection) -> Result<T, RowError>,
    ) -> Result<T, StoreError> {
        let failed = |error: rusqlite::Error| undone(&self.place.path, error);
        let connection = self.connected()?;
        let mut reading = match statements.take() {
            Some(reading) => reading,
            None => RowStatements::of(connection),
        };
        let result = query(&mut reading, connection);
        *statements = Some(reading);
        // After the query: what was seen is what others see only if the files were theirs until then.
        if let Some(fault) = self.files.fault() {
            return Err(StoreError::unavailable(fault));
        }
        result.map_err(|error| match error {
            RowError::Record(error) => error,
            RowError::Sql(error) => failed(error),
        })
    }
}
