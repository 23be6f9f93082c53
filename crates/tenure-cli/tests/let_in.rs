//! A right that is taken away for a while, as when passwords and roles are changed, on a real PostgreSQL.
//!
//! Plan: who has been let in before is not ended by it, but says so and goes on once it is let in again: what runs by schedule, who waits for a
//! lock, and candidates on tenure's own tables and on less's. Who never was is told at once.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::remote::{Remote, psql, told};
use crate::common::{Process, wait_until};
use nix::sys::signal::Signal;
use std::process::Stdio;

/// A role with all the rights that it needs on a table of `schema`.
struct Role {
    name: String,
    schema: String,
}

impl Role {
    fn on(schema: &str, owner: &Remote) -> (Role, Remote) {
        let role = Role { name: format!("in_{schema}_{}", std::process::id()), schema: schema.to_owned() };
        let Role { name, schema } = &role;
        psql(&format!("CREATE ROLE {name} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {name}"));
        psql(&format!("GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {name}"));
        role.is_let_in(true);
        let place = Remote::at(owner.url.replace("postgres@", &format!("{name}@")));
        (role, place)
    }

    fn is_let_in(&self, is_so: bool) {
        let Role { name, schema } = self;
        let (word, to) = if is_so { ("GRANT", "TO") } else { ("REVOKE", "FROM") };
        psql(&format!("{word} SELECT, INSERT, UPDATE, DELETE ON {schema}.record {to} {name}"));
    }
}

/// What it says goes into the file `said`.
fn start(place: &Remote, arguments: &[&str]) -> Process {
    let said = std::fs::File::create(place.bench.path("said")).unwrap();
    place.command(arguments).stdout(Stdio::null()).stderr(said).spawn().unwrap().into()
}

fn owner(schema: &str) -> Remote {
    Remote::made(format!("{}?schema={schema}&timeout-ms=60000", told("TENURE_TEST_POSTGRES")))
}

#[test]
fn what_runs_by_schedule_outlasts_a_right_that_is_taken_for_a_while() {
    let schema = format!("cron_in_{}", std::process::id());
    let (role, place) = Role::on(&schema, &owner(&schema));
    let ran = || place.bench.read("ran").lines().count();
    let command = ["cron", "* * * * * *", "k", "--", "sh", "-c", "echo >> ran"];
    let mut cron = start(&place, &command);
    wait_until("the first tick", || ran() > 0);
    role.is_let_in(false);
    wait_until("it to say why it does not run", || place.bench.read("said").contains("has not begun"));
    assert!(place.bench.read("said").contains("permission denied"), "{}", place.bench.read("said"));
    let before = ran();
    role.is_let_in(true);
    wait_until("the next tick", || ran() > before + 1);
    cron.signal(Signal::SIGTERM);
    assert_eq!(cron.wait(), 143);
    role.is_let_in(false);
    assert_eq!(place.run(&command).code, 64, "it was never let in");
}

/// Of those who wait by `verb`.
fn who_stands_by_outlasts_it(verb: &str, schema: &str, owner: &Remote) {
    let (role, place) = Role::on(schema, owner);
    let key = format!("let-in-{}", std::process::id());
    let command = |script| [verb, &key, "--ttl", "2s", "--", "sh", "-c", script].map(str::to_owned);
    let first = command("touch leads; until [ -e go ]; do sleep 0.02; done");
    let mut leader = start(owner, &first.each_ref().map(String::as_str));
    wait_until("the first to lead", || owner.bench.path("leads").exists());
    let second = command("touch leads");
    let mut standing_by = start(&place, &second.each_ref().map(String::as_str));
    wait_until("the other to stand by", || place.bench.read("said").contains("waiting for"));
    role.is_let_in(false);
    owner.bench.write("go", "");
    assert_eq!(leader.wait(), 0);
    wait_until("it to say why it does not lead", || place.bench.read("said").contains("permission denied"));
    assert!(!place.bench.path("leads").exists());
    role.is_let_in(true);
    wait_until("it to lead", || place.bench.path("leads").exists());
    assert_eq!(standing_by.wait(), 0);
}

#[test]
fn a_candidate_outlasts_a_right_that_is_taken_for_a_while() {
    let schema = format!("elect_in_{}", std::process::id());
    who_stands_by_outlasts_it("elect", &schema, &owner(&schema));
}

#[test]
fn who_waits_for_a_lock_outlasts_a_right_that_is_taken_for_a_while() {
    let schema = format!("run_in_{}", std::process::id());
    who_stands_by_outlasts_it("run", &schema, &owner(&schema));
}

#[test]
fn a_candidate_on_the_table_of_less_outlasts_a_right_that_is_taken_for_a_while() {
    let url = format!("{}?dialect=less&skew_ms=100", told("TENURE_TEST_POSTGRES"));
    who_stands_by_outlasts_it("elect", "less", &Remote::made(url));
}
