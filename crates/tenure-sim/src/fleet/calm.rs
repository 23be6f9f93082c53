//! The calm after the chaos: everything works, one disturbance at a time is done, and everything must go on as it should.

use super::invariants::{l2, l3, s10};
use super::node::{Body, FleetCall};
use super::scenario::Disturbance;
use super::world::IdleUnit;
use super::{FleetDue, What, World};
use crate::invariants::Rule;
use crate::kernel::NodeInput;
use crate::kernel::clock::{MILLI, True};
use crate::kernel::fault::FaultKind;
use crate::kernel::registers::Ages;
use std::collections::BTreeMap;
use std::time::Duration;
use tenure_core::fleet::{Status, UnitSpec};
use tenure_core::{HolderId, Key, Ttl};

/// Within so many thousandths of a ttl somebody audits: after ten ttls, give or take a quarter of that, or one who was to has
/// died, and the next in turn does.
pub(super) const AUDITED: u64 = 15_500;

impl World {
    /// Everything works from now on: by when it must be as planned.
    pub(super) fn begin_to_settle(&mut self) {
        // What somebody has damaged last, an audit finds: it is planned no more.
        let is_damaged = self.scene.units.keys().any(|unit| self.store.is_unreadable(unit));
        let audit = if is_damaged { self.bound(AUDITED) + self.plan_bound() } else { 0 };
        self.scene.settled_by = self.t + self.per_mille(9000).max(audit);
        let (t, bound) = (self.t, self.per_mille(6000));
        for truth in self.scene.units.values_mut().filter(|truth| truth.idle.is_some()) {
            truth.idle = Some(IdleUnit { since: t, bound, by_death: false });
        }
        if self.scene.units.values().any(|truth| !truth.behind.is_empty()) {
            // Whoever has put everything back tells the workers so.
            self.tell_workers();
        }
    }

    /// So many thousandths of a ttl by the slowest clock, and the time for some writes.
    pub(super) fn bound(&self, per_mille: u64) -> True {
        self.bound_of(self.ttl, per_mille)
    }

    fn bound_of(&self, ttl: Ttl, per_mille: u64) -> True {
        let part = |per_mille| ttl.millis() * MILLI / 1000 * per_mille;
        let span = u128::from(part(per_mille)) * 1_000_000 / u128::from(1_000_000 - self.scenario.rate);
        // All is listed, and listed once more if something has changed meanwhile.
        let pages = (self.store.keys().count() / self.scenario.page + 2) as u64;
        // Where the store's capacity is short, each unit takes a write, and others as much again.
        let units = self.scene.units.len() as u64;
        let writes = self.scenario.capacity.map_or(0, |capacity| part(2000) * units / capacity);
        span as True + part(60) + 3 * pages * self.scenario.list_ms * MILLI + writes
    }

    /// Something has changed that takes so long to settle.
    pub(super) fn disturb(&mut self, bound: True) {
        if self.healed.is_none() {
            return;
        }
        self.scene.settled_by = self.scene.settled_by.max(self.t + bound);
        let t = self.t;
        for idle in self.scene.units.values_mut().filter_map(|truth| truth.idle.as_mut()) {
            idle.bound = idle.bound.max(t + bound - idle.since);
        }
    }

    /// In a fleet so large that workers rest: how many thousandths of a ttl it takes longer until somebody hears of what a plan says.
    pub(super) fn rested(&self, per_mille: u64) -> u64 {
        if self.scenario.nodes >= 2 * self.scenario.lookers { per_mille } else { 0 }
    }

    /// L2's bound: three intervals, and the drain.
    pub(super) fn plan_bound(&self) -> True {
        let told = 2 * self.scenario.part_ms * MILLI + self.bound(self.rested(350));
        let drains = self.per_mille(self.scenario.bodies.ends * 8) + self.per_mille(500);
        self.bound(1000) + drains + told + self.unfit_bound()
    }

    pub(super) fn disturb_by_plan(&mut self) {
        if self.healed.is_some() {
            self.scene.settled_by = self.scene.settled_by.max(self.t + self.plan_bound());
        }
    }

    /// Whether two witnesses tell how long a session was silent before it was watched.
    fn is_attested(&self) -> bool {
        let jumps = self.scenario.faults.iter().any(|(fault, _)| *fault == FaultKind::StoreClock);
        self.spec.ages == Ages::Fine && self.scenario.wall_off_ms <= 100 && !jumps
    }

    /// L1's bound, for what a worker with this ttl had.
    pub(super) fn death_bound(&self, ttl: Ttl) -> True {
        let attested = self.is_attested();
        let told = self.rested(350);
        self.bound_of(ttl, if attested || self.spec.push { 1150 } else { 1400 } + told) + self.unfit_bound()
    }

