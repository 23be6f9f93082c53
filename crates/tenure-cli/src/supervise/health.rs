//! What the state of a lease means for the command that runs under it.

use super::lease::Lease;
use super::stopping::Why;
use super::watchdog::LeadTime;
use std::time::Duration;

/// The health of one lease, as it is seen again and again.
#[derive(Debug, Default)]
pub(crate) struct LeaseHealth {
    /// Since when it has been neither held nor lost: belief is suspended, after a jump of the clocks, until the next renewal,
    /// which is made at once.
    unknown_since: Option<Duration>,
}

impl LeaseHealth {
    /// Why to stop the command, and within what time; none while all is well. `lead` is the time that stopping takes. `is_alone`: the watchdogs
    /// have no other command to end with it.
    pub(crate) fn judge(
        &mut self,
        lease: &(impl Lease + ?Sized),
        lead: LeadTime,
        is_alone: bool,
        now: Duration,
    ) -> Option<(Why, Duration)> {
        let left = lease.remaining();
        if left.is_zero() {
            let mut unknown_for = || now.saturating_sub(*self.unknown_since.get_or_insert(now));
            let is_lost = lease.is_revoked() || lease.is_over() || unknown_for() > lead.kill;
            return is_lost.then_some((Why::Losing, Duration::ZERO));
        }
        self.unknown_since = None;
        let within = left.saturating_sub(lead.kill);
        match (lease.is_revoked(), left <= lead.total()) {
            (true, _) if is_alone => Some((Why::Revoked, within)),
            (true, _) => Some((Why::Revoked, left.saturating_sub(lead.beside_others()))),
            (false, true) => Some((Why::Losing, within)),
            (false, false) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Seen {
        left_ms: u64,
        is_revoked: bool,
        is_over: bool,
    }

    impl Lease for Seen {
        fn key(&self) -> &str {
            "k"
        }

        fn remaining(&self) -> Duration {
            Duration::from_millis(self.left_ms)
        }

        fn is_revoked(&self) -> bool {
            self.is_revoked
        }

        fn is_over(&self) -> bool {
            self.is_over
        }
    }

    #[test]
    fn s6_a_command_is_stopped_in_time_for_its_lease_and_outlasts_a_moment_of_doubt() {
        let at = Duration::from_millis;
        let lead = LeadTime { kill: at(100), term: at(400) };
        let mut health = LeaseHealth::default();
        let mut judge = |now, left_ms, is_revoked, is_over| {
            health.judge(&Seen { left_ms, is_revoked, is_over }, lead, true, at(now))
        };
        assert_eq!(judge(0, 501, false, false), None);
        assert_eq!(judge(0, 500, false, false), Some((Why::Losing, at(400))), "KILL before the deadline");
        assert_eq!(judge(0, 5000, true, false), Some((Why::Revoked, at(4900))));
        let at_once = Some((Why::Losing, at(0)));
        assert_eq!((judge(0, 0, false, true), judge(0, 0, true, false)), (at_once, at_once));
        // Neither held nor lost: for a moment only, which begins anew when it was held in between.
        assert_eq!((judge(100, 0, false, false), judge(200, 0, false, false)), (None, None));
        assert_eq!((judge(250, 5000, false, false), judge(300, 0, false, false)), (None, None));
        assert_eq!((judge(400, 0, false, false), judge(401, 0, false, false)), (None, at_once));
    }

    #[test]
    fn a_withdrawn_command_is_dead_before_the_watchdogs_begin_to_end_those_beside_it() {
        let at = Duration::from_millis;
        let lead = LeadTime { kill: at(100), term: at(400) };
        let judge = |left_ms, is_revoked| {
            let seen = Seen { left_ms, is_revoked, is_over: false };
            LeaseHealth::default().judge(&seen, lead, false, at(0))
        };
        // They are told of 100 ms more or less only, and begin 500 ms before the deadline.
        assert_eq!(judge(5000, true), Some((Why::Revoked, at(5000 - 500 - 200))));
        assert_eq!((judge(600, true), judge(600, false)), (Some((Why::Revoked, at(0))), None));
    }
}
