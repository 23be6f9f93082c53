//! What goes into a worker, and what comes out.

use crate::change::Edit;
use crate::error::LeaseError;
use crate::held::TenureCell;
use crate::row::Row;
use crate::settling::{Settled, Settling};
use crate::table::RowListing;
use crate::taker::TakeReason;
use std::sync::Arc;
use tenure_core::{Loss, StoreError};
use tokio::sync::oneshot;

pub(crate) type Reply<T> = oneshot::Sender<T>;
pub(super) type Done<T> = Result<T, LeaseError>;

/// What users ask of the task. Where it names a tenure, another one of the same lease is left alone.
pub(crate) enum WorkerCommand {
    Update { key: String, tenure: Option<Arc<TenureCell>>, edit: Edit, reply: Reply<Done<()>> },
    End { key: String, tenure: Option<Arc<TenureCell>>, delete: bool, reply: Reply<Done<()>> },
    Look { reply: Reply<Result<(), StoreError>> },
    Renew { reply: Reply<()> },
    Lapse { tenure: Arc<TenureCell> },
    StopTaking,
    Stop { reply: Reply<()> },
}

/// What is to be done for a worker.
#[derive(Debug)]
pub(crate) enum WorkerRequest {
    /// To read the whole table.
    Look,
    /// To make a change, until its outcome is known.
    Settle(Box<Settling>, ChangePurpose),
}

/// What a change is made for, and what its answer goes to.
#[derive(Debug)]
pub(crate) enum ChangePurpose {
    Take {
        row: Row,
        why: TakeReason,
        /// From whom it is stolen. If that one has merely renewed it since it was read, it is tried once more, by the row as it is then.
        victim: Option<String>,
    },
    Keep {
        key: String,
        tenure: u64,
        update: Option<(Edit, Reply<Done<()>>)>,
    },
    End {
        key: String,
        tenure: u64,
        delete: bool,
        reply: Option<Reply<Done<()>>>,
    },
}

/// What a request brought.
#[derive(Debug)]
pub(crate) enum WorkerAnswer {
    Looked(Result<RowListing, StoreError>),
    Settled(ChangePurpose, Box<Result<Settled, StoreError>>),
}

/// What comes of a step, in order.
#[derive(Debug)]
pub(crate) enum WorkerOutput {
    /// To be performed, and its answer fed back.
    Request(WorkerRequest),
    /// For whoever listens.
    Notice(WorkerNotice),
    /// This lease is not to be shown as held any more.
    Hide(String),
    /// For whoever asked.
    Reply(Answered),
}

/// What users are told.
#[derive(Debug)]
pub(crate) enum WorkerNotice {
    /// It is held, and to be shown as such.
    Taken(Arc<TenureCell>),
    Lost(Arc<TenureCell>, Loss),
    /// Another is to have it.
    Wanted(Arc<TenureCell>, String),
    /// Its shard was read to the end.
    Finished(Arc<TenureCell>),
    LookFailed(StoreError),
    /// That lease could not be taken.
    TakeFailed(String, StoreError),
    Foreign(StoreError),
    Revived(String),
    Skipped(usize),
}

/// What somebody asked for is done, or not.
#[derive(Debug)]
pub(crate) enum Answered {
    Done(Reply<Done<()>>, Done<()>),
    Looked(Reply<Result<(), StoreError>>, Result<(), StoreError>),
    Renewed(Reply<()>),
}

impl Answered {
    /// Tells whoever asked, if it still waits.
    pub(crate) fn tell(self) {
        let _gone = match self {
            Answered::Done(reply, told) => reply.send(told).is_err(),
            Answered::Looked(reply, told) => reply.send(told).is_err(),
            Answered::Renewed(reply) => reply.send(()).is_err(),
        };
    }
}
