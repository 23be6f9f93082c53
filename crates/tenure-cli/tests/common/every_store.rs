//! What holds on every store: one list of checks, which runs every verb on each. `every_store!` makes the tests of one of them.
//!
//! Plan: a lease and its fence; one that waits is woken, and takes over from the dead, also long before the ttl; an election; a job of two processes, and what is told of one; a lease for
//! a program, and ticks; ranges, also
//! of the dead; a fleet, with all that is said to it; what operators do; doctor and bench; the README of the store; that no verb is forgotten, here or on the pages that list them.

use super::agent::Agent;
pub use super::readme::the_commands_of_its_readme_work;
use super::remote::{Remote, well};
use super::{Process, Ran, wait_for, wait_until};
use crate::top::Top;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::io::BufRead as _;
use std::process::Stdio;

/// `every_store!(place)`: the tests of a store, of which `place(name)` makes an empty one that is ready for use.
#[macro_export]
macro_rules! every_store {
    ($place:path) => {
        $crate::every_store!($place;
            a_command_runs_under_a_lease, permits_are_shared_out, who_waits_is_woken_and_succeeds_the_dead, what_a_killed_process_held_is_given_back, one_leads_and_another_follows,
            a_job_is_shared, a_job_is_looked_at, a_program_holds_a_lease_and_ticks_are_run, a_client_of_the_agent_has_a_lease, ranges_are_shared_out, a_fleet_is_run_and_changed, what_stands_is_looked_at_and_put_right,
            the_commands_of_its_readme_work, doctor_examines_the_store, bench_measures_the_store);
    };
    ($place:path; $($check:ident),*) => {
        mod every_store {
            $(#[test]
            fn $check() {
                $crate::common::every_store::$check(&$place(stringify!($check)));
            })*

            #[test]
            fn no_verb_is_forgotten() {
                $crate::common::every_store::no_verb_is_forgotten();
            }
        }
    };
}

/// The verbs that need a store, each with the check that runs it.
const VERBS: &[(&str, &str)] = &[
    ("run", "a_command_runs_under_a_lease"),
    ("elect", "one_leads_and_another_follows"),
    ("leader", "one_leads_and_another_follows"),
    ("work", "a_job_is_shared"),
    ("hold", "a_program_holds_a_lease_and_ticks_are_run"),
    ("serve", "a_client_of_the_agent_has_a_lease"),
    ("cron", "a_program_holds_a_lease_and_ticks_are_run"),
    ("range", "ranges_are_shared_out"),
    ("fleet", "a_fleet_is_run_and_changed"),
    ("ls", "what_stands_is_looked_at_and_put_right"),
    ("show", "what_stands_is_looked_at_and_put_right"),
    ("wait", "what_stands_is_looked_at_and_put_right"),
    ("rm", "what_stands_is_looked_at_and_put_right"),
    ("release", "what_stands_is_looked_at_and_put_right"),
    ("revoke", "what_stands_is_looked_at_and_put_right"),
    ("reclaim", "ranges_are_shared_out"),
    ("gc", "what_stands_is_looked_at_and_put_right"),
    ("doctor", "doctor_examines_the_store"),
    ("bench", "bench_measures_the_store"),
];
/// Those that need none.
const STORELESS: [&str; 5] = ["config", "ready", "sim", "completions", "man"];
/// The verbs of `fleet`; `adopt` is for other programs' tables, and has tests of its own.
const FLEET_VERBS: [&str; 9] = ["ls", "units", "workers", "add", "rm", "move", "drain", "top", "adopt"];
/// The verbs of `work`, which `a_job_is_looked_at` runs.
const JOB_VERBS: [&str; 5] = ["ls", "status", "top", "retry", "rm"];

fn fence(ran: &Ran) -> u64 {
    ran.out.trim().parse().unwrap_or_else(|_| panic!("{ran:?}"))
}

fn tenure(arguments: &str) -> String {
    format!("{} {arguments}", env!("CARGO_BIN_EXE_tenure"))
}

pub fn a_command_runs_under_a_lease(place: &Remote) {
    let first = place.run(&["run", "k", "--", "sh", "-c", "echo $TENURE_FENCE"]);
    let second = place.run(&["run", "k", "--", "sh", "-c", "echo $TENURE_FENCE; exit 7"]);
    assert_eq!((first.code, second.code), (0, 7), "{first:?} {second:?}");
    assert!(fence(&second) > fence(&first));
    // The command looks at its own lease, and finds it held.
    let held = place.run(&["run", "k", "--", "sh", "-c", &tenure("show k --json")]);
    assert_eq!(held.json()["state"], "held", "{held:?}");
    let ran = place.run(&["run", "k", "--", "sh", "-c", &tenure("run k --try -- true; echo $?")]);
    assert_eq!(ran.out, "75\n", "held by another: {ran:?}");
}

