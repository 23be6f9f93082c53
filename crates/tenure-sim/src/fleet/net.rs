//! The network between nodes and store, and the driver's part: calls that take too long are reported as such.

use super::invariants;
use super::node::Input;
use super::world::{What, World};
use crate::clock::{MILLI, True};
use crate::fault::Fault;
use crate::invariants::Rule;
use crate::registers::Landed;
use crate::trace::{Story, describe};
use tenure_core::fleet::{UnitSpec, auditor};
use tenure_core::op::{Answer, Hint, Op, OpId, Request};
use tenure_core::{ErrorKind, HolderId, Key, Now, Record, StoreError, Tick};

/// A request on its way.
#[derive(Debug, Clone)]
pub(crate) struct Envelope {
    node: usize,
    life: u32,
    id: OpId,
    op: Op,
    sent: Tick,
    gives_up: True,
    /// A second copy, or one that was given up: its answer goes nowhere.
    stray: bool,
}

#[derive(Debug)]
pub(crate) enum Message {
    Request(Box<Envelope>),
    Reply(usize, u32, OpId, Box<Result<Answer, StoreError>>),
    Hint(usize, u32, Hint),
}

impl World {
    fn post_message(&mut self, t: True, message: Message) {
        let slot = match self.free_messages.pop() {
            Some(slot) => slot,
            None => {
                self.messages.push(None);
                (self.messages.len() - 1) as u32
            }
        };
        self.messages[slot as usize] = Some(message);
        self.at(t, What::Message(slot));
    }

    pub(crate) fn open(&mut self, slot: u32) {
        self.free_messages.push(slot);
        match self.messages[slot as usize].take() {
            Some(Message::Request(envelope)) => self.arrive(*envelope),
            Some(Message::Reply(node, life, id, result)) => {
                self.deliver_to_life(node, life, Input::Answer(id, *result));
            }
            Some(Message::Hint(node, life, hint)) => self.deliver_to_life(node, life, Input::Hint(hint)),
            None => {}
        }
    }

    /// A node's driver starts a call.
    pub(crate) fn send(&mut self, index: usize, now: Now, request: Request) {
        let Request { id, op, timeout, .. } = request;
        let found = invariants::s6::sent(&self.nodes[index], now.held, &op);
        self.checks.check(self.t, Rule::S6, found);
        if self.t > self.settled_by {
            self.count_settled(index, &op);
        }
        let node = &self.nodes[index];
        let gives_up = node.clock.when(now.held.after(timeout)).max(self.t);
        let mut lost = !node.requests_pass;
        let mut envelope =
            Envelope { node: index, life: node.life, id, op, sent: now.held, gives_up, stray: false };
        let mut arrives = self.t + self.rng.between(MILLI / 10, MILLI);
        if matches!(envelope.op, Op::List { .. }) {
            arrives += self.rng.below(self.scenario.list_ms * MILLI + 1);
        }
        if self.healed.is_none() {
            if self.befalls(Fault::RequestLost) {
                lost = true;
            } else if self.befalls(Fault::Slow) {
                arrives += self.rng.below(self.per_mille(500));
            } else if self.befalls(Fault::Zombie) {
                arrives += self.rng.below(self.per_mille(8000));
            }
            if self.befalls(Fault::Duplicated) {
                let again = self.t + self.rng.below(self.per_mille(3000));
                let copy = Envelope { stray: true, ..envelope.clone() };
                self.post_message(again, Message::Request(Box::new(copy)));
            }
        }
        if lost || arrives >= gives_up {
            self.give_up(&envelope, gives_up);
            envelope.stray = true;
        }
        if !lost {
            self.post_message(arrives, Message::Request(Box::new(envelope)));
        }
    }

    /// Nothing will have come by then: the driver says so itself.
    fn give_up(&mut self, envelope: &Envelope, t: True) {
        let error = match envelope.op {
            Op::Read(_) | Op::ReadMany(..) | Op::List { .. } => {
                StoreError::unavailable("no answer to a read")
            }
            Op::Write(_) => StoreError::unknown("no answer to a write"),
        };
        let Envelope { node, life, id, .. } = *envelope;
        self.post_message(t, Message::Reply(node, life, id, Box::new(Err(error))));
    }

    /// A request reaches the store.
    fn arrive(&mut self, envelope: Envelope) {
        if self.store_down {
            if !envelope.stray {
                self.give_up(&envelope, envelope.gives_up);
            }
            return;
        }
        let refused = self.throttled || self.befalls(Fault::Refused);
        let result = if refused {
            Err(StoreError::unavailable("the store refuses"))
        } else {
            self.trace
                .tell(self.t, || Story::Store(format!("w{} {}", envelope.node, describe(&envelope.op))));
            if matches!(&envelope.op, Op::List { prefix, after: None, .. } if *prefix == self.fleet.unit_prefix())
            {
                self.listed = self.t;
            }
            let lag = self.lag();
            let (result, landed) = self.store.perform_lagging(self.t, envelope.op.clone(), lag);
            if let Some((key, landed)) = landed {
                self.landed(&envelope, &key, landed);
            }
            result
        };
        // What users write who have it is their own affair.
        let is_used = |key: &Key| self.nodes[envelope.node].works_on(key).is_some();
        let is_used = matches!(&envelope.op, Op::Write(write) if is_used(&write.key));
        let lasts = result.as_ref().err().filter(|error| !error.is_passing() && !is_used);
        if let Some(error) = lasts.filter(|_| self.t > self.settled_by) {
            let damaged = error.kind() == ErrorKind::Foreign;
            self.checks.settled_refusals[usize::from(damaged)] += 1;
        }
        if envelope.stray {
            return;
        }
        let mut answers = self.t + self.rng.between(MILLI / 10, MILLI);
        let lost = !self.nodes[envelope.node].answers_pass || self.befalls(Fault::AnswerLost);
        if self.befalls(Fault::Slow) {
            answers += self.rng.below(self.per_mille(400));
        }
        if lost || answers >= envelope.gives_up {
            self.give_up(&envelope, envelope.gives_up);
        } else {
            let Envelope { node, life, id, .. } = envelope;
            self.post_message(answers, Message::Reply(node, life, id, Box::new(result)));
        }
    }

