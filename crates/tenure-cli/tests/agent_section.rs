//! Ranges of sections, by the agent.
//!
//! Plan: what others hold is left out, or all is waited for; nobody else has a range before its deadline, which no beat puts off, also where the agent is killed
//! or told to end; a range that is given back is free, and so is that of a client that has ended and said that it works alone.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::agent::{Agent, Answer, Client, Told};
use crate::common::{Bench, wait_for};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;
use tenure::clock::boottime;

/// The write that wins may have been on its way when the range became free.
const ON_ITS_WAY: Duration = Duration::from_millis(60);

fn lease(client: &mut Client, wish: &Value) -> Answer {
    client.post("/v1/sections/mail/leases", wish)
}

#[track_caller]
fn leased(client: &mut Client, wish: &Value) -> Told {
    let answer = lease(client, wish);
    assert_eq!(answer.status, 201, "{answer:?}");
    Told(answer.body)
}

/// This one's range, once that is free.
fn next(bench: &Bench) -> Duration {
    wait_for("the range to be free", || {
        let ran = bench.run(&["range", "mail", "0..80", "--all", "--for", "1m", "--", "true"]);
        (ran.code == 0).then(boottime)
    })
}

#[test]
fn ranges_are_leased_beside_others_and_given_back() {
    let bench = Bench::new();
    let agent = Agent::start(&bench, &[]);
    let mut client = agent.client();
    let some = json!({"range": "0_80", "for_ms": 60_000});
    let first = leased(&mut client, &some);
    assert_eq!((&first.0["ranges"], &first.0["key"]), (&json!(["0_80"]), &json!("section/mail")));
    let beside = leased(&mut client, &json!({"range": "40_c0", "for_ms": 60_000}));
    assert_eq!(beside.0["ranges"], json!(["80_c0"]));
    assert!(beside.number("fence") > first.number("fence"));
    let all = lease(&mut client, &json!({"range": "0_c0", "for_ms": 60_000, "all": true}));
    assert_eq!((all.status, &all.body["code"]), (409, &json!("held")), "{all:?}");
    let busy = bench.run(&["range", "mail", "0..80", "--", "true"]);
    assert_eq!(busy.code, 75, "{busy:?}");
    assert_eq!(client.release(&first).body, json!({"released": true}));
    assert_eq!(client.release(&beside).status, 200);
    let all =
        leased(&mut client, &json!({"range": "0_c0", "for_ms": 60_000, "all": true, "wait_ms": 60_000}));
    assert_eq!(all.0["ranges"], json!(["0_c0"]));
    // Nobody finds out late that a lease ends sooner than was asked for.
    let day = 86_400_000;
    assert_eq!(lease(&mut client, &json!({"range": "c0_d0", "for_ms": day})).status, 201);
    let longer = lease(&mut client, &json!({"range": "d0_e0", "for_ms": day + 1}));
    assert_eq!((longer.status, &longer.body["code"]), (400, &json!("bad_request")), "{longer:?}");
}

#[test]
fn s9_nobody_has_a_range_before_its_deadline_whatever_beats_come_and_whatever_becomes_of_the_agent() {
    for end in [None, Some(Signal::SIGTERM), Some(Signal::SIGKILL)] {
        let bench = Bench::new();
        let mut agent = Agent::start(&bench, &[]);
        let mut client = agent.client();
        let told = leased(&mut client, &json!({"range": "0_80", "for_ms": 4000}));
        let beat = client.beat(&told);
        assert_eq!(beat.status, 200, "{beat:?}");
        assert!(Told(beat.body).deadline() <= told.deadline() + Duration::from_millis(1), "it was put off");
        if let Some(signal) = end {
            let began = boottime();
            agent.process.signal(signal);
            agent.process.wait();
            // It need not outlive what is held without it.
            assert!(boottime() < told.deadline(), "{signal}: it took {:?}", boottime().saturating_sub(began));
        }
        assert!(next(&bench) + ON_ITS_WAY > told.deadline(), "too soon: {end:?}");
    }
}

#[test]
fn the_range_of_a_killed_client_is_free_at_once_if_it_said_that_it_works_alone() {
    let bench = Bench::new();
    let agent = Agent::start(&bench, &[]);
    const PROGRAM: &str = r#"
import json, socket, sys, time
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
data = b'{"range": "0_80", "for_ms": 600000, "on_exit": "release"}'
s.sendall(b"POST /v1/sections/mail/leases HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(data) + data)
print(s.makefile("rb").readline().decode(), flush=True)
time.sleep(600)
"#;
    let mut command = Command::new("python3");
    let mut child = command.arg("-c").arg(PROGRAM).arg(&agent.socket).stdout(Stdio::piped()).spawn().unwrap();
    // It is kept until the end: a client that prints to nobody ends, and its range with it.
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert!(line.contains("201"), "{line}");
    let busy = bench.run(&["range", "mail", "0..80", "--", "true"]);
    assert_eq!(busy.code, 75, "{busy:?}");
    let killed = boottime();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(next(&bench) < killed + Duration::from_secs(300), "it was left to expire");
}
