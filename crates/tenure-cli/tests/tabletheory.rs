//! `tenure run` on TableTheory's leases, in DynamoDB Local, which `cargo xtask services up` starts. A peer is played by plain
//! requests, as any of its clients would send them.
//!
//! Plan: a command runs under a lease that peers see, without a fence; a peer's lease is waited for, or told; a peer's release is
//! noticed; a host whose clock is ahead takes nothing; a long command keeps its lease; a lease that a peer has taken stops the command; a command is dead before its lease
//! ends though tenure is killed, or the service falls silent; who waits hears of an outage; a signal while waiting leaves nothing behind;
//! a damaged item is left alone; all other verbs refuse, and so does what can't work.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{Bench, Process, Ran, first_words, now_ms, service, wait_for, wait_until};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

struct Table {
    bench: Bench,
    name: String,
    endpoint: String,
}

/// A table of its own, with the keys that TableTheory's tables have.
fn table(name: &str) -> Table {
    let name = format!("cli-tt-{name}-{}", std::process::id());
    let table = Table { bench: Bench::new(), name, endpoint: service::endpoint() };
    let keys = [("pk", "HASH"), ("sk", "RANGE")];
    table.ask(
        "CreateTable",
        json!({
            "TableName": table.name,
            "BillingMode": "PAY_PER_REQUEST",
            "AttributeDefinitions": keys.map(|(name, _)| json!({"AttributeName": name, "AttributeType": "S"})),
            "KeySchema": keys.map(|(name, role)| json!({"AttributeName": name, "KeyType": role})),
        }),
    );
    table
}

fn keys(pk: &str) -> Value {
    json!({"pk": {"S": pk}, "sk": {"S": "LOCK"}})
}

impl Table {
    fn url(&self, more: &str) -> String {
        let Table { name, endpoint, .. } = self;
        format!("dynamodb://{name}?region=eu-west-1&endpoint={endpoint}&dialect=tabletheory{more}")
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.bench.tenure(arguments).env("TENURE_STORE", self.url("")).output().unwrap())
    }

    fn start(&self, arguments: &[&str]) -> Process {
        let mut command = self.bench.tenure(arguments);
        command.env("TENURE_STORE", self.url("")).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap().into()
    }

    fn ask(&self, action: &str, body: Value) -> Value {
        service::ask(&self.endpoint, action, &body)
    }

    fn item(&self, pk: &str) -> Option<Value> {
        let asked = json!({"TableName": self.name, "Key": keys(pk), "ConsistentRead": true});
        self.ask("GetItem", asked).get("Item").cloned()
    }

    /// A peer's lease, that ends in so many seconds, or has ended.
    fn put(&self, pk: &str, token: &str, seconds: i64) -> Value {
        let until = now_ms() / 1000 + seconds;
        let mut item = keys(pk);
        item["lease_token"] = json!({"S": token});
        item["lease_expires_at"] = json!({"N": until.to_string()});
        item["ttl"] = json!({"N": (until + 3600).to_string()});
        self.ask("PutItem", json!({"TableName": self.name, "Item": item}));
        item
    }

    fn delete(&self, pk: &str) {
        self.ask("DeleteItem", json!({"TableName": self.name, "Key": keys(pk)}));
    }

    /// When the lease ends, in Unix milliseconds.
    fn until(&self, pk: &str) -> Option<i64> {
        let seconds: i64 = self.item(pk)?["lease_expires_at"]["N"].as_str()?.parse().ok()?;
        Some(seconds * 1000)
    }
}

#[test]
fn a_command_runs_under_a_lease_that_peers_see_and_has_no_fence() {
    let table = table("run");
    let script = "echo \"$TENURE_KEY ${TENURE_FENCE-none} $TENURE_DEADLINE\"; cp /dev/null started; \
                  while [ ! -e go ]; do sleep 0.02; done; exit 7";
    let mut command = table.bench.tenure(&["run", "--ttl", "20s", "session/x", "--", "sh", "-c", script]);
    // That of something around it is none of this lease.
    command.env("TENURE_STORE", table.url("")).env("TENURE_FENCE", "5");
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("the command", || table.bench.path("started").exists());
    let item = table.item("session/x").expect("the lease is in the table");
    let names: Vec<&String> = item.as_object().unwrap().keys().collect();
    assert_eq!(names, ["lease_expires_at", "lease_token", "pk", "sk", "ttl"]);
    let until = table.until("session/x").unwrap();
    assert_eq!(item["ttl"]["N"], (until / 1000 + 3600).to_string());
    let left = until - now_ms();
    assert!((5_000..=20_000).contains(&left), "{left}");
    let tried = table.run(&["run", "--try", "session/x", "--", "true"]);
    assert!(tried.code == 75 && tried.err.contains("held by another until 20"), "{tried:?}");
    table.bench.write("go", "");
    let ran = Ran::of(child.wait_with_output().unwrap());
    assert_eq!(ran.code, 7, "{ran:?}");
    let words: Vec<&str> = ran.out.split_whitespace().collect();
    assert_eq!(words[..2], ["session/x", "none"]);
    let deadline: i64 = words[2].parse().unwrap();
    assert!(deadline <= until && deadline > until - 20_000, "{deadline} for {until}");
    assert_eq!(table.item("session/x"), None, "given back");
}

