//! What an operator does to a lease concerns the tenure that was shown.
//!
//! Plan: the holder ends, and the next one begins or nobody does, while the operator thinks about `revoke`, `release` and `release --now`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{Bench, shell_status, wait_until};
use std::io::{Read, Write};
use std::process::Child;

/// A verb that asks at a terminal.
struct Question {
    child: Child,
    pty: pty_process::blocking::Pty,
    said: String,
}

impl Question {
    fn of(bench: &Bench, arguments: &[&str]) -> Question {
        let (pty, pts) = pty_process::blocking::open().unwrap();
        let command = pty_process::blocking::Command::new(env!("CARGO_BIN_EXE_tenure")).args(arguments);
        let command = command.current_dir(bench.path("")).env("TENURE_STORE", "sqlite:leases.db");
        let child = command.env("TENURE_CONFIG", "/dev/null").spawn(pts).unwrap();
        let mut question = Question { child, pty, said: String::new() };
        while !question.said.contains("[y/N]") {
            assert!(question.hears(), "{}", question.said);
        }
        question
    }

    /// False if it has ended.
    fn hears(&mut self) -> bool {
        let mut buffer = [0; 4096];
        let Ok(n @ 1..) = self.pty.read(&mut buffer) else { return false };
        self.said.push_str(&String::from_utf8_lossy(&buffer[..n]));
        true
    }

    /// Its status, and all that was said.
    fn answer_yes(mut self) -> (i32, String) {
        self.pty.write_all(b"y\n").unwrap();
        while self.hears() {}
        (shell_status(self.child.wait().unwrap()), self.said)
    }
}

const VERBS: [&[&str]; 3] = [&["revoke", "k"], &["release", "k"], &["release", "--now", "k"]];

#[test]
fn s10_a_tenure_that_begins_while_the_operator_thinks_is_not_touched() {
    for verb in VERBS {
        let bench = Bench::new();
        let waits = "echo $$ > one; until [ -e go ]; do sleep 0.02; done";
        let mut one = bench.start(&["run", "k", "--ttl", "3s", "--", "sh", "-c", waits]);
        bench.await_number("one");
        let shown = bench.show("k");
        let mut two =
            bench.start(&["run", "k", "--ttl", "3s", "--", "sh", "-c", "echo $$ > two; sleep 1000"]);
        let question = Question::of(&bench, verb);
        bench.write("go", "");
        assert_eq!(one.wait(), 0);
        bench.await_number("two");
        let (code, said) = question.answer_yes();
        let now = bench.show("k");
        assert_eq!((code, &now["mail"]), (75, &0.into()), "{verb:?}: {said}");
        assert!(said.contains(&format!("{} holds it", now["holder"].as_str().unwrap())), "{said}");
        assert!(now["fence"].as_u64() > shown["fence"].as_u64() && two.is_running(), "{verb:?}: {now}");
    }
}

#[test]
fn s10_a_tenure_that_ends_while_the_operator_thinks_is_told_to_be_over() {
    for verb in VERBS {
        let bench = Bench::new();
        let waits = "echo $$ > one; until [ -e go ]; do sleep 0.02; done";
        let mut one = bench.start(&["run", "k", "--ttl", "3s", "--", "sh", "-c", waits]);
        bench.await_number("one");
        let question = Question::of(&bench, verb);
        bench.write("go", "");
        assert_eq!(one.wait(), 0);
        wait_until("the key to be free", || bench.state("k") == "vacant");
        let (code, said) = question.answer_yes();
        assert_eq!((code, said.contains("nobody holds k")), (66, true), "{verb:?}: {said}");
    }
}
