//! A worker by itself, and its simulated surroundings in unit tests.

use super::FleetWorker;
use super::asked::Asked;
use super::listed::{Owner, Peer, Unit};
use super::listing::Lister;
use super::own::{Own, Stage};
use crate::fleet::about::About;
use crate::fleet::names::FleetName;
use crate::fleet::part::Shows;
use crate::fleet::plan::Uncovered;
use crate::fleet::talk::{FleetCommand, FleetNotice, Options, Reason, Summary, Taken};
use crate::fleet::unit::UnitSpec;
use crate::holder::Identity;
use crate::holder::lease_id::LeaseId;
use crate::op::{Answer, Event, Machine, Op, OpId, Outcome, Request, Write};
use crate::rules::Rules;
use crate::values::fence::{Fence, Nonce, Version};
use crate::values::key::{HolderId, Key};
use crate::values::metadata::Metadata;
use crate::values::record::{Attachment, Record, Stored, Tenure};
use crate::values::time::{Now, Tick, Ttl, Wall};
use std::collections::BTreeSet;
use std::time::Duration;

pub(in crate::fleet) fn ttl() -> Ttl {
    Ttl::new(Duration::from_secs(48)).unwrap()
}

pub(in crate::fleet) fn fleet() -> FleetName {
    FleetName::new("f").unwrap()
}

pub(in crate::fleet) fn holder(n: usize) -> HolderId {
    HolderId::new(format!("w{n}")).unwrap()
}

pub(in crate::fleet) fn session(n: usize) -> Key {
    fleet().worker(&holder(n)).unwrap()
}

pub(in crate::fleet) fn unit(n: usize) -> Key {
    fleet().unit(&format!("u{n}")).unwrap()
}

pub(in crate::fleet) fn at(secs: u64) -> Now {
    Now { held: Tick(secs * 1_000_000_000), waited: Tick(secs * 1_000_000_000), wall: Wall(secs * 1000) }
}

pub(in crate::fleet) fn named(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(ToString::to_string).collect()
}

/// The worker 0, of an interval of 16 s, with others.
pub(in crate::fleet) fn worker(others: usize) -> FleetWorker {
    let identity = Identity {
        holder: holder(0),
        session: Key::new("unset").unwrap(),
        ttl: ttl(),
        about: Metadata::new(),
        instance: 1,
    };
    let drain = Duration::from_secs(5);
    let options = Options {
        fleet: fleet(),
        about: About::default(),
        drain,
        push: false,
        age_error: None,
        page: 10,
        lookers: 16,
    };
    let mut worker = FleetWorker::new(identity, Rules::default(), options).unwrap();
    for n in 1..=others {
        let about = About::default();
        let peer = Peer {
            holder: holder(n),
            fence: Fence(7),
            ttl: ttl(),
            about,
            has: None,
            heartbeat: Nonce(0),
            planned: 0,
            letters: true,
            attested: false,
        };
        worker.roster.insert(session(n), peer);
    }
    worker
}

/// Has a unit, which is planned for the worker with this number.
pub(super) fn has(worker: &mut FleetWorker, n: usize, stage: Stage, transferee: Option<usize>) -> LeaseId {
    let lease = worker.own.new_lease();
    let own = Own {
        lease,
        stage,
        fence: Fence(3),
        tenure: Some(Nonce(1)),
        spec: UnitSpec::default(),
        asked: Asked::default(),
        transferee: transferee.map(session),
        chosen: false,
        given: false,
        how: Taken::Passed,
        hinted: false,
        letter: false,
        goes: transferee
            .filter(|transferee| *transferee != 0)
            .map(|transferee| Reason::Moved(holder(transferee))),
        told: true,
        since: Tick(0),
    };
    worker.own.insert(unit(n), own);
    lease
}

/// Claims a unit that nobody holds, and gets it.
pub(super) fn gets(worker: &mut FleetWorker, n: usize) -> LeaseId {
    worker.try_unit(at(1), unit(n), Some(vacant()));
    let (claim, write) = writes_unit(worker, n).unwrap();
    let won = Outcome::Won { version: write.record.version(), fence: write.record.fence };
    worker.step(at(1), Event::Answer(claim, Ok(Answer::Write(won))));
    worker.own[&unit(n)].lease
}

/// What it has asked to be written into a unit's record since the last time.
pub(super) fn writes_unit(worker: &mut FleetWorker, n: usize) -> Option<(OpId, Write)> {
    asked(worker).into_iter().find_map(|request| match request.op {
        Op::Write(write) if write.key == unit(n) => Some((request.id, *write)),
        _ => None,
    })
}

pub(in crate::fleet) fn told(worker: &mut FleetWorker) -> Vec<FleetNotice> {
    worker.step(at(0), Event::Wake).notices
}

