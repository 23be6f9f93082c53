//! A process that leases ranges of a section, and a store at a table.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::panic,
    reason = "each test file uses its part, and a test may fail"
)]

use super::common::{BELIEF, now, ttl};
use tenure_core::op::{Answer, Event, Expect, Machine, Op, OpId, Outcome, Step};
use tenure_core::range::RangeSet;
use tenure_core::section::{
    Entry, Portion, SectionCommand, SectionLedger, SectionMachine, SectionNotice, SectionSetup, key,
};
use tenure_core::{Fence, HolderId, LeaseId, Record, Rules, StoreError, Stored, Tick, Times};

pub const ONE: LeaseId = LeaseId(1);
pub const TWO: LeaseId = LeaseId(2);

pub fn set(text: &str) -> RangeSet {
    text.split_whitespace().map(|range| range.parse().unwrap()).collect()
}

pub fn section(name: &str, instance: u64) -> SectionMachine {
    SectionMachine::new(SectionSetup {
        key: key("s").unwrap(),
        holder: HolderId::new(name).unwrap(),
        instance,
        rules: Rules::default(),
        most_parts: 5,
        most_bytes: SectionLedger::MAX_BYTES,
    })
}

/// A store at a table: one record, and its clock.
#[derive(Default)]
pub struct Table {
    pub record: Option<Record>,
    pub written: u64,
    pub attests: bool,
    /// What the store's answers fall short of its clock by.
    pub short: u64,
}

impl Table {
    pub fn stored(&self, ms: u64) -> Option<Stored> {
        let micros = |ms: u64| (ms + 1_000) * 1_000;
        let now = micros(ms.saturating_sub(self.short));
        let times = Times { clock: 0, written: micros(self.written), now };
        self.record.clone().map(|record| Stored::new(record).timed(self.attests.then_some(times)))
    }

    pub fn perform(&mut self, ms: u64, op: &Op) -> Answer {
        let Op::Write(write) = op else { return Answer::Read(self.stored(ms)) };
        let holds = match write.expect {
            Expect::Absent => self.record.is_none(),
            Expect::Unchanged(version) => self.record.as_ref().map(Record::version) == Some(version),
            Expect::Vacant => panic!("a section is never written without knowing it"),
        };
        if !holds {
            return Answer::Write(Outcome::Lost(self.stored(ms)));
        }
        (self.record, self.written) = (Some(write.record.clone()), ms);
        Answer::Write(Outcome::Won { version: write.record.version(), fence: write.record.fence })
    }

    pub fn ledger(&self) -> SectionLedger {
        SectionLedger::of(self.record.as_ref().unwrap()).unwrap()
    }

    pub fn held(&self) -> Vec<(String, String)> {
        let text = |entry: &Entry| (entry.holder.to_string(), entry.parts.to_string());
        self.ledger().entries.iter().map(text).collect()
    }
}

/// Steps until the machine wants nothing more, each operation taking 1 ms; answers what was told and how many there were.
pub fn run(
    machine: &mut SectionMachine,
    table: &mut Table,
    ms: u64,
    event: Event<SectionCommand>,
) -> (Vec<SectionNotice>, u64) {
    let (mut notices, mut ops) = (Vec::new(), 0);
    let mut step = machine.step(now(ms), event);
    loop {
        notices.append(&mut step.notices);
        let Some(request) = step.requests.pop() else { return (notices, ops) };
        assert!(step.requests.is_empty(), "one operation at a time");
        ops += 1;
        assert!(ops < 100, "it goes on for ever");
        let at = ms + ops;
        let answer = table.perform(at, &request.op);
        step = machine.step(now(at), Event::Answer(request.id, Ok(answer)));
    }
}

pub fn acquire(lease: LeaseId, desired: &str) -> Event<SectionCommand> {
    Event::Command(SectionCommand::Acquire(lease, set(desired), ttl(), Portion::Free))
}

/// All of it or nothing.
pub fn acquire_all(lease: LeaseId, desired: &str) -> Event<SectionCommand> {
    Event::Command(SectionCommand::Acquire(lease, set(desired), ttl(), Portion::All))
}

pub fn release(lease: LeaseId) -> Event<SectionCommand> {
    Event::Command(SectionCommand::Release(lease))
}

pub fn obtained(lease: LeaseId, parts: &str, fence: u64, sent_ms: u64) -> SectionNotice {
    let until = Tick(sent_ms * 1_000_000 + BELIEF);
    SectionNotice::Obtained { lease, parts: set(parts), fence: Some(Fence(fence)), until }
}

pub fn nothing(lease: LeaseId, asked_ms: u64) -> SectionNotice {
    let until = Tick(asked_ms * 1_000_000 + BELIEF);
    SectionNotice::Obtained { lease, parts: set(""), fence: None, until }
}

/// A machine that has sent the write of its first entry over a record that another made.
pub fn midway() -> (SectionMachine, Table, Op) {
    let (mut a, mut b, mut table) = (section("a", 1), section("b", 2), Table::default());
    run(&mut b, &mut table, 0, acquire(ONE, "80_90"));
    let step = a.step(now(10), acquire(ONE, "0_100"));
    let answer = table.perform(10, &step.requests[0].op);
    let step = a.step(now(11), Event::Answer(OpId(1), Ok(answer)));
    (a, table, step.requests[0].op.clone())
}

pub fn unknown(op: u64) -> Event<SectionCommand> {
    Event::Answer(OpId(op), Err(StoreError::unknown("cut")))
}

/// The wake-up that the machine asked for.
pub fn woken(
    machine: &mut SectionMachine,
    table: &mut Table,
    step: &Step<SectionNotice>,
) -> (Vec<SectionNotice>, u64) {
    let at = step.wake_at.unwrap().0.div_ceil(1_000_000);
    run(machine, table, at, Event::Wake)
}

pub fn now_at(at: Tick) -> tenure_core::Now {
    now(at.0.div_ceil(1_000_000))
}
