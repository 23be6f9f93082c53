//! What a command runs under: a lease, whatever its layout.

use crate::output::{AGAINST_DELAYS, Lost};
use crate::supervise::outage::Outage;
use crate::supervise::stopping::Why;
use std::process::ExitStatus;
use std::time::Duration;
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

    /// Why it is not held any more; none if it is, or was withdrawn.
    async fn loss(&self) -> Option<Lost>;

    /// What went wrong with the store of late, in words.
    fn trouble(&self) -> Option<String>;

    /// Its command was stopped since it is being lost: metrics and the log are told now, whatever becomes of it.
    fn tell_losing(&self) {}

    /// Its command has ended: with this status, if it ran; and why it was stopped, if it was, or may have been.
    fn ended(&mut self, _status: Option<ExitStatus>, _stopped: Option<Why>) {}

    /// Gives it up.
    async fn release(self);

    /// Keeps it no longer, and leaves it to expire.
    async fn lapse(self);
}

/// A lease in tenure's own layout.
pub(crate) struct NativeLease<'l> {
    pub(crate) guard: Guard,
    pub(crate) outage: &'l Outage,
    pub(crate) ttl: Duration,
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
        Some(Lost::of(&self.guard.lost().await))
    }

    fn trouble(&self) -> Option<String> {
        self.outage.within(self.ttl)
    }

    fn tell_losing(&self) {
        self.guard.tell_losing();
    }

    async fn release(self) {
        self.guard.release().await;
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
}

struct All {
    guards: Guards,
    /// Their names in one text.
    keys: String,
}

impl<'l> NativeAll<'l> {
    pub(crate) fn new(guards: Guards, outage: &'l Outage, ttl: Duration) -> NativeAll<'l> {
        let keys: Vec<&str> = guards.fences().map(|(key, _)| key.as_str()).collect();
        let keys = keys.join(" ");
        NativeAll { all: All { guards, keys }, outage, ttl }
    }
}

impl Lease for All {
    fn key(&self) -> &str {
        &self.keys
    }

    fn fences(&self) -> Option<String> {
        Some(self.guards.fences().map(|(key, fence)| format!("{fence} {key}\n")).collect())
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
        let (key, loss) = guards.lost().await;
        let Lost { why, remedy } = Lost::of(&loss);
        Some(Lost { why: format!("{key}: {why}"), remedy })
    }

    fn trouble(&self) -> Option<String> {
        self.outage.within(self.ttl)
    }

    fn tell_losing(&self) {
        self.all.guards.iter().for_each(Guard::tell_losing);
    }

    async fn release(self) {
        self.all.guards.release().await;
    }

    async fn lapse(self) {
        self.all.guards.lapse().await;
    }
}