pub fn permits_are_shared_out(place: &Remote) {
    let look = tenure("show semaphore/s --json; true");
    let held = place.run(&["run", "s", "--permits", "2", "--", "sh", "-c", &look]);
    let semaphore = &held.json()["semaphore"];
    assert_eq!(
        (semaphore["permits"].as_u64(), semaphore["holders"].as_array().unwrap().len()),
        (Some(2), 1),
        "{held:?}"
    );
    // Beside one there is room for another, and for no third; a fence each.
    let second = tenure("run s --permits 2 -- sh -c 'echo $TENURE_FENCE; ");
    let third = tenure("run s --permits 2 --try -E 9 -- true; echo $?'");
    let script = format!("echo $TENURE_FENCE; {second} {third}");
    let ran = place.run(&["run", "s", "--permits", "2", "--", "sh", "-c", &script]);
    let told: Vec<u64> = ran.out.lines().map(|line| line.parse().unwrap()).collect();
    assert!(told.len() == 3 && told[0] < told[1] && told[2] == 9, "{ran:?}");
    // Who waits is granted its turn by whoever ends, and by whoever finds one dead.
    let number = |name: &str| place.bench.await_number(name);
    let dead = place.start(&[
        "run",
        "r",
        "--exclusive",
        "--ttl",
        "2s",
        "--",
        "sh",
        "-c",
        "echo $$ > writer; exec sleep 600",
    ]);
    number("writer");
    let mut reads =
        place.start(&["run", "r", "--shared", "--ttl", "2s", "--", "sh", "-c", "echo $$ > reader"]);
    dead.die_with_its_host();
    number("reader");
    assert_eq!(reads.wait(), 0);
}