    /// How far reads of a recent state lag behind: in the calm a little.
    fn lag(&mut self) -> True {
        let most = if self.healed.is_none() && self.rng.chance(0.1) { 1000 } else { self.scenario.lag };
        self.rng.below(self.per_mille(most))
    }

    /// A worker's write took effect.
    fn landed(&mut self, envelope: &Envelope, key: &Key, landed: Landed) {
        let Landed { before, after } = landed;
        let (t, before) = (self.t, before.as_ref());
        self.trace.fold(after.nonce.0 as u64 ^ after.fence.0);
        let begins = self.checks.tenures.landed(key, before, &after);
        let is_new = matches!(begins, Ok(true));
        self.checks.check(t, Rule::S2, begins.map(|_| ()));
        let by = HolderId::new(format!("w{}.{}", envelope.node, envelope.life));
        if let Ok(by) = by {
            let found = crate::invariants::s3::landed(key, before, &after, &by, false)
                .and_then(|()| invariants::s3::passed(key, before, &after, &by));
            self.checks.check(t, Rule::S3, found);
        }
        let node = &mut self.nodes[envelope.node];
        let keeps = after.tenure.as_ref().is_some_and(|tenure| tenure.holder == node.who);
        if node.life == envelope.life && self.units.contains_key(key) && !keeps {
            node.unsaid = Some(key.clone());
        }
        if *key == self.board && before.is_none_or(|before| before.fence < after.fence) {
            self.raised = t;
            self.nodes.iter_mut().for_each(|node| node.unsaid = None);
        }
        let node = &mut self.nodes[envelope.node];
        let is_own = node.life == envelope.life && *key == node.session;
        if is_own && after.tenure.is_some() {
            node.note_heartbeat(envelope.sent);
        }
        // It is counted again where it is, and the others are told if that makes them uneven.
        let failed =
            |record: &Record| UnitSpec::parse(record.metadata.clone()).is_ok_and(|(spec, _)| spec.fails());
        if self.units.contains_key(key) && before.is_some_and(failed) && !failed(&after) {
            self.disturb_by_plan();
        }
        if let Some(truth) = self.units.get_mut(key) {
            let found = invariants::s4::kept(key, truth, before, &after, is_new);
            self.checks.check(t, Rule::S4, found);
        }
        // A write that was given up long ago may still land in the calm: whatever that spoils needs time to mend.
        if envelope.stray && self.healed.is_some() {
            self.disturb(self.per_mille(7000));
            // A session that nobody renews may stand again, and is found at the next audit.
            self.haunted |= self.has_ghost();
        }
        self.hint(key);
        if is_own {
            self.renewed(envelope.node);
        }
    }

    /// Tells all workers that a key has changed, and into which version.
    pub(crate) fn hint(&mut self, key: &Key) {
        if !self.spec.push {
            return;
        }
        let version = self.store.get(key).map(|record| record.version());
        let hint = || version.map_or(Hint::Key(key.clone()), |version| Hint::Written(key.clone(), version));
        for index in 0..self.nodes.len() {
            let node = &self.nodes[index];
            let (life, up) = (node.life, node.machine.is_some());
            let passes = up && node.answers_pass && !self.store_down;
            if passes && !self.befalls(Fault::HintLost) {
                let delay = self.rng.between(MILLI / 10, MILLI);
                self.post_message(self.t + delay, Message::Hint(index, life, hint()));
            }
        }
    }

    fn count_settled(&mut self, index: usize, op: &Op) {
        match op {
            // That is counted where it is refused.
            Op::Read(key) if self.store.is_forbidden(key) => {}
            Op::ReadMany(..) | Op::Read(_) => self.nodes[index].settled_reads += 1,
            Op::List { .. } => self.checks.settled_lists += 1,
            Op::Write(write) if write.key == self.board && auditor(&write.record).is_some() => {
                self.checks.settled_marks += 1;
            }
            Op::Write(write) if write.key == self.board && self.has_sealed() => {
                self.checks.settled_raises += 1;
            }
            Op::Write(write) if write.key == self.board => {
                let text = format!("w{index} raises the board with nothing changing");
                self.checks.check(self.t, Rule::C1, Err(text));
            }
            Op::Write(_) => {}
        }
    }
}
