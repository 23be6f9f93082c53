//! Chaos and calm by turns: faults go on for a while, everything is healed, and then everything must go on as it should.

use super::{What, World};
use crate::fault::Fault;
use crate::invariants::tried::Refused;
use crate::invariants::{self, Rule};
use crate::node::{Node, Stage};

impl World {
    pub(super) fn begin_chaos(&mut self) {
        self.healed = None;
        self.checks.takeovers.clear();
        self.checks.turns.clear();
        self.tried.iter_mut().for_each(Refused::clear);
        for kind in 0..self.scenario.faults.len() {
            self.schedule_strike(kind);
        }
        self.at(self.t + self.per_mille(self.scenario.chaos * 1000), What::Phase);
    }

    pub(super) fn turn_phase(&mut self) {
        if self.healed.is_none() {
            self.heal();
            self.healed = Some(self.t);
            // A process that was let go on may have met a last fault in that very step.
            self.resume_all();
            self.free_since.fill(None);
            self.at(self.t + self.per_mille(self.scenario.calm * 1000), What::Phase);
            self.at(self.t + self.per_mille(100), What::Look);
            if self.scenario.deaths {
                self.later(self.per_mille(3000), What::Death);
            }
            return;
        }
        self.rounds_left -= 1;
        if self.rounds_left == 0 {
            // What could not be ended in time is left to expire, and nobody leads before it has.
            let expires = self.lapsed.is_some_and(|lapsed| self.t < lapsed + 2 * self.ttl_ns());
            if self.scenario.users.elects && self.scenario.users.hold == 0 && !expires {
                for key in 0..self.keys.len() {
                    let found = invariants::leads::someone_leads(&self.nodes, key, self.t);
                    self.checks.check(self.t, Rule::L3, found);
                }
            }
            self.over = true;
        } else {
            self.begin_chaos();
        }
    }

    /// Everything works from now on; only what is under way already may still arrive late.
    fn heal(&mut self) {
        (self.store_down, self.throttled) = (false, false);
        drop(self.store.mend());
        for index in 0..self.nodes.len() {
            let node = &mut self.nodes[index];
            node.requests_pass = true;
            node.answers_pass = true;
            node.link_turn += 1;
            self.resume(index);
            if self.nodes[index].holder.is_none() {
                self.boot(index);
            }
        }
    }

    fn resume_all(&mut self) {
        for index in 0..self.nodes.len() {
            self.resume(index);
        }
    }

    /// In the calm: does everything go on as it should?
    pub(super) fn look(&mut self) {
        let Some(healed) = self.healed else { return };
        let (t, ttl) = (self.t, self.ttl_ns());
        // What is forbidden stays so, and nobody can have it.
        for key in
            (0..self.keys.len()).filter(|key| !self.store.is_forbidden(&self.keys[*key])).collect::<Vec<_>>()
        {
            if t > healed + ttl * 3 / 2 && self.scenario.rate <= 100_000 && !self.may_fail_over {
                // Whatever was excused before: once nothing goes wrong, whoever was deposed has found out. (Except after a
                // failover, which may have lost the claim of a lease that is attached to a session that was not lost.)
                let found = invariants::s1::one_holder(&self.nodes, &self.checks.acts, key, t, self.ttl);
                self.checks.must(t, Rule::S1, found);
            }
            self.look_for_leftovers(key);
            let held = self.is_believed(key);
            let waited_for = self.nodes.iter().any(|node| {
                node.acts()
                    && node
                        .views
                        .iter()
                        .any(|view| view.key == key && view.waits && view.stage == Stage::Wanted)
            });
            // Where all only try, over and over, someone always wants it.
            let waited_for = waited_for || self.scenario.users.trying == 100 && !self.scenario.users.fleeting;
            if held || !waited_for {
                self.free_since[key] = None;
                if !waited_for {
                    self.checks.takeovers.cancel(key);
                }
                continue;
            }
            let since = *self.free_since[key].get_or_insert(t);
            let found = invariants::l3::not_free_for_long(key, since, t, ttl);
            self.checks.check(t, Rule::L3, found);
        }
        for node in self.nodes.iter().filter(|node| node.acts()) {
            let found = invariants::answered::announced_in_time(node, healed, t, ttl);
            self.checks.check(t, Rule::Answered, found);
            for view in &node.views {
                let found = invariants::answered::in_time(node, view, healed, t, ttl);
                self.checks.check(t, Rule::Answered, found);
            }
            let stands = |key: usize, fence| {
                let record = self.store.get(&self.keys[key]).filter(|record| record.fence == fence);
                let record = record.filter(|_| !self.store.is_forbidden(&self.keys[key]));
                let attachment = record.and_then(|record| record.tenure.as_ref()?.attachment.as_ref());
                let session = node.holder.as_ref().and_then(tenure_core::Holder::session_fence);
                attachment.is_some_and(|attachment| {
                    attachment.session == node.session && Some(attachment.fence) == session
                })
            };
            let found = invariants::answered::freed_at_last(node, stands, healed, t, ttl);
            self.checks.check(t, Rule::Answered, found);
        }
        self.check_acts();
        self.check_seizers(healed);
        let found = self.checks.takeovers.look(t);
        self.checks.check(t, Rule::L1, found);
        self.at(t + self.per_mille(250), What::Look);
    }

