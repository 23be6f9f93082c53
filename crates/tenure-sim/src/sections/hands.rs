//! What people do to a section's record behind its users' backs.

use super::{What, World};
use crate::kernel::trace::Story;
use std::collections::BTreeSet;
use tenure_core::Fence;

impl World {
    pub(super) fn delete_record(&mut self) {
        let (key, shown) = (self.scene.key.clone(), self.shown());
        if self.store.get(&key).is_some() {
            self.tell(|_| Story::Store(format!("somebody deletes {key}")));
            self.store.remove(self.t, &key);
            self.by_hand(shown);
        }
    }

    pub(super) fn restore_record(&mut self) {
        let (key, shown, writes) = (self.scene.key.clone(), self.shown(), self.rng.index(8));
        if self.store.put_back(self.t, &key, writes) {
            self.tell(|_| Story::Store(format!("somebody puts back an older copy of {key}")));
            self.by_hand(shown);
        }
    }

    /// Somebody writes what isn't a section's record, or no record at all, and some time later takes it away again. Nobody may write over it meanwhile:
    /// what was leased stays so.
    pub(super) fn damage_record(&mut self) {
        let key = self.scene.key.clone();
        self.tell(|_| Story::Store(format!("somebody damages {key}")));
        if self.rng.chance(0.5) {
            self.store.damage(key);
        } else {
            let nonce = self.admin.draw();
            self.store.garble(self.t, &key, nonce);
        }
        self.later(self.spans(1), What::Mend);
    }

    /// The fences that the record shows.
    fn shown(&self) -> BTreeSet<Fence> {
        self.ledger().entries.iter().map(|entry| entry.fence).collect()
    }

    /// What is believed in, or was written, before that is not what the record goes by any more.
    fn by_hand(&mut self, shown: BTreeSet<Fence>) {
        let believed: Vec<Fence> = self.believed().map(|one| one.fence).collect();
        let shown_now = self.shown();
        self.scene.behind.extend(shown.into_iter().chain(shown_now).chain(believed));
    }
}
