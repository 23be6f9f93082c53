//! S9 again and again: no client of the agent believes in what another has, whoever is stopped, delayed or killed, and where the store is away.
//!
//! Plan: each round has an agent, a client in Python that notes when it last believed in its lease, its unit of a fleet or its range, and a rival that waits for
//! the same. One of the faults strikes at a random moment of the client's beats. When the rival has it, all that stood still goes on for a
//! moment: nobody may have believed since. In other rounds the client is as on another host: it knows nothing of the agent's clock, counts by itself, and
//! reaches the agent by a relay that delays its answers, and that one more fault cuts. TENURE_ROUNDS sets how many rounds there are of each kind (24 and 27 by
//! default), and TENURE_SEED makes them again.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::agent::{Agent, Client};
use crate::common::relay::Relay;
use crate::common::{Bench, Process, Random, now_ms, wait_until};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{ChildStdout, Stdio};
use std::sync::Mutex;
use std::thread::JoinHandle;
use std::time::Duration;
use tenure::clock::boottime;

/// The clock is read first: who is stopped between that and the look at the lease notes an earlier time.
const CLIENT: &str = r#"
import sys, threading, time
sys.path.insert(0, sys.argv[1])
import tenure
if sys.argv[5] == "another":
    tenure._lease.timeline = lambda: None
client = tenure.Client("unix:" + sys.argv[2], on_exit=sys.argv[3])
def ask():
    try:
        for again in worker.units():
            # After the store was away it may have its own unit again: the rival is to have that.
            again.release()
            worker.leave()
            return
    except tenure.AgentError:
        pass
if sys.argv[4] == "unit":
    worker = client.worker("f", units=["u"], ttl=1.5)
    units = worker.units()
    get = lambda: next(units)
elif sys.argv[4] == "range":
    get = lambda: client.ranges("mail", "0_80", lasts=3, wait=30)
else:
    get = lambda: client.lease("k", ttl=1.5, wait=30)
# On a busy host its time may be over before the answer comes: then it asks again.
lease = get()
while not lease.held:
    lease = get()
if sys.argv[4] == "unit":
    # For as long as it asks it takes part.
    threading.Thread(target=ask, daemon=True).start()
with open("believed", "a", buffering=1) as log:
    while True:
        now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        if not lease.held:
            break
        log.write("%d\n" % now)
        time.sleep(0.002)
# Whoever does not believe any more wants it no more: a beat that is answered late would keep it.
client._drop(lease, "it was not held")
log = open("over", "w")
time.sleep(600)
"#;

/// The write that wins may have been on its way when the key became free.
const ON_ITS_WAY: Duration = Duration::from_millis(60);
const RIVALS_TTL: Duration = Duration::from_secs(4);
/// The longest delay of an answer, in milliseconds. A client that beats in time keeps what it has.
const SLOWEST: u64 = 600;

/// What a client has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Lease,
    Unit,
    Range,
}

/// Where a client is, as seen from its agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Host {
    Same,
    Another,
}

const ALL: [What; 3] = [What::Lease, What::Unit, What::Range];

impl What {
    fn name(self) -> &'static str {
        match self {
            What::Lease => "lease",
            What::Unit => "unit",
            What::Range => "range",
        }
    }
}

/// Who waits for the same.
enum Rival {
    /// On the store.
    Holds { process: Process, said: BufReader<ChildStdout> },
    /// By an agent of its own. It counts on nothing before it is answered, and tells when that was.
    Asks { agent: Agent, answered: JoinHandle<Duration> },
}

