//! Fleets by the agent: clients in any language are workers, and have units no longer than they were told.
//!
//! Plan: a unit is given with its fence, kept by beats, and is done, failed or given back; another has it no sooner than its client's deadline: of a client that
//! is silent, of an agent that is killed or told to end. Who works alone gives back by its end. A unit that is to go is told so by its beats, and goes when it
//! is given back. Who asks for no units any more leaves. What is listed tells what clients have. What fails is in the agent's log, also where none was asked for.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::agent::{Agent, Client, Told};
use crate::common::{Bench, Process, wait_for, wait_until};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;
use tenure::clock::boottime;

/// The write that wins may have been on its way when the unit became free.
const ON_ITS_WAY: Duration = Duration::from_millis(60);

/// A worker by an agent.
struct Worker {
    client: Client,
    id: String,
    holder: String,
}

impl Worker {
    #[track_caller]
    fn join(agent: &Agent, wish: &Value) -> Worker {
        let mut client = agent.client();
        let joined = client.post("/v1/fleets/f/workers", wish);
        assert_eq!(joined.status, 201, "{joined:?}");
        let text = |name: &str| joined.body[name].as_str().unwrap().to_owned();
        Worker { id: text("id"), holder: text("holder"), client }
    }

    /// The next unit that it is given.
    #[track_caller]
    fn given(&mut self) -> Told {
        let path = format!("/v1/workers/{}/next", self.id);
        wait_for("a unit", || {
            let answer = self.client.post(&path, &json!({"wait_ms": 1000}));
            assert!([200, 204].contains(&answer.status), "{answer:?}");
            (answer.status == 200).then_some(Told(answer.body))
        })
    }

    /// Whether the fleet has this worker.
    fn is_in(&self, bench: &Bench) -> bool {
        bench.workers().iter().any(|worker| worker["worker"] == self.holder.as_str())
    }
}

/// An agent beside another one.
fn second_agent(bench: &Bench) -> Agent {
    let socket = bench.path("second.sock");
    Agent::of(bench.tenure(&["serve", "--listen", &format!("unix:{}", socket.display())]), socket)
}

/// The other has the unit after this client's deadline, with a higher fence.
#[track_caller]
fn only_after(told: &Told, other: &mut Worker) -> Told {
    let next = other.given();
    let (at, deadline) = (boottime(), told.deadline());
    assert!(at + ON_ITS_WAY > deadline, "{:?} too soon", deadline.saturating_sub(at));
    assert!(next.number("fence") > told.number("fence"), "{next:?} after {told:?}");
    next
}

#[test]
fn units_are_given_kept_by_beats_and_end_by_a_word() {
    let bench = Bench::new();
    let agent = Agent::start(&bench, &["--ttl", "20s"]);
    let mut one = Worker::join(&agent, &json!({"units": ["a", "b"], "ttl_ms": 3000}));
    let (first, second) = (one.given(), one.given());
    let unit = first.0["unit"].as_str().unwrap().to_owned();
    assert_eq!(first.0["key"], format!("fleet/f/unit/{unit}"));
    assert_eq!(bench.unit(&unit)["owner"], one.holder.as_str());
    let mut client = agent.client();
    // For longer than one deadline is ahead, both in one request.
    let ids = json!({"ids": [first.id(), second.id()]});
    let mut last = second.clone();
    while last.deadline() < second.deadline() + Duration::from_secs(3) {
        std::thread::sleep(Duration::from_millis(300));
        one.client.post(&format!("/v1/workers/{}/next", one.id), &json!({}));
        let beaten = client.post("/v1/beats", &ids);
        last = Told(beaten.body["leases"][1].clone());
        assert_eq!(last.0["fence"], second.0["fence"], "{beaten:?}");
    }
    let said = client.post(&format!("/v1/units/{}/checkpoint", first.id()), &json!({"value": "half"}));
    assert_eq!(said.status, 204, "{said:?}");
    assert_eq!(client.release(&second).body, json!({"released": true}));
    // It comes again, and knows how far it was.
    let failed = client.post(&format!("/v1/units/{}/failed", first.id()), &json!({"says": "oh no"}));
    assert_eq!(failed.body, json!({"released": true}), "{failed:?}");
    let again =
        wait_for("the same one", || Some(one.given()).filter(|unit| unit.0["unit"] == first.0["unit"]));
    assert_eq!((&again.0["unit"], &again.0["fields"]["checkpoint"]), (&first.0["unit"], &json!("half")));
    assert!(
        again.number("fence") >= first.number("fence"),
        "in the same place it may go on under the same fence"
    );
    let done = client.post(&format!("/v1/units/{}/done", again.id()), &json!({"fields": {"said": "well"}}));
    assert_eq!(done.body, json!({"released": true}), "{done:?}");
    wait_until("it to be done", || bench.unit(&unit)["stage"] == "done");
    assert_eq!(client.post(&format!("/v1/units/{}/done", again.id()), &json!({})).status, 410);
    // A lease is no unit.
    let lease = client.acquire("k");
    assert_eq!(client.post(&format!("/v1/units/{}/done", lease.id()), &json!({})).status, 400);
    assert_eq!(client.beat(&lease).status, 200, "it is held still");
    let left = client.ask("DELETE", &format!("/v1/workers/{}", one.id), None);
    assert_eq!(left.body, json!({"released": true}), "{left:?}");
    assert!(!one.is_in(&bench));
    assert_eq!(one.client.post(&format!("/v1/workers/{}/next", one.id), &json!({})).status, 404);
}

