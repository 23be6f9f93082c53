//! The program `tenure-faults` as it is called: that it is built with all tests, too, is what `cargo xtask test` counts on.
//!
//! Plan: it lists all cells; a mistake is named; a role that is called wrongly says how.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::process::{Command, Output};

fn ran(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tenure-faults")).args(words).output().unwrap()
}

#[test]
fn it_lists_cells_that_are_tested_and_those_that_are_not() {
    let listed = ran(&["--list"]);
    let text = String::from_utf8(listed.stdout).unwrap();
    assert!(listed.status.success() && text.contains("lagging failover"), "{text}");
    assert!(text.contains("postgres  F") && text.contains("no network"), "{text}");
}

#[test]
fn a_mistake_is_named() {
    let mistaken = ran(&["--store", "paper"]);
    let text = String::from_utf8(mistaken.stderr).unwrap();
    assert!(mistaken.status.code() == Some(2) && text.contains("no store \"paper\""), "{text}");
    let mistaken = String::from_utf8(ran(&["probe"]).stderr).unwrap();
    assert!(mistaken.contains("probe URL"), "{mistaken}");
}
