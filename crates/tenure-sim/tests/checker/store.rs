//! What the worlds of sections and ticks have in common with each other: a store, messages under way, and coarse time.

use super::Message;
use std::collections::BTreeMap;
use tenure_core::op::{Answer, Expect, Op, OpId, Outcome, Request, Write};
use tenure_core::{Key, Now, Record, StoreError, Stored, Tick, Wall};

/// Time goes on by so much.
const UNIT_MS: u64 = 6;

/// All clocks, after so many steps of time.
pub(super) fn now(unit: u64) -> Now {
    let at = Tick(unit * UNIT_MS * 1_000_000);
    Now { held: at, waited: at, wall: Wall(1_000_000 + unit * UNIT_MS) }
}

/// Messages in order, so that the same messages are the same state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Network(pub(super) Vec<Message>);

impl Network {
    pub(super) fn send(&mut self, index: usize, requests: Vec<Request>) {
        self.0.extend(requests.into_iter().map(|request| Message::Request(index, request.id, request.op)));
        self.0.sort();
    }

    pub(super) fn answer(&mut self, index: usize, id: OpId, result: Result<Answer, StoreError>) {
        self.0.push(Message::Answer(index, id, result));
        self.0.sort();
    }

    /// A request or an answer is lost, which is a timeout.
    pub(super) fn lose(&mut self, at: usize) {
        let (Message::Request(index, id, _) | Message::Answer(index, id, _)) = self.0.remove(at);
        self.answer(index, id, Err(StoreError::unknown("lost")));
    }

    /// Those that can be lost: what the driver itself said can't.
    pub(super) fn can_be_lost(&self) -> impl Iterator<Item = usize> {
        let is_real = |(_, message): &(usize, &Message)| !matches!(message, Message::Answer(_, _, Err(_)));
        self.0.iter().enumerate().filter(is_real).map(|(at, _)| at)
    }

    /// A process is gone: nobody hears what it is answered.
    pub(super) fn forget(&mut self, index: usize) {
        self.0.retain(|message| !matches!(message, Message::Answer(of, ..) if *of == index));
    }
}

/// Records by key.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Records(pub(super) BTreeMap<Key, Record>);

impl Records {
    /// What the store does; and what it wrote, with what stood there before.
    pub(super) fn perform(&mut self, op: Op) -> (Answer, Option<(Option<Record>, Record)>) {
        let stored = |record: &Record| Stored::new(record.clone());
        let Write { key, expect, mut record } = match op {
            Op::Read(key) => return (Answer::Read(self.0.get(&key).map(stored)), None),
            Op::ReadMany(..) | Op::List { .. } => return (Answer::Listed(Vec::new()), None),
            Op::Write(write) => *write,
        };
        let standing = self.0.get(&key);
        let holds = match expect {
            Expect::Absent => standing.is_none(),
            Expect::Vacant => standing.is_none_or(|record| record.tenure.is_none()),
            Expect::Unchanged(version) => standing.is_some_and(|record| record.version() == version),
        };
        if !holds {
            return (Answer::Write(Outcome::Lost(standing.map(stored))), None);
        }
        if let (Expect::Vacant, Some(standing)) = (expect, standing) {
            record.fence = standing.fence.next(record.fence).unwrap();
        }
        let outcome = Outcome::Won { version: record.version(), fence: record.fence };
        let before = self.0.insert(key, record.clone());
        (Answer::Write(outcome), Some((before, record)))
    }
}