#[test]
fn a_peer_s_lease_is_told_or_waited_for() {
    let table = table("peer");
    let theirs = table.put("k", "a-peer", 3600);
    for arguments in [["--try", "--ttl=10s"], ["--wait=300ms", "--ttl=10s"]] {
        let arguments = [&["run"], &arguments[..], &["k", "--", "true"]].concat();
        // A service that has not answered in time, which a busy machine's may not have, is told as that.
        let ran = wait_for("an answer in time", || Some(table.run(&arguments)).filter(|ran| ran.code != 69));
        assert!(ran.code == 75 && ran.err.contains("k is held by another until 20"), "{ran:?}");
    }
    assert_eq!(table.item("k"), Some(theirs), "left as it was");
    // Ended in this second: free.
    table.put("k", "a-peer", 0);
    assert_eq!(table.run(&["run", "--try", "k", "--", "true"]).code, 0);
    assert_eq!(table.item("k"), None);

    // Given back, and then run out, while someone waits.
    for (seconds, is_given_back) in [(3600, true), (5, false)] {
        table.put("k", "a-peer", seconds);
        let mut waiting = table.start(&["run", "k", "--", "true"]);
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert!(waiting.is_running());
        if is_given_back {
            table.delete("k");
        }
        assert_eq!(waiting.wait(), 0);
        assert_eq!(table.item("k"), None);
    }
}

#[test]
fn who_waits_is_told_until_when_a_lease_is_held_and_not_by_which_token() {
    let table = table("told");
    table.put("k", "a-peer", 3600);
    let mut waiting = table.bench.tenure(&["run", "k", "--", "true"]);
    waiting.env("TENURE_STORE", table.url("")).stdout(Stdio::null());
    let line = first_words(&mut waiting);
    let until = wait_for("an answer in time", || {
        let tried = table.run(&["run", "--try", "k", "--", "true"]);
        assert!(!tried.err.contains("waiting"), "{tried:?}");
        Some(tried.err.split_once(" held by ")?.1.to_owned())
    });
    assert_eq!(line, format!("tenure: waiting for k, held by {until}"));
    assert!(until.starts_with("another until 20") && until.ends_with(" at least\n"), "{until:?}");
}

#[test]
fn s1_a_host_whose_clock_is_ahead_takes_no_lease_that_a_peer_still_has() {
    let table = table("ahead");
    let theirs = table.put("k", "a-peer", 2);
    // By the service's clock, which is three seconds behind this host's, it has five left.
    let behind = || {
        let then = format!("@{}", now_ms() / 1000 - 3);
        let mut date = Command::new("date");
        let date = date.env("LC_ALL", "C").args(["-u", "-d", &then, "+%a, %d %b %Y %T GMT"]).output();
        String::from_utf8(date.unwrap().stdout).unwrap().trim().to_owned()
    };
    let endpoint = service::at_another_time(&table.endpoint, behind);
    let run = |more: &str, arguments: &[&str]| {
        let url = table.url(more).replace(&table.endpoint, &endpoint);
        let mut command = table.bench.tenure(&[&["run", "--ttl", "20s"], arguments].concat());
        Ran::of(command.env("TENURE_STORE", url).output().unwrap())
    };
    for patience in ["--try", "--wait=10s"] {
        let ran = run("", &[patience, "k", "--", "touch", "ran"]);
        assert!(ran.code == 69 && ran.err.contains("ahead of the service's or more"), "{ran:?}");
        assert!(!table.bench.path("ran").exists());
    }
    assert_eq!(table.item("k"), Some(theirs), "left as it was");
    // Whoever allows for as much waits for as much longer, so that is no danger.
    let ran = run("&skew_ms=6000", &["other", "--", "touch", "ran"]);
    assert!(ran.code == 0 && table.bench.path("ran").exists(), "{ran:?}");
}

