//! The store itself: hands what is asked to the threads that do it.

use crate::config::SqliteConfig;
use crate::error::is_full;
use crate::files::{self, OpenedFiles};
use crate::guard::SqlGuard;
use crate::inspect;
use crate::place::FileLocation;
use crate::reader::{DatabaseReader, Query, ReadingThread};
use crate::schema::{self, LookedAt, Opened};
use crate::side;
use crate::thread;
use crate::wake::Watcher;
use crate::writer::{CheckedWrite, DatabaseWriter, WriterJob, WriterReply, WriterTask};
use std::cell::OnceCell;
use std::fmt;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use tenure_core::op::{Freshness, Listed, Outcome, Write};
use tenure_core::{Fence, Key, Record, StoreError, Stored, Version};
use tenure_store::{Capabilities, Changes, Image, Inspection, Store, codec};
use tokio::sync::oneshot;

/// Records in one SQLite file. Clones share their connections and threads, which end with the last of them.
#[derive(Clone)]
pub struct SqliteStore {
    inner: Arc<SqliteHandle>,
}

struct SqliteHandle {
    id: String,
    capabilities: Capabilities,
    place: Arc<FileLocation>,
    jobs: Sender<WriterJob>,
    reading: ReadingThread,
    watcher: Mutex<Option<Arc<Watcher>>>,
}

impl SqliteStore {
    /// Opens the file, and makes it if need be. This blocks for a few milliseconds, or, when other processes are busy with
    /// the file, up to the busy timeout.
    ///
    /// # Errors
    /// Each names the path. `Invalid`: the configuration, or a path that can't be used: a directory, a missing one, a
    /// file or directory that is read-only, a filesystem that several hosts share. `Foreign`: the file isn't SQLite's, is
    /// another application's, is damaged, or has tables of a newer version. `Unavailable`: the disk is full, or the file
    /// is busy.
    pub fn open(config: SqliteConfig) -> Result<Self, StoreError> {
        config.check()?;
        let place = FileLocation::find(&config)?;
        if place.read_only {
            return Self::look(Arc::new(place), config);
        }
        if config.create {
            place.make();
        }
        let before = files::identity(&place.path);
        let opened = match schema::open(&place, &config) {
            // What is there can be looked at all the same.
            Err(error) if config.look && error.is_passing() && is_full(&place.path) => {
                return Self::look(Arc::new(FileLocation { read_only: true, ..place }), config);
            }
            opened => opened?,
        };
        let Opened { writer, turnstile, side, id } = opened;
        let place = Arc::new(place);
        let files = Arc::new(OpenedFiles::opened(&place, before)?);
        let capabilities = config.capabilities();
        let ages = config.ages();
        let (jobs, to_do) = channel();
        let reader = DatabaseReader {
            connection: OnceCell::new(),
            config,
            place: Arc::clone(&place),
            files: Arc::clone(&files),
            ages: ages.clone(),
            jobs: Sender::clone(&jobs),
        };
        let writer =
            DatabaseWriter { connection: writer, turnstile, side, place: Arc::clone(&place), files, ages };
        thread::start("tenure-write", move || writer.run(&to_do))?;
        let reading = ReadingThread::of(reader);
        let inner = SqliteHandle { id, capabilities, place, jobs, reading, watcher: Mutex::default() };
        Ok(SqliteStore { inner: Arc::new(inner) })
    }

    /// Opens what can't be written.
    fn look(place: Arc<FileLocation>, config: SqliteConfig) -> Result<Self, StoreError> {
        // Before SQLite opens it: what is put in its place meanwhile is another's.
        let before = files::identity(&place.path);
        let LookedAt { connection, id, is_immutable } = schema::look(&place, &config)?;
        // Whoever has a log open keeps it from going with its last writer.
        let files = Arc::new(match is_immutable {
            false if schema::has_log(&place) => OpenedFiles::opened(&place, before)?,
            _ => OpenedFiles::without_log(&place, before, is_immutable),
        });
        let capabilities = config.capabilities().without_watch();
        let ages = config.ages();
        // Nobody takes what is to be written: `perform` refuses it.
        let (jobs, _) = channel();
        let reader = DatabaseReader {
            connection: OnceCell::from(connection),
            config,
            place: Arc::clone(&place),
            files,
            ages,
            jobs: Sender::clone(&jobs),
        };
        let reading = ReadingThread::of(reader);
        let inner = SqliteHandle { id, capabilities, place, jobs, reading, watcher: Mutex::default() };
        Ok(SqliteStore { inner: Arc::new(inner) })
    }

