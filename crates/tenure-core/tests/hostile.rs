//! What other processes have written, whatever that is. Plan: while a fleet, a section, leases and permits go on, somebody writes into their records: fields that are
//! cut, changed a little, of another kind, or another record's; fences, times and letters of any kind. No machine panics; what a machine writes of ledgers can be
//! read again. And whatever reads a record's fields for people, or for `gc`, takes any fields.
//!
//! `cargo xtask fuzz` runs it for long.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use crate::spoilt::{Hostile, NAMES, Spoil, WALL, any_spoil, any_value, spoil_fields};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::time::Duration;
use tenure_core::fleet::{
    About, FleetCommand, FleetName, FleetNotice, FleetWorker, Options, Planning, RequestId, UnitSpec, advance,
};
use tenure_core::gc::Collector;
use tenure_core::once::{History, Once, kept_until};
use tenure_core::op::{Event, Listed, Write};
use tenure_core::range::KeyRange;
use tenure_core::section::{
    Portion, SectionCommand, SectionLedger, SectionMachine, SectionNotice, SectionSetup,
};
use tenure_core::semaphore::{Mode, SemaphoreLedger, Wish};
use tenure_core::{
    Bugs, Command, Fence, Holder, HolderId, Identity, KeepAlive, Key, LeaseId, Metadata, MetadataPolicy,
    Nonce, Notice, Record, Rules, Stored, Ttl, Value, WaitPolicy, Wall, Want, fleet, section, semaphore,
};

const TTL: Duration = Duration::from_secs(10);

fn identity(index: usize) -> Identity {
    Identity {
        holder: HolderId::new(format!("w{index}")).unwrap(),
        session: Key::new(format!("session/w{index}")).unwrap(),
        ttl: Ttl::new(TTL).unwrap(),
        about: Metadata::new(),
        instance: 1000 + index as u64,
    }
}

/// What users of a fleet do.
fn works(notice: &FleetNotice) -> Option<FleetCommand> {
    match notice {
        FleetNotice::Draining(lease, ..) => Some(FleetCommand::Drained(*lease)),
        FleetNotice::Assigned { lease, .. } => Some(match lease.0 % 5 {
            0 => FleetCommand::Decline(*lease, RequestId(1)),
            1 => FleetCommand::HandTo(*lease, RequestId(2), HolderId::new("w1").ok()?),
            2 => FleetCommand::Finish(*lease, RequestId(3), None),
            _ => FleetCommand::Update(*lease, RequestId(4), Metadata::from([("n".to_owned(), Value::Null)])),
        }),
        _ => None,
    }
}

fn fleet_goes_on(spoils: &[Spoil], lookers: usize) {
    let name = FleetName::new("f").unwrap();
    let worker = |index| {
        let options = Options {
            fleet: name.clone(),
            about: About::default(),
            drain: Duration::from_secs(5),
            push: lookers == 0,
            age_error: None,
            page: 3,
            lookers,
        };
        FleetWorker::new(identity(index), Rules::default(), options).unwrap()
    };
    let mut world = Hostile::new((0..3).map(worker).collect(), works, |_| {});
    for unit in ["u0", "u1", "u2", "u3", "u4"] {
        let (stamp, nonce) = (world.now().wall, world.fresh());
        let metadata = UnitSpec::default().compose(Metadata::new()).unwrap();
        let record = Record { fence: Fence::floor(stamp), nonce, stamp, tenure: None, metadata };
        world.records.insert(name.unit(unit).unwrap(), record);
    }
    let (nonce, wall) = (world.fresh(), world.now().wall);
    let told = advance(name.board().unwrap(), None, nonce, wall).unwrap();
    world.write(told).unwrap();
    for index in 0..3 {
        world.step(index, Event::Command(FleetCommand::Join));
    }
    // First there is something to spoil.
    world.settle();
    world.run(spoils, |word, _| (word % 7 == 0).then_some(FleetCommand::Tell));
    for (index, command) in [(0, FleetCommand::Leave), (1, FleetCommand::Stop)] {
        world.step(index, Event::Command(command));
        world.settle();
    }
}

fn section_goes_on(spoils: &[Spoil]) {
    let section = |index: usize| {
        SectionMachine::new(SectionSetup {
            key: section::key("s").unwrap(),
            holder: HolderId::new(format!("w{index}")).unwrap(),
            instance: index as u64 + 1,
            rules: Rules::default(),
            most_parts: 6,
            most_bytes: SectionLedger::MAX_BYTES,
        })
    };
    let gives = |notice: &SectionNotice| match notice {
        SectionNotice::Obtained { lease, fence: Some(_), .. } if lease.0 % 3 == 0 => {
            Some(SectionCommand::Release(*lease))
        }
        _ => None,
    };
    let is_sound = |write: &Write| drop(SectionLedger::of(&write.record).unwrap());
    let mut world = Hostile::new((0..2).map(section).collect(), gives, is_sound);
    let wish = |word: u64, index| {
        let lease = LeaseId(word >> 8);
        Some(match word % 5 {
            0 => SectionCommand::List(lease),
            1 => SectionCommand::Reclaim(lease),
            _ => {
                let low = word % 40 + index as u64;
                let wanted = KeyRange::new(low, low + 1 + word % 9).unwrap().into();
                let portion = if word.is_multiple_of(2) { Portion::All } else { Portion::Free };
                SectionCommand::Acquire(lease, wanted, Ttl::new(TTL).unwrap(), portion)
            }
        })
    };
    for index in 0..2 {
        world.step(index, Event::Command(wish(12 + index as u64, index).unwrap()));
    }
    world.run(spoils, wish);
}

