//! What the checks of a fleet see of requests, answers and writes.

use super::{World, invariants};
use crate::invariants::Rule;
use crate::kernel::Envelope;
use crate::kernel::clock::{MILLI, True};
use crate::kernel::coverage::Coverage;
use crate::kernel::registers::Landed;
use tenure_core::fleet::UnitSpec;
use tenure_core::op::{Answer, Op};
use tenure_core::{Attachment, ErrorKind, Key, Record, StoreError};

/// How many records of a page the store reads at the cost of one write.
const PAGED: usize = 50;

impl World {
    /// How much longer than others a request takes to arrive.
    pub(super) fn delay(&mut self, envelope: &Envelope) -> True {
        let aimed_at = self.meet_aim(envelope);
        if aimed_at > 0 {
            return aimed_at;
        }
        match &envelope.op {
            Op::List { .. } => self.rng.below(self.scenario.list_ms * MILLI + 1),
            Op::Write(write) if self.scenario.part_ms > 0 && self.scene.is_part(&write.key) => {
                self.delay_part(envelope)
            }
            Op::Write(write) if write.key == self.scene.board => self.release_parts(envelope.node),
            _ => 0,
        }
    }

    /// Whether the store has capacity left for this, as a service that is billed by it has. What is not used of a tenth of a ttl is kept for the next
    /// one. Fifty records of a page cost as much as one write.
    pub(super) fn has_capacity(&mut self, envelope: &Envelope) -> bool {
        let Some(capacity) = self.scenario.capacity else { return true };
        let calls = match &envelope.op {
            Op::Read(_) | Op::Write(_) => 1,
            Op::ReadMany(keys, _) => keys.len().div_ceil(PAGED),
            Op::List { prefix, after, limit } => {
                let later = |key: &&Key| after.as_ref().is_none_or(|after| *key > after);
                let keys = self.store.keys().map(|(key, _)| key).filter(later);
                keys.filter(|key| key.as_str().starts_with(prefix))
                    .take(*limit)
                    .count()
                    .div_ceil(PAGED)
                    .max(1)
            }
        };
        if self.scene.booked > self.t {
            self.tally.coverage(Coverage::OverCapacity);
            return false;
        }
        let cost = self.per_mille(1000) / capacity * calls as u64;
        let kept = self.t.saturating_sub(self.per_mille(100));
        self.scene.booked = self.scene.booked.max(kept) + cost;
        true
    }

    /// How far reads of a recent state lag behind: in the calm a little.
    pub(super) fn lag(&mut self) -> True {
        let most = if self.healed.is_none() && self.rng.chance(0.1) { 1000 } else { self.scenario.lag };
        self.rng.below(self.per_mille(most))
    }

    /// When somebody began to list the units: by this, audits are known.
    pub(super) fn note_listing(&mut self, envelope: &Envelope, result: &Result<Answer, StoreError>) {
        if let (Op::List { prefix, after: None, .. }, Ok(_)) = (&envelope.op, result)
            && *prefix == self.scene.fleet.unit_prefix()
        {
            self.scene.listed = self.t;
        }
    }

    /// What units that are refused cost, while all is settled.
    pub(super) fn count_refused(&mut self, envelope: &Envelope, result: &Result<Answer, StoreError>) {
        // What users write who have it is their own affair.
        let is_used = |key: &Key| self.nodes[envelope.node].works_on(key).is_some();
        let is_used = matches!(&envelope.op, Op::Write(write) if is_used(&write.key));
        let lasts = result.as_ref().err().filter(|error| !error.is_passing() && !is_used);
        if let Some(error) = lasts.filter(|_| self.t > self.scene.settled_by) {
            let damaged = error.kind() == ErrorKind::Foreign;
            self.scene.settled_refusals[usize::from(damaged)] += 1;
        }
    }

