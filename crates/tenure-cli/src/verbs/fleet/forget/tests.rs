//! Plan: a worker that renews between loses nothing; one that is dead is ended before its units go, and renews no more; what is held from outside
//! stays, and the board and the sessions with it; what a worker without a session holds goes after its ttl. A worker that comes meanwhile is told, and so is
//! what is gone before a failure; what somebody else has removed holds up nothing, nor does a session that the store keeps. Who is asked knows what is not
//! done, and of what stays it is told what helps.
use super::*;
use crate::stepped_clock::SteppedClock;
use std::time::Duration;
use tenure::store::{Attachment, Expect, Outcome, Record, Stored, Tenure, Write};
use tenure::{AnyStore, Clock, Fence, HolderId, Metadata, Store, Ttl, Wall};
use tenure_core::{Nonces, Tick};
use tenure_store::{Fault, FaultyStore};

struct ForgottenFleet {
    store: FaultyStore<AnyStore>,
    leases: Leases,
    name: FleetName,
    nonces: Nonces,
}

impl ForgottenFleet {
    fn new() -> ForgottenFleet {
        let store = FaultyStore::new(tenure::memory());
        let leases = Leases::new(store.clone()).unwrap();
        ForgottenFleet { store, leases, name: FleetName::new("f").unwrap(), nonces: Nonces::new(7) }
    }

    fn session(&self) -> Key {
        self.name.worker(&HolderId::new("w").unwrap()).unwrap()
    }

    fn unit(&self, unit: &str) -> Key {
        self.name.unit(unit).unwrap()
    }

    /// Writes a record with a tenure, which is attached to that session.
    async fn hold(&mut self, key: &Key, on: Option<&str>, expect: Expect) -> Version {
        let nonce = self.nonces.draw();
        let attachment =
            on.map(|session| Attachment { session: Key::new(session).unwrap(), fence: Fence(7) });
        let holder = HolderId::new("w").unwrap();
        let tenure = Tenure { attachment, ..Tenure::new(nonce, holder, Ttl::clamped(1000), Wall(0)) };
        let (fence, metadata) = (Fence(7), Metadata::new());
        let record = Record { fence, nonce, stamp: Wall(0), tenure: Some(tenure), metadata };
        let write = Write { key: key.clone(), expect, record };
        match self.leases.store().write(write).await.unwrap() {
            Outcome::Won { version, .. } => version,
            lost => panic!("{lost:?}"),
        }
    }

    /// A unit that nobody has.
    async fn add(&mut self, unit: &str) -> Key {
        let (key, nonce) = (self.unit(unit), self.nonces.draw());
        let (fence, metadata) = (Fence(7), Metadata::new());
        let record = Record { fence, nonce, stamp: Wall(0), tenure: None, metadata };
        let write = Write { key: key.clone(), expect: Expect::Absent, record };
        assert!(matches!(self.leases.store().write(write).await.unwrap(), Outcome::Won { .. }));
        key
    }

    async fn found(&self) -> FleetRecords {
        FleetRecords::of(&self.leases, &self.name).await.unwrap()
    }

    async fn read(&self, key: &Key) -> Option<Stored> {
        self.leases.store().read(key).await.unwrap()
    }
}

