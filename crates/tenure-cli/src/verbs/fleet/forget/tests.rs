//! Plan: a worker that renews between loses nothing; one that is dead is ended before its units go, and renews no more; what is held from outside
//! stays, and the board and the sessions with it; who is asked knows what is not done, and of what stays it is told what helps.
use super::*;
use tenure::store::Tenure;
use tenure::{HolderId, Metadata, Ttl, Wall};
use tenure_core::Nonces;

struct ForgottenFleet {
    leases: Leases,
    name: FleetName,
    nonces: Nonces,
}

impl ForgottenFleet {
    fn new() -> ForgottenFleet {
        let leases = Leases::new(tenure::memory()).unwrap();
        ForgottenFleet { leases, name: FleetName::new("f").unwrap(), nonces: Nonces::new(7) }
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
    let stay = Stay { outside: 0, changed: 1, rest: 1 };
    assert_eq!(done, Removed { removed: 0, stay });
    assert_eq!(fleet.read(&unit).await.unwrap().version, changed);
    // It was ended before that, so its last renewal comes too late.
    let ended = fleet.read(&session).await.unwrap().record;
    assert!(ended.tenure.is_none() && ended.fence > Fence(7), "{ended:?}");

    let back = fleet.hold(&unit, Some(session.as_str()), Expect::Unchanged(changed)).await;
    assert_eq!(fleet.read(&unit).await.unwrap().version, back);
    let done = fleet.found().await.remove(&fleet.leases, &fleet.name).await.unwrap();
    assert_eq!(done, Removed { removed: 2, stay: Stay::default() });
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
    assert_eq!(done, Removed { removed: 1, stay: Stay { outside: 2, changed: 0, rest: 1 } });
    assert_eq!(fleet.found().await.all, 3);
}

#[test]
fn who_is_asked_knows_what_is_not_done_and_what_stays_is_told_with_what_helps() {
    let name = FleetName::new("f").unwrap();
    let asked = |open, unknown| FleetRecords { told: 3, open, unknown, ..FleetRecords::default() };
    let told = |open, unknown| asked(open, unknown).question(&name);
    assert!(told(0, 0).starts_with("Remove fleet f with 3 units? Given again, "), "{}", told(0, 0));
    let both = "with 3 units, 1 of them not done and 2 that this version can't read? ";
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