/// A unit's record that is attached to a session.
pub(in crate::fleet) fn record(attachment: Option<Option<Attachment>>, spec: &UnitSpec) -> Stored {
    let tenure = attachment
        .map(|attachment| Tenure { attachment, ..Tenure::new(Nonce(1), holder(1), ttl(), Wall(0)) });
    let metadata = spec.compose(Metadata::new()).unwrap();
    let record = Record { fence: Fence(3), nonce: Nonce(2), stamp: Wall(0), tenure, metadata };
    Stored::new(record).versioned(Version(1))
}

pub(in crate::fleet) fn vacant() -> Box<Stored> {
    Box::new(record(None, &UnitSpec::default()))
}

/// What it has asked of the store since the last time.
pub(in crate::fleet) fn asked(worker: &mut FleetWorker) -> Vec<Request> {
    worker.step(at(0), Event::Wake).requests
}

/// A worker's session, as it is after a renewal with this nonce.
pub(in crate::fleet) fn session_record(n: usize, fence: u64, heartbeat: u128) -> Stored {
    let mut stored = record(Some(None), &UnitSpec::default());
    stored.record.fence = Fence(fence);
    stored.record.metadata = About::default().compose(Metadata::new());
    let tenure = stored.record.tenure.as_mut().unwrap();
    (tenure.holder, tenure.heartbeat) = (holder(n), Nonce(heartbeat));
    stored.versioned(Version(heartbeat))
}

/// A board of this generation.
pub(in crate::fleet) fn board(generation: u64, version: u128) -> Stored {
    let record = Record { fence: Fence(generation), ..vacant().record };
    Stored::new(record).versioned(Version(version))
}

/// The same, by this planner.
pub(in crate::fleet) fn board_by(generation: u64, version: u128, planner: &Attachment) -> Stored {
    let claim =
        crate::fleet::board::claim(fleet().board().unwrap(), None, planner, Nonce(1), Wall(0)).unwrap();
    let record = Record { fence: Fence(generation), ..claim.record };
    Stored::new(record).versioned(Version(version))
}

/// A board as the worker 0, who plans, has left it.
pub(super) fn own_board(generation: u64, version: u128) -> Stored {
    board_by(generation, version, &myself())
}

/// This board with the alarm set.
pub(super) fn alarm(seen: &Stored, version: u128) -> Stored {
    let write = crate::fleet::board::alarm(worker(0).env.board_key, seen, Nonce(1), at(0).wall);
    Stored::new(write.record).versioned(Version(version))
}

/// What names the worker 0, whose session has the fence 5, as the planner.
pub(in crate::fleet) fn myself() -> Attachment {
    Attachment { session: session(0), fence: Fence(5) }
}

/// The worker 0 with so many others, for whom it plans, or the worker 1 does.
pub(in crate::fleet) fn led(others: usize, plans: bool) -> FleetWorker {
    let mut worker = up();
    worker.roster = self::worker(others).roster;
    let other = Attachment { session: session(1), fence: Fence(7) };
    worker.board.see(Some(board_by(7, 1, &if plans { myself() } else { other })));
    worker.advance.end();
    worker.lister = Lister::rested(Fence(7), Tick(0), Tick::NEVER);
    worker.look.plan(at(900).held);
    worker.look.end();
    worker.io.in_flight.clear();
    asked(&mut worker);
    worker
}

/// The worker 0, alone and with a session of the fence 5.
pub(in crate::fleet) fn up() -> FleetWorker {
    let mut worker = worker(0);
    let step = worker.step(at(1), Event::Command(FleetCommand::Join));
    let claims = |request: &&Request| matches!(&request.op, Op::Write(write) if write.key == session(0));
    let claim = step.requests.iter().find(claims).unwrap();
    let Op::Write(write) = &claim.op else { panic!("{claim:?}") };
    let record = Record { fence: Fence(5), ..write.record.clone() };
    let won = Answer::Write(Outcome::Won { version: record.version(), fence: Fence(5) });
    worker.step(at(1), Event::Answer(claim.id, Ok(won)));
    assert_eq!(worker.session_fence(), Some(Fence(5)));
    // From here on each test says what happens when.
    worker.life.joined = false;
    worker
}

/// Follows a plan of units, with their owners and the workers that they are planned for.
pub(super) fn follow(
    worker: &mut FleetWorker,
    secs: u64,
    plan: Vec<(usize, Owner, Result<usize, Uncovered>)>,
) -> Summary {
    let targets = plan.iter().map(|(n, _, target)| (unit(*n), target.map(session))).collect();
    let shows = Shows::of(&vacant().record);
    let unit = |(n, owner, _)| (unit(n), Unit { spec: UnitSpec::default().into(), owner, held: None, shows });
    let units = plan.into_iter().map(unit).collect();
    worker.follow_plan(at(secs), units, targets, Summary::default());
    let planned = |notice| match notice {
        FleetNotice::Planned(summary) => Some(*summary),
        _ => None,
    };
    told(worker).into_iter().find_map(planned).unwrap()
}