pub fn a_program_holds_a_lease_and_ticks_are_run(place: &Remote) {
    let mut hold = place.command(&["hold", "h", "--json"]);
    let mut holder = hold.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = std::io::BufReader::new(holder.stdout.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    let acquired: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(acquired["fence"], place.run(&["show", "h", "--json"]).json()["fence"], "{line}");
    drop(holder.stdin.take());
    assert!(holder.wait().unwrap().success());
    assert_eq!(place.run(&["show", "h", "--json"]).json()["state"], "vacant");
    let tick = ["cron", "* * * * * *", "c", "--ticks", "1", "--", "sh", "-c", "echo $TENURE_FENCE"];
    let ran = place.run(&tick);
    let shown = place.run(&["show", "once/c", "--json"]).json();
    assert_eq!((ran.code, shown["metadata"]["once"]["fence"].as_u64()), (0, Some(fence(&ran))), "{shown}");
}

pub fn a_client_of_the_agent_has_a_lease(place: &Remote) {
    let socket = place.bench.path("agent.sock");
    let listen = format!("unix:{}", socket.display());
    let agent = Agent::of(place.command(&["serve", "--listen", &listen, "--ttl", "30s"]), socket);
    let mut client = agent.client();
    let told = client.acquire("k");
    let shown = place.run(&["show", "k", "--json"]).json();
    assert_eq!((&shown["fence"], &shown["state"]), (&told.0["fence"], &"held".into()), "{shown}");
    let beat = client.beat(&told);
    assert!(beat.status == 200 && beat.body["good_for_ms"].as_u64() > Some(0), "{beat:?}");
    assert_eq!(client.get("/readyz").status, 200);
    assert_eq!(client.release(&told).body, serde_json::json!({"released": true}));
    assert_eq!(place.run(&["show", "k", "--json"]).json()["state"], "vacant");
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let joined = client.post("/v1/fleets/f/workers", &json(r#"{"units": ["u"], "ttl_ms": 6000}"#)).body;
    let path = format!("/v1/workers/{}/next", joined["id"].as_str().unwrap());
    let unit = wait_for("a unit", || {
        let given = client.post(&path, &json(r#"{"wait_ms": 500}"#));
        (given.status == 200).then(|| given.body["id"].as_str().unwrap().to_owned())
    });
    assert_eq!(
        client.post(&format!("/v1/units/{unit}/done"), &json("{}")).body,
        json(r#"{"released": true}"#)
    );
    let hourly = json(r#"{"key": "hourly", "every_ms": 3600000}"#);
    let tick = client.post("/v1/once", &hourly);
    assert_eq!(tick.status, 201, "{tick:?}");
    let tick = tick.body["id"].as_str().unwrap().to_owned();
    client.post(&format!("/v1/once/{tick}/end"), &json(r#"{"is_well": true}"#));
    assert_eq!(client.post("/v1/once", &hourly).body["code"], "ran");
}

pub fn who_waits_is_woken_and_succeeds_the_dead(place: &Remote) {
    let number = |name: &str| place.bench.await_number(name);
    let first =
        place.start(&["run", "k", "--ttl", "2s", "--", "sh", "-c", "echo $$ > first; exec sleep 600"]);
    number("first");
    let mut second =
        place.start(&["run", "k", "--ttl", "2s", "--wait", "10m", "--", "sh", "-c", "echo $$ > second"]);
    first.die_with_its_host();
    number("second");
    assert_eq!(second.wait(), 0);
}

pub fn what_a_killed_process_held_is_given_back(place: &Remote) {
    for (key, how) in [("k", &[][..]), ("s", &["--permits", "1"]), ("a", &["b"])] {
        let (first, second) = (format!("first.{key}"), format!("second.{key}"));
        let run = |script: &str| {
            place.start(&[&["run", key, "--ttl", "10m"], how, &["--", "sh", "-c", script]].concat())
        };
        let killed = run(&format!("echo $$ > {first}; exec sleep 600"));
        place.bench.await_number(&first);
        let mut next = run(&format!("echo $$ > {second}"));
        next.await_signals();
        killed.signal(Signal::SIGKILL);
        // The test has less time than the ttl.
        place.bench.await_number(&second);
        assert_eq!(next.wait(), 0, "{key}");
    }
}

pub fn one_leads_and_another_follows(place: &Remote) {
    let script = "echo $TENURE_FENCE >> terms; while ! [ -e stop ]; do sleep 0.05; done; exit 7";
    let terms = |n: usize| {
        wait_for("the next term", || {
            let terms: Vec<u64> =
                place.bench.read("terms").lines().filter_map(|line| line.parse().ok()).collect();
            (terms.len() >= n).then_some(terms)
        })
    };
    let start = || place.start(&["elect", "e", "--ttl", "6s", "--", "sh", "-c", script]);
    let mut first = start();
    terms(1);
    let leads = wait_for("a leader", || Some(place.run(&["leader", "e"])).filter(|ran| ran.code == 0));
    assert!(!leads.out.trim().is_empty(), "{leads:?}");
    let mut second = start();
    assert!(first.is_running());
    first.signal(Signal::SIGTERM);
    first.wait();
    let terms = terms(2);
    assert!(terms.len() == 2 && terms[1] > terms[0], "{terms:?}");
    place.bench.write("stop", "");
    assert_eq!(second.wait(), 7, "its command's status is passed on");
    assert_eq!(place.run(&["leader", "e"]).code, 66, "nobody leads any more");
}

pub fn a_job_is_shared(place: &Remote) {
    let start = || {
        let script = "echo $1 >> done.txt";
        let mut command =
            place.command(&["work", "--name", "j", "--parallel", "4", "--", "sh", "-c", script, "x", "{}"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let units: String = (0..40).map(|n| format!("u{n}\n")).collect();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), units.as_bytes()).unwrap();
        child
    };
    for child in [start(), start()] {
        let ran = Ran::of(child.wait_with_output().unwrap());
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    let text = place.bench.read("done.txt");
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!((text.lines().count(), lines.len()), (40, 40), "each unit was run once");
}

pub fn a_job_is_looked_at(place: &Remote) {
    let ran = |code: i32, arguments: &[&str]| {
        let ran = place.run(arguments);
        assert_eq!(ran.code, code, "{arguments:?}: {ran:?}");
        ran
    };
    let work = |code: i32, more: &[&str], script: &str| {
        let words = [&["work", "--name", "j", "--retries", "0"], more, &["a", "b", "--", "sh", "-c", script]];
        ran(code, &words.concat());
    };
    work(1, &[], "[ {} = a ]");
    let jobs = ran(0, &["work", "ls", "--json"]).json();
    assert_eq!((&jobs["jobs"][0]["job"], &jobs["jobs"][0]["failed"]), (&"j".into(), &1.into()), "{jobs}");
    let failed = || ran(0, &["work", "status", "j", "--json"]).json()["failed"].clone();
    assert_eq!(failed(), 1);
    let mut top = Top::of(&place.bench, &["--store", &place.url, "work", "top", "j"], 30, 80);
    top.await_text("units    2: 1 done (50%), 1 failed");
    top.press("q");
    assert!(top.child.wait().unwrap().success());
    assert_eq!(ran(0, &["work", "retry", "j", "--json"]).json()["retried"], 1);
    assert_eq!(failed(), 0);
    work(0, &[], "[ {} = b ] && echo {} >> again");
    work(0, &["--fresh"], "echo {} >> again");
    assert_eq!(place.bench.read("again").lines().count(), 3, "one failed, and then all of them");
    ran(0, &["work", "rm", "j", "--yes"]);
    ran(66, &["work", "status", "j"]);
}

pub fn ranges_are_shared_out(place: &Remote) {
    let inner = tenure("range s 0..30 -- cat");
    let ran = place.run(&["range", "s", "10..20", "--", "sh", "-c", &inner]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "0_10\n20_30\n"), "{ran:?}");
    let dead = place.start(&[
        "range",
        "s",
        "0..10",
        "--for",
        "10m",
        "--",
        "sh",
        "-c",
        "echo $$ > part; exec sleep 600",
    ]);
    place.bench.await_number("part");
    dead.signal(Signal::SIGKILL);
    let ran = place.run(&["reclaim", "s", "--now", "--yes"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let ran = place.run(&["range", "s", "0..10", "--", "cat"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "0_10\n"), "{ran:?}");
}

pub fn a_fleet_is_run_and_changed(place: &Remote) {
    let fleet = |arguments: &[&str]| {
        let ran = place.run(&[&["fleet"], arguments].concat());
        assert_eq!(ran.code, 0, "{arguments:?}: {ran:?}");
        ran
    };
    fleet(&["add", "f", "a", "b"]);
    let mut worker = place.start(&[
        "work",
        "--forever",
        "--name",
        "f",
        "--join",
        "--ttl",
        "6s",
        "--grace",
        "1s",
        "--",
        "sh",
        "-c",
        "exec sleep 600",
    ]);
    let listed = |what: &str| -> Vec<Value> {
        fleet(&[what, "f", "--json"]).json()[what].as_array().unwrap_or_else(|| panic!("{what}")).clone()
    };
    wait_until("the worker to have both units", || {
        listed("workers").iter().any(|worker| worker["held"] == 2)
    });
    let name = listed("workers")[0]["worker"].as_str().unwrap().to_owned();
    fleet(&["move", "f", "a", &name]);
    fleet(&["move", "f", "a", "--anywhere"]);
    assert!(fleet(&["ls"]).out.contains('f'));
    assert!(fleet(&["top", "f", "--once"]).out.contains("2 units"));
    fleet(&["rm", "f", "b", "--yes"]);
    wait_until("the unit to be gone", || listed("units").iter().all(|unit| unit["unit"] != "b"));
    fleet(&["drain", "f", &name, "--yes"]);
    assert_eq!(worker.wait(), 0, "it leaves when it is told to");
}

pub fn what_stands_is_looked_at_and_put_right(place: &Remote) {
    let state = |key: &str| place.run(&["show", key, "--json"]).json()["state"].clone();
    let holds = |key: &str| -> Process {
        let script = format!("echo $$ > {key}; exec sleep 600");
        let holder = place.start(&["run", key, "--ttl", "9s", "--", "sh", "-c", &script]);
        place.bench.await_number(key);
        holder
    };
    let done = |arguments: &[&str]| {
        let ran = place.run(arguments);
        assert_eq!(ran.code, 0, "{arguments:?}: {ran:?}");
        ran
    };
    let (mut one, mut other) = (holds("one"), holds("two"));
    let listing = done(&["ls", "--json"]).json();
    assert_eq!(listing["leases"].as_array().map(Vec::len), Some(2), "{listing}");
    assert_eq!(place.run(&["rm", "--damaged", "one", "--yes"]).code, 64, "it is not damaged");
    assert_eq!(place.run(&["wait", "one", "--timeout", "50ms"]).code, 75, "it is held");
    let mut waits = place.start(&["wait", "one"]);
    done(&["revoke", "one", "--yes"]);
    assert_eq!(one.wait(), 76, "it was told to stop");
    assert_eq!(waits.wait(), 0, "nobody holds it any more");
    done(&["release", "two", "--yes"]);
    assert_eq!(other.wait(), 76);
    assert_eq!((state("one"), state("two")), ("vacant".into(), "vacant".into()));
    // Where the store tells no ages, as etcd, records are watched.
    let is_watched = place.url.starts_with("etcd:");
    let found =
        done(&["gc", "--older-than", if is_watched { "10ms" } else { "0s" }, "--dry-run", "--json"]).json();
    assert_eq!(found["removable"].as_array().map(|keys| keys.contains(&"one".into())), Some(true), "{found}");
    let refused = place.run(&["gc", "--older-than", "999ms", "--yes"]);
    assert!(refused.code == 64 && refused.err.contains("write 1s or more"), "{refused:?}");
    wait_until("what is older than a second to go", || {
        let ran = done(&["gc", "--older-than", "1s", "--yes"]);
        assert_eq!(ran.err.contains("tells no ages"), is_watched, "{ran:?}");
        place.run(&["show", "one"]).code == 66
    });
}

pub fn doctor_examines_the_store(place: &Remote) {
    assert_eq!(place.run(&["run", "k", "--", "true"]).code, 0);
    let ran = place.run(&["doctor"]);
    for told in
        ["written, read back and removed", "of 4 at once: one winner each", "a read takes", "least ttl"]
    {
        assert!(well(&ran) && ran.out.contains(told), "{told}: {ran:?}");
    }
    // By its own argument, and without writing.
    let ran = Ran::of(place.bench.tenure(&["doctor", &place.url, "--read-only", "--json"]).output().unwrap());
    let report = ran.json();
    let checks = report["checks"].as_array().unwrap();
    let has = |check: &str| checks.iter().any(|found| found["check"] == check);
    assert!(well(&ran) && has("round trip") && has("records") && !has("write") && !has("races"), "{ran:?}");
    assert!(
        report["capabilities"]["fences"].as_str().is_some_and(|fences| fences.starts_with("kept")),
        "{report}"
    );
    let left = place.run(&["ls", "--all", "--json"]).json();
    assert_eq!(left["leases"].as_array().map(Vec::len), Some(1), "its own record is gone: {left}");
}

pub fn bench_measures_the_store(place: &Remote) {
    assert_eq!(place.run(&["run", "k", "--", "true"]).code, 0);
    let ran = place.run(&["bench", "--tasks", "2", "--seconds", "0.4", "--json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let told = ran.json();
    for what in ["acquire", "renew", "release", "bare_write"] {
        let (count, p50, p99) = (&told[what]["count"], &told[what]["p50_us"], &told[what]["p99_us"]);
        assert!(
            count.as_u64() > Some(0) && p50.as_f64() > Some(0.0) && p99.as_f64() >= p50.as_f64(),
            "{told}"
        );
    }
    assert!(told["share_of_bare"].as_f64() > Some(0.0), "{told}");
    let has_one_record = || {
        let left = place.run(&["ls", "--all", "--json"]).json();
        assert_eq!(left["leases"].as_array().map(Vec::len), Some(1), "its keys are gone: {left}");
    };
    has_one_record();
    // Who is interrupted amid its writes removes them, too.
    let mut running = place.start(&["bench", "--tasks", "8", "--seconds", "4"]);
    wait_until("bare writes", || place.run(&["ls", "--all", "bench/"]).out.contains("/bare/"));
    running.signal(Signal::SIGINT);
    assert_eq!(running.wait(), 130);
    has_one_record();
}

/// What the command line has, by its own help.
pub fn no_verb_is_forgotten() {
    let verbs = |arguments: &[&str]| -> Vec<String> {
        let ran = Ran::of(super::Bench::new().tenure(arguments).output().unwrap());
        let list = ran
            .out
            .split("Commands:\n")
            .nth(1)
            .and_then(|rest| rest.split("\n\n").next())
            .unwrap_or_default();
        let named = list.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
        named.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
    };
    let known: Vec<&str> = VERBS.iter().map(|(verb, _)| *verb).chain(STORELESS).collect();
    let there = verbs(&["--help"]);
    assert!(there.len() > 10, "{there:?}");
    let pages = [include_str!("../../../../docs/command-line.md"), include_str!("../../README.md")];
    for verb in there.into_iter().filter(|verb| verb != "help") {
        assert!(known.contains(&verb.as_str()), "no check runs {verb} on every store");
        let told = [format!("tenure {verb}"), format!("`{verb}")];
        let tells = |page: &&str| told.iter().any(|text| page.contains(text));
        assert!(pages.iter().all(tells), "{verb} is not in docs/command-line.md, or not in the README here");
    }
    for verb in verbs(&["fleet", "--help"]).into_iter().filter(|verb| verb != "help") {
        assert!(FLEET_VERBS.contains(&verb.as_str()), "no check runs fleet {verb} on every store");
    }
    for verb in verbs(&["work", "--help"]).into_iter().filter(|verb| verb != "help") {
        assert!(JOB_VERBS.contains(&verb.as_str()), "no check runs work {verb} on every store");
    }
}
