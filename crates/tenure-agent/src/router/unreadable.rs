//! Sessions that can't be read, in an agent beside whoever holds something by them.
//!
//! Plan: the agent's own is no fault of the keys that are asked for, and has its remedy; that nobody leads is said only where nobody can; a unit is not moved to a worker of which nothing is known, and the reason is told.

use super::tests::RouterFixture;
use serde_json::json;
use tenure::fleet::{Event, Fleet, NewUnit};
use tenure::{AnyStore, Leases, MemoryStore};
use tenure_store::FaultyStore;

fn spoiled() -> (RouterFixture, MemoryStore, FaultyStore<MemoryStore>) {
    let memory = MemoryStore::new("m", tenure::clock::system());
    let faults = FaultyStore::new(memory.clone());
    (RouterFixture::on(AnyStore::new(faults.clone())), memory, faults)
}

#[test]
fn the_agent_s_own_session_is_no_fault_of_the_keys_that_are_asked_for() {
    let (served, _, faults) = spoiled();
    assert_eq!(served.ask("GET", "/readyz", Vec::new()).0, 200);
    let session = served.agent.shared.leases.session_key().clone();
    faults.damage(session.clone());
    let asked = [
        ("/v1/leases", json!({"key": "k"})),
        ("/v1/semaphores", json!({"name": "s", "permits": 2})),
        ("/v1/elections/e/campaign", json!({})),
        ("/v1/once", json!({"key": "o", "every_ms": 1000})),
    ];
    let told = asked.map(|(path, wish)| served.ask("POST", path, wish.to_string().into_bytes()));
    for (status, told) in told.into_iter().chain([served.ask("GET", "/readyz", Vec::new())]) {
        assert_eq!((status, &told["code"]), (503, &json!("unavailable")), "{told}");
        let says = told["message"].as_str().unwrap();
        let remedy = format!("`tenure rm --damaged {session}`");
        assert!(says.contains("the agent's own session can't be read") && says.contains(&remedy), "{says}");
    }
    // A key that is damaged itself is told of as such.
    let (served, _, faults) = spoiled();
    faults.damage(tenure::Key::new("k").unwrap());
    let (status, told) = served.ask("POST", "/v1/leases", json!({"key": "k"}).to_string().into_bytes());
    assert_eq!((status, &told["code"]), (409, &json!("damaged")), "{told}");
}

#[test]
fn that_nobody_leads_is_said_only_where_nobody_can() {
    let (served, memory, faults) = spoiled();
    let leader = || served.ask("GET", "/v1/elections/k/leader", Vec::new());
    let (there, guard) = served.runtime.block_on(async {
        let there = Leases::new(memory).unwrap();
        let guard = there.acquire("k").await.unwrap();
        (there, guard)
    });
    let (status, row) = leader();
    assert_eq!((status, &row["state"], &row["problem"]), (200, &json!("held"), &json!(null)), "{row}");
    faults.damage(there.session_key().clone());
    let (status, row) = leader();
    assert_eq!((status, &row["state"]), (200, &json!("unknown")), "{row}");
    assert_eq!((&row["holder"], &row["fence"]), (&json!(there.holder().as_str()), &json!(guard.fence().0)));
    assert!(row["problem"].as_str().unwrap().contains("can't be read") && guard.is_held(), "{row}");
    assert_eq!(row["left_ms"], json!(null));
    let (_, listed) = served.ask("GET", "/v1/leases?prefix=k", Vec::new());
    assert_eq!(listed["leases"], json!([row]));
    assert!(served.runtime.block_on(guard.release()));
    assert_eq!(leader().0, 404);
    served.runtime.block_on(there.stop());
}

#[test]
fn why_a_worker_can_not_have_a_unit_is_told() {
    let (served, memory, faults) = spoiled();
    let (fleet, worker, unit) = served.runtime.block_on(async {
        let fleet = Fleet::new(memory, "f").unwrap();
        fleet.create(NewUnit::named("u")).await.unwrap();
        let worker = fleet.join().start().unwrap();
        let Some(Event::Assigned(unit)) = worker.next().await else { panic!("it has stopped") };
        (fleet, worker, unit)
    });
    let moved = |worker: &str| {
        let wish = json!({"fence": unit.unit().fence().0, "worker": worker}).to_string().into_bytes();
        served.ask("POST", "/v1/records/fleet%2Ff%2Funit%2Fu/move", wish)
    };
    let holder = worker.holder().as_str();
    assert_eq!((moved("nobody").0, moved(holder).0), (404, 200));
    faults.damage(fleet.name().worker(worker.holder()).unwrap());
    let (status, answer) = moved(holder);
    assert_eq!((status, &answer["code"]), (409, &json!("damaged")), "{answer}");
    assert_eq!(moved("nobody").0, 404);
}
