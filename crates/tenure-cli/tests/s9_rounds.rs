//! S9 again and again: no client of the agent believes in a lease that another has, whoever is stopped, delayed or killed.
//!
//! Plan: each round has an agent, a client in Python that notes when it last believed, and a rival that waits for its key on the store.
//! One of the faults strikes at a random moment of the client's beats. When the rival has the key, all that stood still goes on for a
//! moment: nobody may have believed since. TENURE_ROUNDS sets how many rounds there are (14 by default), and TENURE_SEED makes them again.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::agent::Agent;
use crate::common::{Bench, Process, Random, now_ms, wait_until};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::Mutex;
use std::time::Duration;
use tenure::clock::boottime;

/// The clock is read first: who is stopped between that and the look at the lease notes an earlier time.
const CLIENT: &str = r#"
import sys, time
sys.path.insert(0, sys.argv[1])
import tenure
client = tenure.Client("unix:" + sys.argv[2], on_exit=sys.argv[3])
lease = client.lease("k", ttl=1.5)
with open("believed", "a", buffering=1) as log:
    while True:
        now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        if not lease.held:
            break
        log.write("%d\n" % now)
        time.sleep(0.002)
log = open("over", "w")
time.sleep(600)
"#;

/// The write that wins may have been on its way when the key became free.
const ON_ITS_WAY: Duration = Duration::from_millis(60);
const RIVALS_TTL: Duration = Duration::from_secs(4);

/// What strikes a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    ClientKilled,
    ClientStopped,
    AgentKilled,
    AgentStopped,
    AgentDelayed,
    ClientDelayed,
    BothStopped,
}

const FAULTS: [Fault; 7] = [
    Fault::ClientKilled,
    Fault::ClientStopped,
    Fault::AgentKilled,
    Fault::AgentStopped,
    Fault::AgentDelayed,
    Fault::ClientDelayed,
    Fault::BothStopped,
];

#[test]
fn s9_no_client_believes_too_long_whoever_is_stopped_delayed_or_killed() {
    const AT_ONCE: usize = 10;
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let rounds = number("TENURE_ROUNDS").unwrap_or(14);
    let seed = number("TENURE_SEED").unwrap_or_else(|| now_ms().cast_unsigned());
    println!("TENURE_ROUNDS={rounds} TENURE_SEED={seed}");
    let (next, least) = (Mutex::new(0..rounds), Mutex::new(None::<(i128, Fault)>));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let Some(round) = next.lock().unwrap().next() else { return };
                    let fault = FAULTS[(round % FAULTS.len() as u64) as usize];
                    let between = one(fault, &mut Random(seed.wrapping_add(round)));
                    let mut least = least.lock().unwrap();
                    *least = Some(least.map_or((between, fault), |least| least.min((between, fault))));
                }
            });
        }
    });
    let (between, fault) = least.into_inner().unwrap().unwrap();
    println!("{rounds} rounds; the shortest time between two who believed was {between} ms ({fault:?})");
}

/// How many milliseconds lay between the last belief of the client and the first of its rival.
fn one(fault: Fault, random: &mut Random) -> i128 {
    let bench = Bench::new();
    let agent = Agent::start(&bench, &["--ttl", "2s"]);
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/python/src");
    let on_exit = if random.below(2) == 0 { "release" } else { "lapse" };
    let mut command = std::process::Command::new("python3");
    command.args(["-c", CLIENT, source]).arg(&agent.socket).arg(on_exit);
    command.env("PYTHONDONTWRITEBYTECODE", "1").stdout(Stdio::null());
    let client: Process = bench.settle(&mut command).spawn().unwrap().into();
    wait_until("the client to believe", || bench.read("believed").lines().count() > 1);
    let mut rival = bench.tenure(&["hold", "k", "--json", "--ttl", "4s"]);
    let mut rival = rival.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(rival.stdout.take().unwrap());
    let mut rival = Process::from(rival);
    rival.await_signals();
    let pause = |random: &mut Random, most| std::thread::sleep(Duration::from_millis(random.below(most)));
    pause(random, 1500);
    match fault {
        Fault::ClientKilled => client.signal(Signal::SIGKILL),
        Fault::ClientStopped => client.signal(Signal::SIGSTOP),
        Fault::AgentKilled => agent.process.signal(Signal::SIGKILL),
        Fault::AgentStopped => bench.stop(&[agent.process.id()]),
        Fault::BothStopped => {
            client.signal(Signal::SIGSTOP);
            bench.stop(&[agent.process.id()]);
        }
        Fault::AgentDelayed | Fault::ClientDelayed => {
            for _ in 0..6 {
                let victim = if fault == Fault::AgentDelayed { &agent.process } else { &client };
                bench.stop(&[victim.id()]);
                pause(random, 2000);
                victim.signal(Signal::SIGCONT);
                pause(random, 100);
            }
            // If it holds the lease still, its beats end now.
            client.signal(Signal::SIGSTOP);
        }
    }
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let known = boottime();
    let acquired: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(acquired["event"], "acquired", "{line}");
    if fault != Fault::ClientKilled {
        // In either order: the client alone, and with an agent that may answer what it had begun.
        client.signal(Signal::SIGCONT);
        pause(random, 50);
        if fault != Fault::AgentKilled {
            agent.process.signal(Signal::SIGCONT);
        }
        wait_until("the client to know", || bench.path("over").exists());
    }
    let deadline = Duration::from_millis(acquired["deadline_boottime_ms"].as_u64().unwrap());
    // What the rival believes is counted from before it sent the write that won.
    let began = deadline.saturating_sub(RIVALS_TTL.mul_f64(900.0 / 1100.0)) + ON_ITS_WAY;
    // What goes on only now must not believe for a moment.
    let began = began.min(known);
    let believed = bench.read("believed");
    let last: u64 = believed
        .split_inclusive('\n')
        .filter_map(|line| line.strip_suffix('\n')?.parse().ok())
        .next_back()
        .unwrap();
    let between = began.as_nanos() as i128 - i128::from(last);
    assert!(
        between > 0,
        "{fault:?}, {on_exit}: the client believed {} µs into its rival's lease",
        -between / 1000
    );
    rival.signal(Signal::SIGTERM);
    rival.wait();
    between / 1_000_000
}
