//! `tenure serve` by the real binary: promise S9, loss in time across the process boundary.
//!
//! Plan: a rival waits for each key, and has it no sooner than the client's deadline, and soon after: of a client that is silent, whose connection
//! closes, that is killed, whose lease was handed on; of an agent that is killed, stopped, told to end. Who works alone gives back
//! by its end. What is told: deadlines on both clocks, withdrawal, loss, events; what a new agent says of old leases. Permits, elections and
//! the list. docs/operate.md does what it says. Who reaches the agent is in `serve/access.rs`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

mod access;

use crate::common::agent::{Agent, Told};
use crate::common::{Bench, Process, is_alive, takes_at_most, wait_for, wait_until};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::Duration;
use tenure::clock::boottime;

/// Waits for a key in a process of its own, and tells when it had it.
struct Rival {
    process: Process,
    said: BufReader<std::process::ChildStdout>,
}

impl Rival {
    const TTL: Duration = Duration::from_secs(10);

    /// It waits already.
    fn of(bench: &Bench, key: &str) -> Rival {
        let mut command = bench.tenure(&["hold", key, "--json", "--ttl", "10s"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        Rival { process: child.into(), said }
    }

    /// When it had sent the write that won: what it believes is counted from there.
    fn had_it_at(&mut self) -> Duration {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        let acquired: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(acquired["event"], "acquired", "{line}");
        let believes = Self::TTL.mul_f64(900.0 / 1100.0);
        Duration::from_millis(acquired["deadline_boottime_ms"].as_u64().unwrap()).saturating_sub(believes)
    }
}

/// The write that wins may have been on its way when the key became free.
const ON_ITS_WAY: Duration = Duration::from_millis(60);

/// The rival has it after this client's deadline, and not long after.
#[track_caller]
fn only_after(told: &Told, mut rival: Rival, soon: Duration) {
    let (at, deadline) = (rival.had_it_at(), told.deadline());
    assert!(at + ON_ITS_WAY > deadline, "{:?} too soon", deadline.saturating_sub(at));
    assert!(at < deadline + soon, "{:?} after the deadline", at.saturating_sub(deadline));
    rival.process.signal(Signal::SIGTERM);
}

const SOON: Duration = Duration::from_secs(4);

#[test]
fn s9_a_silent_clients_lease_is_given_back_at_its_deadline_whatever_becomes_of_the_connection() {
    let bench = Bench::new();
    // What it is told is far less than the session has.
    let agent = Agent::start(&bench, &["--ttl", "60s"]);
    let mut client = agent.client();
    let told = client.acquire_with(&json!({"key": "silent", "ttl_ms": 2500}));
    let closed = agent.client().acquire_with(&json!({"key": "closed", "ttl_ms": 2500}));
    let rivals = [Rival::of(&bench, "silent"), Rival::of(&bench, "closed")];
    let [silent, other] = rivals;
    only_after(&told, silent, SOON);
    only_after(&closed, other, SOON);
    let late = client.beat(&told);
    assert!(
        late.status == 410 && late.body["message"].as_str().unwrap().contains("no beat came"),
        "{late:?}"
    );
}

#[test]
fn s9_a_lease_is_kept_by_beats_and_each_deadline_holds() {
    let bench = Bench::new();
    let agent = Agent::start(&bench, &["--ttl", "3s"]);
    let mut client = agent.client();
    let mut told = client.acquire("k");
    let first = told.clone();
    let rival = Rival::of(&bench, "k");
    // Twice as long as one deadline is ahead.
    while told.deadline() < first.deadline() + Duration::from_secs(5) {
        std::thread::sleep(Duration::from_millis(told.number("beat_in_ms").min(300)));
        let next = client.beat(&told);
        assert_eq!((next.status, &next.body["fence"]), (200, &told.0["fence"]), "{next:?}");
        assert!(boottime() < told.deadline(), "the machine stood still for too long to say anything");
        told = Told(next.body);
    }
    only_after(&told, rival, SOON);
}

#[test]
fn s9_nobody_has_a_lease_before_the_deadline_of_a_client_whose_agent_is_killed_or_stopped() {
    let bench = Bench::new();
    let agent = Agent::start(&bench, &["--ttl", "3s"]);
    let told = agent.client().acquire("k");
    let rival = Rival::of(&bench, "k");
    agent.process.signal(Signal::SIGKILL);
    only_after(&told, rival, SOON + Duration::from_secs(3));
    // A new one knows nothing of it, and says so.
    drop(agent);
    let agent = Agent::start(&bench, &["--ttl", "3s"]);
    let mut client = agent.client();
    let beat = client.beat(&told);
    assert!(
        beat.status == 404 && beat.body["message"].as_str().unwrap().contains("started anew"),
        "{beat:?}"
    );
    let told = client.acquire("stopped");
    let rival = Rival::of(&bench, "stopped");
    bench.stop(&[agent.process.id()]);
    only_after(&told, rival, SOON + Duration::from_secs(3));
    agent.process.signal(Signal::SIGCONT);
    let beat = client.beat(&told);
    assert_eq!(beat.status, 410, "{beat:?}");
}

#[test]
fn s9_an_agent_that_is_told_to_end_outlives_what_it_told_and_prolongs_nothing() {
    let bench = Bench::new();
    let mut agent = Agent::start(&bench, &["--ttl", "8s"]);
    let (mut client, mut other) = (agent.client(), agent.client());
    let (kept, given) = (client.acquire("kept"), other.acquire("given"));
    let rivals = (Rival::of(&bench, "kept"), Rival::of(&bench, "given"));
    let mut events = agent.client().listen();
    agent.process.signal(Signal::SIGTERM);
    events.next("stopping");
    let beat = client.beat(&kept);
    assert_eq!((beat.status, &beat.body["code"]), (503, &json!("stopping")), "{beat:?}");
    assert_eq!(client.post("/v1/leases", &json!({"key": "new"})).status, 503);
    assert_eq!(client.get("/readyz").status, 503);
    // A client that is done is served still, and the next one need not wait.
    assert_eq!(other.release(&given).body, json!({"released": true}));
    let (kept_by, mut given_to) = rivals;
    assert!(given_to.had_it_at() < given.deadline());
    only_after(&kept, kept_by, SOON);
    assert_eq!(agent.process.wait(), 143);
    assert!(!agent.socket.exists());
    // At once, if it is told so twice: all is left to expire.
    let mut agent = Agent::start(&bench, &["--ttl", "8s"]);
    let told = agent.client().acquire("at once");
    let rival = Rival::of(&bench, "at once");
    agent.process.signal(Signal::SIGTERM);
    agent.process.signal_again(Signal::SIGTERM);
    assert_eq!(agent.process.wait(), 143);
    assert!(boottime() < told.deadline(), "it has waited");
    only_after(&told, rival, SOON + Duration::from_secs(8));
}

/// A client in a process of its own, which takes a lease and then beats for ever, on one connection.
fn program(agent: &Agent, wish: &Value) -> (Process, Told) {
    const PROGRAM: &str = r#"
import json, socket, sys, time
def ask(path, body):
    data = json.dumps(body).encode()
    s.sendall(b"POST %s HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % (path.encode(), len(data)) + data)
    head, length = f.readline(), 0
    while (line := f.readline().strip()):
        if line.lower().startswith(b"content-length:"): length = int(line.split(b":")[1])
    return json.loads(f.read(length))
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); f = s.makefile("rb")
told = ask("/v1/leases", json.loads(sys.argv[2]))
while True:
    print(json.dumps(told), flush=True)
    time.sleep(0.2)
    told = ask("/v1/leases/%s/beat" % told["id"], {})
"#;
    let mut command = Command::new("python3");
    command.arg("-c").arg(PROGRAM).arg(&agent.socket).arg(wish.to_string()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    // It goes on talking.
    std::thread::spawn(move || said.lines().map_while(Result::ok).count());
    (child.into(), Told(serde_json::from_str(&line).unwrap()))
}

#[test]
fn s9_a_killed_clients_lease_lasts_until_the_deadline_unless_it_said_that_it_works_alone() {
    let bench = Bench::new();
    let agent = Agent::start(&bench, &["--ttl", "60s"]);
    // What it started may be at work: nothing is concluded from its end.
    let (program_of_many, told) = program(&agent, &json!({"key": "many", "ttl_ms": 3000}));
    assert_eq!(told.0["on_exit"], "lapse");
    let rival = Rival::of(&bench, "many");
    program_of_many.signal(Signal::SIGKILL);
    // It may have beaten since; no later deadline was told than after the signal.
    let mut rival = rival;
    assert!(rival.had_it_at() + ON_ITS_WAY > told.deadline());
    drop(rival);
    takes_at_most(100, || {
        let (process, told) = program(&agent, &json!({"key": "alone", "on_exit": "release"}));
        assert_eq!(told.0["on_exit"], "release");
        let mut rival = Rival::of(&bench, "alone");
        wait_until("the rival to wait", || is_waiting(&bench, &rival));
        let killed = boottime();
        process.signal(Signal::SIGKILL);
        let at = rival.had_it_at();
        i64::try_from(at.saturating_sub(killed).as_millis()).unwrap()
    });
    // Stopped is not dead, and its beats do not come.
    let (process, told) = program(&agent, &json!({"key": "stopped", "on_exit": "release", "ttl_ms": 3000}));
    let mut rival = Rival::of(&bench, "stopped");
    process.signal(Signal::SIGSTOP);
    assert!(rival.had_it_at() + ON_ITS_WAY > told.deadline());
    assert!(is_alive(i32::try_from(process.id()).unwrap()));
}

/// A waiter that has looked once watches the store from then on, with a thread that waits for changes.
fn is_waiting(bench: &Bench, rival: &Rival) -> bool {
    let watches = std::fs::read_dir(format!("/proc/{}/fd", rival.process.id())).unwrap().flatten();
    let mut watches = watches.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    bench.store().exists() && watches.any(|link| link.to_string_lossy().contains("inotify"))
}

#[test]
fn s9_a_lease_that_another_process_beats_for_does_not_go_by_the_first_ones_end() {
    let bench = Bench::new();
    let agent = Agent::start(&bench, &["--ttl", "60s"]);
    let (process, told) = program(&agent, &json!({"key": "k", "on_exit": "release", "ttl_ms": 4000}));
    // This process has been told its id.
    let mut client = agent.client();
    let mine = client.beat(&told);
    assert_eq!((mine.status, &mine.body["on_exit"]), (200, &json!("lapse")), "{mine:?}");
    let rival = Rival::of(&bench, "k");
    process.signal(Signal::SIGKILL);
    wait_until("its end", || !is_alive(i32::try_from(process.id()).unwrap()));
    let mut rival = rival;
    assert!(rival.had_it_at() + ON_ITS_WAY > Told(mine.body).deadline());
}

#[test]
fn bad_news_comes_early_also_to_whoever_a_lease_was_handed_on_to() {
    let bench = Bench::new();
    let agent = Agent::start(&bench, &["--ttl", "12s"]);
    let (process, told) = program(&agent, &json!({"key": "k", "on_exit": "release"}));
    let mut client = agent.client();
    let mine = client.beat(&told);
    assert_eq!(mine.body["on_exit"], "lapse", "{mine:?}");
    let mut events = agent.client().listen();
    process.signal(Signal::SIGKILL);
    wait_until("its end", || !is_alive(i32::try_from(process.id()).unwrap()));
    // The agent sees that end soon after.
    std::thread::sleep(Duration::from_millis(500));
    let fence = told.number("fence");
    let revoked = client.post("/v1/records/k/revoke", &json!({ "fence": fence }));
    assert_eq!(revoked.status, 202, "{revoked:?}");
    // By the agent's next renewal.
    let asked = events.next("asked");
    assert_eq!((&asked["id"], &asked["reason"]), (&told.0["id"], &json!("revoke")));
}

#[test]
fn s9_what_a_client_counts_by_itself_ends_before_the_deadline_however_late_the_answer_is() {
    let bench = Bench::new();
    let agent = Agent::start(&bench, &["--ttl", "6s"]);
    let mut client = agent.client();
    let sent = boottime();
    client.send("POST", "/v1/leases", Some(&json!({"key": "k"})));
    // The answer lies in the socket meanwhile.
    std::thread::sleep(Duration::from_millis(700));
    let told = Told(client.answer().body);
    let good_for = Duration::from_millis(told.number("good_for_ms"));
    assert!(sent + good_for <= told.deadline(), "{told:?}");
    let left = told.deadline().saturating_sub(sent);
    assert!(good_for <= left.mul_f64(900.0 / 1100.0) && good_for > left / 2, "{good_for:?} of {left:?}");
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    assert!(told.0["boot"].as_str().unwrap().starts_with(boot.trim()), "{told:?}");
    // Beside it an event says nothing of a deadline.
    let mut events = agent.client().listen();
    client.release(&told);
    let released = events.next("released");
    assert!(
        released.get("deadline_boottime_ms").is_none() && released.get("good_for_ms").is_none(),
        "{released}"
    );
}

#[test]
fn bad_news_comes_early_by_an_event_and_with_the_next_beat() {
    let bench = Bench::new();
    let agent = Agent::start(&bench, &["--ttl", "3s"]);
    let mut client = agent.client();
    let told = client.acquire("k");
    let mut events = agent.client().listen();
    assert_eq!(bench.run(&["revoke", "k", "--yes"]).code, 0);
    let asked = events.next("asked");
    assert_eq!((&asked["id"], &asked["reason"]), (&told.0["id"], &json!("revoke")));
    // Beats go on, and prolong nothing.
    let last = wait_for("the end", || {
        std::thread::sleep(Duration::from_millis(50));
        let beat = client.beat(&told);
        assert!(beat.status == 410 || beat.body["is_revoked"] == true, "{beat:?}");
        (beat.status == 410).then_some(beat)
    });
    assert!(boottime() < told.deadline() + Duration::from_secs(3), "it was prolonged");
    let lost = events.next("lost");
    assert!(lost["reason"].as_str().unwrap().contains("withdrawn") && lost["loss"] == "revoked", "{lost}");
    assert!(last.body["message"].as_str().unwrap().contains("withdrawn"), "{last:?}");
    // Held for as long as it may be, and told of no later deadline.
    let before = boottime();
    let told = client.acquire_with(&json!({"key": "short", "at_most_ms": 500}));
    assert!(told.deadline() <= boottime() + Duration::from_millis(500) && told.deadline() > before);
    let over = events.next("lost");
    assert!(
        over["key"] == "short" && over["reason"].as_str().unwrap().contains("for as long as it may"),
        "{over}"
    );
    assert_eq!(over["loss"], "overran");
}

#[test]
fn permits_elections_and_the_list_are_served() {
    let bench = Bench::new();
    let agent = Agent::start(&bench, &["--ttl", "20s"]);
    let mut client = agent.client();
    for _ in 0..2 {
        assert_eq!(client.post("/v1/semaphores", &json!({"name": "s", "permits": 2})).status, 201);
    }
    let full = client.post("/v1/semaphores", &json!({"name": "s", "permits": 2}));
    assert_eq!((full.status, &full.body["code"]), (409, &json!("held")), "{full:?}");
    assert_eq!(client.post("/v1/semaphores", &json!({"name": "rw", "mode": "shared"})).status, 201);
    assert_eq!(client.post("/v1/semaphores", &json!({"name": "rw", "mode": "exclusive"})).status, 409);
    assert_eq!(client.get("/v1/elections/a%2Fb/leader").status, 404);
    let labels = json!({"labels": {"url": "http://b-17"}});
    let leads = client.post("/v1/elections/a%2Fb/campaign", &labels);
    assert_eq!((leads.status, &leads.body["key"]), (201, &json!("a/b")), "{leads:?}");
    let leader = client.get("/v1/elections/a%2Fb/leader");
    assert_eq!(leader.body["about"]["url"], "http://b-17", "{leader:?}");
    assert_eq!(bench.run(&["leader", "a/b", "--json"]).json()["leader"]["fence"], leads.body["fence"]);
    let resigned = client.post("/v1/elections/a%2Fb/resign", &json!({"id": leads.body["id"]}));
    assert_eq!(resigned.body, json!({"released": true}));
    assert_eq!(client.get("/v1/elections/a%2Fb/leader").status, 404);
    // What is listed is what the command line lists.
    client.acquire_with(&json!({"key": "l", "about": {"who": "me"}}));
    let listed = client.get("/v1/leases?limit=1000").body["leases"].as_array().unwrap().clone();
    let shown = bench.run(&["ls", "--all", "--json"]).json()["leases"].as_array().unwrap().clone();
    let facts = |rows: &[Value]| -> Vec<Value> {
        rows.iter().map(|row| json!([row["key"], row["state"], row["fence"], row["holder"]])).collect()
    };
    assert_eq!(facts(&listed), facts(&shown));
    let row = listed.iter().find(|row| row["key"] == "l").unwrap();
    assert_eq!((&row["is_here"], &row["about"]), (&json!(true), &json!({"who": "me"})));
    // Page by page it is the same.
    let (mut paged, mut after) = (Vec::new(), String::new());
    loop {
        let page = client.get(&format!("/v1/leases?limit=2{after}")).body;
        paged.extend(page["leases"].as_array().unwrap().clone());
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={}", next.replace('/', "%2F"));
    }
    assert_eq!(facts(&paged), facts(&listed));
}

#[test]
fn who_waits_gets_it_and_who_leaves_does_not() {
    let bench = Bench::new();
    let agent = Agent::start(&bench, &["--ttl", "20s"]);
    let mut first = agent.client();
    let told = first.acquire("k");
    let mut leaves = agent.client();
    leaves.send("POST", "/v1/leases", Some(&json!({"key": "k", "wait_ms": 600_000})));
    let mut waits = agent.client();
    waits.send("POST", "/v1/leases", Some(&json!({"key": "k", "wait_ms": 600_000})));
    drop(leaves);
    assert_eq!(first.release(&told).status, 200);
    let next = waits.answer();
    assert!(next.status == 201 && next.body["fence"].as_u64() > told.0["fence"].as_u64(), "{next:?}");
    let again = first.release(&told);
    assert!(again.status == 410 && again.body["message"].as_str().unwrap().contains("released"), "{again:?}");
    let refused = first.post("/v1/leases", &json!({"key": "k", "wait_ms": 50}));
    assert_eq!((refused.status, &refused.body["fence"]), (409, &next.body["fence"]), "{refused:?}");
    let several = json!({"ids": [next.body["id"], told.0["id"], "nonsense"]});
    let beaten = waits.post("/v1/beats", &several);
    let beaten = beaten.body["leases"].as_array().unwrap();
    assert_eq!(beaten[0]["fence"], next.body["fence"]);
    assert!(
        beaten[1]["over"].as_str().unwrap().contains("released") && beaten[2]["over"].is_string(),
        "{beaten:?}"
    );
}

#[test]
fn the_page_on_operating_does_what_it_says() {
    let bench = Bench::new();
    let page = include_str!("../../../docs/operate.md");
    let blocks = page.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    // Whatever fails, nobody is left.
    let script = format!(
        "trap 'kill $(ps -o pid= --ppid $$) 2> /dev/null || true' EXIT\n{}\ncat worker-*.log >&2",
        blocks.collect::<String>()
    );
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_tenure"), bench.path("tenure")).unwrap();
    let path = format!("{}:{}", bench.path("").display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("timeout");
    bench.settle(&mut shell).env("PATH", path).stdin(Stdio::null());
    let ran = crate::common::Ran::of(shell.args(["170", "sh", "-ec", &script]).output().unwrap());
    assert_eq!(ran.code, 0, "{ran:?}");
    for says in [
        "\"deadline_boottime_ms\":",
        "\"code\":\"ran\"",
        "{\"released\":true}",
        "tenure_agent_leases_ended_total{how=\"released\"} 4",
        "tenure_fleet_held{",
        "ended with 76",
    ] {
        assert!(ran.out.contains(says), "{says}: {ran:?}");
    }
    assert!(ran.err.contains("lease acquired"), "{ran:?}");
    for token in ["token", "read-token"] {
        let mode = std::fs::metadata(bench.path(token)).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{token} is for this user alone: {mode:o}");
    }
    assert!(
        ran.err.contains("s5: owned") && !ran.err.contains("CMD exited"),
        "the units' commands last: {ran:?}"
    );
}
