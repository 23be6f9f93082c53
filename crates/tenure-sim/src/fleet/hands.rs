//! What people do to a fleet by hand, and what happens to it in the calm: records are damaged and mended, changes are told to
//! nobody, a worker hiccups.

use super::calm::AUDITED;
use super::{What, World};
use crate::kernel::clock::MILLI;
use crate::kernel::coverage::Coverage;
use crate::kernel::trace::Story;
use tenure_core::fleet::{Status, planner, standbys};
use tenure_core::{HolderId, Key};

impl World {
    /// Somebody makes a record unreadable; after a while it is mended.
    pub(super) fn damage(&mut self, key: &Key, per_mille: u64) {
        self.tell(|_| Story::Store(format!("somebody damages {key}")));
        self.store.damage(key.clone());
        self.hint(key);
        self.at(self.t + self.per_mille(per_mille), What::Mend);
    }

    /// Everything can be read again. Whoever mends a session tells the fleet: workers would find it at their next audit only.
    pub(super) fn mend(&mut self) {
        let mut is_told = true;
        for key in self.store.mend() {
            self.tell(|_| Story::Store(format!("somebody mends {key}")));
            self.hint(&key);
            is_told &= key == self.scene.board;
        }
        if !is_told || self.scene.untold {
            self.tell_workers();
        }
    }

    /// The board, a session or a unit is damaged in the midst of everything else.
    pub(super) fn damage_by_hand(&mut self) {
        let roster = self.scene.fleet.worker_prefix();
        let of_roster = |key: &&Key| key.as_str().starts_with(&roster);
        let sessions: Vec<Key> = self.store.keys().map(|(key, _)| key).filter(of_roster).cloned().collect();
        let at = self.rng.index(sessions.len());
        let session = sessions.get(at).filter(|_| self.rng.chance(0.6)).cloned();
        let some = self.rng.index(self.scene.units.len());
        let unit = self.scene.units.keys().nth(some).filter(|_| self.rng.chance(0.3)).cloned();
        let key = unit.or(session).unwrap_or_else(|| self.scene.board.clone());
        let span = self.rng.below(6000);
        self.damage(&key, span);
    }

    /// The board can't be read, and then a worker dies or leaves: nobody can be told, and all goes on, if more slowly.
    pub(super) fn damage_board(&mut self, index: usize) {
        let board = self.scene.board.clone();
        self.damage(&board, 7000);
        if self.rng.chance(0.7) {
            self.kill(index);
        } else {
            self.deliver(index, crate::kernel::NodeInput::Own(super::node::FleetCall::Leave));
        }
        // Looks that list everything find out who is silent, after a ttl of silence, and who is to take over.
        let bound = self.bound(2600);
        let t = self.t;
        for idle in self.scene.units.values_mut().filter_map(|truth| truth.idle.as_mut()) {
            idle.bound = idle.bound.max(t + bound - idle.since);
            idle.by_death = false;
        }
        let settled = self.per_mille(7000) + self.bound(1400) + self.per_mille(2000);
        self.scene.settled_by = self.scene.settled_by.max(self.t + settled);
    }

    /// The planner and up to eleven others die at once.
    pub(super) fn lose_row(&mut self, up: &[usize]) {
        let planner = self.planner();
        let mut others: Vec<usize> = up.iter().copied().filter(|index| Some(*index) != planner).collect();
        let mut dead: Vec<usize> = planner.into_iter().collect();
        // No more than half of those who are there.
        let many = (self.rng.between(8, 12) as usize).min(up.len() / 2);
        while dead.len() < many && !others.is_empty() {
            dead.push(others.swap_remove(self.rng.index(others.len())));
        }
        self.kill_all(&dead);
    }

    /// The planner, both who stand by, and up to two others die at once.
    pub(super) fn lose_heads(&mut self, up: &[usize]) {
        let (heads, mut others): (Vec<usize>, Vec<usize>) =
            up.iter().partition(|index| self.watches(**index));
        let mut dead = heads;
        // One at least is left.
        for _ in 0..self.rng.below(3).min((others.len() as u64).saturating_sub(1)) {
            dead.push(others.swap_remove(self.rng.index(others.len())));
        }
        if !others.is_empty() {
            self.tally.coverage(Coverage::HeadsLost);
            self.kill_all(&dead);
        }
    }