    /// A claim on a session that lives, which its process knows to have won, though none of its users has to do with the key.
    fn look_for_leftovers(&mut self, key: usize) {
        let standing = self.store.get(&self.keys[key]).and_then(|record| {
            let tenure = record.tenure.as_ref()?;
            Some((tenure.id, tenure.attachment.as_ref()?.clone(), record.fence))
        });
        let is_left = standing.is_some_and(|(id, attachment, fence)| {
            self.nodes.iter().filter(|node| node.acts() && node.session == attachment.session).any(|node| {
                let lives =
                    node.holder.as_ref().and_then(|holder| holder.session_fence()) == Some(attachment.fence);
                let now = node.clock.held(self.t);
                let lapses = self.lapses[node.index]
                    .iter()
                    .any(|lapse| lapse.key == self.keys[key] && lapse.fence == fence && now < lapse.until);
                let wanted = node.views.iter().any(|view| view.key == key);
                // What was put back is asked about first, and what the store refused has a longer bound of its own.
                let denied = node.denied.iter().any(|(given_up, with, _)| (*given_up, *with) == (key, fence));
                // Nor does anybody hear of a release that was told and then lost.
                let excused =
                    denied || self.checks.acts.is_behind(key, fence) || self.scenario.has(Fault::Failover);
                lives && node.won.contains(&(id, fence)) && !lapses && !wanted && !node.stopping && !excused
            })
        });
        let Some(healed) = self.healed.filter(|_| is_left) else {
            self.left_since[key] = None;
            return;
        };
        let since = (*self.left_since[key].get_or_insert(self.t)).max(healed);
        let slow = if self.scenario.stumbles { self.ttl_ns() } else { 0 };
        let found = invariants::l3::not_left_for_long(key, since + slow, self.t, self.ttl_ns());
        self.checks.check(self.t, Rule::L3, found);
    }

    /// A claim took effect late: whoever waits has to find out about it anew.
    pub(crate) fn tenure_landed(&mut self, key: usize) {
        if self.healed.is_some() {
            self.free_since[key] = None;
            let (t, ttl) = (self.t, self.ttl_ns());
            let found = self.checks.takeovers.held(key, t, ttl);
            self.checks.check(t, Rule::L1, found);
        }
    }

    /// Has everyone found out what was done to its leases?
    pub(crate) fn check_acts(&mut self) {
        let stands = |key: usize, fence| {
            let record = self.store.get(&self.keys[key]);
            record.is_some_and(|record| record.fence == fence && record.tenure.is_some())
        };
        let found = self.checks.acts.found_out(&self.nodes, stands, self.healed, self.t, self.ttl_ns());
        self.checks.check(self.t, Rule::S10, found);
    }

    pub(crate) fn is_believed(&self, key: usize) -> bool {
        let believes =
            |node: &Node| node.views.iter().any(|view| view.key == key && node.believes(view, self.t));
        self.nodes.iter().any(believes)
    }
}