    /// Whether it was opened to be read only, by [`SqliteConfig::look`].
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.inner.place.read_only
    }

    /// What its connections say of themselves: whether a commit is on the disk before it is answered.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn inspect(&self) -> Inspection {
        let (reply, answer) = oneshot::channel();
        inspect::told(self.ask(Query::Settings { reply }, answer).await)
    }

    /// A condition for the caller's own transactions in the same file: true only while the record of `key` shows a tenure
    /// with the fence `fence`. If that tenure is attached to a session, the session's record must show a tenure, too, and the fence that
    /// it was attached to. A fence is that of one tenure alone, so key and fence say which is meant.
    ///
    /// A write with this condition can't land after the loss of the lease, however late it is, and whatever the clocks
    /// did. See the crate's documentation for an example.
    ///
    /// `key` is the key as it is in this file. A lease that was acquired through a `PrefixedStore` has its prefix there
    /// before the key. If it is attached to a session, the condition is never true, because the session's key in the record lacks
    /// the prefix: give such a lease a ttl of its own.
    #[must_use]
    pub fn guard(&self, key: &Key, fence: Fence) -> SqlGuard {
        SqlGuard::new(key.clone(), fence)
    }

    async fn ask<T>(
        &self,
        query: Query,
        answer: oneshot::Receiver<Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let ended = || {
            StoreError::unavailable(format!(
                "{}: the reading thread has ended",
                self.inner.place.path.display()
            ))
        };
        if !self.inner.reading.ask(query)? {
            return Err(ended());
        }
        answer.await.map_err(|_| ended())?
    }

    async fn perform(&self, task: WriterTask) -> Result<WriterReply, StoreError> {
        let ended = || format!("{}: the writing thread has ended", self.inner.place.path.display());
        if self.is_read_only() {
            let at = self.inner.place.path.display();
            return Err(StoreError::unsupported(format!(
                "{at} can be looked at, and nothing else: it or its directory is read-only for this process, or its disk was full"
            )));
        }
        let (reply, answer) = oneshot::channel();
        self.inner.jobs.send(WriterJob { task, reply }).map_err(|_| StoreError::unavailable(ended()))?;
        answer.await.map_err(|_| StoreError::unknown(ended()))?
    }

    async fn remove_by(&self, task: WriterTask) -> Result<bool, StoreError> {
        match self.perform(task).await? {
            WriterReply::Removed(removed) => Ok(removed),
            other => Err(StoreError::unknown(format!("a removal was answered with {other:?}"))),
        }
    }

    async fn write_all(&self, task: WriterTask, count: usize) -> Result<Vec<Outcome>, StoreError> {
        match self.perform(task).await? {
            WriterReply::Written(outcomes) if outcomes.len() == count => Ok(outcomes),
            other => Err(StoreError::unknown(format!("{count} writes were answered with {other:?}"))),
        }
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore")
            .field("path", &self.inner.place.path)
            .field("id", &self.inner.id)
            .finish()
    }
}

impl Store for SqliteStore {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities
    }

    fn id(&self) -> String {
        self.inner.id.clone()
    }

    async fn read(&self, key: &Key) -> Result<Option<Stored>, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.ask(Query::Read { key: key.clone(), reply }, answer).await
    }

    async fn read_many(&self, keys: &[Key], _freshness: Freshness) -> Result<Vec<Listed>, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.ask(Query::ReadMany { keys: keys.to_vec(), reply }, answer).await
    }

    async fn write(&self, write: Write) -> Result<Outcome, StoreError> {
        let outcomes = self.write_all(WriterTask::Write(Box::new(CheckedWrite::new(write)?)), 1).await?;
        outcomes.into_iter().next().ok_or_else(|| StoreError::unknown("a write was not answered"))
    }

    async fn write_many(&self, writes: Vec<Write>) -> Result<Vec<Outcome>, StoreError> {
        let count = writes.len();
        self.inner.capabilities.check_batch(count)?;
        if count == 0 {
            return Ok(Vec::new());
        }
        let drafts = writes.into_iter().map(CheckedWrite::new).collect::<Result<_, _>>()?;
        self.write_all(WriterTask::Many(drafts), count).await
    }

    async fn list(&self, prefix: &str, after: Option<&Key>, limit: usize) -> Result<Vec<Listed>, StoreError> {
        let (reply, answer) = oneshot::channel();
        let query = Query::List { prefix: prefix.to_owned(), after: after.cloned(), limit, reply };
        self.ask(query, answer).await
    }

    async fn remove(&self, key: &Key, version: Version) -> Result<bool, StoreError> {
        self.remove_by(WriterTask::Remove(key.clone(), version)).await
    }

    async fn image(&self, key: &Key) -> Result<Option<Image>, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.ask(Query::Image { key: key.clone(), reply }, answer).await
    }

    async fn mend(&self, key: &Key, seen: &Image, instead: Option<Record>) -> Result<bool, StoreError> {
        let encoded = |record: Record| codec::encode(&record).map(|bytes| Box::new((record, bytes)));
        let instead = instead.map(encoded).transpose()?;
        self.remove_by(WriterTask::Mend { key: key.clone(), copy: seen.copy.clone(), instead }).await
    }

    fn changed(&self, prefix: &str) -> Result<Changes, StoreError> {
        if !self.inner.capabilities.watch {
            return Err(StoreError::unsupported(
                "wake-ups of the SQLite store are switched off, or this system has none; poll instead",
            ));
        }
        let place = &self.inner.place;
        // It may have been removed since, and nobody has written.
        let watcher = Watcher::of(&place.side, &side::open(place)?)?;
        let changes = watcher.subscribe(prefix);
        *self.inner.watcher.lock().unwrap_or_else(PoisonError::into_inner) = Some(watcher);
        Ok(changes)
    }
}