#[tokio::test]
async fn a_worker_that_renews_meanwhile_loses_nothing_and_one_that_is_ended_renews_no_more() {
    let mut fleet = ForgottenFleet::new();
    let (session, unit) = (fleet.session(), fleet.unit("u"));
    let begun = fleet.hold(&session, None, Expect::Absent).await;
    let claimed = fleet.hold(&unit, Some(session.as_str()), Expect::Absent).await;
    let found = fleet.found().await;
    assert_eq!((found.units.len(), found.held.len(), found.sessions.len()), (1, 0, 1));
    let renewed = fleet.hold(&session, None, Expect::Unchanged(begun)).await;
    let failure = found.remove(&fleet.leases, &fleet.name).await.unwrap_err();
    assert!(failure.code == exit::HELD && failure.text.contains("a worker that lives, w"), "{failure}");
    assert_eq!(fleet.read(&unit).await.unwrap().version, claimed);
    assert_eq!(fleet.read(&session).await.unwrap().version, renewed);

    // It is dead, and somebody else changes its unit.
    let found = fleet.found().await;
    let changed = fleet.hold(&unit, Some("session/x"), Expect::Unchanged(claimed)).await;
    let done = found.remove(&fleet.leases, &fleet.name).await.unwrap();
    let stay = Stay { changed: 1, rest: 1, ..Stay::default() };
    assert_eq!(done, Removed { stay, ..Removed::default() });
    assert_eq!(fleet.read(&unit).await.unwrap().version, changed);
    // It was ended before that, so its last renewal comes too late.
    let ended = fleet.read(&session).await.unwrap().record;
    assert!(ended.tenure.is_none() && ended.fence == Fence(8), "{ended:?}");

    let back = fleet.hold(&unit, Some(session.as_str()), Expect::Unchanged(changed)).await;
    assert_eq!(fleet.read(&unit).await.unwrap().version, back);
    let done = fleet.found().await.remove(&fleet.leases, &fleet.name).await.unwrap();
    assert_eq!(done, Removed { removed: 2, ..Removed::default() });
    assert!(fleet.read(&unit).await.is_none() && fleet.read(&session).await.is_none());
}

#[tokio::test]
async fn what_is_held_from_outside_stays_and_what_workers_have_left_with_it() {
    let mut fleet = ForgottenFleet::new();
    let (session, held, lost) = (fleet.session(), fleet.unit("held"), fleet.unit("lost"));
    fleet.hold(&session, None, Expect::Absent).await;
    fleet.hold(&held, Some("session/x"), Expect::Absent).await;
    // Its session is missing: whether its worker lives is not known.
    fleet.hold(&lost, Some("fleet/f/worker/gone"), Expect::Absent).await;
    let own = fleet.unit("own");
    fleet.hold(&own, Some(session.as_str()), Expect::Absent).await;
    let found = fleet.found().await;
    assert_eq!(found.names(), [own.as_str()]);
    let done = found.remove(&fleet.leases, &fleet.name).await.unwrap();
    let stay = Stay { outside: 1, lost: 1, rest: 1, ..Stay::default() };
    assert_eq!(done, Removed { removed: 1, stay, ..Removed::default() });
    assert_eq!(fleet.found().await.all, 3);
}

#[tokio::test(start_paused = true)]
async fn what_a_worker_holds_whose_session_is_gone_goes_once_it_can_not_believe_in_it() {
    let mut fleet = ForgottenFleet::new();
    let (clock, lost) = (SteppedClock::start(), fleet.unit("lost"));
    fleet.hold(&lost, Some("fleet/f/worker/gone"), Expect::Absent).await;
    let mut watch = FleetWatch::default();
    let found = FleetRecords::of_the_dead(&fleet.leases, &fleet.name, &mut watch).await.unwrap();
    assert!(clock.held() >= Tick(0).after(Duration::from_secs(1)), "its ttl");
    assert_eq!((found.names(), found.stay()), (vec![lost.as_str().to_owned()], Stay::default()));
    // It is not watched twice.
    let before = clock.held();
    FleetRecords::of_the_dead(&fleet.leases, &fleet.name, &mut watch).await.unwrap();
    assert_eq!(clock.held(), before);
    // Who shows a sign of life meanwhile keeps it.
    let seen = fleet.read(&lost).await.unwrap().version;
    fleet.hold(&lost, Some("fleet/f/worker/gone"), Expect::Unchanged(seen)).await;
    let done = found.remove(&fleet.leases, &fleet.name).await.unwrap();
    assert_eq!(done, Removed { stay: Stay { changed: 1, ..Stay::default() }, ..Removed::default() });
}

#[tokio::test]
async fn a_worker_that_comes_meanwhile_is_told_and_keeps_its_session_and_the_board() {
    let mut fleet = ForgottenFleet::new();
    let (session, unit) = (fleet.session(), fleet.add("u").await);
    fleet.hold(&session, None, Expect::Absent).await;
    let found = fleet.found().await;
    let other = fleet.name.worker(&HolderId::new("x").unwrap()).unwrap();
    fleet.hold(&other, None, Expect::Absent).await;
    let done = found.remove(&fleet.leases, &fleet.name).await.unwrap();
    let stay = Stay { rest: 1, ..Stay::default() };
    let expected = Removed { removed: 1, stay, newcomer: Some(other.clone()), ..Removed::default() };
    assert_eq!(done, expected);
    assert!(fleet.read(&unit).await.is_none() && fleet.read(&session).await.is_some());
    assert!(fleet.read(&other).await.unwrap().record.tenure.is_some());
    let failure = outcome(&fleet.name, &done, 0, 0).unwrap();
    let told = "a worker that has come meanwhile, x: units that it has named may be gone; start it again";
    assert!(failure.code == exit::HELD && failure.text.contains(told), "{failure}");
}

