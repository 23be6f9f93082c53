//! Bids that follow a key: they tell who holds it whenever that changes, look as often as they are told to, stand aside for
//! those who come first, or only look.

use super::{Acquisition, AcquisitionState, WaitPolicy};
use crate::holder::ctx::Ctx;
use crate::values::record::{Record, Sighting};
use crate::values::time::{Tick, Ttl};
use std::time::Duration;

/// What an acquisition that follows remembers of what it saw.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(super) struct FollowState {
    /// Who holds the key, as was told last; the outer none before anything was told.
    told: Option<Option<Sighting>>,
    /// To be told.
    news: Option<Option<Sighting>>,
    /// What the record that is being judged says.
    looked: Option<Sighting>,
    /// Since when nobody holds it.
    free_since: Option<Tick>,
}

impl Acquisition {
    /// What is to be told of who holds the key.
    pub(crate) fn take_news(&mut self) -> Option<Option<Sighting>> {
        self.sight.as_mut()?.news.take()
    }

    /// Whether to look before claiming: whoever stands aside, or never claims, must not begin with a claim.
    pub(super) fn looks_first(&self) -> bool {
        match self.goal.wait_policy {
            WaitPolicy::Watch { .. } => true,
            WaitPolicy::Follow { after, .. } => !after.is_zero(),
            _ => false,
        }
    }

    pub(super) fn note(&mut self, record: &Record) {
        if let Some(sight) = &mut self.sight {
            sight.looked = Sighting::of(record);
        }
    }

    /// The record that was noted is that of a live holder.
    pub(super) fn sighted(&mut self) {
        if let Some(sight) = &mut self.sight {
            sight.free_since = None;
            let looked = sight.looked.take();
            sight.tell(looked);
        }
    }

    /// Nobody holds the key: whether to leave it alone all the same, for now.
    pub(super) fn stands_aside(&mut self, ctx: &mut Ctx<'_>) -> bool {
        if ctx.now.held < self.leaves_until {
            self.state = AcquisitionState::Waiting { until: self.leaves_until };
            return true;
        }
        let Some(sight) = self.sight.as_mut().filter(|_| !self.abandoned) else { return false };
        sight.tell(None);
        let free_since = *sight.free_since.get_or_insert(ctx.now.held);
        let until = match self.goal.wait_policy {
            // Whoever comes next mostly comes at once, and stores need not tell of that: so look soon, then less and less
            // often.
            WaitPolicy::Watch { every } => {
                let soon = (every / 64).max(Duration::from_millis(1));
                ctx.jittered(ctx.now.held.since(free_since).max(soon).min(every))
            }
            WaitPolicy::Follow { after, .. } => free_since.after(after),
            _ => return false,
        };
        if ctx.now.held >= until {
            return false;
        }
        self.state = AcquisitionState::Waiting { until };
        if self.hinted.is_some() {
            self.look(ctx);
        }
        true
    }

    /// The longest time between two looks at a key that someone holds.
    pub(super) fn poll(&self, ctx: &Ctx<'_>, ttl: Ttl) -> Duration {
        let every = match self.goal.wait_policy {
            WaitPolicy::Follow { every, .. } | WaitPolicy::Watch { every } => every,
            _ => ctx.rules.poll,
        };
        ttl.part(4).min(every)
    }

    /// Whether it never claims, nor writes anything else.
    pub(super) fn only_looks(&self) -> bool {
        matches!(self.goal.wait_policy, WaitPolicy::Watch { .. })
    }
}

impl FollowState {
    pub(super) fn of(wait_policy: WaitPolicy) -> Option<Box<FollowState>> {
        let follows = matches!(wait_policy, WaitPolicy::Follow { .. } | WaitPolicy::Watch { .. });
        follows.then(Box::default)
    }

    fn tell(&mut self, seen: Option<Sighting>) {
        if self.told.as_ref() != Some(&seen) {
            self.told = Some(seen.clone());
            self.news = Some(seen);
        }
    }
}
