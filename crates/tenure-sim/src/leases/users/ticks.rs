//! Users that run something once per tick, under a lease whose record keeps what ran when: of keys with an even number at most once, of the
//! others at least once. Now and then one comes with a tick that is long over.

use crate::invariants::Rule;
use crate::kernel::clock::MILLI;
use crate::kernel::coverage::Coverage;
use crate::leases::World;
use crate::leases::node::{LeaseActivity, LeaseStage, LeaseView};
use crate::leases::tick_job::TickJob;
use std::time::Duration;
use tenure_core::once::{Delivery, Once, OnceAction, OnceEvent, Refusal};
use tenure_core::op::{Expect, Write};
use tenure_core::{
    Command, Fence, KeepAlive, LeaseId, Metadata, MetadataPolicy, Record, Tick, WaitPolicy, Wall, Want,
};

fn delivery(key: usize) -> Delivery {
    if key.is_multiple_of(2) { Delivery::AtMostOnce } else { Delivery::AtLeastOnce }
}

impl World {
    pub(super) fn want_tick(&mut self, index: usize, task: usize) {
        let period = self.ttl.millis() * self.scenario.users.ticks;
        let key = self.rng.index(self.scene.keys.len());
        let node = &self.nodes[index];
        let (now, holder) = (node.clock.read(self.t), node.who.clone());
        let back = if self.rng.chance(0.2) { self.rng.below(4) } else { 0 };
        let tick = Wall((now.wall.0 / period).saturating_sub(back) * period);
        let skew = Duration::from_millis(self.scenario.wall_off_ms * 2);
        // Longer than anybody is late.
        let keep = skew + Duration::from_millis(period * 8);
        let once =
            Once::new(tick, holder).delivery(delivery(key)).skew(skew).keep(keep).bugs(self.setup.bugs);
        if once.check(now.wall).is_err() {
            return self.think(index, task);
        }
        let is_attached = self.rng.below(100) < self.scenario.users.attached;
        let wait_policy = if self.rng.chance(0.6) {
            WaitPolicy::Try
        } else {
            WaitPolicy::Until(Tick(now.held.0 + self.rng.below(self.per_mille(4000))))
        };
        let (id, ttl) = (self.new_lease(), self.ttl);
        let view = LeaseView {
            id,
            key,
            is_attached,
            task,
            stage: LeaseStage::Wanted,
            asked_at: self.t,
            waits: false,
            tries: wait_policy == WaitPolicy::Try,
            updating: false,
            update: 0,
            withdrawn: None,
        };
        self.nodes[index].own.views.push(view);
        self.nodes[index].own.tasks[task].doing = LeaseActivity::Waiting(id);
        let job = TickJob { lease: id, key, tick, once, next: Vec::new(), ends: None, is_over: false };
        self.nodes[index].own.jobs.push(job);
        let keep_alive = if is_attached { KeepAlive::Session } else { KeepAlive::Own(ttl) };
        let metadata_policy = MetadataPolicy::Keep(None);
        let want = Want { key: self.scene.keys[key].clone(), keep_alive, metadata_policy, wait_policy };
        self.command(index, Command::Acquire(id, want));
    }

    /// The record that is to keep what ran is made by whoever misses it.
    pub(super) fn make_record(&mut self, index: usize, lease: LeaseId) {
        let Some(job) = self.nodes[index].own.jobs.iter().find(|job| job.lease == lease) else { return };
        let (key, stamp) = (self.scene.keys[job.key].clone(), self.nodes[index].clock.read(self.t).wall);
        let (fence, nonce, metadata) = (Fence::floor(stamp), self.admin.draw(), Metadata::new());
        let record = Record { fence, nonce, stamp, tenure: None, metadata };
        self.write_as_admin(Write { key, expect: Expect::Absent, record });
    }

    /// Something became of the lease that a job is run under: its turn comes at once.
    pub(super) fn tick_hears(&mut self, index: usize, lease: LeaseId, event: OnceEvent) {
        let node = &mut self.nodes[index];
        let now = node.clock.read(self.t).wall;
        let Some(job) = node.own.jobs.iter_mut().find(|job| job.lease == lease) else { return };
        job.next.extend(job.once.on(now, event));
        let task = node.own.views.iter().find(|view| view.id == lease).map(|view| view.task);
        if let Some(task) = task {
            self.appoint(index, task, self.t);
        }
    }

    /// A job's turn: what is to be done next, or the end of its body.
    pub(super) fn run_tick(&mut self, index: usize, task: usize, lease: LeaseId) {
        let t = self.t;
        let node = &mut self.nodes[index];
        let Some(at) = node.own.jobs.iter().position(|job| job.lease == lease) else { return };
        let job = &mut node.own.jobs[at];
        if job.next.is_empty() && job.ends.is_some_and(|ends| ends <= t) && !job.is_over {
            job.is_over = true;
            let says = if self.rng.chance(0.5) { "ok" } else { "" };
            job.next = job.once.on(node.clock.read(t).wall, OnceEvent::Ended(true, says.to_owned()));
            self.scene.ticks.ends(job.key, job.tick);
        }
        let (key, tick, actions) = (job.key, job.tick, std::mem::take(&mut job.next));
        for action in actions {
            match action {
                OnceAction::Write(fields) => {
                    if let Some(view) = self.nodes[index].view(lease) {
                        (view.updating, view.asked_at) = (true, t);
                    }
                    self.command(index, Command::Update(lease, fields));
                }
                OnceAction::Run => {
                    let found = self.scene.ticks.begins(key, tick, delivery(key));
                    self.check(Rule::Ticks, found);
                    self.tally.coverage(Coverage::TickRun);
                    let ends = t + self.rng.span(self.per_mille(self.scenario.users.hold));
                    if let Some(job) = self.nodes[index].own.jobs.iter_mut().find(|job| job.lease == lease) {
                        job.ends = Some(ends);
                    }
                    self.appoint(index, task, ends);
                }
                OnceAction::Release(fields) => self.give_up_lease(index, lease, fields),
                OnceAction::Tell(Refusal::Ran(run)) => {
                    let found = self.scene.ticks.refused(key, tick, run.tick, delivery(key));
                    self.check(Rule::Ticks, found);
                    self.tally.coverage(Coverage::TickHadRun);
                }
                OnceAction::Tell(_) => {}
            }
        }
        let job = self.nodes[index].own.jobs.iter().find(|job| job.lease == lease);
        if let Some(ends) = job.and_then(|job| job.ends.filter(|_| !job.is_over)) {
            self.appoint(index, task, ends.max(t + MILLI));
        }
    }

    /// A lease is over, and with it what was run under it.
    pub(super) fn tick_over(&mut self, index: usize, lease: LeaseId, is_written: bool) {
        let jobs = &mut self.nodes[index].own.jobs;
        let Some(at) = jobs.iter().position(|job| job.lease == lease) else { return };
        let job = jobs.swap_remove(at);
        if is_written && job.is_over {
            self.scene.ticks.written(job.key, job.tick);
        }
    }
}
