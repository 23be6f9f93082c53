//! The jobs that a semaphore's machine does for its users.

use super::Wish;
use crate::holder::acquisition::WaitPolicy;
use crate::op::OpId;
use crate::values::error::StoreError;
use crate::values::fence::{Fence, Nonce};
use crate::values::time::{Now, Tick, Ttl, Wall};

/// Permits that somebody waits for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct WantedPermits {
    pub(super) wish: Wish,
    /// The claim's id, in the queue and then among the holders.
    pub(super) id: Nonce,
    /// The last operation that was begun before this was asked for.
    pub(super) born: OpId,
    /// The wall clock when it was asked for.
    pub(super) since: Wall,
    /// When a write with this id was last sent, if one was.
    pub(super) sent: Option<Tick>,
    pub(super) last_error: Option<StoreError>,
}

impl WantedPermits {
    /// Whether it goes on while somebody else has the permits.
    pub(super) fn is_patient(&self, now: Now) -> bool {
        match self.wish.wait_policy {
            WaitPolicy::Try => false,
            WaitPolicy::Until(end) => now.held < end,
            WaitPolicy::Forever | WaitPolicy::Follow { .. } | WaitPolicy::Watch { .. } => true,
        }
    }

    /// When its user's patience ends, if it does.
    fn end(&self) -> Option<Tick> {
        if let WaitPolicy::Until(end) = self.wish.wait_policy { Some(end) } else { None }
    }

    /// When it is given up, if it is: by then it is not worth finding out any more what became of an attempt that only tries.
    pub(super) fn gives_up_at(&self, ttl: Ttl) -> Option<Tick> {
        let is_open = self.wish.wait_policy == WaitPolicy::Try && self.last_error.is_some();
        let resolves_by = self.sent.filter(|_| is_open).map(|sent| sent.after(ttl.duration()));
        self.end().into_iter().chain(resolves_by).min()
    }
}

/// What is to be done for one lease.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum SemaphoreJob {
    /// Permits are wanted.
    Wanted(Box<WantedPermits>),
    /// Permits are held: nothing to do.
    Held { id: Nonce, fence: Fence },
    /// The claim is given up, and is to go from the record.
    Giving(Giving),
}

/// A claim that nobody wants any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Giving {
    pub(super) id: Nonce,
    /// Its user waits to hear of it.
    pub(super) is_awaited: bool,
    /// It was held, and a write was sent that takes it out.
    pub(super) tried: bool,
    pub(super) was_held: bool,
    /// It is left to stand until then.
    pub(super) not_before: Option<Tick>,
}

impl Giving {
    /// Whether it is to go now.
    pub(super) fn is_due(&self, now: Now) -> bool {
        self.not_before.is_none_or(|at| now.held >= at)
    }
}

impl SemaphoreJob {
    /// The claim's id.
    pub(super) fn id(&self) -> Nonce {
        match self {
            SemaphoreJob::Wanted(wanted) => wanted.id,
            SemaphoreJob::Held { id, .. } => *id,
            SemaphoreJob::Giving(giving) => giving.id,
        }
    }

    /// Whether it is left to expire.
    pub(super) fn is_lapsing(&self) -> bool {
        matches!(self, SemaphoreJob::Giving(Giving { not_before: Some(_), .. }))
    }
}
