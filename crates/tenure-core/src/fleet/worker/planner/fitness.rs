//! A planner that can't plan. It lives, but the store does not let it list, or tell others their parts. It gives its role up. It takes the
//! role again only if no other worker does, and ever more seldom while that fails.

use crate::fleet::worker::env::FleetEnv;
use crate::values::time::{Now, Tick};

/// After at the most so many ttls a worker that could not plan tries again, if nobody else plans.
const LONGEST: u32 = 8;

/// What a worker knows of its own attempts at planning.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(super) struct Fitness {
    /// Since when no page could be listed, and no plan be told.
    lists: Option<Tick>,
    tells: Option<Tick>,
    /// How often in a row it has given up its role, and until when it leaves that to others.
    resigned: Option<(u32, Tick)>,
    /// It is giving it up.
    resigns: bool,
}

impl Fitness {
    /// Whether it could not plan when it last tried.
    pub(super) fn has_failed(&self) -> bool {
        self.resigned.is_some()
    }

    /// Whether it leaves that role to others for now.
    pub(super) fn waits(&self, now: Now) -> bool {
        self.resigned.is_some_and(|(_, until)| now.held < until)
    }

    /// The worker plans from now on, or does so no more.
    pub(super) fn begin(&mut self) {
        *self = Fitness { resigned: self.resigned, ..Fitness::default() };
    }

    /// A page could be listed.
    pub(super) fn listed(&mut self) {
        self.lists = None;
    }

    /// A whole plan was told.
    pub(super) fn told(&mut self) {
        *self = Fitness::default();
    }

    /// The store does not let it list; since when.
    pub(super) fn cannot_list(&mut self, now: Now) -> Tick {
        *self.lists.get_or_insert(now.held)
    }

    /// The store does not let it tell somebody its part; since when.
    pub(super) fn cannot_tell(&mut self, now: Now) -> Tick {
        *self.tells.get_or_insert(now.held)
    }

    /// It gives its role up, or tries to once more.
    pub(super) fn resign(&mut self, now: Now, env: &FleetEnv) {
        let again = u32::from(!std::mem::replace(&mut self.resigns, true));
        let times = self.resigned.map_or(0, |(times, _)| times + again);
        let wait = env.part(1) * (1 << times.min(LONGEST.ilog2()));
        self.resigned = Some((times, now.held.after(wait)));
    }
}