impl Rival {
    fn of(bench: &Bench, what: What) -> Rival {
        if what == What::Lease {
            let mut hold = bench.tenure(&["hold", "k", "--json", "--ttl", "4s"]);
            hold.stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut hold =
                hold.stderr(std::fs::File::create(bench.path("rival.said")).unwrap()).spawn().unwrap();
            let said = BufReader::new(hold.stdout.take().unwrap());
            let process = Process::from(hold);
            process.await_signals();
            // Were the store away before that, it would make one of its own, or end. A client that has lost it already is not waited for.
            wait_until("the rival to wait", || {
                bench.read("rival.said").contains("waiting for k") || bench.path("over").exists()
            });
            return Rival::Holds { process, said };
        }
        let socket = bench.path("rival.sock");
        let agent =
            bench.tenure(&["serve", "--ttl", "2s", "--listen", &format!("unix:{}", socket.display())]);
        let agent = Agent::of(agent, socket);
        let mut client = agent.client();
        let join = |client: &mut Client| {
            let joined = client.post("/v1/fleets/f/workers", &json!({"ttl_ms": 1500}));
            format!("/v1/workers/{}/next", joined.body["id"].as_str().unwrap())
        };
        let (mut path, wish) = if what == What::Unit {
            (join(&mut client), json!({"wait_ms": 500}))
        } else {
            let wish = json!({"range": "0_80", "for_ms": 60_000, "all": true, "wait_ms": 500});
            ("/v1/sections/mail/leases".to_owned(), wish)
        };
        let answered = std::thread::spawn(move || {
            loop {
                if let Some(at) = answered(&mut client, &path, &wish) {
                    return at;
                }
                // It was silent for too long on a machine that is busy: a worker joins anew.
                path = join(&mut client);
            }
        });
        Rival::Asks { agent, answered }
    }

    /// The process that has what was waited for, and since when somebody counts on that.
    fn began(self) -> (Process, Duration) {
        let (process, mut said) = match self {
            Rival::Holds { process, said } => (process, said),
            Rival::Asks { agent, answered } => return (agent.process, answered.join().unwrap()),
        };
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        let known = boottime();
        let acquired: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(acquired["event"], "acquired", "{line}");
        let deadline = Duration::from_millis(acquired["deadline_boottime_ms"].as_u64().unwrap());
        // What it believes is counted from before it sent the write that won.
        let began = deadline.saturating_sub(RIVALS_TTL.mul_f64(900.0 / 1100.0)) + ON_ITS_WAY;
        // What goes on only now must not believe for a moment.
        (process, began.min(known))
    }
}

/// When it had what it asks for again and again; nothing where the agent does not know of it any more.
fn answered(client: &mut Client, path: &str, wish: &Value) -> Option<Duration> {
    loop {
        let answer = client.post(path, wish);
        match answer.status {
            200 | 201 => return Some(boottime()),
            404 => return None,
            // Nothing yet; held by another.
            204 | 409 => {}
            // The store is away.
            503 => std::thread::sleep(Duration::from_millis(20)),
            _ => panic!("{answer:?}"),
        }
    }
}

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
    StoreAway,
    /// Nothing gets through between the client and the agent.
    LinkCut,
}

/// The last one needs a link.
const FAULTS: [Fault; 9] = [
    Fault::ClientKilled,
    Fault::ClientStopped,
    Fault::AgentKilled,
    Fault::AgentStopped,
    Fault::AgentDelayed,
    Fault::ClientDelayed,
    Fault::BothStopped,
    Fault::StoreAway,
    Fault::LinkCut,
];

impl Host {
    fn faults(self) -> &'static [Fault] {
        match self {
            Host::Same => &FAULTS[..FAULTS.len() - 1],
            Host::Another => &FAULTS,
        }
    }
}

#[test]
fn s9_no_client_believes_too_long_whoever_is_stopped_delayed_or_killed() {
    rounds(Host::Same);
}

#[test]
fn s9_no_client_on_another_host_believes_too_long_however_late_answers_come() {
    rounds(Host::Another);
}

