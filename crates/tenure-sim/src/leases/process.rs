//! The processes of a world of leases: how they begin and end.

use super::node::{LeaseActivity, UserTask};
use super::{LeaseDue, LeasesScene, What, World};
use crate::invariants::answered_once::AnswerLedger;
use crate::invariants::{self, Rule};
use crate::kernel::NewProcess;
use tenure_core::{Holder, HolderId, Host, Identity, Key, Metadata, Rules, Tick};

impl World {
    /// A new holder id, a new session key, a new instance.
    pub(super) fn new_process(
        &mut self,
        index: usize,
        life: u32,
        instance: u64,
    ) -> Option<NewProcess<LeasesScene>> {
        let own = format!("n{index}.{life}");
        let who = self.nodes[index].own.goes_by.take().map_or(own, |taken| taken.to_string());
        let (who, session) = (HolderId::new(&who).ok()?, Key::new(format!("session/{who}")).ok()?);
        let identity = Identity {
            holder: who.clone(),
            session: session.clone(),
            ttl: self.ttl,
            about: Metadata::new(),
            instance,
        };
        let renew = self.scenario.users.elects.then(|| self.ttl.part(5));
        // A node's clocks go on from one process to the next.
        let host = Host { boot: self.nodes[index].own.boot, held: Tick(0), waited: Tick(0) };
        let (bugs, poll) = (self.setup.bugs, self.ttl.duration());
        let rules = Rules { bugs, poll, renew, host: Some(host), ..Rules::default() };
        Some(NewProcess { who, session, machine: Holder::new(identity, rules) })
    }

    pub(super) fn booted(&mut self, index: usize) {
        self.scene.claims[index].clear();
        self.scene.lapses[index].clear();
        let tasks = self.scenario.users.tasks;
        self.nodes[index].own.tasks = vec![UserTask { doing: LeaseActivity::Idle, turn: 0 }; tasks];
        for task in 0..tasks {
            self.think(index, task);
        }
        self.seat_candidates(index);
    }

    pub(super) fn ended(&mut self, index: usize) {
        let own = &mut self.nodes[index].own;
        *own = own.without_process();
        self.scene.asked[index] = AnswerLedger::default();
        self.scene.claims[index].clear();
        self.scene.lapses[index].clear();
        self.scene.takeovers.waiters_died(index);
    }

    /// Takes the next thing out of a process's inbox, unless the process stands still.
    pub(super) fn look_into_inbox(&mut self, index: usize, life: u32) {
        let node = &mut self.nodes[index];
        if node.life == life
            && !node.paused
            && let Some(input) = node.inbox.pop_front()
        {
            self.deliver(index, input);
        }
    }

    /// A third of a ttl after time was hidden from a process, it has noticed that.
    pub(super) fn look_for_gap(&mut self, index: usize, life: u32) {
        let node = &self.nodes[index];
        let Some(gap) = node.own.gap.filter(|_| node.life == life) else { return };
        let due = gap.after(self.ttl.part(3) + self.ttl.part(50));
        if node.paused || node.clock.held(self.t) < due {
            return self.at(self.t + self.per_mille(50), What::Own(LeaseDue::Gap(index as u8, life)));
        }
        self.check(Rule::S4, invariants::s4::gap_noticed(node, self.t));
        self.nodes[index].own.gap = None;
    }
}