#[test]
fn a_long_command_keeps_its_lease() {
    let table = table("long");
    let script = "while [ ! -e go ]; do sleep 0.02; done";
    let mut running = table.start(&["run", "--ttl", "6s", "k", "--", "sh", "-c", script]);
    let first = wait_for("the lease", || table.until("k"));
    let token = table.item("k").unwrap()["lease_token"].clone();
    while now_ms() < first + 2500 {
        let item = table.item("k").expect("it is held all the while");
        assert_eq!(item["lease_token"], token);
        assert!(table.until("k").unwrap() > now_ms(), "a peer could have taken it");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert!(running.is_running());
    table.bench.write("go", "");
    assert_eq!(running.wait(), 0);
    assert_eq!(table.item("k"), None);
}

#[test]
fn a_lease_that_a_peer_has_taken_stops_the_command() {
    let table = table("lost");
    let script = "cp /dev/null started; sleep 600";
    let mut command = table.bench.tenure(&["run", "--ttl", "6s", "k", "--", "sh", "-c", script]);
    command.env("TENURE_STORE", table.url("")).stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    wait_until("the command", || table.bench.path("started").exists());
    let theirs = table.put("k", "a-peer", 3600);
    let ran = Ran::of(child.wait_with_output().unwrap());
    assert!(ran.code == 76 && ran.err.contains("taken over"), "{ran:?}");
    assert_eq!(table.item("k"), Some(theirs), "the peer's lease is as it was");
}

#[test]
fn a_command_is_dead_before_its_lease_ends_though_tenure_is_killed() {
    let table = table("killed");
    // Deaf to TERM.
    let script = "trap '' TERM; while :; do date +%s%3N >> ticks; sleep 0.01; done";
    let mut running = table.start(&["run", "--ttl", "3s", "k", "--", "sh", "-c", script]);
    wait_until("ticks", || table.bench.read("ticks").lines().count() > 20);
    running.signal(Signal::SIGKILL);
    running.wait();
    let until = table.until("k").expect("it is left to expire");
    wait_until("the end of the lease", || now_ms() > until);
    let last = |table: &Table| -> i64 {
        let text = table.bench.read("ticks");
        text.lines().rev().find_map(|line| line.parse().ok()).unwrap()
    };
    let then = last(&table);
    assert!(then < until, "it ran at {then}, and peers could take its lease at {until}");
    let next = table.run(&["run", "--wait", "30s", "k", "--", "true"]);
    assert_eq!(next.code, 0, "{next:?}");
    assert_eq!(last(&table), then, "it is dead");
}

/// What lies between a process and the service, until it is told to be silent: then nothing comes through any more, and no
/// connection ends.
fn between(endpoint: &str) -> (String, Arc<AtomicBool>) {
    let (service, silent) =
        (endpoint.trim_start_matches("http://").to_owned(), Arc::new(AtomicBool::new(false)));
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let here = format!("http://{}", listener.local_addr().unwrap());
    let told = silent.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let near = stream.unwrap();
            let far = TcpStream::connect(&service).unwrap();
            let ways = [(near.try_clone(), far.try_clone()), (Ok(far), Ok(near))];
            for (from, to) in ways {
                let (from, to, told) = (from.unwrap(), to.unwrap(), told.clone());
                std::thread::spawn(move || pass_on(from, to, &told));
            }
        }
    });
    (here, silent)
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, silent: &AtomicBool) {
    let mut part = [0; 4096];
    loop {
        match from.read(&mut part) {
            Ok(read) if read > 0 && !silent.load(Ordering::SeqCst) => {
                let _gone = to.write_all(&part[..read]);
            }
            Ok(read) if read > 0 => std::thread::sleep(crate::common::LONG),
            _ => {
                let _gone = to.shutdown(std::net::Shutdown::Write);
                return;
            }
        }
    }
}

#[test]
fn a_command_is_dead_before_its_lease_ends_though_the_service_is_silent() {
    let table = table("silent");
    let (proxy, silent) = between(&table.endpoint);
    let url = table.url("&skew_ms=2000").replace(&table.endpoint, &proxy);
    let script = "trap '' TERM; while :; do date +%s%3N >> ticks; sleep 0.01; done";
    let mut command = table.bench.tenure(&["run", "--ttl", "8s", "k", "--", "sh", "-c", script]);
    command.env("TENURE_STORE", url).stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    wait_until("ticks", || table.bench.read("ticks").lines().count() > 20);
    silent.store(true, Ordering::SeqCst);
    let ran = Ran::of(child.wait_with_output().unwrap());
    assert!(ran.code == 76 && ran.err.contains("the command was stopped"), "{ran:?}");
    let until = table.until("k").expect("it could not be given back");
    let last: i64 = table.bench.read("ticks").lines().rev().find_map(|line| line.parse().ok()).unwrap();
    assert!(last < until, "it ran at {last}, and peers could take its lease at {until}");
}

