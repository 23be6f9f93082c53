//! `tenure elect`, `leader` and `doctor` on less's table.
//!
//! Plan: the table is made by doctor and by nothing else; one of two leads, and the other follows when it ends or is killed; a peer's row is
//! respected; who stands by is told of the leader; doctor tells of missing rights and of a damaged row; the page's commands; the way off the table, as its page says, never has two at work, on either storage; what does not belong there is refused by name.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::remote::{Remote, psql};
use crate::common::{Bench, Process, Ran, first_words, wait_for};
use crate::examples::{commands, desk, follow_on};
use nix::sys::signal::Signal;
use std::process::Stdio;

struct Place {
    bench: Bench,
    url: String,
    key: String,
}

fn sqlite() -> Place {
    let bench = Bench::new();
    let url = format!("sqlite:{}?dialect=less&skew_ms=100", bench.path("jobs.db").display());
    Place { bench, url, key: "nightly".into() }
}

fn postgres() -> Place {
    let server = std::env::var("TENURE_TEST_POSTGRES").expect(
        "TENURE_TEST_POSTGRES does not say where PostgreSQL listens: `cargo xtask services up` starts it and prints that",
    );
    let key = format!("cli-{}", std::process::id());
    Place { bench: Bench::new(), url: format!("{server}?dialect=less&skew_ms=100"), key }
}

impl Place {
    fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.bench.tenure(arguments).env("TENURE_STORE", &self.url).output().unwrap())
    }

    fn make(self) -> Place {
        let ran = self.run(&["doctor", "--create-table"]);
        assert!(ran.code == 0 && ran.out.contains("it is there"), "{ran:?}");
        self
    }

    /// One that writes its process id to `terms` when it leads, and ends when there is a file of that name.
    fn elect(&self) -> Process {
        let script = "echo $$ >> terms; while ! [ -e go.$$ ]; do sleep 0.02; done; exit 7";
        let store = ["elect", &self.key, "--store", &self.url, "--ttl", "2s", "--", "sh", "-c", script];
        self.bench.start(&store)
    }

    fn await_term(&self, n: usize) -> String {
        let terms = || self.bench.read("terms").lines().map(String::from).collect::<Vec<_>>();
        let terms = wait_for("the next term", || Some(terms()).filter(|terms| terms.len() >= n));
        assert_eq!(terms.len(), n, "{terms:?}");
        terms[n - 1].clone()
    }

    fn one_leads_and_others_follow(&self) {
        self.bench.write("terms", "");
        let mut first = self.elect();
        let pid = self.await_term(1);
        let second = self.elect();
        second.await_signals();
        let leader = self.run(&["leader", &self.key]);
        assert!(leader.code == 0 && leader.out.trim().len() == 36, "{leader:?}");
        self.bench.write(&format!("go.{pid}"), "");
        assert_eq!(first.wait(), 7, "its command's status is passed on");
        self.await_term(2);
        let third = self.elect();
        third.await_signals();
        let mut second = second;
        second.signal(Signal::SIGKILL);
        second.wait();
        let pid = self.await_term(3);
        self.bench.write(&format!("go.{pid}"), "");
        let mut third = third;
        assert_eq!(third.wait(), 7);
        let leader = self.run(&["leader", &self.key]);
        assert_eq!(leader.code, 66, "what was led is given back: {leader:?}");
    }
}

#[test]
fn one_leads_and_others_follow_in_a_file() {
    sqlite().make().one_leads_and_others_follow();
}

#[test]
fn one_leads_and_others_follow_in_a_database() {
    postgres().make().one_leads_and_others_follow();
}

#[test]
fn who_stands_by_is_told_who_leads_and_until_when() {
    let place = sqlite().make();
    place.bench.write("terms", "");
    let _leads = place.elect();
    place.await_term(1);
    let mut standing_by = place.bench.tenure(&["elect", &place.key, "--", "true"]);
    standing_by.env("TENURE_STORE", &place.url).stdout(Stdio::null());
    let line = first_words(&mut standing_by);
    let leader = place.run(&["leader", &place.key, "--json"]).json()["leader"].clone();
    let words = format!("tenure: waiting for nightly, held by {} until 20", leader["id"].as_str().unwrap());
    assert!(line.starts_with(&words) && line.ends_with(" at least\n"), "{line:?}");
}

#[test]
fn the_table_is_made_by_doctor_and_by_nothing_else() {
    let place = sqlite();
    let ran = place.run(&["elect", "k", "--", "true"]);
    assert!(ran.code != 0 && ran.err.contains("does not exist"), "{ran:?}");
    assert!(!place.bench.path("jobs.db").exists());
    let place = place.make();
    assert_eq!(
        place.run(&["elect", "k", "--", "sh", "-c", "test -z \"$TENURE_FENCE\""]).code,
        0,
        "there is no fence"
    );
    assert_eq!(place.run(&["leader", "k", "--json"]).json()["leader"], serde_json::Value::Null);
}

