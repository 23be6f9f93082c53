//! What the state of a lease means for the command that runs under it.

use crate::supervise::watchdog::Lead;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tenure::Guard;
use tenure::clock::boottime;

/// What to do about a running command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaseHealth {
    /// Let it run.
    Good,
    /// The lease was withdrawn: stop it within this time.
    Revoked(Duration),
    /// The lease is about to be lost: stop it within this time.
    Losing(Duration),
    /// The lease is lost: stop it at once.
    Lost,
}

/// Since when a lease has been neither held nor lost: belief is suspended, after a jump of the clocks, until the next
/// renewal, which is made at once.
#[derive(Debug, Default)]
pub(crate) struct UnknownSince(AtomicU64);

impl UnknownSince {
    fn for_how_long(&self) -> Duration {
        let now = u64::try_from(boottime().as_nanos()).unwrap_or(u64::MAX);
        match self.0.compare_exchange(0, now, Ordering::SeqCst, Ordering::SeqCst) {
            Ok(_) => Duration::ZERO,
            Err(since) => Duration::from_nanos(now.saturating_sub(since)),
        }
    }

    fn is_over(&self) {
        self.0.store(0, Ordering::SeqCst);
    }
}

/// How it looks for `guard`, `lead` being the time that stopping takes.
pub(crate) fn lease_health(guard: &Guard, lead: Lead, unknown_since: &UnknownSince) -> LeaseHealth {
    let left = guard.remaining();
    unit_health(left, guard.is_revoked(), || guard.cancelled().is_cancelled(), lead, unknown_since)
}

/// How it looks for a unit of a fleet, or anything else that is surely ours for `left`.
pub(crate) fn unit_health(
    left: Duration,
    revoked: bool,
    gone: impl Fn() -> bool,
    lead: Lead,
    unknown_since: &UnknownSince,
) -> LeaseHealth {
    if left.is_zero() {
        let lost = revoked || gone() || unknown_since.for_how_long() > lead.kill;
        return if lost { LeaseHealth::Lost } else { LeaseHealth::Good };
    }
    unknown_since.is_over();
    let within = left.saturating_sub(lead.kill);
    match (revoked, left <= lead.total()) {
        (true, _) => LeaseHealth::Revoked(within),
        (false, true) => LeaseHealth::Losing(within),
        (false, false) => LeaseHealth::Good,
    }
}