fn rounds(host: Host) {
    const AT_ONCE: usize = 10;
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let faults = host.faults();
    // Each with each.
    let rounds = number("TENURE_ROUNDS").unwrap_or((faults.len() * ALL.len()) as u64);
    let seed = number("TENURE_SEED").unwrap_or_else(|| now_ms().cast_unsigned());
    println!("TENURE_ROUNDS={rounds} TENURE_SEED={seed}");
    let (next, times) = (Mutex::new(0..rounds), Mutex::new(BTreeMap::<Fault, Vec<i128>>::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let Some(round) = next.lock().unwrap().next() else { return };
                    let fault = faults[(round % faults.len() as u64) as usize];
                    let what = ALL[(round / faults.len() as u64 % ALL.len() as u64) as usize];
                    let between = one(host, what, fault, &mut Random(seed.wrapping_add(round)));
                    times.lock().unwrap().entry(fault).or_default().push(between);
                }
            });
        }
    });
    let times = times.into_inner().unwrap();
    println!("{rounds} rounds; from the last belief of the one to the first of the next, in ms:");
    for (fault, times) in &times {
        println!("{}", told(&format!("{fault:?}"), times.clone()));
    }
    println!("{}", told("all", times.into_values().flatten().collect()));
}

/// What 99 of 100 rounds had at least is the margin at the 99th percentile.
fn told(what: &str, mut times: Vec<i128>) -> String {
    times.sort_unstable();
    let (least, p99, median) = (times[0], times[times.len() / 100], times[times.len() / 2]);
    format!("{what}: least {least}, 99 of 100 at least {p99}, median {median} of {}", times.len())
}

/// How many milliseconds lay between the last belief of the client and the first of its rival.
fn one(host: Host, what: What, fault: Fault, random: &mut Random) -> i128 {
    let bench = Bench::new();
    let agent = Agent::start(&bench, &["--ttl", "2s"]);
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/python/src");
    let on_exit = if host == Host::Same && random.below(2) == 0 { "release" } else { "lapse" };
    let relay = (host == Host::Another)
        .then(|| Relay::start(bench.path("relay.sock"), &agent.socket, SLOWEST, &mut *random));
    let socket = relay.as_ref().map_or(&agent.socket, |relay| &relay.socket);
    let place = if host == Host::Same { "same" } else { "another" };
    let mut command = std::process::Command::new("python3");
    command.args(["-c", CLIENT, source]).arg(socket).args([on_exit, what.name(), place]);
    command.env("PYTHONDONTWRITEBYTECODE", "1").stdout(Stdio::null());
    let client: Process = bench.settle(&mut command).spawn().unwrap().into();
    wait_until("the client to believe", || bench.read("believed").lines().count() > 1);
    let rival = Rival::of(&bench, what);
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
        Fault::StoreAway => {
            bench.move_store("leases.db", "away");
            // Nobody prolongs anything, and all that was held is over.
            wait_until("the client to know", || bench.path("over").exists());
            pause(random, 500);
            bench.move_store("away", "leases.db");
        }
        Fault::LinkCut => relay.as_ref().unwrap().cut(),
    }
    let (rival, began) = rival.began();
    if fault != Fault::ClientKilled {
        // In either order: the client alone, and with an agent that may answer what it had begun.
        client.signal(Signal::SIGCONT);
        pause(random, 50);
        if fault != Fault::AgentKilled {
            agent.process.signal(Signal::SIGCONT);
        }
        if let Some(relay) = &relay {
            // Answers to beats of long ago.
            relay.mend();
        }
        wait_until("the client to know", || bench.path("over").exists());
    }
    let believed = bench.read("believed");
    let last: u64 = believed
        .split_inclusive('\n')
        .filter_map(|line| line.strip_suffix('\n')?.parse().ok())
        .next_back()
        .unwrap();
    let between = began.as_nanos() as i128 - i128::from(last);
    assert!(
        between > 0,
        "{host:?}, {what:?}, {fault:?}, {on_exit}: the client believed {} µs into its rival's time",
        -between / 1000
    );
    drop(rival);
    between / 1_000_000
}
