//! Those who hold nothing: they write letters to holders.

use crate::kernel::trace::Story;
use crate::leases::{LeaseDue, What, World};
use tenure_core::op::{Expect, Write};
use tenure_core::{Ask, Letter, MAILBOX};

impl World {
    /// Someone writes to whoever holds a key.
    pub(crate) fn letter(&mut self) {
        self.later(self.per_mille(self.scenario.users.mail), What::Own(LeaseDue::Letter));
        let index = self.rng.index(self.scene.keys.len());
        let key = self.scene.keys[index].clone();
        let ask = if self.rng.chance(0.6) { Ask::HandOver } else { Ask::Revoke };
        let Some(stored) = self.store.stored_at(&key, self.t) else { return };
        let Some(tenure) = &stored.record.tenure else { return };
        let fence = stored.record.fence;
        let to = match &tenure.attachment {
            None => key.clone(),
            Some(attachment) => {
                let alive =
                    self.store.get(&attachment.session).filter(|record| record.fence == attachment.fence);
                if alive.is_none() {
                    return;
                }
                attachment.session.clone()
            }
        };
        let Some(mut stored) = self.store.stored_at(&to, self.t) else { return };
        let Some(tenure) = &mut stored.record.tenure else { return };
        if tenure.mail.len() >= MAILBOX {
            return;
        }
        let letter = Letter::new(key, ask);
        // Half of all keys are asked for whoever has them by then.
        tenure.mail.push(if index.is_multiple_of(2) { letter.of(fence) } else { letter });
        stored.record.nonce = self.admin.draw();
        self.tell(|_| Story::Store(format!("someone writes {ask:?} about k{index} to {to}")));
        let write =
            Write { key: to.clone(), expect: Expect::Unchanged(stored.version), record: stored.record };
        self.mail_landed();
        if self.write_as_admin(write) && !self.scene.mailed.iter().any(|(mailed, _)| *mailed == to) {
            self.scene.mailed.push((to.clone(), self.t));
        }
        self.hint(&to);
    }

    pub(crate) fn mail_landed(&mut self) {
        let bound = self.per_mille(1400) + self.slowness();
        self.scene.takeovers.age_is_lost(bound);
    }
}
