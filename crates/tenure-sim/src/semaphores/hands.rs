//! What people do to the records of semaphores behind their users' backs, and `gc`.

use super::{Heartbeat, SemaphoreDue, What, World};
use crate::kernel::Envelope;
use crate::kernel::trace::Story;
use std::collections::BTreeMap;
use std::time::Duration;
use tenure_core::gc::Collector;
use tenure_core::op::Listed;
use tenure_core::semaphore::{self, SemaphoreLedger};
use tenure_core::{Key, Record};

impl World {
    fn some_key(&mut self) -> usize {
        self.rng.index(self.scene.keys.len())
    }

    pub(super) fn delete_record(&mut self) {
        let key = self.some_key();
        let name = self.scene.keys[key].clone();
        if self.store.get(&name).is_some() {
            self.tell(|_| Story::Store(format!("somebody deletes {name}")));
            self.store.remove(self.t, &name);
            self.by_hand(key);
        }
    }

    pub(super) fn restore_record(&mut self) {
        let key = self.some_key();
        let (name, writes) = (self.scene.keys[key].clone(), self.rng.index(8));
        if self.store.get(&name).is_some() && self.store.put_back(self.t, &name, writes) {
            self.tell(|_| Story::Store(format!("somebody puts back an older copy of {name}")));
            self.by_hand(key);
        }
    }

    /// Somebody writes what isn't a semaphore's record, or a session's, and some time later takes it away again. Nobody may write over it meanwhile.
    pub(super) fn damage_some(&mut self, index: usize) {
        let at = self.rng.index(self.scene.keys.len() + 1);
        let (key, nonce) = (self.scene.keys.get(at).cloned(), self.admin.draw());
        let name = key.clone().unwrap_or_else(|| self.nodes[index].session.clone());
        self.tell(|_| Story::Store(format!("somebody damages {name}")));
        if key.is_some() && self.rng.chance(0.5) {
            self.store.garble(self.t, &name, nonce);
        } else {
            self.store.damage(name);
        }
        self.later(self.per_mille(1500), What::Mend);
    }

    pub(super) fn mend_records(&mut self) {
        for key in self.store.mend() {
            self.tell(|_| Story::Store(format!("somebody mends {key}")));
            self.hint(&key);
        }
    }

    pub(super) fn delete_session(&mut self, index: usize) {
        let session = self.nodes[index].session.clone();
        if self.store.get(&session).is_some() {
            self.tell(|_| Story::Store(format!("somebody deletes {session}")));
            self.store.remove(self.t, &session);
            // A claim that was sent before that may still land.
            self.checks.tenures.forget(&session);
        }
    }

    pub(super) fn restore_session(&mut self) {
        let index = self.rng.index(self.nodes.len());
        let (session, writes) = (self.nodes[index].session.clone(), self.rng.index(8));
        let own = self.nodes[index].machine.as_ref().and_then(tenure_core::Holder::session_fence);
        let stands = self.store.get(&session);
        let ended = own.filter(|own| {
            stands
                .is_some_and(|record| record.fence > *own || record.fence == *own && record.tenure.is_none())
        });
        if self.store.put_back(self.t, &session, writes) {
            if ended.is_some() {
                self.nodes[index].own.session_revived = ended;
            }
            self.tell(|_| Story::Store(format!("somebody puts back an older copy of {session}")));
            self.checks.tenures.forget(&session);
            // It may be as old as what others have seen to be silent, or fenced, long ago.
            self.nodes[index].own.session_restored = Some(self.t);
        }
    }

    /// A process has written its session's record, knowing what was put back there, if something was.
    pub(super) fn session_written(&mut self, envelope: &Envelope, key: &Key, after: &Record) {
        let node = &mut self.nodes[envelope.node];
        if *key != node.session {
            return;
        }
        node.own.session_restored.take_if(|restored| *restored < envelope.posted);
        if let Some(tenure) = &after.tenure {
            let (key, fence, sent, ttl) = (key.clone(), after.fence, envelope.sent, tenure.ttl);
            node.own.heartbeats.push_back(Heartbeat { key, fence, sent, ttl });
            if node.own.heartbeats.len() > 8 {
                node.own.heartbeats.pop_front();
            }
        }
    }

    /// The store has lost writes.
    pub(super) fn unlearn(&mut self, lost: BTreeMap<Key, Option<Record>>) {
        for (name, record) in lost {
            if let Some(key) = self.key_index(&name) {
                let ledger = record.and_then(|record| SemaphoreLedger::of(&record).ok());
                // Whoever hears of such a grant only now believes in it.
                let granted = ledger.into_iter().flat_map(|ledger| ledger.holders);
                self.scene.behind.extend(granted.map(|grant| (key, grant.fence)));
                self.by_hand(key);
            }
        }
    }

    /// What is believed in and not shown any more is behind the protocol's back.
    fn by_hand(&mut self, key: usize) {
        let shown = self.ledger(key);
        let believed: Vec<_> = self.believed(key).map(|one| one.fence).collect();
        let granted = shown.holders.iter().map(|grant| grant.fence);
        self.scene.behind.extend(believed.into_iter().chain(granted).map(|fence| (key, fence)));
        self.scene.put_back.extend(shown.tickets().map(|ticket| ticket.id));
        self.scene.grants[key].put_back(&shown);
        self.note_room(key);
        self.hint(&self.scene.keys[key].clone());
    }

    /// `gc` by a clock that is right: semaphores that nobody uses, and sessions that nothing names.
    pub(super) fn collect(&mut self) {
        self.later(self.per_mille(6000), What::Own(SemaphoreDue::Collect));
        let retention = Duration::from_millis(self.ttl.millis() * 4);
        let all = self.store.list(self.t);
        let collector = Collector::new(self.true_wall(), retention, &all, self.setup.bugs);
        for Listed { key, stored } in &all {
            let Ok(stored) = stored else { continue };
            let is_semaphore = self.key_index(key).is_some();
            let may_go =
                if is_semaphore { semaphore::is_idle(&stored.record) } else { !collector.is_ridden(key) };
            let is_vacant = stored.record.tenure.is_none();
            if is_vacant && may_go && collector.is_old(stored) && collector.may_forget(stored) {
                self.tell(|_| Story::Store(format!("gc removes {key}")));
                self.store.remove(self.t, key);
                let named = self.names(key);
                self.check(crate::invariants::Rule::L1, named);
            }
        }
    }

    /// Whoever finds a claim on a session that is missing can't tell since when.
    fn names(&self, session: &Key) -> Result<(), String> {
        for key in 0..self.scene.keys.len() {
            let ledger: SemaphoreLedger = self.ledger(key);
            if ledger.tickets().any(|ticket| ticket.attachment.session == *session) {
                return Err(format!("gc removes {session}, and k{key} names it"));
            }
        }
        Ok(())
    }
}
