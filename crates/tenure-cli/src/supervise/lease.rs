//! What a command runs under: a lease, whatever its layout.

use crate::output::{AGAINST_DELAYS, Lost};
use crate::supervise::outage::Outage;
use crate::supervise::stopping::Why;
use std::process::ExitStatus;
use std::time::Duration;
use tenure::clock::boottime;
use tenure::{Fence, Guard, Guards};

/// A lease that is held until a deadline.
pub(crate) trait Lease {
    /// Its record's name.
    fn key(&self) -> &str;

    /// None where the layout has no fences.
    fn fence(&self) -> Option<Fence> {
        None
    }

    /// Of several keys: a line of fence and key for each.
    fn fences(&self) -> Option<String> {
        None
    }

    /// How long it is surely held. No I/O.
    fn remaining(&self) -> Duration;

    /// Whether it was withdrawn.
    fn is_revoked(&self) -> bool {
        false
    }

    /// Whether it is over for good while nothing remains. After a jump of the clocks belief may come back, by the next renewal.
    fn is_over(&self) -> bool {
        true
    }

    /// How long its command may count on it.
    fn promised(&self) -> Duration {
        self.remaining()
    }
}

/// A lease that one command has for itself, and that goes with the command.
pub(crate) trait ExclusiveLease {
    /// What is left to expire if the command can't be killed.
    const WHAT: &str = "its lease is";
    /// Why the command had to stop if nothing more is known.
    const TOO_LATE: &str = "the lease could not be renewed in time";
    /// What can be done against that.
    const REMEDY: &str = AGAINST_DELAYS;

    fn lease(&self) -> &impl Lease;

    /// Why it is not held any more; none if it is, or was withdrawn, or nobody can tell within a moment.
    async fn loss(&self) -> Option<Lost>;

    /// What went wrong with the store of late, in words.
    fn trouble(&self) -> Option<String>;

    /// Its command was stopped since it is being lost: metrics and the log are told now, whatever becomes of it.
    fn tell_losing(&self) {}

    /// Its command could not be started, in words.
    fn not_started(&mut self, _why: &str) {}

    /// Its command has ended: with this status, if it ran; and why it was stopped, if it was, or may have been.
    fn ended(&mut self, _status: Option<ExitStatus>, _stopped: Option<Why>) {}

    /// Gives it up.
    async fn release(self) -> ReleaseEnd;

    /// Keeps it no longer, and leaves it to expire.
    async fn lapse(self);
}

/// The loss, if there is one. While belief is suspended a guard is neither held nor lost, until the renewal is answered that is made at once. That
/// is waited for a moment: if it succeeds, and so does each later one, a loss never comes.
pub(crate) async fn known<L>(lost: impl Future<Output = L>, is_held: impl Fn() -> bool) -> Option<L> {
    const MOMENT: Duration = Duration::from_secs(1);
    const LOOK: Duration = Duration::from_millis(5);
    let is_back = async {
        while !is_held() {
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::select! {
        biased;
        loss = lost => Some(loss),
        () = is_back => None,
        () = tokio::time::sleep(MOMENT) => None,
    }
}

/// What is known of a lease that was to be given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReleaseEnd {
    /// It is given up, or it is not known whether it was lost before.
    Given,
    /// It was gone already, for certain.
    FoundLost,
}

impl ReleaseEnd {
    /// What follows from `release`, which answers false where the lease was gone, and also where that is not known. `left`: for how long it is
    /// believed in.
    pub(crate) async fn of(
        release: impl Future<Output = bool>,
        outage: &Outage,
        left: Duration,
    ) -> ReleaseEnd {
        let began = boottime();
        let is_given = release.await;
        let took = boottime().saturating_sub(began);
        // A write that failed may have landed, so that another has the lease by right. So may one that came when its time was over.
        let is_certain = took < left && outage.within(took).is_none();
        if is_given || !is_certain { ReleaseEnd::Given } else { ReleaseEnd::FoundLost }
    }
}

/// A lease in tenure's own layout.
pub(crate) struct NativeLease<'l> {
    pub(crate) guard: Guard,
    pub(crate) outage: &'l Outage,
    pub(crate) ttl: Duration,
    pub(crate) kept: LeastTime,
}