    /// A worker's write took effect.
    pub(super) fn write_landed(&mut self, envelope: &Envelope, key: &Key, landed: &Landed, is_new: bool) {
        let Landed { before, after } = landed;
        let (t, before) = (self.t, before.as_ref());
        let by = self.nodes[envelope.node].name_of(envelope.life);
        self.check(Rule::S3, invariants::s3::passed(key, before, after, by));
        let node = &mut self.nodes[envelope.node];
        let keeps = after.tenure.as_ref().is_some_and(|tenure| tenure.holder == node.who);
        if node.life == envelope.life && self.scene.units.contains_key(key) && !keeps {
            node.own.unsaid = Some(key.clone());
        }
        if *key == self.scene.board {
            self.depose(before, after);
        }
        if *key == self.scene.board && before.is_none_or(|before| before.fence < after.fence) {
            self.scene.raised = t;
            self.nodes.iter_mut().for_each(|node| node.own.unsaid = None);
        }
        let node = &mut self.nodes[envelope.node];
        let is_own = node.life == envelope.life && *key == node.session;
        if is_own && after.tenure.is_some() {
            node.note_heartbeat(envelope.sent.held);
        }
        // It is counted again where it is, and the others are told if that makes them uneven.
        let failed =
            |record: &Record| UnitSpec::parse(record.metadata.clone()).is_ok_and(|(spec, _)| spec.fails());
        if self.scene.units.contains_key(key) && before.is_some_and(failed) && !failed(after) {
            self.disturb_by_plan();
        }
        // Who may not list passes on to whom it knows, who may be gone by then, or gives it back: whoever plans finds that.
        let attachment = after.tenure.as_ref().and_then(|tenure| tenure.attachment.as_ref());
        let is_given_back = after.tenure.is_none() && self.scene.unfit.is_some();
        let is_lost = is_given_back || attachment.is_some_and(|attachment| !self.is_up(attachment));
        if is_lost && self.scene.units.contains_key(key) {
            self.disturb_by_plan();
        }
        if let Some(truth) = self.scene.units.get_mut(key) {
            self.checks.check(self.t, Rule::S4, invariants::s4::kept(key, truth, before, after, is_new));
        }
        // A write that was given up long ago may still land in the calm: whatever that spoils needs time to mend.
        if envelope.stray && self.healed.is_some() {
            self.disturb(self.per_mille(7000));
            // A session that nobody renews may stand again, and is found at the next audit.
            self.scene.haunted |= self.has_ghost();
        }
        self.hint(key);
        if is_own {
            self.renewed(envelope.node);
        } else if self.scene.is_part(key) {
            self.spoil_part(key, after);
        } else {
            self.lose_letter(key, after);
        }
    }

    /// Whether a worker has this tenure of its session.
    fn is_up(&self, attachment: &Attachment) -> bool {
        let node = self.nodes.iter().find(|node| node.session == attachment.session);
        let machine = node.and_then(|node| node.machine.as_ref());
        machine.is_some_and(|machine| machine.session_fence() == Some(attachment.fence))
    }

    pub(super) fn count_settled(&mut self, index: usize, op: &Op) {
        match op {
            // That is counted where it is refused.
            Op::Read(key) if self.store.is_forbidden(key) => {}
            Op::ReadMany(..) | Op::Read(_) if self.watches(index) => {
                self.nodes[index].own.settled_watches += 1;
            }
            Op::ReadMany(..) | Op::Read(_) => self.nodes[index].own.settled_reads += 1,
            // So is that.
            Op::List { .. } if self.is_unfit(index) => {}
            Op::List { prefix, .. } if *prefix == self.scene.fleet.worker_prefix() && self.watches(index) => {
                self.nodes[index].own.settled_watches += 1;
            }
            Op::List { .. } => self.scene.settled_lists += 1,
            Op::Write(write)
                if write.key == self.scene.board && (self.has_sealed() || self.is_unfit(index)) =>
            {
                self.scene.settled_raises += 1;
            }
            Op::Write(write) if write.key == self.scene.board => {
                let text = format!("w{index} raises the board with nothing changing");
                self.check(Rule::C1, Err(text));
            }
            Op::Write(_) => {}
        }
    }
}
