//! Users that cron starts: a process tries once, and ends if that comes to nothing.

use crate::invariants::Rule;
use crate::kernel::trace::Story;
use crate::leases::World;
use crate::leases::node::Node;
use tenure_core::{HolderId, LeaseId};

/// So many tries, each more than a ttl after the other, may be refused by what a live process knows nothing of: one that finds it young,
/// one that asks and one more; as many again where ages fall short.
const STRAY: u64 = 6;

impl World {
    /// A try was refused: where processes are that short, this one ends, and another starts some time later.
    pub(super) fn refused(&mut self, index: usize, lease: LeaseId) {
        if !self.scenario.users.fleeting || index < self.scenario.users.residents {
            return;
        }
        let key = self.nodes[index].own.views.iter().find(|view| view.id == lease).map(|view| view.key);
        if let Some(key) = key {
            self.note_refused(key);
        }
        self.end_process(index);
        self.restart(index, self.per_mille(1000));
    }

    fn note_refused(&mut self, key: usize) {
        let calm = self.healed.is_some_and(|healed| self.t > healed + self.per_mille(2000));
        let lives = |who: &HolderId| self.nodes.iter().any(|node: &Node| node.acts() && node.who == *who);
        let standing = self.store.get(&self.scene.keys[key]).and_then(|record| record.tenure.as_ref());
        let clocks = self.nodes.len() as u64;
        let nobodys = standing.filter(|_| calm).and_then(|tenure| {
            let has =
                |node: &Node| node.who == tenure.holder && node.own.views.iter().any(|view| view.key == key);
            match lives(&tenure.holder) {
                false => Some((tenure.id, 3 + 2 * clocks)),
                true if self.nodes.iter().any(has) => None,
                true => Some((tenure.id, STRAY)),
            }
        });
        let Some((id, most)) = nobodys else { return self.scene.tried[key].clear() };
        let (t, ttl) = (self.t, self.ttl_ns());
        let found = self.scene.tried[key].again(key, id, t, ttl, most);
        self.check(Rule::L1, found);
    }

    /// Somebody deletes the record of a process's session by hand: whatever is attached to it is left behind.
    pub(crate) fn delete_session(&mut self, index: usize) {
        let sessions: Vec<_> = self
            .store
            .keys()
            .map(|(key, _)| key)
            .filter(|key| key.as_str().starts_with("session/"))
            .cloned()
            .collect();
        let own = self.nodes[index].session.clone();
        let at = self.rng.index(sessions.len().max(1));
        let session = sessions.get(at).filter(|_| self.rng.chance(0.5)).cloned().unwrap_or(own);
        self.tell(|_| Story::Store(format!("somebody deletes {session}")));
        self.store.remove(self.t, &session);
        self.checks.tenures.forget(&session);
    }
}