/// When a lease's least time is over. It is held until then though its command has ended: what is lost meanwhile was not lost under the command.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LeastTime(Duration);

impl LeastTime {
    /// Of a lease that was acquired just now.
    pub(crate) fn from_now(at_least: Duration) -> LeastTime {
        LeastTime(boottime() + at_least)
    }

    /// What is left of the belief that `remaining` tells, for a release that begins now: nothing where the lease is kept on.
    fn left_of(self, remaining: Duration) -> Duration {
        if boottime() < self.0 { Duration::ZERO } else { remaining }
    }
}

impl Lease for Guard {
    fn key(&self) -> &str {
        Guard::key(self).as_str()
    }

    fn fence(&self) -> Option<Fence> {
        Some(Guard::fence(self))
    }

    fn remaining(&self) -> Duration {
        Guard::remaining(self)
    }

    fn is_revoked(&self) -> bool {
        Guard::is_revoked(self)
    }

    fn is_over(&self) -> bool {
        self.cancelled().is_cancelled()
    }
}

impl ExclusiveLease for NativeLease<'_> {
    fn lease(&self) -> &impl Lease {
        &self.guard
    }

    async fn loss(&self) -> Option<Lost> {
        if self.guard.is_held() || self.guard.is_revoked() {
            return None;
        }
        known(self.guard.lost(), || self.guard.is_held()).await.as_ref().map(Lost::of)
    }

    fn trouble(&self) -> Option<String> {
        self.outage.within(self.ttl)
    }

    fn tell_losing(&self) {
        self.guard.tell_losing();
    }

    async fn release(self) -> ReleaseEnd {
        let left = self.kept.left_of(self.guard.remaining());
        ReleaseEnd::of(self.guard.release(), self.outage, left).await
    }

    async fn lapse(self) {
        self.guard.lapse().await;
    }
}

/// Leases on several keys in tenure's own layout.
pub(crate) struct NativeAll<'l> {
    all: All,
    outage: &'l Outage,
    ttl: Duration,
    kept: LeastTime,
}

struct All {
    guards: Guards,
    /// Their names in one text.
    keys: String,
}

impl<'l> NativeAll<'l> {
    pub(crate) fn new(guards: Guards, outage: &'l Outage, ttl: Duration, kept: LeastTime) -> NativeAll<'l> {
        let keys: Vec<&str> = guards.fences().map(|(key, _)| key.as_str()).collect();
        let keys = keys.join(" ");
        NativeAll { all: All { guards, keys }, outage, ttl, kept }
    }
}

impl Lease for All {
    fn key(&self) -> &str {
        &self.keys
    }

    fn fences(&self) -> Option<String> {
        Some(self.guards.fences().map(|(key, fence)| format!("{fence} {}\n", key.as_str())).collect())
    }

    fn remaining(&self) -> Duration {
        self.guards.remaining()
    }

    fn is_revoked(&self) -> bool {
        self.guards.is_revoked()
    }

    fn is_over(&self) -> bool {
        self.guards.cancelled().is_cancelled()
    }
}

impl ExclusiveLease for NativeAll<'_> {
    fn lease(&self) -> &impl Lease {
        &self.all
    }

    async fn loss(&self) -> Option<Lost> {
        let guards = &self.all.guards;
        if guards.is_held() || guards.is_revoked() {
            return None;
        }
        let (key, loss) = known(guards.lost(), || guards.is_held()).await?;
        let Lost { why, remedy } = Lost::of(&loss);
        Some(Lost { why: format!("{key}: {why}"), remedy })
    }

    fn trouble(&self) -> Option<String> {
        self.outage.within(self.ttl)
    }

    fn tell_losing(&self) {
        self.all.guards.iter().for_each(Guard::tell_losing);
    }

    async fn release(self) -> ReleaseEnd {
        let left = self.kept.left_of(self.all.guards.remaining());
        ReleaseEnd::of(self.all.guards.release(), self.outage, left).await
    }

    async fn lapse(self) {
        self.all.guards.lapse().await;
    }
}

