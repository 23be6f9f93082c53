//! The thread that writes: it takes what has queued up meanwhile and commits it in one transaction.
//!
//! Each write is judged on its own condition, and all are answered after the commit. So one disk flush, which is what a
//! write costs, is shared by all that wait.

use crate::boot::RecordAges;
use crate::error::{at_commit, undone};
use crate::files::OpenedFiles;
use crate::pause;
use crate::place::FileLocation;
use crate::row::{RowError, RowStatements, StoredRow, Writing, image};
use crate::schema::{LOG, checkpoint_from};
use crate::side;
use crate::turnstile::Turnstile;
use crate::wake::tell;
use rusqlite::Connection;
use std::collections::VecDeque;
use std::fs::File;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use tenure_core::op::{Expect, Hint, Outcome, Write};
use tenure_core::{Key, Record, StoreError, Version};
use tenure_store::codec;
use tokio::sync::oneshot;

/// The most single writes that share a transaction, so that none waits long for the others.
const GROUP: usize = 256;

/// A write that was found to be writable.
#[derive(Debug)]
pub(crate) struct CheckedWrite {
    write: Write,
    bytes: Vec<u8>,
}

impl CheckedWrite {
    pub(crate) fn new(write: Write) -> Result<CheckedWrite, StoreError> {
        let bytes = codec::encode(&write.record)?;
        Ok(CheckedWrite { write, bytes })
    }
}

/// What is asked of the writer.
#[derive(Debug)]
pub(crate) enum WriterTask {
    Write(Box<CheckedWrite>),
    Many(Vec<CheckedWrite>),
    Remove(Key, Version),
    /// Dates a row anew, if it is from before the machine was last started. Nobody waits for the answer.
    Date(Key),
    /// Removes what is still as in this copy, or writes over it.
    Mend {
        key: Key,
        copy: String,
        instead: Option<Box<(Record, Vec<u8>)>>,
    },
}

/// What it answers.
#[derive(Debug)]
pub(crate) enum WriterReply {
    Written(Vec<Outcome>),
    Removed(bool),
    Dated,
}

#[derive(Debug)]
pub(crate) struct WriterJob {
    pub(crate) task: WriterTask,
    pub(crate) reply: oneshot::Sender<Result<WriterReply, StoreError>>,
}

impl WriterJob {
    fn is_wanted(&self) -> bool {
        matches!(self.task, WriterTask::Date(_)) || !self.reply.is_closed()
    }
}

pub(crate) struct DatabaseWriter {
    pub(crate) connection: Connection,
    pub(crate) turnstile: Turnstile,
    pub(crate) side: File,
    pub(crate) place: Arc<FileLocation>,
    pub(crate) files: Arc<OpenedFiles>,
    pub(crate) ages: RecordAges,
}

impl DatabaseWriter {
    /// Works until no one can ask any more.
    pub(crate) fn run(self, jobs: &Receiver<WriterJob>) {
        let DatabaseWriter { connection, mut turnstile, mut side, place, files, ages } = self;
        let mut pen = Pen {
            connection: &connection,
            reading: RowStatements::of(&connection),
            writing: Writing::of(&connection),
            place: &place,
            files: &files,
            ages: &ages,
            has_committed: false,
            keeps_log_short: true,
        };
        let mut queue = VecDeque::new();
        while let Some(first) = queue.pop_front().or_else(|| jobs.recv().ok()) {
            queue.push_front(first);
            let transaction = pause::transaction();
            if let Some((new, other)) = replaced(&place, &side, &turnstile) {
                (side, turnstile) = (new, other);
            }
            let turn = turnstile.enter();
            // More may have come while we waited for our turn, and some may not be wanted any more.
            queue.extend(jobs.try_iter());
            queue.retain(WriterJob::is_wanted);
            let group = next_group(&mut queue);
            if group.is_empty() {
                continue;
            }
            let (answers, news) = pen.perform_all(&group);
            if !news.is_empty() {
                tell(&side, &news, turn.is_some());
            }
            drop(turn);
            drop(transaction);
            for (job, answer) in group.into_iter().zip(answers) {
                // Nobody may be waiting any more, which is fine.
                let _ = job.reply.send(answer);
            }
            pen.rest();
        }
        files.leave(&connection);
    }
}

/// The side file and its lock as all others have them, where what is open was removed or replaced. If there are none to be had, all goes on
/// without: what is written is right, though others are neither waited for nor woken.
fn replaced(place: &FileLocation, side: &File, turnstile: &Turnstile) -> Option<(File, Turnstile)> {
    if side::stands(place, side) {
        return None;
    }
    let new = side::open(place).ok()?;
    let turnstile = turnstile.moved_to(new.try_clone().ok()?);
    Some((new, turnstile))
}

