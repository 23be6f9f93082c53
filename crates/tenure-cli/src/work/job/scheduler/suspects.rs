//! Units that are run alone, once more: their workers have died as often as is allowed.

use super::claims::{Trust, counted};
use super::{Event, Scheduler};
use crate::work::job::unit::Unit;
use std::collections::VecDeque;
use std::time::Duration;
use tenure::{Guard, Key};

/// Those that wait for everything else to end, and whether one of them runs.
#[derive(Default)]
pub(super) struct Suspects {
    waiting: VecDeque<(Key, Guard)>,
    is_one_running: bool,
}

impl Suspects {
    pub(super) fn add(&mut self, key: Key, guard: Guard) {
        self.waiting.push_back((key, guard));
    }

    /// Whether nothing else may be begun.
    pub(super) fn hold_up_others(&self) -> bool {
        self.is_one_running || !self.waiting.is_empty()
    }

    /// The next that is to be run, where nothing runs or is about to (`is_calm`).
    fn next(&mut self, is_calm: bool) -> Option<(Key, Guard)> {
        if !is_calm {
            return None;
        }
        let next = self.waiting.pop_front();
        self.is_one_running = next.is_some();
        next
    }

    /// Gives back those that wait.
    pub(super) fn give_back(&mut self) -> impl Iterator<Item = Key> {
        std::mem::take(&mut self.waiting).into_iter().map(|(key, _given_back)| key)
    }
}

impl Scheduler {
    /// Starts a unit that is to be run alone, once nothing else runs or is about to.
    pub(super) fn start_alone(&mut self) {
        let is_calm = self.slots.tasks() + self.prefetch.claiming() == 0;
        let Some((key, guard)) = self.suspects.next(is_calm) else { return };
        self.prefetch.begin();
        let (sender, most) = (self.sender.clone(), self.plan.takeovers);
        tokio::spawn(async move {
            // Only now: those that waited for their turn in a process that died are not to blame for that.
            let is_counted = Unit::of(guard.metadata()).is_none_or(|unit| unit.takeovers >= most);
            let result = if is_counted { Ok(guard) } else { counted(guard).await };
            let (from, turn, took, trust) = (None, None, Duration::ZERO, Trust::Good);
            let _over = sender.send(Event::Claimed { key, from, turn, took, trust, result });
        });
    }
}
