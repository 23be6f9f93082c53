//! The moments that scenarios of leases are about.

use super::World;
use super::node::{LeaseStage, LeaseView};
use crate::kernel::Envelope;
use crate::kernel::coverage::Coverage;
use crate::kernel::registers::Landed;
use tenure_core::op::{Answer, Expect, Op, Outcome};
use tenure_core::{Key, StoreError};

impl World {
    /// A write may have met something else than what it expected.
    pub(super) fn note_refusal(&mut self, envelope: &Envelope, result: &Result<Answer, StoreError>) {
        let (Op::Write(write), Ok(Answer::Write(Outcome::Lost(Some(standing))))) = (&envelope.op, result)
        else {
            return;
        };
        let standing = &standing.record;
        let (ours, theirs) = (&write.record.tenure, &standing.tenure);
        let deposed = standing.fence > write.record.fence;
        match (ours, theirs) {
            (Some(ours), Some(theirs)) if ours.id != write.record.nonce => {
                if ours.id == theirs.id && !theirs.mail.is_empty() {
                    self.tally.coverage(Coverage::MailMetRenewal);
                } else if deposed {
                    self.tally.coverage(Coverage::LateRenewal);
                }
            }
            (Some(ours), None) if ours.id != write.record.nonce && deposed => {
                self.tally.coverage(Coverage::LateRenewal)
            }
            (None, Some(_)) if deposed => self.tally.coverage(Coverage::LateRelease),
            (Some(_), Some(_)) if write.expect == Expect::Vacant => {
                let key = self.key_index(&write.key);
                if key.is_some_and(|key| self.scene.fresh[key] > envelope.posted) {
                    self.tally.coverage(Coverage::FreshRowRace);
                }
            }
            _ => {}
        }
    }

    /// A write took effect: what does that come to?
    pub(crate) fn note_coverage(
        &mut self,
        index: usize,
        life: u32,
        key: &Key,
        ours: Option<usize>,
        landed: &Landed,
    ) {
        let (before, Some(new)) = (&landed.before, &landed.after.tenure) else { return };
        if new.id != landed.after.nonce {
            return self.tally.coverage(Coverage::Renewed);
        }
        if before.is_none()
            && let Some(key) = ours
        {
            self.scene.fresh[key] = self.t;
        }
        let Some(old) = before.as_ref().and_then(|record| record.tenure.as_ref()) else { return };
        if landed.before.as_ref().is_some_and(|record| record.fence == landed.after.fence) {
            return self.tally.coverage(Coverage::HandedOver);
        }
        if old.holder == new.holder {
            if *key == self.nodes[index].session {
                self.tally.coverage(Coverage::OwnSessionAgain);
            }
            return;
        }
        self.tally.coverage(Coverage::TakenOver);
        let node = &self.nodes[index];
        let tries =
            |view: &LeaseView| Some(view.key) == ours && view.tries && view.stage == LeaseStage::Wanted;
        if node.life == life && node.own.views.iter().any(tries) {
            self.tally.coverage(Coverage::TakenByTrying);
        }
    }
}