#[test]
fn what_fails_for_a_unit_is_logged_though_no_log_was_asked_for() {
    let bench = Bench::new();
    let socket = bench.path("agent.sock");
    let mut command = bench.tenure(&["serve", "--listen", &format!("unix:{}", socket.display())]);
    let log = std::fs::File::create(bench.path("agent.log")).unwrap();
    let process = Process::from(command.stdout(Stdio::null()).stderr(log).spawn().unwrap());
    let agent = Agent { process, socket };
    wait_until("the agent to listen", || agent.socket.exists());
    let mut worker = Worker::join(&agent, &json!({"units": ["a"]}));
    let given = worker.given();
    let path = format!("/v1/units/{}/failed", given.id());
    let failed = worker.client.post(&path, &json!({"says": "no disk\u{1b}"}));
    assert_eq!(failed.status, 200, "{failed:?}");
    wait_until("it to be logged", || bench.read("agent.log").contains("this unit has failed"));
    let log = bench.read("agent.log");
    assert!(log.contains("WARN tenure::agent: ") && log.contains("key=fleet/f/unit/a"), "{log}");
    assert!(log.contains("no disk\\u{1b}") && !log.contains('\u{1b}'), "{log}");
}

#[test]
fn s9_a_silent_clients_unit_goes_to_another_at_its_deadline_and_no_sooner() {
    let bench = Bench::new();
    let agent = Agent::start(&bench, &["--ttl", "60s"]);
    let mut silent = Worker::join(&agent, &json!({"units": ["u"], "ttl_ms": 3000}));
    let told = silent.given();
    let mut other = Worker::join(&agent, &json!({"ttl_ms": 3000}));
    only_after(&told, &mut other);
    let late = other.client.beat(&told);
    assert!(
        late.status == 410 && late.body["message"].as_str().unwrap().contains("no beat came"),
        "{late:?}"
    );
    // It has not asked for a unit for long.
    wait_until("it to leave", || !silent.is_in(&bench));
    assert!(other.is_in(&bench));
}

#[test]
fn s2_a_unit_that_a_client_let_lapse_has_a_higher_fence_at_the_same_worker_too() {
    let bench = Bench::new();
    let agent = Agent::start(&bench, &[]);
    let mut only = Worker::join(&agent, &json!({"units": ["u"], "ttl_ms": 1000}));
    let told = only.given();
    let next = only.given();
    assert_eq!(next.0["unit"], told.0["unit"]);
    assert!(next.number("fence") > told.number("fence"), "{next:?} after {told:?}");
}

#[test]
fn s9_nobody_has_a_unit_before_the_deadline_of_a_client_whose_agent_is_killed() {
    let bench = Bench::new();
    let (killed, agent) = (Agent::start(&bench, &[]), second_agent(&bench));
    let mut one = Worker::join(&killed, &json!({"units": ["u"], "ttl_ms": 3000}));
    let told = one.given();
    let mut other = Worker::join(&agent, &json!({"ttl_ms": 3000}));
    killed.process.signal(Signal::SIGKILL);
    only_after(&told, &mut other);
}

#[test]
fn s9_an_agent_that_is_told_to_end_outlives_the_units_that_it_told_of() {
    let bench = Bench::new();
    let (mut ending, agent) = (Agent::start(&bench, &[]), second_agent(&bench));
    let mut one = Worker::join(&ending, &json!({"units": ["u"], "ttl_ms": 4000}));
    let told = one.given();
    let mut events = ending.client().listen();
    let mut other = Worker::join(&agent, &json!({"ttl_ms": 4000}));
    ending.process.signal(Signal::SIGTERM);
    events.next("stopping");
    let beat = one.client.beat(&told);
    assert_eq!((beat.status, &beat.body["code"]), (503, &json!("stopping")), "{beat:?}");
    only_after(&told, &mut other);
    assert_eq!(ending.process.wait(), 143);
    wait_until("it to have left", || !one.is_in(&bench));
}

