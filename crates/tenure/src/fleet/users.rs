//! Who works on what in a worker, and who waits for an answer.

use super::news::WorkerNews;
use super::shared_unit::SharedUnit;
use crate::ending::Ending;
use std::collections::BTreeMap;
use std::sync::Arc;
use tenure_core::fleet::RequestId;
use tenure_core::{LeaseId, Loss, StoreError};
use tokio::sync::oneshot;

/// Who works on what, and who waits for an answer.
#[derive(Default)]
pub(super) struct WorkerUsers {
    pub(super) shares: BTreeMap<LeaseId, Arc<SharedUnit>>,
    pub(super) replies: BTreeMap<(LeaseId, RequestId), (EndedByCommand, oneshot::Sender<UnitReply>)>,
    last_request: u64,
    pub(super) news: WorkerNews,
    pub(super) ending: Ending,
}

impl WorkerUsers {
    /// A request that nobody else makes.
    pub(super) fn draw(&mut self) -> RequestId {
        self.last_request += 1;
        RequestId(self.last_request)
    }

    /// All hear that it is over.
    pub(super) fn end(&mut self) {
        self.replies.clear();
        self.news.take_all_back();
        for share in std::mem::take(&mut self.shares).values() {
            share.lost(Loss::Stopped);
        }
        self.ending.end();
    }

    /// Answers a request, and says what that was to end; none if nobody made it.
    pub(super) fn answer(
        &mut self,
        lease: LeaseId,
        request: RequestId,
        reply: UnitReply,
    ) -> Option<EndedByCommand> {
        let (ends, asker) = self.replies.remove(&(lease, request))?;
        // Whoever asked may have gone away.
        let _ = asker.send(reply);
        Some(ends)
    }

    /// The unit is over, and whatever is asked about it is not done any more.
    pub(super) fn answer_all(&mut self, lease: LeaseId, loss: &Loss) {
        let all = (lease, RequestId(0))..=(lease, RequestId(u64::MAX));
        let requests: Vec<RequestId> = self.replies.range(all).map(|((_, request), _)| *request).collect();
        for request in requests {
            self.answer(lease, request, UnitReply::Lost(loss.clone()));
        }
    }
}

/// What a command about a unit is to bring to an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndedByCommand {
    /// The unit: should it be refused, somebody else must have the unit.
    Unit,
    Nothing,
}

/// The answer to a command about a unit.
#[derive(Debug)]
pub(super) enum UnitReply {
    Updated,
    Released(bool),
    Failed(StoreError),
    Lost(Loss),
}

/// What could not be done, for those who only want to know whether it was.
pub(super) fn refused(reply: Option<UnitReply>) -> Result<bool, StoreError> {
    match reply {
        Some(UnitReply::Released(ours)) => Ok(ours),
        Some(UnitReply::Failed(error)) => Err(error),
        Some(UnitReply::Lost(_) | UnitReply::Updated) | None => Ok(false),
    }
}
