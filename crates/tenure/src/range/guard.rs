//! Ranges that are leased, from when they are obtained until they are given up.

use super::presence::SectionPresence;
use super::shared::SharedSection;
use crate::belief::AtomicBelief;
use crate::body::BodyLease;
use crate::cancelled::Cancelled;
use crate::meters;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tenure_core::range::{KeyRange, RangeSet};
use tenure_core::section::{SectionCommand, SectionNotice};
use tenure_core::{Clock, Fence, LeaseId, Loss, Tick, Ttl};
use tenure_store::parts::sleep_while;
use tenure_store::tell;
use tokio_util::sync::CancellationToken;

/// Ranges that are leased, without a body: for whoever has something of its own to end before they are given up, such as a
/// process. Else [`Section::try_with_lease`](super::Section::try_with_lease) is simpler, and safer.
///
/// Dropping it gives them up in the background. Where it is the last of its [section](super::Section), the drop waits for that, as the section says: what
/// is held as a process ends without it stays taken for the whole duration.
#[must_use = "dropping it gives the ranges up"]
pub struct RangeGuard {
    pub(super) section: Arc<SharedSection>,
    id: LeaseId,
    pub(super) duration: Ttl,
    pub(super) parts: Arc<RangeSet>,
    pub(super) fence: Fence,
    /// Shared with what the body knows, so that nobody believes beyond the end.
    pub(super) belief: Arc<AtomicBelief>,
    /// Cancelled when a body has to end.
    pub(super) stop: CancellationToken,
    /// Somebody is to be told of the end.
    is_watched: AtomicBool,
    /// Nothing is to be given up.
    spent: AtomicBool,
    since: Tick,
    /// Goes last, after the release.
    _presence: Arc<SectionPresence>,
}

impl RangeGuard {
    /// What is wanted, and is to be given up should it come.
    pub(super) fn new(
        section: Arc<SharedSection>,
        presence: Arc<SectionPresence>,
        id: LeaseId,
        duration: Ttl,
    ) -> RangeGuard {
        RangeGuard {
            section,
            id,
            duration,
            parts: Arc::default(),
            fence: Fence(0),
            belief: Arc::default(),
            stop: CancellationToken::new(),
            is_watched: AtomicBool::new(false),
            spent: AtomicBool::new(false),
            since: Tick(0),
            _presence: presence,
        }
    }

    /// It has come. Nobody has the guard before.
    pub(super) fn begin(&mut self, parts: RangeSet, fence: Fence, until: Tick) {
        (self.parts, self.fence) = (Arc::new(parts), fence);
        self.belief.set(until);
        self.since = self.section.clock.held();
        meters::range_begun();
        let (key, holder) = (&self.section.key, &self.section.holder);
        tell!(debug, name: "range.acquired", target: "tenure::range", %key, %fence, %holder, "parts of a range leased");
    }

    pub(super) fn refused(&mut self) {
        *self.spent.get_mut() = true;
    }

    /// What was obtained, sorted and disjoint: never nothing, and perhaps not all that was asked for.
    #[must_use]
    pub fn parts(&self) -> &[KeyRange] {
        self.parts.ranges()
    }

    /// The same as a set.
    #[must_use]
    pub fn set(&self) -> &RangeSet {
        &self.parts
    }

