//! `gc`, by a clock that is wrong like the others, or by one that is far ahead.

use crate::invariants::Rule;
use crate::kernel::trace::Story;
use crate::leases::{LeaseDue, What, World};
use std::time::Duration;
use tenure_core::gc::Collector;
use tenure_core::op::{Expect, Listed, Write};
use tenure_core::{Fence, HolderId, Key, Record, Stored, Tenure, Wall};

impl World {
    pub(crate) fn collect(&mut self) {
        self.later(self.per_mille(self.scenario.users.gc), What::Own(LeaseDue::Collect));
        if self.scenario.users.gc_ahead > 0 {
            self.beat_beacon();
        }
        let off = self.scenario.wall_off_ms;
        // Longer than any clock is behind and any claim is under way, so that no later claim has a lower clock.
        let retention = Duration::from_millis(off * 2 + self.ttl.millis() * 10);
        let wrong = self.rng.between(0, off * 2 + self.scenario.users.gc_ahead) as i64 - off as i64;
        let wall = Wall(self.true_wall().0.saturating_add_signed(wrong));
        let all = self.store.list(self.t);
        let collector = Collector::new(wall, retention, &all, self.setup.bugs);
        // Whoever runs it may mean a part of the store only.
        let all_of_it = self.rng.chance(0.6);
        for Listed { key, stored } in all.iter().filter(|listed| all_of_it || is_session(&listed.key)) {
            let Ok(stored) = stored else { continue };
            match &stored.record.tenure {
                Some(_) if collector.ended_attachment(stored).is_some() && collector.is_old(stored) => {
                    self.vacate(key, stored, stored.record.fence, wall);
                }
                Some(tenure) if is_session(key) && tenure.attachment.is_none() => {
                    let next = stored.record.fence.next(Fence::floor(wall));
                    if let (true, Ok(fence)) = (collector.is_old(stored), next) {
                        self.vacate(key, stored, fence, wall);
                    }
                }
                Some(_) => {}
                None if collector.is_old(stored)
                    && collector.may_forget(stored)
                    && !collector.tells_of_ticks(stored)
                    && !collector.is_ridden(key) =>
                {
                    self.tell(|_| Story::Store(format!("gc removes {key}")));
                    self.store.remove(self.t, key);
                    let found = self.none_is_attached_to(key);
                    self.check(Rule::L1, found);
                }
                None => {}
            }
        }
    }

    /// A process that tells the time rightly lives, and shows it in the store.
    fn beat_beacon(&mut self) {
        let (Ok(key), Ok(holder)) = (Key::new("beacon"), HolderId::new("beacon")) else { return };
        let (nonce, stamp) = (self.admin.draw(), self.true_wall());
        let seen = self.store.stored_at(&key, self.t);
        let expect = seen.as_ref().map_or(Expect::Absent, |seen| Expect::Unchanged(seen.version));
        let ttl = self.ttl;
        let tenure = Tenure::new(nonce, holder, ttl, stamp);
        let record =
            Record { fence: Fence(1), nonce, stamp, tenure: Some(tenure), metadata: Default::default() };
        self.write_as_admin(Write { key, expect, record });
    }

    fn vacate(&mut self, key: &Key, seen: &Stored, fence: Fence, stamp: Wall) {
        self.tell(|_| Story::Store(format!("gc vacates {key}")));
        let nonce = self.admin.draw();
        let record = Record { fence, nonce, stamp, tenure: None, metadata: seen.record.metadata.clone() };
        let expect = Expect::Unchanged(seen.version);
        self.write_as_admin(Write { key: key.clone(), expect, record });
    }

    /// Whoever finds a claim on a session that is missing can't tell since when.
    fn none_is_attached_to(&self, session: &Key) -> Result<(), String> {
        let is_attached = |record: &Record| {
            let tenure = record.tenure.as_ref();
            tenure
                .and_then(|tenure| tenure.attachment.as_ref())
                .is_some_and(|attachment| attachment.session == *session)
        };
        match self.store.keys().find(|(_, record)| is_attached(record)) {
            Some((key, _)) => Err(format!("gc removes {session}, and {key} is attached to it")),
            None => Ok(()),
        }
    }
}

fn is_session(key: &Key) -> bool {
    key.as_str().starts_with("session/")
}