    /// The same for several who die at once: together with the planner, where nothing tells how long they were silent before.
    pub(super) fn deaths_bound(&self, ttl: Ttl) -> True {
        let alone = self.death_bound(ttl);
        let attested = self.is_attested();
        let foreseen = attested || self.planner().is_some() || self.has_standby();
        if foreseen { alone } else { alone.max(self.bound_of(ttl, 2500 + self.rested(1000))) }
    }

    /// Nobody works on `unit` any more; as a worker with this ttl has died, if one has: then it is by that ttl, whatever those of
    /// the others are, that it must be held again.
    pub(super) fn idles(&mut self, unit: &Key, death: Option<Ttl>) {
        let bound = death.map_or_else(|| self.plan_bound(), |ttl| self.death_bound(ttl));
        let by_death = death.is_some();
        // Until all that came of the chaos has been settled, nothing is as quick as that.
        let rough = self.t < self.scene.settled_by || self.healed.is_none() || self.scene.haunted;
        let bound = if rough { bound.max(self.per_mille(6000)) } else { bound };
        self.idles_for(unit, bound, by_death && !rough);
    }

    pub(super) fn idles_for(&mut self, unit: &Key, bound: True, by_death: bool) {
        let t = self.t;
        let held = self.nodes.iter().any(|node| node.works_on(unit).is_some());
        if let Some(truth) =
            self.scene.units.get_mut(unit).filter(|truth| truth.status == Status::Open && !held)
        {
            truth.idle = Some(IdleUnit { since: t, bound, by_death });
        }
    }

    /// Whether a session stands whose process is gone.
    pub(super) fn has_ghost(&self) -> bool {
        let roster = self.scene.fleet.worker_prefix();
        let lives = |who: &HolderId| self.nodes.iter().any(|node| node.machine.is_some() && node.who == *who);
        self.store
            .keys()
            .filter(|(key, _)| key.as_str().starts_with(&roster))
            .filter_map(|(_, record)| record.tenure.as_ref())
            .any(|tenure| !lives(&tenure.holder))
    }

    /// Whether nobody damages the board in the calm: then there would be no telling anybody.
    pub(super) fn board_is_sound(&self) -> bool {
        !self.scenario.disturbances.contains(&Disturbance::Damage)
    }

    /// The next disturbance.
    pub(super) fn disturbance(&mut self) {
        if self.healed.is_none() {
            return;
        }
        let untold = self.scenario.disturbances.contains(&Disturbance::Untold);
        self.at(
            self.t + self.per_mille(if untold { 24_000 } else { 9000 }),
            What::Own(FleetDue::Disturbance),
        );
        let up: Vec<usize> = (0..self.nodes.len()).filter(|index| self.nodes[*index].acts()).collect();
        let disturbances = self.scenario.disturbances;
        let (Some(disturbance), true) =
            (disturbances.get(self.rng.index(disturbances.len())).copied(), up.len() > 1)
        else {
            return;
        };
        let index = up[self.rng.index(up.len())];
        self.scene.haunted = self.has_ghost();
        if self.scene.haunted {
            self.disturb(self.per_mille(6000));
        }
        match disturbance {
            Disturbance::Death => self.kill(index),
            Disturbance::FreshDeath => self.nodes[index].own.doomed = true,
            Disturbance::ZoneDeath => self.lose_zone(index),
            Disturbance::Leave => self.deliver(index, NodeInput::Own(FleetCall::Leave)),
            Disturbance::Churn => self.change_units(),
            Disturbance::Untold => self.change_untold(),
            Disturbance::Hiccup => self.hiccup(index),
            Disturbance::Damage => self.damage_board(index),
            Disturbance::Row => self.lose_row(&up),
            Disturbance::Vanish => self.vanish(index),
            Disturbance::Telling => {
                self.scene.doom = super::telling::Doom::Next;
                self.change_units();
            }
            Disturbance::Permit => self.permit_units(),
            Disturbance::Unfit => {
                self.make_unfit(index);
                self.change_units();
            }
            Disturbance::Step => self.kill_at_step(&up),
            Disturbance::Heads => self.lose_heads(&up),
            Disturbance::Ahead => self.set_ahead(&up),
            Disturbance::Spoil => self.spoil_next(index),
            Disturbance::Mail => self.lose_mail(),
            Disturbance::Burst => self.burst(&up),
            Disturbance::Withdraw => self.withdraw(),
            Disturbance::Catch => {
                self.scene.catches = true;
                self.deliver(index, NodeInput::Own(FleetCall::Leave));
            }
            Disturbance::Island => self.cut_planner_off(&up),
        }
        let deaths = [Disturbance::Death, Disturbance::ZoneDeath, Disturbance::Row, Disturbance::Heads];
        if deaths.contains(&disturbance) {
            self.deaths_settle();
        }
    }