    /// The fencing token: greater than that of every earlier lease of the section.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// How long the ranges are held.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.left()
    }

    /// Whether they are held at this instant. Takes a few nanoseconds and no I/O.
    #[must_use]
    pub fn is_held(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// Waits until they are not held any more: until their time is over, whatever the store does. After a suspend over that time it is noticed within a
    /// twentieth of the duration, 30 s at most.
    ///
    /// # Cancel safety
    /// May be dropped and called again.
    pub async fn lost(&self) -> Loss {
        end_of(|| self.section.until(&self.belief), &*self.section.clock, self.duration).await;
        Loss::Overran
    }

    /// Told when they are not held any more: when their time is over, or they are given up. May be called
    /// outside a runtime, and awaited on any.
    pub fn cancelled(&self) -> Cancelled {
        if !self.is_held() {
            self.stop.cancel();
        } else if !self.is_watched.swap(true, Ordering::SeqCst) {
            let (belief, stop) = (Arc::clone(&self.belief), self.stop.clone());
            let (clock, duration) = (Arc::clone(&self.section.clock), self.duration);
            // Should the driver's runtime end, nobody would tell of the end: then it is told at once.
            let told = stop.clone().drop_guard();
            self.section.beside(async move {
                let _told = told;
                tokio::select! {
                    () = end_of(|| belief.until(), &*clock, duration) => {}
                    () = stop.cancelled() => {}
                }
            });
        }
        Cancelled::by(&self.stop, &self.section.process)
    }

    /// Gives the ranges up, and waits until others can have them. False: others had that done already, or it is not known. Where the
    /// store has refused it, it is tried again in the background until the lease is over.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop the release.
    pub async fn release(self) -> bool {
        self.give_up().await
    }

    /// The same for whoever shares it with a body that has ended.
    pub(super) async fn give_up(&self) -> bool {
        matches!(self.end(SectionCommand::Release).await, Some(SectionNotice::Released(_, true)))
    }

    /// Stops believing but leaves the ranges to expire: for when what was done under the lease can't be ended for certain. That is so from the
    /// call on.
    ///
    /// # Cancel safety
    /// As that of [`Guard::lapse`](crate::Guard::lapse).
    pub fn lapse(self) -> impl Future<Output = ()> + Send {
        let left = self.leave_to_expire();
        async move {
            // The last handle of its section ends with it: no sooner than the wait.
            let _guard = self;
            left.await;
        }
    }

    /// The same for whoever shares it with a body that goes on.
    pub(super) fn leave_to_expire(&self) -> impl Future<Output = ()> + Send + use<> {
        let ended = self.end(SectionCommand::Lapse);
        async move {
            ended.await;
        }
    }

    pub(super) fn id(&self) -> LeaseId {
        self.id
    }

    fn end(
        &self,
        command: fn(LeaseId) -> SectionCommand,
    ) -> impl Future<Output = Option<SectionNotice>> + Send + use<> {
        self.stop_believing();
        let is_first = !self.spent.swap(true, Ordering::SeqCst);
        let reply = is_first.then(|| self.section.ask(command(self.id)));
        // An error means that the driver is gone: the lease expires by itself.
        async move { reply?.await.ok() }
    }

    /// Before anybody else can have them.
    fn stop_believing(&self) {
        // A forked child gives nothing of its parent's up, and nothing is over by that.
        if self.section.process.is_forked() {
            return;
        }
        let (was_held, in_time) = (self.belief.deadline() != Tick(0), !self.left().is_zero());
        self.belief.end();
        self.stop.cancel();
        if was_held {
            self.tell_ended(self.fence, in_time);
        }
    }

    fn tell_ended(&self, fence: Fence, in_time: bool) {
        let (key, holder) = (&self.section.key, &self.section.holder);
        meters::range_ended(in_time, self.section.clock.held().since(self.since));
        if in_time {
            tell!(
                debug, name: "range.released", target: "tenure::range", %key, %fence, %holder, "parts of a range given up"
            );
        } else {
            tell!(
                warn, name: "range.expired", target: "tenure::range", %key, %fence, %holder,
                "parts of a range were over before they were given up"
            );
        }
    }

    fn left(&self) -> Duration {
        self.section.until(&self.belief).since(self.section.clock.held())
    }
}

/// Waits until nothing is believed any more.
async fn end_of(until: impl Fn() -> Tick, clock: &dyn Clock, duration: Ttl) {
    sleep_while(|| until().since(clock.held()), duration.part(20)).await;
}

impl BodyLease for RangeGuard {
    fn until_deadline(&self) -> Duration {
        self.left()
    }
    fn gone(&self) -> CancellationToken {
        // It ends by its time only.
        CancellationToken::new()
    }
    fn why(&self) -> Loss {
        Loss::Overran
    }
    fn reserve(&self) -> Duration {
        self.duration.part(50)
    }
}

impl Drop for RangeGuard {
    fn drop(&mut self) {
        self.stop_believing();
        if !*self.spent.get_mut() {
            self.section.forget(self.id);
            self.section.send(SectionCommand::Release(self.id));
        }
    }
}

impl std::fmt::Debug for RangeGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RangeGuard")
            .field("parts", &self.parts.to_string())
            .field("fence", &self.fence)
            .field("held", &self.is_held())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    //! Plan: the end of what is held for a day is noticed soon after a suspend, which timers know nothing of.
    use super::*;
    use tenure_testkit::ManualClock;
    use tokio::time::timeout;

    #[tokio::test(start_paused = true)]
    async fn s5_the_end_of_a_day_is_noticed_soon_after_a_suspend() {
        let (clock, day) = (ManualClock::new(), Ttl::MAX);
        let until = clock.held().after(day.duration());
        let mut end = std::pin::pin!(end_of(|| until, &clock, day));
        assert!(timeout(Duration::from_secs(60), &mut end).await.is_err(), "it is held");
        clock.advance(day.duration());
        assert!(timeout(Duration::from_secs(31), end).await.is_ok());
    }
}