fn holders_go_on(spoils: &[Spoil]) {
    let permits = semaphore::key("p").unwrap();
    let holder = |index: usize| Holder::new(identity(index), Rules::default());
    let gives = |notice: &Notice| match notice {
        Notice::Acquired { lease, .. } if lease.0 % 3 == 0 => Some(Command::Release(*lease, None)),
        Notice::Acquired { lease, .. } if lease.0 % 3 == 1 => {
            Some(Command::Note(*lease, Metadata::from([("n".to_owned(), Value::Null)])))
        }
        _ => None,
    };
    let is_sound = |write: &Write| {
        if write.key.as_str().starts_with(semaphore::PREFIX) {
            SemaphoreLedger::of(&write.record).unwrap();
        }
    };
    let mut world = Hostile::new((0..3).map(holder).collect(), gives, is_sound);
    let wish = move |word: u64, _| {
        let lease = LeaseId(word >> 4);
        let wait_policy = if word.is_multiple_of(2) { WaitPolicy::Try } else { WaitPolicy::Forever };
        let keep_alive =
            if word.is_multiple_of(3) { KeepAlive::Own(Ttl::new(TTL).unwrap()) } else { KeepAlive::Session };
        Some(match word % 4 {
            0 => {
                let mode = if word.is_multiple_of(8) { Mode::Exclusive } else { Mode::Shared };
                let wish =
                    Wish { key: permits.clone(), permits: 3, take: 1, mode, barges: false, wait_policy };
                Command::Permits(lease, Box::new(wish))
            }
            1 => Command::Examine(LeaseId((word >> 4) - (word >> 4) % 3)),
            _ => {
                let metadata_policy = MetadataPolicy::Replace(Metadata::new());
                let key = Key::new(NAMES[1 + (word % 2) as usize]).unwrap();
                Command::Acquire(lease, Want { key, keep_alive, metadata_policy, wait_policy })
            }
        })
    };
    for index in 0..3 {
        world.step(index, Event::Command(wish(16 + index as u64 * 4, index).unwrap()));
    }
    world.run(spoils, wish);
}

/// What is read for people, and for `gc`.
fn is_read(record: &Record) {
    let now = Wall(WALL);
    let stored = Stored::new(record.clone()).aged(Some(Duration::from_secs(3600)));
    let metadata = &record.metadata;
    let _ = About::parse(metadata);
    let _ = UnitSpec::parse(metadata.clone());
    let _ = (History::of(metadata), kept_until(metadata));
    let _ = Once::new(now, HolderId::new("a").unwrap()).refusal(now, metadata);
    let _ = (fleet::planner(record), fleet::told_plan(record), fleet::standbys(record), Planning::of(record));
    let _ = (SectionLedger::seen_in(&stored), SectionLedger::covered(record), section::is_over(&stored, now));
    let _ = (SemaphoreLedger::of(record), semaphore::is_idle(record));
    let listed = Listed { key: Key::new("k").unwrap(), stored: Ok(stored.clone()) };
    let collector = Collector::new(now, Duration::from_secs(1), &[listed], Bugs::default());
    let _ = (collector.is_old(&stored), collector.may_forget(&stored), collector.tells_of_ticks(&stored));
    let _ = (collector.without_ended(&stored), collector.ended_attachment(&stored));
}

fn spoils() -> impl Strategy<Value = Vec<Spoil>> {
    prop::collection::vec(any_spoil(), 1..24)
}

#[test]
fn a_fleet_takes_whatever_stands_in_its_records() {
    proptest!(|(spoils in spoils(), lookers in 0_usize..3)| fleet_goes_on(&spoils, lookers));
}

#[test]
fn a_section_takes_whatever_stands_in_its_record() {
    proptest!(|(spoils in spoils())| section_goes_on(&spoils));
}

#[test]
fn holders_of_leases_and_permits_take_whatever_stands_in_their_records() {
    proptest!(|(spoils in spoils())| holders_go_on(&spoils));
}

#[test]
fn what_reads_fields_for_people_and_for_gc_takes_any() {
    let names =
        prop::sample::select(vec!["tenure", "once", "section", "semaphore", "covered", "planner", "n"]);
    let fields = prop::collection::btree_map(names.prop_map(str::to_owned), any_value(), 0..4);
    proptest!(|(fields in fields, fence in 0..=Fence::MAX.0, stamp: u64)| {
        let (fence, stamp, tenure) = (Fence(fence), Wall(stamp), None);
        is_read(&Record { fence, nonce: Nonce(7), stamp, tenure, metadata: fields });
    });
}

#[test]
fn what_is_spoilt_is_spoilt_in_many_ways() {
    let fields = Metadata::from([("a".to_owned(), Value::Bytes(vec![1, 2, 3])), ("b".to_owned(), 7.into())]);
    let spoilt = |word: u64| {
        let (mut fields, mut word) = (fields.clone(), word);
        spoil_fields(&mut fields, &mut word, &Value::Null);
        fields
    };
    let ways: BTreeSet<Metadata> = (0..4000).map(spoilt).collect();
    assert!(ways.len() > 30 && !ways.contains(&Metadata::new()), "{}", ways.len());
}
