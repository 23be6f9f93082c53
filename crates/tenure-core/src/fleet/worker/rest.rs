//! Rest: in a large fleet, a worker that waits for nothing looks at the board once in many intervals. A letter tells it that a plan
//! concerns it. Some worker has to see a dead planner even if the standbys are dead, too. So in each interval some resting workers look,
//! and each of them goes on until it has seen the planner renew.

use super::FleetWorker;
use super::own::Stage;
use crate::bugs::Bug;
use crate::fleet::digest::mix;
use crate::values::fence::Nonce;
use crate::values::record::Stored;
use crate::values::time::{Now, Tick};

/// What a worker has to know to rest.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(super) struct Rest {
    /// The planner's heartbeat that the last look showed, and when.
    seen: Option<(Nonce, Tick)>,
}

impl FleetWorker {
    /// A look was answered that showed this record of the planner's session. Whoever has seen the planner renew, and waits for nothing, rests.
    pub(super) fn rest_after(&mut self, now: Now, planner: Option<&Stored>) {
        let tenure = planner.and_then(|planner| planner.record.tenure.as_ref());
        let seen = tenure.map(|tenure| (tenure.heartbeat, now.held));
        let before = std::mem::replace(&mut self.rest.seen, seen);
        let has_renewed = match (before, seen) {
            (Some((before, at)), Some((seen, _))) => before != seen && now.held.since(at) < self.env.part(1),
            _ => false,
        };
        let rest = self.told_plan().map_or(1, |plan| plan.rest);
        if rest <= 1 || !(has_renewed || self.env.has_bug(Bug::RestsUnseen)) || self.is_busy(now) {
            return;
        }
        // Another number each time, and for each worker, lest all who began at once look at once.
        let drawn = mix(&self.env.me, self.env.nonces.draw().0) >> 32;
        let intervals = u32::try_from(drawn % u64::from(2 * rest)).unwrap_or(0) + 1;
        self.look.plan(now.held.after(self.env.interval() * intervals));
    }

    /// Whether a look is to show something that this worker waits for.
    fn is_busy(&self, now: Now) -> bool {
        let is_told = self.session_fence().is_some() && !self.hearing.expects(now) && !self.has_news();
        let deaf = self.hearing.lists() || self.hearing.is_reading() || self.board.is_blind();
        let alarmed =
            self.board.is_alarmed(now, &self.env) || self.look.is_wary(now) || self.look.has_overdue();
        let moves = self.own.values().any(|own| own.stage != Stage::Held || own.goes.is_some());
        let waits =
            !self.awaited.is_empty() || self.drains.are_due() || !self.advance.is_idle() || self.life.leaving;
        let doubts = self.doubts.wake_at().or(self.burials.wake_at()).or(self.doubts.list_at).is_some();
        self.is_watcher() || !is_told || deaf || alarmed || moves || waits || doubts
    }
}

#[cfg(test)]
mod tests;