#[test]
fn what_does_not_belong_there_is_refused_by_name() {
    let place = sqlite().make();
    for verb in
        [&["run", "k", "--", "true"][..], &["ls"], &["work", "--units", "a", "--", "true"], &["gc", "--yes"]]
    {
        let ran = place.run(verb);
        assert!(ran.code == 64 && ran.err.contains("elections only"), "{ran:?}");
    }
    let refused = [
        ("sqlite:x.db?dialect=less&skew_ms=soon", "skew_ms"),
        ("sqlite:x.db?dialect=less&mode=ro", "skew_ms"),
        ("memory:?dialect=less", "nothing after the colon"),
    ];
    for (url, says) in refused {
        let ran = place.run(&["elect", "k", "--store", url, "--", "true"]);
        assert!(ran.code == 64 && ran.err.contains(says), "{url}: {ran:?}");
    }
    let ran = place.run(&["elect", "k", "--ttl", "150ms", "--", "true"]);
    assert!(ran.code == 64 && ran.err.contains("skew margin"), "{ran:?}");
    let ran = place.run(&["elect", "k", "--note", "why", "--", "true"]);
    assert!(ran.code == 64 && ran.err.contains("leave --note out"), "{ran:?}");
    // It would lead again before that, and run nothing.
    let ran = place.run(&["elect", "k", "--cooldown", "10m", "--", "true"]);
    assert!(ran.code == 64 && ran.err.contains("two fifths of the ttl"), "{ran:?}");
    assert!(!place.bench.path("x.db").exists());
}

#[test]
fn the_commands_of_the_page_work_as_they_stand_there() {
    let commands = commands(include_str!("../../../peers/less/docs/less.md"));
    assert!(commands.len() > 3, "{commands:?}");
    let (bench, database) = (desk(), postgres().make());
    let file = "sqlite:jobs.db?dialect=less";
    let made = bench.run(&["doctor", "--create-table", "--store", file]);
    assert_eq!(made.code, 0, "{made:?}");
    for command in commands {
        let here = command.replace("postgres://app@db.example/jobs?dialect=less", &database.url);
        follow_on(&bench, file, &here);
    }
}

#[test]
fn doctor_tells_of_a_damaged_row_and_of_all_else() {
    let place = sqlite().make();
    let table = rusqlite::Connection::open(place.bench.path("jobs.db")).unwrap();
    table.execute_batch("INSERT INTO less_record VALUES('default', 'x', NULL)").unwrap();
    let ran = place.run(&["doctor"]);
    assert!(ran.code == 1 && ran.out.contains("\"default\"") && ran.out.contains("it is there"), "{ran:?}");
    assert!(ran.out.contains("ok    clock"), "{ran:?}");
}

#[test]
fn doctor_tells_which_rights_a_role_lacks() {
    let place = postgres().make();
    let role = format!("less_{}", std::process::id());
    psql(&format!("CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA less TO {role}"));
    let url = place.url.replace("postgres@", &format!("{role}@"));
    let as_role = Place { bench: Bench::new(), url, key: place.key.clone() };
    for (grant, code, says) in [
        ("SELECT", 2, "it lacks INSERT, UPDATE, DELETE on less.record: no candidate can lead"),
        ("INSERT, UPDATE", 2, "it lacks DELETE on less.record"),
        ("DELETE", 0, "all that a candidate needs"),
    ] {
        psql(&format!("GRANT {grant} ON less.record TO {role}"));
        let ran = as_role.run(&["doctor"]);
        assert!(ran.code == code && ran.out.contains(says), "{grant}: {ran:?}");
    }
}

/// The page's steps: beside each other, then one within the other, then natively. A lock directory shows overlaps.
fn way_off(place: &Place, native: &str) {
    let work = "mkdir busy || echo overlap >> overlaps; echo $$ >> terms; trap 'rmdir busy; exit 0' TERM; while :; do sleep 0.02; done";
    let tenure = env!("CARGO_BIN_EXE_tenure");
    let (key, ttl) = (place.key.as_str(), "2s");
    let less = ["elect", key, "--store", &place.url, "--ttl", ttl, "--"];
    let ours = ["elect", key, "--store", native, "--ttl", ttl, "--"];
    let shell = ["sh", "-c", work];
    place.bench.write("terms", "");
    let steps = [
        [&less[..], &shell].concat(),
        [&less[..], &[tenure], &ours, &shell].concat(),
        [&ours[..], &shell].concat(),
    ];
    let mut last: Option<Process> = None;
    for (n, step) in steps.iter().enumerate() {
        let next = place.bench.start(step);
        if let Some(mut last) = last.take() {
            last.signal(Signal::SIGTERM);
            last.wait();
        }
        wait_for("the next step's work", || {
            Some(()).filter(|()| place.bench.read("terms").lines().count() > n)
        });
        last = Some(next);
    }
    assert!(!place.bench.path("overlaps").exists(), "two were at work");
    let mut last = last.unwrap();
    last.signal(Signal::SIGTERM);
    last.wait();
}

#[test]
fn the_way_off_never_has_two_at_work() {
    let place = sqlite().make();
    way_off(&place, &format!("sqlite:{}", place.bench.path("leases.db").display()));
}

#[test]
fn the_way_off_never_has_two_at_work_on_a_server() {
    let pid = std::process::id();
    let place = Place { key: format!("off-{pid}"), ..postgres().make() };
    let native = place.url.replace("?dialect=less&skew_ms=100", &format!("?schema=off_{pid}"));
    Remote::made(native.clone());
    way_off(&place, &native);
    psql(&format!("DROP SCHEMA off_{pid} CASCADE"));
}