/// A client in a process of its own: it joins, is given a unit, and beats for ever.
fn program(agent: &Agent, wish: &Value) -> (Process, Told) {
    const PROGRAM: &str = r#"
import json, socket, sys, time
def ask(path, body):
    data = json.dumps(body).encode()
    s.sendall(b"POST %s HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % (path.encode(), len(data)) + data)
    head, length = f.readline(), 0
    while (line := f.readline().strip()):
        if line.lower().startswith(b"content-length:"): length = int(line.split(b":")[1])
    return json.loads(f.read(length) or b"null")
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); f = s.makefile("rb")
worker, told = ask("/v1/fleets/f/workers", json.loads(sys.argv[2]))["id"], None
while told is None: told = ask("/v1/workers/%s/next" % worker, {"wait_ms": 1000})
print(json.dumps(told), flush=True)
while True:
    time.sleep(0.2)
    ask("/v1/workers/%s/next" % worker, {}), ask("/v1/leases/%s/beat" % told["id"], {})
"#;
    let mut command = Command::new("python3");
    command.arg("-c").arg(PROGRAM).arg(&agent.socket).arg(wish.to_string()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (child.into(), Told(serde_json::from_str(&line).unwrap()))
}

#[test]
fn a_killed_clients_units_go_at_once_if_it_said_that_it_works_alone() {
    let bench = Bench::new();
    let agent = Agent::start(&bench, &[]);
    let (process, told) = program(&agent, &json!({"units": ["u"], "ttl_ms": 60_000, "on_exit": "release"}));
    assert_eq!(told.0["on_exit"], "release");
    let mut other = Worker::join(&agent, &json!({"ttl_ms": 60_000}));
    process.signal(Signal::SIGKILL);
    let next = other.given();
    assert!(boottime() < told.deadline(), "it has taken as long as the deadline of a client that is silent");
    assert!(next.number("fence") > told.number("fence"));
    // What has started others says nothing by its end.
    let (process, told) = program(&agent, &json!({"units": ["v"], "ttl_ms": 3000}));
    process.signal(Signal::SIGKILL);
    let mut third = Worker::join(&agent, &json!({"ttl_ms": 3000}));
    let next = wait_for("the unit to go on", || {
        // Whoever of the two that live is given it.
        [&mut other, &mut third].into_iter().find_map(|worker| {
            let answer = worker.client.post(&format!("/v1/workers/{}/next", worker.id), &json!({}));
            (answer.status == 200 && answer.body["unit"] == told.0["unit"]).then_some(Told(answer.body))
        })
    });
    assert!(boottime() + ON_ITS_WAY > told.deadline() && next.number("fence") > told.number("fence"));
}

#[test]
fn a_unit_that_is_to_go_is_told_so_by_its_beats_and_goes_when_it_is_given_back() {
    let bench = Bench::new();
    let agent = Agent::start(&bench, &[]);
    let mut one = Worker::join(&agent, &json!({"units": ["a", "b"], "ttl_ms": 3000, "drain_ms": 600_000}));
    let units = [one.given(), one.given()];
    let mut other = Worker::join(&agent, &json!({"ttl_ms": 3000}));
    let mut client = agent.client();
    let mut is_new = |client: &mut Client| {
        one.client.post(&format!("/v1/workers/{}/next", one.id), &json!({}));
        let beats: Vec<_> = units.iter().map(|unit| client.beat(unit)).collect();
        assert!(beats.iter().all(|beat| beat.status == 200), "{beats:?}");
        beats.into_iter().find(|beat| beat.body["drain_in_ms"].is_u64())
    };
    let told = wait_for("one to be asked for", || is_new(&mut client));
    // It is its client's as long as that wants it.
    let until = boottime() + Duration::from_secs(4);
    while boottime() < until {
        assert!(is_new(&mut client).is_some());
        let next = other.client.post(&format!("/v1/workers/{}/next", other.id), &json!({"wait_ms": 200}));
        assert_eq!(next.status, 204, "{next:?}");
    }
    let told = Told(told.body);
    assert_eq!(client.release(&told).body, json!({"released": true}));
    let next = other.given();
    assert_eq!(next.0["key"], told.0["key"]);
    assert!(boottime() < told.deadline() + Duration::from_secs(600), "before the drain time is over");
}

#[test]
fn the_list_tells_what_clients_have_of_every_kind_and_nothing_else() {
    let bench = Bench::new();
    let agent = Agent::start(&bench, &["--ttl", "20s"]);
    let other = second_agent(&bench);
    let mut worker = Worker::join(&agent, &json!({"units": ["u"]}));
    worker.given();
    let mut client = agent.client();
    client.acquire("lease");
    let range = json!({"range": "0_80", "for_ms": 60_000});
    let posted = |client: &mut Client, path: &str, wish: &Value| {
        let answer = client.post(path, wish);
        assert_eq!(answer.status, 201, "{answer:?}");
    };
    posted(&mut client, "/v1/sections/mail/leases", &range);
    posted(&mut client, "/v1/semaphores", &json!({"name": "pool", "permits": 2}));
    let mut stranger = other.client();
    stranger.acquire("of another");
    posted(&mut stranger, "/v1/sections/other/leases", &range);
    let listed = client.get("/v1/leases?limit=1000").body["leases"].as_array().unwrap().clone();
    let is_here = |row: &&Value| row["is_here"] == true;
    let here: Vec<&str> = listed.iter().filter(is_here).filter_map(|row| row["key"].as_str()).collect();
    assert_eq!(here, ["fleet/f/unit/u", "lease", "section/mail", "semaphore/pool"], "{listed:?}");
    assert!(listed.iter().any(|row| row["key"].as_str().unwrap().starts_with("session/")), "{listed:?}");
}
