//! Requests and answers on their way, and what the store makes of them.

use super::world::{Input, What, World};
use crate::clock::{MILLI, True};
use crate::fault::Fault;
use crate::invariants::{Rule, s7};
use crate::registers::Ages;
use tenure_core::op::{Answer, Event, Op, OpId, Outcome, Request};
use tenure_core::section::Ledger;
use tenure_core::{HolderId, StoreError, Tick};

/// A message that reaches its end at some time.
#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant, reason = "half of them are answers")]
pub(super) enum Envelope {
    Request { from: Sender, who: HolderId, id: OpId, op: Op, answered: bool },
    Reply { to: Sender, id: OpId, result: Result<Answer, StoreError>, date: Option<u64> },
}

/// Where a request came from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sender {
    node: usize,
    life: u32,
    /// By the process's clock.
    sent: Tick,
    /// What its client took the store's clock for at the most, in milliseconds.
    dated: Option<u64>,
}

impl World {
    pub(super) fn send(&mut self, after: True, envelope: Envelope) {
        self.last_message += 1;
        let id = self.last_message;
        self.messages.insert(id, envelope);
        self.at(self.t + after, What::Message(id));
    }

    /// A process sends a request.
    pub(super) fn post(&mut self, index: usize, request: Request) {
        let Request { id, op, timeout, .. } = request;
        let t = self.t;
        let writes = matches!(op, Op::Write(_));
        self.tell(|| format!("n{index} sends #{} {}", id.0, if writes { "a write" } else { "a read" }));
        let node = &mut self.nodes[index];
        node.waiting.push((id, writes));
        let (life, who, sent) = (node.life, node.who.clone(), node.clock.held(t));
        let from = Sender { node: index, life, sent, dated: node.service.at_most(sent) };
        if let Op::Write(write) = &op {
            let ledger = Ledger::of(&write.record).unwrap_or_default();
            self.check_lapses(index, &ledger);
        }
        let wait_policy = timeout.as_nanos() as True;
        self.at(t + wait_policy, What::Timeout(index, life, id));
        if self.befalls(Fault::RequestLost) {
            return;
        }
        if self.befalls(Fault::Refused) {
            let result = Err(StoreError::unavailable("refused"));
            return self.send(MILLI, Envelope::Reply { to: from, id, result, date: None });
        }
        let delay = if self.befalls(Fault::Slow) {
            self.rng.below(self.spans(1) / 2)
        } else if self.befalls(Fault::Zombie) {
            self.rng.below(self.spans(3))
        } else {
            self.rng.between(MILLI / 2, 4 * MILLI)
        };
        if self.befalls(Fault::Duplicated) {
            let again = self.rng.below(self.spans(3));
            let envelope = Envelope::Request { from, who: who.clone(), id, op: op.clone(), answered: false };
            self.send(again, envelope);
        }
        self.send(delay, Envelope::Request { from, who, id, op, answered: true });
    }

    pub(super) fn deliver_message(&mut self, id: u64) {
        match self.messages.remove(&id) {
            Some(Envelope::Request { from, who, id, op, answered }) => {
                let result = self.perform(&who, op, from.dated);
                let date = Some(self.store.date(self.t));
                if answered && !self.befalls(Fault::AnswerLost) {
                    let delay = self.rng.between(MILLI / 2, 4 * MILLI);
                    self.send(delay, Envelope::Reply { to: from, id, result, date });
                }
            }
            Some(Envelope::Reply { to, id, result, date }) => {
                let node = &self.nodes[to.node];
                if node.life == to.life && node.waiting.iter().any(|(waiting, _)| *waiting == id) {
                    let result = self.dated(to, date, result);
                    self.deliver(to.node, Input::Event(Event::Answer(id, result)));
                }
            }
            None => {}
        }
    }

    /// The driver's own clock says that it was long enough.
    pub(super) fn time_out(&mut self, index: usize, life: u32, op: OpId) {
        let node = &self.nodes[index];
        if node.life != life {
            return;
        }
        if let Some((_, writes)) = node.waiting.iter().find(|(waiting, _)| *waiting == op) {
            let result = World::unavailable(*writes);
            self.deliver(index, Input::Event(Event::Answer(op, result)));
        }
    }

    /// What the client of a store that tells dates makes of an answer.
    fn dated(
        &mut self,
        to: Sender,
        date: Option<u64>,
        result: Result<Answer, StoreError>,
    ) -> Result<Answer, StoreError> {
        let Some(date) = date.filter(|_| self.ages == Ages::Dated) else { return result };
        let node = &mut self.nodes[to.node];
        let now = node.clock.held(self.t);
        node.service.answered(to.sent, now, date);
        let refuted = to.dated.is_some_and(|dated| node.service.refutes(dated, to.sent, now));
        match result {
            Ok(Answer::Write(Outcome::Won { .. })) if refuted => Err(StoreError::unknown("misdated")),
            result => result,
        }
    }

    fn perform(&mut self, who: &HolderId, op: Op, dated: Option<u64>) -> Result<Answer, StoreError> {
        let before = self.ledger();
        let (result, landed) = self.store.perform_dated(self.t, op, dated);
        if landed.is_some() {
            let after = self.ledger();
            self.anchor.written(self.t, &after);
            self.tell(|| {
                let fences = after
                    .entries
                    .iter()
                    .map(|entry| format!("{} {}: {}", entry.holder, entry.fence, entry.parts));
                format!("          store, written by {who}: {}", fences.collect::<Vec<_>>().join("; "))
            });
            let found = self.entries.landed(&before, &after);
            self.check(Rule::S2, found);
            let found = s7::nothing_of_who_stopped(&before, &after, &self.stopped, &self.posted);
            self.check(Rule::S4, found);
            self.left_out(&before, &after, who);
        }
        result
    }

    /// What a write takes out, nobody may believe in.
    pub(super) fn left_out(&mut self, before: &Ledger, after: &Ledger, who: &HolderId) {
        let found = s7::taken_out(before, after, who, self.believed());
        self.check(Rule::S3, found);
    }
}
