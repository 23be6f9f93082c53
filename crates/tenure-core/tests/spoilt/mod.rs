//! Machines on one store, into whose records somebody writes what he likes.
#![allow(unreachable_pub, clippy::unwrap_used, reason = "helpers of tests")]

use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::time::Duration;
use tenure_core::op::{Answer, Event, Expect, Hint, Listed, Machine, Op, OpId, Outcome, Write};
use tenure_core::{
    Ask, Fence, Key, Letter, Metadata, Nonce, Now, Number, Record, StoreError, Stored, Tick, Value, Wall,
};

pub const WALL: u64 = 1_700_000_000_000;

/// Numbers at which something may overflow, be cut, or be taken for another.
const EDGES: [&str; 14] = [
    "0",
    "1",
    "-1",
    "2",
    "255",
    "65536",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "0.5",
    "1e300",
];

/// Names that records mention.
pub const NAMES: [&str; 8] = ["", "a", "w0", "w1", "u1", "session/w0", "done", "\u{202e}\0"];

pub fn any_value() -> impl Strategy<Value = Value> {
    let text = prop_oneof![prop::sample::select(&NAMES[..]).prop_map(str::to_owned), ".{0,12}"];
    let number = prop::sample::select(&EDGES[..]).prop_map(|edge| Value::Number(Number::new(edge).unwrap()));
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        number,
        any::<i64>().prop_map(Value::from),
        text.clone().prop_map(Value::Text),
        prop::collection::vec(any::<u8>(), 0..40).prop_map(Value::Bytes),
        prop::collection::btree_set(text.clone(), 0..4).prop_map(Value::TextSet),
    ];
    leaf.prop_recursive(3, 12, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::List),
            prop::collection::btree_map(text.clone(), inner, 0..4).prop_map(Value::Map),
        ]
    })
}

/// One change of a record.
#[derive(Debug, Clone)]
pub struct Spoil {
    record: usize,
    what: u8,
    /// Where in the fields, and other choices.
    word: u64,
    value: Value,
}

pub fn any_spoil() -> impl Strategy<Value = Spoil> {
    (any::<u16>(), any::<u8>(), any::<u64>(), any_value()).prop_map(|(record, what, word, value)| Spoil {
        record: record.into(),
        what,
        word,
        value,
    })
}

/// Takes a choice of `most` from a word.
fn choose(word: &mut u64, most: usize) -> usize {
    let most = most.max(1) as u64;
    let chosen = *word % most;
    *word /= most;
    chosen as usize
}

fn spoil_bytes(bytes: &mut Vec<u8>, word: &mut u64) {
    let at = choose(word, bytes.len());
    match choose(word, 4) {
        0 => bytes.truncate(at),
        1 => bytes.push(*word as u8),
        2 => bytes.insert(at, *word as u8),
        _ => {
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= 1 << choose(word, 8);
            }
        }
    }
}

fn spoil_value(old: &mut Value, word: &mut u64, value: &Value) {
    if choose(word, 5) == 0 {
        return *old = value.clone();
    }
    match old {
        Value::Map(fields) => spoil_fields(fields, word, value),
        Value::List(values) if !values.is_empty() => {
            let at = choose(word, values.len());
            match choose(word, 4) {
                0 => drop(values.remove(at)),
                1 => values.push(values[at].clone()),
                _ => spoil_value(&mut values[at], word, value),
            }
        }
        Value::Bytes(bytes) => spoil_bytes(bytes, word),
        Value::Number(number) => *number = Number::new(EDGES[choose(word, EDGES.len())]).unwrap(),
        Value::Text(text) => match choose(word, 3) {
            0 => drop(text.pop()),
            1 => text.push_str(NAMES[choose(word, NAMES.len())]),
            _ => NAMES[choose(word, NAMES.len())].clone_into(text),
        },
        Value::TextSet(texts) => drop(texts.insert(NAMES[choose(word, NAMES.len())].to_owned())),
        other => *other = value.clone(),
    }
}

pub fn spoil_fields(fields: &mut Metadata, word: &mut u64, value: &Value) {
    let at = choose(word, fields.len());
    let Some(name) = fields.keys().nth(at).cloned() else {
        fields.insert(tenure_core::RESERVED.to_owned(), value.clone());
        return;
    };
    if choose(word, 8) == 0 {
        fields.remove(&name);
    } else if let Some(old) = fields.get_mut(&name) {
        spoil_value(old, word, value);
    }
}

fn edge(word: &mut u64) -> u64 {
    [0, 1, 7, WALL, 1 << 52, i64::MAX as u64 - 1, i64::MAX as u64, u64::MAX][choose(word, 8)]
}

struct HostileSeat<M> {
    machine: M,
    wake_at: Option<Tick>,
}

/// Some machines on one store, into which somebody writes.
pub struct Hostile<M: Machine> {
    seats: Vec<HostileSeat<M>>,
    pub records: BTreeMap<Key, Record>,
    requests: VecDeque<(usize, OpId, Op)>,
    commands: VecDeque<(usize, M::Command)>,
    /// What users do at a notice.
    react: fn(&M::Notice) -> Option<M::Command>,
    /// What must hold of each write.
    check: fn(&Write),
    t: Tick,
    nonce: u128,
}

impl<M: Machine> Hostile<M> {
    pub fn new(
        machines: Vec<M>,
        react: fn(&M::Notice) -> Option<M::Command>,
        check: fn(&Write),
    ) -> Hostile<M> {
        let seats = machines.into_iter().map(|machine| HostileSeat { machine, wake_at: None }).collect();
        Hostile {
            seats,
            records: BTreeMap::new(),
            requests: VecDeque::new(),
            commands: VecDeque::new(),
            react,
            check,
            t: Tick(1_000_000_000),
            nonce: 1 << 100,
        }
    }

