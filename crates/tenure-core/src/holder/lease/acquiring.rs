//! Leases that are being got: what becomes of a wish, and of the lease when its acquisition has ended.

use super::LeaseState;
use crate::holder::Holder;
use crate::holder::acquisition::{Acquisition, AcquisitionEnd, Goal};
use crate::holder::command::{KeepAlive, Want};
use crate::holder::ctx::{Ctx, OpOwner};
use crate::holder::lease_id::LeaseId;
use crate::holder::notice::Notice;
use crate::holder::renewal::Renewal;
use crate::holder::update::Fields;
use crate::values::fence::Fence;
use crate::values::key::Key;
use crate::values::time::Now;

impl Holder {
    /// Begins to get a lease: at once, or as soon as the session is up.
    pub(crate) fn acquire(&mut self, now: Now, id: LeaseId, want: Want) {
        let (ttl, is_attached) = match want.keep_alive {
            KeepAlive::Own(ttl) => (ttl, false),
            KeepAlive::Session => (self.env.identity.ttl, true),
        };
        let goal = Goal {
            key: want.key,
            ttl,
            attachment: None,
            least: Fence(0),
            metadata_policy: want.metadata_policy,
            wait_policy: want.wait_policy,
        };
        if !is_attached {
            self.begin_acquisition(now, id, goal);
        } else {
            match self.session.attachment() {
                Some(attachment) => {
                    self.begin_acquisition(now, id, Goal { attachment: Some(attachment), ..goal })
                }
                None => self.queue(now, id, goal),
            }
        }
    }

    /// Keeps a wish until the session is up.
    pub(crate) fn queue(&mut self, now: Now, id: LeaseId, goal: Goal) {
        self.put(id, LeaseState::Queued(Box::new(goal)));
        self.queued.insert(id);
        self.want_session(now);
    }

    /// A wish that others of this process have, too, waits for its turn.
    pub(crate) fn begin_acquisition(&mut self, now: Now, id: LeaseId, goal: Goal) {
        if goal.takes_turns() && self.turns.join(&goal.key, id) {
            return self.after_acquisition(now, id, Box::new(Acquisition::behind(goal)), None);
        }
        let (acquisition, end) = self.lend(now, OpOwner::Lease(id), |ctx| Acquisition::start(goal, ctx));
        self.after_acquisition(now, id, Box::new(acquisition), end);
    }

    /// One step of an acquisition that was taken out of the table: it is put back, or what it ended with in its place.
    pub(crate) fn step_acquisition(
        &mut self,
        now: Now,
        id: LeaseId,
        mut acquisition: Box<Acquisition>,
        step: impl FnOnce(&mut Acquisition, &mut Ctx<'_>) -> Option<AcquisitionEnd>,
    ) {
        let end = self.lend(now, OpOwner::Lease(id), |ctx| step(&mut acquisition, ctx));
        self.after_acquisition(now, id, acquisition, end);
    }

    /// Puts an acquisition back, or what it ended with in its place.
    pub(crate) fn after_acquisition(
        &mut self,
        now: Now,
        id: LeaseId,
        mut acquisition: Box<Acquisition>,
        end: Option<AcquisitionEnd>,
    ) {
        let (part, is_abandoned) = (OpOwner::Lease(id), acquisition.is_abandoned());
        let Some(end) = end else {
            self.set_wake(part, acquisition.wake_at());
            if let Some(seen) = acquisition.take_news() {
                self.tell(Notice::Seen(id, seen.map(Box::new)));
            }
            let key = acquisition.key().clone();
            self.acquiring.insert((key.clone(), id));
            if acquisition.waits() {
                self.waiting.insert(id);
            }
            self.leases.insert(id, LeaseState::Acquiring(acquisition));
            if is_abandoned {
                self.waiting.remove(&id);
                self.leave_line(now, &key, id, None);
            }
            return;
        };
        self.forget_acquisition(id, acquisition.key());
        self.set_wake(part.clone(), None);
        if acquisition.may_be_orphaned() && acquisition.goal().attachment.is_some() {
            self.settle_orphan(now, acquisition.key().clone());
        }
        match end {
            AcquisitionEnd::Won(won) => {
                let (key, version) = (acquisition.key().clone(), won.version);
                let goal = acquisition.goal();
                let (fence, metadata) = (won.fence, won.metadata.clone());
                let lease = if goal.attachment.is_some() {
                    LeaseState::attached(goal.key.clone(), won)
                } else {
                    let (key, ttl) = (goal.key.clone(), goal.ttl);
                    let renewal = self.lend(now, part.clone(), |ctx| Renewal::new(key, ttl, won, ctx));
                    LeaseState::Renewing(Box::new(renewal))
                };
                let until = lease.valid_until();
                self.set_wake(part, lease.wake_at());
                self.leases.insert(id, lease);
                if is_abandoned {
                    self.release(now, id, Fields::Keep);
                } else {
                    self.tell(Notice::Acquired { lease: id, fence, until, metadata });
                }
                return self.leave_line(now, &key, id, Some(version));
            }
            _ if is_abandoned => self.tell(Notice::Released(id, false)),
            AcquisitionEnd::Held(by) => {
                let by = by.or_else(|| self.known_occupant(acquisition.key()));
                self.tell(Notice::Held(id, by));
            }
            AcquisitionEnd::Absent => self.tell(Notice::Absent(id)),
            AcquisitionEnd::Failed(error) => self.tell(Notice::Failed(id, error)),
            AcquisitionEnd::Dropped => self.tell(Notice::Released(id, false)),
        }
        self.leave_line(now, acquisition.key(), id, None);
    }

    /// A lease is not being got any more.
    pub(crate) fn forget_acquisition(&mut self, id: LeaseId, key: &Key) {
        self.acquiring.remove(&(key.clone(), id));
        self.waiting.remove(&id);
    }
}
