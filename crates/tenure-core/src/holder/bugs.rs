//! Bugs on purpose that are steps of their own: no build has them but those that are to show how they are caught.

use super::Holder;
use super::lease::change::RecordChange;
use super::lease::{LeaseState, UpdatePurpose};
use super::lease_id::LeaseId;
use super::update::UpdateKind;
use crate::bugs::Bug;
use crate::values::time::{Now, Tick};

impl Holder {
    /// Renews each attached lease by itself: what the session is there to save.
    pub(super) fn renew_each_attached(&mut self, now: Now) {
        if !self.env.rules.bugs.has(Bug::RenewEachAttached) {
            return;
        }
        let attached: Vec<LeaseId> = self
            .leases
            .iter()
            .filter(|(_, lease)| matches!(lease, LeaseState::Attached(_)))
            .map(|(id, _)| id)
            .collect();
        for id in attached {
            if let Some(LeaseState::Attached(attached)) = self.leases.remove(&id) {
                let token = self.token_of_attached(&attached);
                let change = RecordChange {
                    attachment: self.session.attachment(),
                    held_by: Some(attached),
                    ..RecordChange::new(token, UpdateKind::Amend, UpdatePurpose::Update, Tick::NEVER)
                };
                self.begin_change(now, id, change);
            }
        }
    }
}