/// Takes what goes into the next transaction: single writes, up to a limit, and one batch. So neither starves the other.
fn next_group(queue: &mut VecDeque<WriterJob>) -> Vec<WriterJob> {
    let (mut group, mut rest) = (Vec::new(), VecDeque::new());
    let mut has_batch = false;
    for job in queue.drain(..) {
        let is_batch = matches!(job.task, WriterTask::Many(_));
        if group.len() < GROUP && !(is_batch && has_batch) {
            has_batch |= is_batch;
            group.push(job);
        } else {
            rest.push_back(job);
        }
    }
    *queue = rest;
    group
}

type Answer = Result<WriterReply, StoreError>;

/// Why a transaction came to nothing, or to no one knows what.
struct TransactionFailure {
    error: StoreError,
    /// Whether it may be the fault of one job among several.
    is_particular: bool,
}

struct Pen<'c> {
    connection: &'c Connection,
    reading: RowStatements<'c>,
    writing: Writing<'c>,
    place: &'c FileLocation,
    files: &'c OpenedFiles,
    ages: &'c RecordAges,
    has_committed: bool,
    /// As only the first commit does.
    keeps_log_short: bool,
}

impl<'c> Pen<'c> {
    /// What nobody waits for.
    fn rest(&mut self) {
        if self.has_committed && std::mem::take(&mut self.keeps_log_short) {
            // If that fails, the log is kept shorter than it need be.
            let _ = checkpoint_from(self.connection, LOG);
        }
    }

    /// Performs all jobs, and says of what others should hear.
    fn perform_all(&mut self, group: &[WriterJob]) -> (Vec<Answer>, Vec<Hint>) {
        match self.transact(group) {
            Ok(done) => done,
            Err(failure) if failure.is_particular && group.len() > 1 => {
                // One bad row must not fail those who happened to come at the same time.
                let alone = group.iter().map(|job| self.perform_all(std::slice::from_ref(job)));
                alone.fold((Vec::new(), Vec::new()), |(mut answers, mut news), (answer, new)| {
                    answers.extend(answer);
                    news.extend(new);
                    (answers, news)
                })
            }
            Err(failure) => (group.iter().map(|_| Err(failure.error.clone())).collect(), Vec::new()),
        }
    }

    fn transact(&mut self, group: &[WriterJob]) -> Result<(Vec<Answer>, Vec<Hint>), TransactionFailure> {
        let path = &self.place.path;
        let failed = |error: rusqlite::Error| {
            let error = undone(path, error);
            TransactionFailure { is_particular: !error.is_passing(), error }
        };
        let whole = |error: fn(String) -> StoreError| match self.files.fault() {
            Some(fault) => Err(TransactionFailure { error: error(fault), is_particular: false }),
            None => Ok(()),
        };
        whole(StoreError::unavailable)?;
        self.connection.execute_batch("BEGIN IMMEDIATE").map_err(failed)?;
        let result = self.judge_all(group);
        let result = match result {
            Ok(done) => match self.connection.execute_batch("COMMIT") {
                Ok(()) => Ok(done),
                Err(error) => Err(TransactionFailure { error: at_commit(path, error), is_particular: false }),
            },
            Err(error) => Err(failed(error)),
        };
        if result.is_err() && !self.connection.is_autocommit() {
            // If even this fails, the next BEGIN does too, and says why.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        if result.is_ok() {
            // Committed, though perhaps to a log that is not the others' any more: they may have judged without it.
            whole(StoreError::unknown)?;
            self.has_committed = true;
        }
        result
    }

    fn judge_all(&mut self, group: &[WriterJob]) -> rusqlite::Result<(Vec<Answer>, Vec<Hint>)> {
        let mut news = Vec::new();
        let answers = group.iter().map(|job| {
            let answer = match &job.task {
                WriterTask::Write(draft) => {
                    self.judge(draft, &mut news).map(|outcome| WriterReply::Written(vec![outcome]))
                }
                WriterTask::Many(drafts) => self.judge_batch(drafts, &mut news),
                WriterTask::Remove(key, version) => self.remove(key, *version),
                WriterTask::Date(key) => self.date(key),
                WriterTask::Mend { key, copy, instead } => {
                    self.mend(key, copy, instead.as_deref(), &mut news)
                }
            };
            match answer {
                Ok(done) => Ok(Ok(done)),
                Err(RowError::Record(error)) => Ok(Err(error)),
                Err(RowError::Sql(error)) => Err(error),
            }
        });
        let answers = answers.collect::<rusqlite::Result<_>>()?;
        Ok((answers, news))
    }

