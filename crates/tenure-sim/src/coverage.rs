//! What happened in a world besides faults: the moments that scenarios are about. A scenario in which none of its moments
//! ever came would prove nothing, so they are counted, reported and asserted.

use crate::clock::True;
use crate::node::{Stage, View};
use crate::registers::Landed;
use crate::world::World;
use tenure_core::op::{Expect, Write};
use tenure_core::{Key, Record};

/// A kind of moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each is described by `Deed::about`")]
pub enum Coverage {
    Renewed,
    TakenOver,
    TakenByTrying,
    FreshRowRace,
    LateRenewal,
    LateRelease,
    LossUnreachable,
    LossOverdue,
    HandedOver,
    MailMetRenewal,
    OwnSessionAgain,
    LeftToExpire,
    RefusedByResource,
    DiedHolding,
}

impl Coverage {
    /// Every kind.
    pub const ALL: &'static [Coverage] = &[
        Coverage::Renewed,
        Coverage::TakenOver,
        Coverage::TakenByTrying,
        Coverage::FreshRowRace,
        Coverage::LateRenewal,
        Coverage::LateRelease,
        Coverage::LossUnreachable,
        Coverage::LossOverdue,
        Coverage::HandedOver,
        Coverage::MailMetRenewal,
        Coverage::OwnSessionAgain,
        Coverage::LeftToExpire,
        Coverage::RefusedByResource,
        Coverage::DiedHolding,
    ];

    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Coverage::Renewed => "renewed",
            Coverage::TakenOver => "taken-over",
            Coverage::TakenByTrying => "taken-by-trying",
            Coverage::FreshRowRace => "fresh-row-race",
            Coverage::LateRenewal => "late-renewal",
            Coverage::LateRelease => "late-release",
            Coverage::LossUnreachable => "loss-unreachable",
            Coverage::LossOverdue => "loss-overdue",
            Coverage::HandedOver => "handed-over",
            Coverage::MailMetRenewal => "mail-met-renewal",
            Coverage::OwnSessionAgain => "own-session-again",
            Coverage::LeftToExpire => "left-to-expire",
            Coverage::RefusedByResource => "refused-by-resource",
            Coverage::DiedHolding => "died-holding",
        }
    }

    /// What happened.
    #[must_use]
    pub fn about(self) -> &'static str {
        match self {
            Coverage::Renewed => "a renewal took effect",
            Coverage::TakenOver => "a key was taken over the record of another that was found dead",
            Coverage::TakenByTrying => "it was taken so by someone who never waited",
            Coverage::FreshRowRace => "of two who claimed a key without a record, one was refused",
            Coverage::LateRenewal => "a deposed holder's renewal met its successor's record, and was refused",
            Coverage::LateRelease => "a deposed holder's release met its successor's record, and was refused",
            Coverage::LossUnreachable => "a holder that could not reach the store was told of its loss",
            Coverage::LossOverdue => {
                "a holder that was stopped beyond its deadline was told as soon as it went on"
            }
            Coverage::HandedOver => "a lease went on as another process's, under the same fence",
            Coverage::MailMetRenewal => "a renewal lost to a letter and was repeated",
            Coverage::OwnSessionAgain => "a process met its own former session's record, and began anew",
            Coverage::LeftToExpire => "what could not be ended was left to expire",
            Coverage::RefusedByResource => "the resource refused a deposed holder's write",
            Coverage::DiedHolding => "a process died while it held something",
        }
    }
}

impl World {
    /// A write met `standing` instead of what it expected.
    pub(crate) fn note_refusal(&mut self, write: &Write, posted: True, standing: &Record) {
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
                let key = self.keys.iter().position(|key| *key == write.key);
                if key.is_some_and(|key| self.fresh[key] > posted) {
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
            self.fresh[key] = self.t;
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
        let tries = |view: &View| Some(view.key) == ours && view.tries && view.stage == Stage::Wanted;
        if node.life == life && node.views.iter().any(tries) {
            self.tally.coverage(Coverage::TakenByTrying);
        }
    }
}
