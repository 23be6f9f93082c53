//! What the state of a lease means for the command that runs under it.

use crate::supervise::watchdog::Lead;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tenure::Guard;
use tenure::clock::boottime;

/// What to do about a running command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outlook {
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
pub(crate) struct Dark(AtomicU64);

impl Dark {
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
pub(crate) fn outlook(guard: &Guard, lead: Lead, dark: &Dark) -> Outlook {
    let left = guard.remaining();
    judged(left, guard.is_revoked(), || guard.cancelled().is_cancelled(), lead, dark)
}

/// How it looks for a unit of a fleet, which is surely ours for `left`.
pub(crate) fn outlook_of_unit(
    left: Duration,
    revoked: bool,
    gone: impl Fn() -> bool,
    lead: Lead,
    dark: &Dark,
) -> Outlook {
    judged(left, revoked, gone, lead, dark)
}

/// How it looks for what can't be withdrawn, and ends by its time only: ranges, and leases in another layout.
pub(crate) fn outlook_by_time(left: Duration, lead: Lead) -> Outlook {
    judged(left, false, || true, lead, &Dark::default())
}

fn judged(left: Duration, revoked: bool, gone: impl Fn() -> bool, lead: Lead, dark: &Dark) -> Outlook {
    if left.is_zero() {
        let lost = revoked || gone() || dark.for_how_long() > lead.kill;
        return if lost { Outlook::Lost } else { Outlook::Good };
    }
    dark.is_over();
    let within = left.saturating_sub(lead.kill);
    match (revoked, left <= lead.total()) {
        (true, _) => Outlook::Revoked(within),
        (false, true) => Outlook::Losing(within),
        (false, false) => Outlook::Good,
    }
}