    /// All of a batch, or, when one of its records can't be judged, nothing of it.
    fn judge_batch(
        &mut self,
        drafts: &[CheckedWrite],
        news: &mut Vec<Hint>,
    ) -> Result<WriterReply, RowError> {
        self.connection.execute_batch("SAVEPOINT batch")?;
        let mut new = Vec::new();
        let outcomes: Result<Vec<Outcome>, RowError> =
            drafts.iter().map(|draft| self.judge(draft, &mut new)).collect();
        match &outcomes {
            Ok(_) => news.append(&mut new),
            Err(RowError::Record(_)) => self.connection.execute_batch("ROLLBACK TO batch")?,
            Err(RowError::Sql(_)) => return outcomes.map(WriterReply::Written),
        }
        self.connection.execute_batch("RELEASE batch")?;
        outcomes.map(WriterReply::Written)
    }

    fn judge(&mut self, draft: &CheckedWrite, news: &mut Vec<Hint>) -> Result<Outcome, RowError> {
        let Write { key, expect, record } = &draft.write;
        let now = self.ages.now();
        let standing = self.reading.read(key)?;
        let holds = match (expect, &standing) {
            (Expect::Absent, standing) => standing.is_none(),
            (Expect::Vacant, standing) => {
                standing.as_ref().is_none_or(|standing| standing.record.tenure.is_none())
            }
            (Expect::Unchanged(version), standing) => {
                standing.as_ref().is_some_and(|standing| standing.version() == *version)
            }
        };
        if !holds {
            if standing.as_ref().is_some_and(|standing| standing.precedes(now)) {
                self.writing.date(key, now)?;
            }
            return Ok(Outcome::Lost(standing.map(|standing| standing.stored(now))));
        }
        let fence = match (expect, &standing) {
            (Expect::Vacant, Some(standing)) => standing.record.fence.next(record.fence)?,
            _ => record.fence,
        };
        if fence == record.fence {
            self.writing.put(key, record, &draft.bytes, now)?;
        } else {
            let record = Record { fence, ..record.clone() };
            self.writing.put(key, &record, &codec::encode(&record)?, now)?;
        }
        let version = Version::of(record.nonce, fence);
        if is_worth_telling(standing.as_ref(), record) {
            news.push(Hint::Written(key.clone(), version));
        }
        Ok(Outcome::Won { version, fence })
    }

    fn remove(&mut self, key: &Key, version: Version) -> Result<WriterReply, RowError> {
        let unchanged = self.reading.read(key)?.is_some_and(|standing| standing.version() == version);
        if unchanged {
            self.writing.remove(key)?;
        }
        Ok(WriterReply::Removed(unchanged))
    }

    fn date(&mut self, key: &Key) -> Result<WriterReply, RowError> {
        let now = self.ages.now();
        if self.reading.read(key)?.is_some_and(|standing| standing.precedes(now)) {
            self.writing.date(key, now)?;
        }
        Ok(WriterReply::Dated)
    }

    fn mend(
        &mut self,
        key: &Key,
        copy: &str,
        instead: Option<&(Record, Vec<u8>)>,
        news: &mut Vec<Hint>,
    ) -> Result<WriterReply, RowError> {
        let is_same = image(self.connection, key)?.is_some_and(|now| now.copy == copy);
        if is_same {
            let now = self.ages.now();
            match instead {
                Some((record, bytes)) => self.writing.put(key, record, bytes, now)?,
                None => self.writing.remove(key)?,
            }
            news.push(match instead {
                Some((record, _)) => Hint::Written(key.clone(), record.version()),
                None => Hint::Key(key.clone()),
            });
        }
        Ok(WriterReply::Removed(is_same))
    }
}

/// Whether those who wait should hear of a write at once: a tenure has ended, or there is mail. Renewals and first
/// acquisitions are what nobody waits for.
fn is_worth_telling(before: Option<&StoredRow>, after: &Record) -> bool {
    let old = before.and_then(|before| before.record.tenure.as_ref());
    let new = after.tenure.as_ref();
    match (old, new) {
        (_, None) => true,
        (old, Some(new)) => !new.mail.is_empty() || old.is_some_and(|old| old.id != new.id),
    }
}
