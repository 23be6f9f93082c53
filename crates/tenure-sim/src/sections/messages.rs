//! Requests and answers on their way, and what the store makes of them.

use super::world::{Input, What, World};
use crate::clock::{MILLI, True};
use crate::fault::Fault;
use crate::invariants::{Rule, s7};
use tenure_core::op::{Answer, Event, Op, OpId, Request};
use tenure_core::section::Ledger;
use tenure_core::{HolderId, StoreError};

/// A message that reaches its end at some time.
#[derive(Debug, Clone)]
pub(super) enum Envelope {
    Request { from: usize, life: u32, who: HolderId, id: OpId, op: Op, answered: bool },
    Reply { to: usize, life: u32, id: OpId, result: Result<Answer, StoreError> },
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
        let (life, who) = (node.life, node.who.clone());
        if let Op::Write(write) = &op {
            let ledger = Ledger::of(&write.record).unwrap_or_default();
            self.check_lapses(index, &ledger);
        }
        let patience = timeout.as_nanos() as True;
        self.at(t + patience, What::Timeout(index, life, id));
        if self.befalls(Fault::RequestLost) {
            return;
        }
        if self.befalls(Fault::Refused) {
            let result = Err(StoreError::unavailable("refused"));
            return self.send(MILLI, Envelope::Reply { to: index, life, id, result });
        }
        let delay = if self.befalls(Fault::Slow) {
            self.dice.below(self.spans(1) / 2)
        } else if self.befalls(Fault::Zombie) {
            self.dice.below(self.spans(3))
        } else {
            self.dice.between(MILLI / 2, 4 * MILLI)
        };
        if self.befalls(Fault::Duplicated) {
            let again = self.dice.below(self.spans(3));
            let envelope = Envelope::Request {
                from: index,
                life,
                who: who.clone(),
                id,
                op: op.clone(),
                answered: false,
            };
            self.send(again, envelope);
        }
        self.send(delay, Envelope::Request { from: index, life, who, id, op, answered: true });
    }

    pub(super) fn deliver_message(&mut self, id: u64) {
        match self.messages.remove(&id) {
            Some(Envelope::Request { from, life, who, id, op, answered }) => {
                let result = self.perform(&who, op);
                if answered && !self.befalls(Fault::AnswerLost) {
                    let delay = self.dice.between(MILLI / 2, 4 * MILLI);
                    self.send(delay, Envelope::Reply { to: from, life, id, result });
                }
            }
            Some(Envelope::Reply { to, life, id, result }) => {
                let node = &self.nodes[to];
                if node.life == life && node.waiting.iter().any(|(waiting, _)| *waiting == id) {
                    self.deliver(to, Input::Event(Event::Answer(id, result)));
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

    fn perform(&mut self, who: &HolderId, op: Op) -> Result<Answer, StoreError> {
        let before = self.ledger();
        let (result, landed) = self.store.perform(self.t, op);
        if landed.is_some() {
            let after = self.ledger();
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