#[test]
fn a_signal_while_waiting_leaves_nothing_behind() {
    let table = table("signal");
    let theirs = table.put("k", "a-peer", 3600);
    let mut waiting = table.start(&["run", "k", "--", "true"]);
    waiting.await_signals();
    waiting.signal(Signal::SIGINT);
    assert_eq!(waiting.wait(), 130);
    assert_eq!(table.item("k"), Some(theirs));
}

#[test]
fn who_waits_hears_of_an_outage() {
    let table = table("outage");
    table.put("k", "a-peer", 3600);
    let (proxy, silent) = between(&table.endpoint);
    let url = table.url("").replace(&table.endpoint, &proxy);
    let mut command = table.bench.tenure(&["run", "k", "--", "true"]);
    command.env("TENURE_STORE", url).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut says = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(says.any(|line| line.contains("waiting for k, held by another")));
    silent.store(true, Ordering::SeqCst);
    assert!(says.any(|line| line.contains("the store fails") && line.contains("trying on")));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_damaged_item_is_named_and_left_alone() {
    let table = table("damaged");
    let mut item = keys("k");
    item["lease_expires_at"] = json!({"N": "1"});
    item["order"] = json!({"S": "of somebody"});
    table.ask("PutItem", json!({"TableName": table.name, "Item": item}));
    let ran = table.run(&["run", "k", "--", "true"]);
    assert!(ran.code == 65 && ran.err.contains("\"k\" / \"LOCK\" is no lease"), "{ran:?}");
    assert_eq!(table.item("k"), Some(item));
}

#[test]
fn what_can_t_work_is_refused_with_what_can() {
    let table = table("refused");
    for verb in [
        &["ls"][..],
        &["show", "k"],
        &["elect", "k", "--", "true"],
        &["leader", "k"],
        &["range", "s", "0..ff", "--", "true"],
        &["work", "a", "--", "true"],
        &["work", "--forever", "--name", "f", "--", "true"],
        &["fleet", "workers", "f"],
        &["release", "k", "--yes"],
        &["revoke", "k", "--yes"],
        &["gc", "--yes"],
    ] {
        let ran = table.run(verb);
        assert!(ran.code == 64 && ran.err.contains("`tenure run`"), "{verb:?}: {ran:?}");
    }
    let run = |more: &str, arguments: &[&str]| {
        let command = [&["run"], arguments, &["k", "--", "true"]].concat();
        Ran::of(table.bench.tenure(&command).env("TENURE_STORE", table.url(more)).output().unwrap())
    };
    for (more, arguments, code, says) in [
        ("", &["--ttl", "2s"][..], 64, "whole seconds"),
        ("", &["--note", "why"], 64, "leave --note out"),
        ("&skew_ms=9s", &[], 64, "no number of milliseconds"),
        ("&skew_ms=9000", &[], 64, "too short"),
        ("&namespace=x", &[], 64, "tenure's own layout"),
        ("&sk=x", &[], 64, "no option \"sk\"; there are region"),
        ("&pk_name=id", &[], 64, "a HASH key \"id\" and a RANGE key \"sk\""),
        ("", &["--metrics", "127.0.0.1:0"], 64, "nothing is measured on a table with dialect=tabletheory"),
        ("&lock_sort_key=L", &["--try"], 0, ""),
    ] {
        let ran = run(more, arguments);
        assert!(ran.code == code && ran.err.contains(says), "{more}: {ran:?}");
    }
    let missing = table.url("").replace(&table.name, "cli-tt-none");
    let ran = Ran::of(table.bench.tenure(&["run", "-s", &missing, "k", "--", "true"]).output().unwrap());
    assert!(ran.code == 69 && ran.err.contains("no such table"), "{ran:?}");
    // And without the dialect, it is not taken for one of tenure's own.
    let native = table.url("").replace("&dialect=tabletheory", "");
    let ran = Ran::of(table.bench.tenure(&["run", "-s", &native, "k", "--", "true"]).output().unwrap());
    assert!(ran.code == 64 && ran.err.contains("not tenure's"), "{ran:?}");
}