#[cfg(test)]
mod tests {
    //! Plan: a release that fails tells of a loss only where nothing else can have been its cause; belief that is only suspended is no loss, and
    //! nobody waits for one.
    use super::*;
    use crate::stepped_clock::SteppedClock;
    use tenure::store::{Expect, Nonce, Outcome, Record, Write};
    use tenure::{AnyStore, Key, Leases, Store};
    use tenure_store::{Fault, FaultyStore};

    #[tokio::test]
    async fn a_lease_counts_as_lost_at_its_release_only_where_that_is_certain() {
        let (outage, hour) = (Outage::new(false), Duration::from_secs(3600));
        let store = FaultyStore::new(AnyStore::new(tenure::memory()));
        let watched = outage.watch(AnyStore::new(store.clone()));
        let key = Key::new("k").unwrap();
        let end = async |is_given, left| {
            let release = async {
                let _ = watched.read(&key).await;
                is_given
            };
            ReleaseEnd::of(release, &outage, left).await
        };
        assert_eq!(end(false, hour).await, ReleaseEnd::FoundLost);
        assert_eq!(
            (end(true, hour).await, end(false, Duration::ZERO).await),
            (ReleaseEnd::Given, ReleaseEnd::Given)
        );
        store.always(Fault::Refuse);
        assert_eq!(end(false, hour).await, ReleaseEnd::Given, "it may have landed");
        let kept = LeastTime::from_now(hour);
        assert_eq!((kept.left_of(hour), LeastTime::default().left_of(hour)), (Duration::ZERO, hour));
    }

    /// Somebody vacates the record.
    async fn by_hand(store: &AnyStore, key: &Key) {
        let seen = store.read(key).await.unwrap().unwrap();
        let record = Record { tenure: None, nonce: Nonce(7), ..seen.record };
        let write = Write { key: key.clone(), expect: Expect::Unchanged(seen.version), record };
        assert!(matches!(store.write(write).await, Ok(Outcome::Won { .. })));
    }

    #[tokio::test(start_paused = true)]
    async fn s9_whose_belief_is_only_suspended_has_lost_nothing_yet() {
        let (clock, ttl) = (SteppedClock::start(), Duration::from_secs(10));
        let inner = AnyStore::new(tenure::memory());
        let store = FaultyStore::new(inner.clone());
        let leases = Leases::builder(store.clone()).clock(clock.clone()).start().unwrap();
        let outage = Outage::new(false);
        let guard = leases.lock("k").ttl(ttl).acquire().await.unwrap();
        let lease = NativeLease { guard, outage: &outage, ttl, kept: LeastTime::default() };
        let all = leases.lock_all(["a", "b"]).ttl(ttl).acquire().await.unwrap();
        let all = NativeAll::new(all, &outage, ttl, LeastTime::default());
        let suspended = async || {
            store.always(Fault::Held);
            clock.step(5_000);
            while lease.guard.is_held() || all.all.guards.is_held() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let go_on = async || {
            store.always(Fault::None);
            for _ in 0..10 {
                store.go_on();
                tokio::task::yield_now().await;
            }
        };
        // The renewal that is under way brings belief back, and so does each later one: a loss never comes.
        suspended().await;
        let both = async { (lease.loss().await.is_none(), all.loss().await.is_none()) };
        let (both, ()) = tokio::join!(tokio::time::timeout(Duration::from_secs(30), both), go_on());
        assert_eq!(both.ok(), Some((true, true)));
        assert!(lease.guard.is_held() && all.all.guards.is_held());
        // A store that does not answer is not waited for.
        suspended().await;
        let in_a_moment = async { (lease.loss().await.is_none(), all.loss().await.is_none()) };
        assert_eq!(tokio::time::timeout(ttl / 4, in_a_moment).await.ok(), Some((true, true)));
        go_on().await;
        // Another has it, as after a pause that is longer than the ttl: that is known once the renewal is answered.
        suspended().await;
        let (lost, ()) = tokio::join!(lease.loss(), async {
            by_hand(&inner, lease.guard.key()).await;
            go_on().await;
        });
        assert!(lost.is_some(), "it was taken");
        store.always(Fault::Hang);
        tokio::time::sleep(ttl * 2).await;
        assert!(lease.loss().await.is_some() && all.loss().await.is_some(), "over by the deadline");
    }
}
