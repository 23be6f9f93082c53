//! The calm: does everything go on as it should?

use super::node::{LeaseStage, Node};
use super::{LeaseDue, What, World};
use crate::invariants::{self, Rule};
use crate::kernel::fault::FaultKind;

impl World {
    /// At the end: what could not be ended in time is left to expire, and nobody leads before it has.
    pub(super) fn check_someone_leads(&mut self) {
        let expires = self.scene.lapsed.is_some_and(|lapsed| self.t < lapsed + 2 * self.ttl_ns());
        if self.scenario.users.elects && self.scenario.users.hold == 0 && !expires {
            for key in 0..self.scene.keys.len() {
                self.check(Rule::L3, invariants::leads::someone_leads(&self.nodes, key, self.t));
            }
        }
    }

    /// Who only tries has an answer also while writes hang, as they did since then.
    pub(super) fn check_tries(&mut self, since: u64) {
        let (t, ttl) = (self.t, self.ttl_ns());
        for node in self.nodes.iter().filter(|node| node.acts()) {
            for view in node.own.views.iter().filter(|view| view.stage == LeaseStage::Wanted) {
                self.checks.check(
                    t,
                    Rule::Answered,
                    invariants::answered::in_time(node, view, since, t, ttl),
                );
            }
        }
    }

    /// In the calm: does everything go on as it should?
    pub(super) fn look(&mut self) {
        let Some(healed) = self.healed else { return };
        let (t, ttl) = (self.t, self.ttl_ns());
        // What is forbidden stays so, and nobody can have it.
        for key in (0..self.scene.keys.len())
            .filter(|key| !self.store.is_forbidden(&self.scene.keys[*key]))
            .collect::<Vec<_>>()
        {
            if t > healed + ttl * 3 / 2
                && self.scenario.rate <= 100_000
                && !self.frame.has(FaultKind::Failover)
            {
                // Whatever was excused before: once nothing goes wrong, whoever was deposed has found out. (Except after a
                // failover, which may have lost the claim of a lease that is attached to a session that was not lost.)
                let found = invariants::s1::one_holder(&self.nodes, &self.scene.acts, key, t, self.ttl);
                self.checks.must(t, Rule::S1, found);
            }
            self.look_for_leftovers(key);
            let held = self.is_believed(key);
            let waited_for = self.nodes.iter().any(|node| {
                node.acts()
                    && node
                        .own
                        .views
                        .iter()
                        .any(|view| view.key == key && view.waits && view.stage == LeaseStage::Wanted)
            });
            // Where all only try, over and over, someone always wants it.
            let waited_for = waited_for || self.scenario.users.trying == 100 && !self.scenario.users.fleeting;
            if held || !waited_for {
                self.scene.free_since[key] = None;
                if !waited_for {
                    self.scene.takeovers.cancel(key);
                }
                continue;
            }
            let since = *self.scene.free_since[key].get_or_insert(t);
            self.check(Rule::L3, invariants::l3::not_free_for_long(key, since, t, ttl));
        }
        for node in self.nodes.iter().filter(|node| node.acts()) {
            self.checks.check(
                self.t,
                Rule::Answered,
                invariants::answered::announced_in_time(node, healed, t, ttl),
            );
            for view in &node.own.views {
                self.checks.check(
                    self.t,
                    Rule::Answered,
                    invariants::answered::in_time(node, view, healed, t, ttl),
                );
            }
            let stands = |key: usize, fence| {
                let record = self.store.get(&self.scene.keys[key]).filter(|record| record.fence == fence);
                let record = record.filter(|_| !self.store.is_forbidden(&self.scene.keys[key]));
                let attachment = record.and_then(|record| record.tenure.as_ref()?.attachment.as_ref());
                let session = node.machine.as_ref().and_then(tenure_core::Holder::session_fence);
                attachment.is_some_and(|attachment| {
                    attachment.session == node.session && Some(attachment.fence) == session
                })
            };
            self.checks.check(
                self.t,
                Rule::Answered,
                invariants::answered::freed_at_last(node, stands, healed, t, ttl),
            );
        }
        self.check_acts();
        self.check_seizers(healed);
        let found = self.scene.takeovers.look(t);
        self.check(Rule::L1, found);
        self.at(t + self.per_mille(250), What::Own(LeaseDue::Look));
    }

    /// A claim on a session that lives, which its process knows to have won, though none of its users has to do with the key.
    fn look_for_leftovers(&mut self, key: usize) {
        let standing = self.store.get(&self.scene.keys[key]).and_then(|record| {
            let tenure = record.tenure.as_ref()?;
            Some((tenure.id, tenure.attachment.as_ref()?.clone(), record.fence))
        });
        let is_left = standing.is_some_and(|(id, attachment, fence)| {
            self.nodes.iter().filter(|node| node.acts() && node.session == attachment.session).any(|node| {
                let lives =
                    node.machine.as_ref().and_then(|holder| holder.session_fence()) == Some(attachment.fence);
                let now = node.clock.held(self.t);
                let lapses = self.scene.lapses[node.index].iter().any(|lapse| {
                    lapse.key == self.scene.keys[key] && lapse.fence == fence && now < lapse.until
                });
                let wanted = node.own.views.iter().any(|view| view.key == key);
                // What was put back is asked about first, and what the store refused has a longer bound of its own.
                let denied =
                    node.own.denied.iter().any(|(given_up, with, _)| (*given_up, *with) == (key, fence));
                // Nor does anybody hear of a release that was told and then lost.
                let excused =
                    denied || self.scene.acts.is_behind(key, fence) || self.frame.has(FaultKind::Failover);
                lives
                    && node.own.won.contains(&(id, fence))
                    && !lapses
                    && !wanted
                    && !node.stopping
                    && !excused
            })
        });
        let Some(healed) = self.healed.filter(|_| is_left) else {
            self.scene.left_since[key] = None;
            return;
        };
        let since = (*self.scene.left_since[key].get_or_insert(self.t)).max(healed);
        let slow = if self.scenario.stumbles { self.ttl_ns() } else { 0 };
        self.check(Rule::L3, invariants::l3::not_left_for_long(key, since + slow, self.t, self.ttl_ns()));
    }

    /// A claim took effect late: whoever waits has to find out about it anew.
    pub(crate) fn claim_landed(&mut self, key: usize) {
        if self.healed.is_some() {
            self.scene.free_since[key] = None;
            let (t, ttl) = (self.t, self.ttl_ns());
            let found = self.scene.takeovers.held(key, t, ttl);
            self.check(Rule::L1, found);
        }
    }

    /// Has everyone found out what was done to its leases?
    pub(crate) fn check_acts(&mut self) {
        let stands = |key: usize, fence| {
            let record = self.store.get(&self.scene.keys[key]);
            record.is_some_and(|record| record.fence == fence && record.tenure.is_some())
        };
        let found = self.scene.acts.found_out(&self.nodes, stands, self.healed, self.t, self.ttl_ns());
        self.check(Rule::S10, found);
    }

    pub(crate) fn is_believed(&self, key: usize) -> bool {
        let believes =
            |node: &Node| node.own.views.iter().any(|view| view.key == key && node.believes(view, self.t));
        self.nodes.iter().any(believes)
    }
}