#[tokio::test(start_paused = true)]
async fn what_is_gone_before_a_failure_is_told_with_it() {
    let mut fleet = ForgottenFleet::new();
    fleet.add("a").await;
    fleet.add("b").await;
    let found = fleet.found().await;
    fleet.store.inject([vec![Fault::None], vec![Fault::Refuse; 20]].concat());
    let failure = found.remove(&fleet.leases, &fleet.name).await.unwrap_err();
    assert_eq!(failure.code, exit::UNAVAILABLE);
    assert!(failure.text.ends_with("; before that: 1 record removed"), "{failure}");
}

#[tokio::test(start_paused = true)]
async fn what_somebody_else_has_removed_is_gone_and_not_changed() {
    let mut fleet = ForgottenFleet::new();
    let session = fleet.session();
    fleet.hold(&session, None, Expect::Absent).await;
    let unit = fleet.add("u").await;
    let found = fleet.found().await;
    let seen = fleet.read(&unit).await.unwrap().version;
    assert!(fleet.leases.store().remove(&unit, seen).await.unwrap());
    let done = found.remove(&fleet.leases, &fleet.name).await.unwrap();
    assert_eq!(done, Removed { removed: 1, gone: 1, ..Removed::default() });
    assert_eq!(fleet.found().await.all, 0);
}

#[tokio::test]
async fn a_session_that_the_store_keeps_is_no_failure_once_units_are_gone() {
    let mut fleet = ForgottenFleet::new();
    let session = fleet.session();
    fleet.hold(&session, None, Expect::Absent).await;
    fleet.add("u").await;
    let found = fleet.found().await;
    assert_eq!(found.highest(), Some(Fence(8)), "that of the session when it has ended");
    // The end of the session, the unit, and who has come.
    fleet.store.inject([Fault::None, Fault::None, Fault::None, Fault::Forbid]);
    let done = found.remove(&fleet.leases, &fleet.name).await.unwrap();
    assert_eq!((done.removed, done.stay.refused), (1, 1), "{done:?}");
    let failure = outcome(&fleet.name, &done, 0, 0).unwrap();
    let told = "not removed: 1 record that the store does not remove yet (injected fault: forbidden)";
    assert!(failure.code == exit::HELD && failure.text == told, "{failure}");
    // Whoever may remove nothing hears that.
    let found = fleet.found().await;
    fleet.store.inject([Fault::None, Fault::Forbid]);
    let failure = found.remove(&fleet.leases, &fleet.name).await.unwrap_err();
    assert_eq!(failure.code, exit::USAGE, "{failure}");
}

#[test]
fn who_is_asked_knows_what_is_not_done_and_what_stays_is_told_with_what_helps() {
    let name = FleetName::new("f").unwrap();
    let asked = |open, unknown| FleetRecords { told: 3, open, unknown, ..FleetRecords::default() };
    let told = |open, unknown| asked(open, unknown).question(&name);
    assert!(told(0, 0).starts_with("Remove fleet f with 3 units? Given again, "), "{}", told(0, 0));
    let both = "with 3 units, 1 of them not done and 2 of a status that this version does not know? ";
    assert!(told(1, 2).contains(both), "{}", told(1, 2));
    let left = |outside, damaged, newer| {
        let stay = Stay { outside, ..Stay::default() };
        let text = left_behind(&stay, damaged, newer).unwrap_or_default();
        (stay.is_any_taken(), ["release KEY", "rm --damaged KEY", "newer tenure"].map(|it| text.contains(it)))
    };
    assert_eq!(left(1, 0, 0), (true, [true, false, false]));
    assert_eq!(left(0, 1, 0), (false, [false, true, false]));
    assert_eq!(left(0, 0, 1), (false, [false, false, true]));
    assert!(left_behind(&Stay::default(), 0, 0).is_none());
}