    /// Somebody has died: that takes so long to settle.
    pub(super) fn deaths_settle(&mut self) {
        let bound = self.deaths_bound(self.ttl).max(self.bound(1400)) + self.plan_bound();
        self.scene.settled_by = self.scene.settled_by.max(self.t + bound);
    }

    /// A session was renewed. If its worker is to die of that, it does.
    pub(super) fn renewed(&mut self, index: usize) {
        self.dies_ahead(index);
        if std::mem::take(&mut self.nodes[index].own.doomed) && self.healed.is_some() {
            self.kill(index);
            self.deaths_settle();
        }
    }

    /// In the calm: does everything go on as it should?
    pub(super) fn look(&mut self) {
        let Some(healed) = self.healed else { return };
        let span = self.per_mille(if self.scenario.ttls { 50 } else { 200 });
        self.at(self.t + span, What::Own(FleetDue::Look));
        if self.scene.haunted && self.has_ghost() {
            // An audit finds it, and takes it for a worker until it has been silent for a ttl.
            self.disturb(self.bound(1400) + self.plan_bound());
        }
        let t = self.t;
        let live = self.nodes.iter().filter(|node| node.acts() && !node.own.leaving && !node.stopping);
        let live: Vec<usize> = live.map(|node| node.index).collect();
        if live.is_empty() {
            // Whoever starts now has to wait for the silence of the dead, or to see it attested.
            let bound = self.bound(1400) + self.plan_bound();
            for truth in self.scene.units.values_mut() {
                truth.idle = truth.idle.map(|_| IdleUnit { since: t, bound, by_death: false });
            }
            self.scene.settled_by = self.scene.settled_by.max(t + bound + self.plan_bound());
        }
        if !live.is_empty() {
            self.check(
                Rule::L3,
                l3::audited(
                    t.saturating_sub(self.scene.listed.max(healed)),
                    self.bound(AUDITED) + self.unfit_bound(),
                ),
            );
        }
        let (due, is_fair) = l2::due(self, &live);
        let planned = l2::as_planned(&due);
        let covered = due.iter().map(|due| (due.unit.clone(), due.target.is_some()));
        let covered: BTreeMap<Key, bool> = covered.collect();
        // However much is still to be done.
        self.check(Rule::L2, is_fair);
        let bound = self.bound(1400) + self.plan_bound();
        for (key, truth) in &mut self.scene.units {
            let Some(idle) = truth.idle.filter(|_| truth.status == Status::Open) else { continue };
            // Whoever doesn't have it can't get it.
            if self.store.is_sealed(key) {
                continue;
            }
            // One that has failed is left alone for a while.
            let spec = self.store.get(key).and_then(|record| UnitSpec::parse(record.metadata.clone()).ok());
            let rest =
                spec.and_then(|(spec, _)| spec.retry).map_or(Duration::ZERO, |retry| retry.rest * 5 / 4);
            if covered.get(key) == Some(&true) {
                let idle = IdleUnit { bound: idle.bound + rest.as_nanos() as True, ..idle };
                self.checks.check(self.t, Rule::L3, l3::not_idle_for_long(key, idle, t));
            } else {
                // Nobody can have it for now; whoever can, once somebody can, is about to find that out.
                truth.idle = Some(IdleUnit { since: t, bound: bound.max(idle.bound), by_death: false });
            }
        }
        // The planner lists once the board is raised: whoever has what its unit's record does not show is told to list, too.
        if t > self.scene.raised.max(healed) + self.bound(1000) + self.plan_bound() && self.store.is_sound() {
            for node in self.nodes.iter().filter(|node| node.acts()) {
                self.checks.check(
                    self.t,
                    Rule::S10,
                    s10::found_out(node, &self.scene.units, &self.store, self.scene.raised),
                );
            }
        }
        if t > self.scene.settled_by {
            let found = planned;
            self.check(Rule::L2, found);
            self.scene.settled_time += span;
        }
        let late = self.per_mille(3500);
        for node in self.nodes.iter().filter(|node| node.acts()) {
            for (lease, work) in &node.own.works {
                let asked = match (work.body, work.writes) {
                    (Body::Ended { at, .. }, _) => Some(at),
                    (_, Some((_, at))) => Some(at),
                    _ => None,
                };
                if asked.is_some_and(|asked| t > asked.max(healed) + late) {
                    let text = format!(
                        "{} has no answer about lease {} of {} ({:?})",
                        node.who, lease.0, work.unit, work.body
                    );
                    self.checks.check(self.t, Rule::Answered, Err(text));
                }
            }
        }
    }
}