    /// In one instant units come and go, two workers leave, and the board is raised again and again.
    pub(super) fn burst(&mut self, up: &[usize]) {
        self.tally.coverage(Coverage::Burst);
        let open = self.scene.units.values().filter(|truth| truth.status == Status::Open).count();
        let grows = open < 2 * self.scenario.units;
        for _ in 0..self.scenario.units {
            if grows {
                self.create_unit();
            } else if let Some(key) = self.any_open()
                && self.revise(&key, |spec| spec.status = Status::Deleted)
            {
                self.closed(&key, Status::Deleted);
            }
        }
        let first = self.rng.index(up.len());
        for index in [first, (first + 1) % up.len()] {
            self.deliver(up[index], crate::kernel::NodeInput::Own(super::node::FleetCall::Leave));
        }
        for _ in 0..20 {
            self.tell_workers();
        }
        self.disturb_by_plan();
    }

    /// Whether one of those lives who stand by.
    pub(super) fn has_standby(&self) -> bool {
        let standbys = self.store.get(&self.scene.board).map(standbys).unwrap_or_default();
        self.nodes.iter().any(|node| node.machine.is_some() && standbys.contains(&node.who))
    }

    /// Whether this worker watches all others: it plans or stands by.
    pub(super) fn watches(&self, index: usize) -> bool {
        let board = self.store.get(&self.scene.board);
        let stands_by = board.is_some_and(|board| standbys(board).contains(&self.nodes[index].who));
        stands_by || self.planner() == Some(index)
    }

    /// Who plans, if that one lives.
    pub(super) fn planner(&self) -> Option<usize> {
        let planner = planner(self.store.get(&self.scene.board)?)?;
        let plans = |index: &usize| {
            self.nodes[*index].machine.as_ref().is_some_and(|machine| {
                self.nodes[*index].session == planner.session
                    && machine.session_fence() == Some(planner.fence)
            })
        };
        (0..self.nodes.len()).find(plans)
    }

    /// A worker dies, and somebody deletes its session.
    pub(super) fn vanish(&mut self, index: usize) {
        self.kill(index);
        let key = self.nodes[index].session.clone();
        self.tell(|_| Story::Store(format!("somebody deletes {key}")));
        self.store.remove(self.t, &key);
        self.checks.tenures.forget(&key);
        self.hint(&key);
        // Those who don't watch it hear of it within an interval, and begin to wait only then; and so does whoever joins in the
        // meantime, and has its share planned for it.
        let bound = self.bound(1400) + self.bound(340) + self.bound(2000);
        self.disturb(bound + self.per_mille(1500));
        let t = self.t;
        for idle in self.scene.units.values_mut().filter_map(|truth| truth.idle.as_mut()) {
            (idle.bound, idle.by_death) = (bound.max(t + bound - idle.since), false);
        }
    }

    /// It stops for so long that others begin to wonder, and for no longer.
    pub(super) fn hiccup(&mut self, index: usize) {
        self.disturb(self.per_mille(4000));
        let span = self.nodes[index].own.ttl.millis() * MILLI / 1000 * 450;
        self.pause(index, span);
    }

    /// Something about units changes, and whoever did it dies before telling.
    pub(super) fn change_untold(&mut self) {
        self.revise_units();
        // The audit finds it: one in ten ttls, give or take a quarter of that, and then what it finds is told.
        self.disturb(self.bound(AUDITED) + self.per_mille(3000));
    }

    /// Pins some unit to a worker, or unpins it.
    pub(super) fn pin_some(&mut self) {
        let up: Vec<HolderId> =
            self.nodes.iter().filter(|node| node.machine.is_some()).map(|node| node.who.clone()).collect();
        let at = self.rng.index(up.len());
        let pin = up.get(at).filter(|_| self.rng.chance(0.7)).cloned();
        if let Some(key) = self.any_open() {
            self.revise(&key, |spec| spec.pin = pin);
        }
    }

    /// What a unit weighs at the beginning.
    pub(super) fn first_weight(&mut self) -> u64 {
        if self.scenario.weighs { self.rng.between(1, 9) } else { 1 }
    }
}