    pub fn now(&self) -> Now {
        Now { held: self.t, waited: self.t, wall: Wall(WALL + self.t.0 / 1_000_000) }
    }

    pub fn fresh(&mut self) -> Nonce {
        self.nonce += 1;
        Nonce(self.nonce)
    }

    pub fn step(&mut self, index: usize, event: Event<M::Command>) {
        let now = self.now();
        let seat = &mut self.seats[index];
        let step = seat.machine.step(now, event);
        seat.wake_at = step.wake_at;
        self.commands.extend(step.notices.iter().filter_map(self.react).map(|command| (index, command)));
        self.requests.extend(step.requests.into_iter().map(|request| (index, request.id, request.op)));
    }

    /// Answers all that is asked, and what is asked for that, up to a bound: what was spoilt may keep machines busy.
    pub fn settle(&mut self) {
        for _ in 0..200 {
            if let Some((index, command)) = self.commands.pop_front() {
                self.step(index, Event::Command(command));
            } else if let Some((index, id, op)) = self.requests.pop_front() {
                let answer = self.perform(op);
                self.step(index, Event::Answer(id, answer));
            } else {
                return;
            }
        }
    }

    fn stored(record: &Record, word: u128) -> Stored {
        let age = Duration::from_millis((word % 15_000) as u64);
        Stored::new(record.clone()).aged((!word.is_multiple_of(3)).then_some(age))
    }

    fn perform(&mut self, op: Op) -> Result<Answer, StoreError> {
        let word = self.fresh().0;
        let listed = |(key, record): (&Key, &Record)| Listed {
            key: key.clone(),
            stored: Ok(Self::stored(record, word)),
        };
        Ok(match op {
            Op::Read(key) => Answer::Read(self.records.get(&key).map(|record| Self::stored(record, word))),
            Op::ReadMany(keys, _) => {
                let found = keys.iter().filter_map(|key| self.records.get_key_value(key)).map(listed);
                Answer::Listed(found.collect())
            }
            Op::List { prefix, after, limit } => {
                let from = after.map_or(Bound::Unbounded, Bound::Excluded);
                let page = self.records.range((from, Bound::Unbounded));
                let page = page.filter(|(key, _)| key.as_str().starts_with(&prefix)).take(limit);
                Answer::Listed(page.map(listed).collect())
            }
            Op::Write(write) => {
                (self.check)(&write);
                Answer::Write(self.write(*write)?)
            }
        })
    }

    pub fn write(&mut self, write: Write) -> Result<Outcome, StoreError> {
        let Write { key, expect, mut record } = write;
        let standing = self.records.get(&key);
        let holds = match expect {
            Expect::Absent => standing.is_none(),
            Expect::Vacant => standing.is_none_or(|record| record.tenure.is_none()),
            Expect::Unchanged(version) => standing.is_some_and(|record| record.version() == version),
        };
        if !holds {
            return Ok(Outcome::Lost(standing.map(|record| Self::stored(record, self.nonce))));
        }
        if let (Expect::Vacant, Some(standing)) = (expect, standing) {
            record.fence = standing.fence.next(record.fence)?;
        }
        let outcome = Outcome::Won { version: record.version(), fence: record.fence };
        self.records.insert(key, record);
        Ok(outcome)
    }

    /// Somebody writes into a record what a store can hold.
    fn spoil(&mut self, spoil: &Spoil) {
        let (mut word, count) = (spoil.word, self.records.len());
        let other = self.records.values().nth(choose(&mut word, count)).cloned();
        let names: Vec<Key> = self.records.keys().cloned().collect();
        let (Some(key), nonce) = (names.get(spoil.record % count.max(1)), self.fresh()) else { return };
        let Some(record) = self.records.get_mut(key) else { return };
        match spoil.what % 12 {
            0..=6 => spoil_fields(&mut record.metadata, &mut word, &spoil.value),
            7 => record.metadata = other.map(|other| other.metadata).unwrap_or_default(),
            8 => record.fence = Fence(edge(&mut word).min(Fence::MAX.0)),
            9 => record.stamp = Wall(edge(&mut word)),
            10 => record.tenure = other.and_then(|other| other.tenure),
            _ => {
                if let Some(tenure) = &mut record.tenure {
                    let about = names[choose(&mut word, names.len())].clone();
                    let letter = Letter::new(about, Ask::of_code(choose(&mut word, 6) as u64));
                    let fence = Fence(edge(&mut word).min(Fence::MAX.0));
                    tenure.post(if word.is_multiple_of(2) { letter.of(fence) } else { letter });
                    tenure.since = Wall(edge(&mut word));
                    if let Some(attachment) = &mut tenure.attachment {
                        attachment.fence = fence;
                    }
                }
            }
        }
        record.nonce = nonce;
    }

    /// All goes on for as long as `spoils` says, with a wish of a user's at each of them.
    pub fn run(&mut self, spoils: &[Spoil], wish: impl Fn(u64, usize) -> Option<M::Command>) {
        self.settle();
        for spoil in spoils {
            self.spoil(spoil);
            self.t = self.t.after(Duration::from_millis(50 + spoil.word % 4000));
            for index in 0..self.seats.len() {
                let now = self.t;
                if let Some(command) = wish(spoil.word ^ index as u64, index) {
                    self.step(index, Event::Command(command));
                }
                if spoil.what >= 200 {
                    self.step(index, Event::Changed(Hint::Any));
                }
                if self.seats[index].wake_at.is_some_and(|at| at <= now) {
                    self.step(index, Event::Wake);
                }
            }
            self.settle();
        }
    }
}
