//! docs/parallel.md beside the programs that it speaks of.
//!
//! Plan: each option that flock(1) and xargs(1) tell of in their help has a place on the page; each of tenure's that the page names is
//! one of the verb's.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::Bench;
use std::collections::BTreeSet;
use std::process::Command;

const PAGE: &str = include_str!("../../../docs/parallel.md");

/// The cells of the table below a heading: of each row the options of theirs, and ours.
fn rows(heading: &str) -> Vec<(BTreeSet<String>, BTreeSet<String>)> {
    let section = PAGE.split(&format!("\n## {heading}\n")).nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with('|')).skip(2);
    let rows: Vec<_> = rows
        .map(|line| {
            let cells: Vec<&str> = line.split('|').collect();
            (options(cells[1]), options(cells[2]))
        })
        .collect();
    assert!(rows.len() > 8, "{heading}");
    rows
}

/// The options in a text: what begins with a dash, up to its value.
fn options(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| c.is_whitespace() || "`,[]=;".contains(c));
    let is_option = |word: &&str| {
        let name = word.trim_start_matches('-');
        name.len() < word.len() && name.starts_with(|c: char| c.is_ascii_alphanumeric())
    };
    words.filter(is_option).map(|word| word.trim_end_matches('|').to_owned()).collect()
}

fn helped(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn each_option_of_flock_and_xargs_has_a_row() {
    // What every program has.
    let common = ["--help", "--version", "-h", "-V"].map(str::to_owned);
    for program in ["flock", "xargs"] {
        let told: BTreeSet<String> = rows(program).into_iter().flat_map(|(theirs, _)| theirs).collect();
        let help = helped(program, &["--help"]);
        let known = help.lines().filter(|line| line.trim_start().starts_with('-'));
        // What follows two blanks says what it does.
        let known = known.flat_map(|line| options(line.trim_start().split("  ").next().unwrap()));
        let missing: Vec<String> =
            known.filter(|option| !told.contains(option) && !common.contains(option)).collect();
        assert!(missing.is_empty(), "{program}: {missing:?}");
    }
}

#[test]
fn each_option_of_ours_that_the_page_names_is_there() {
    let bench = Bench::new();
    for (heading, verbs) in [
        ("GNU parallel", &["work", "run"][..]),
        ("xargs", &["work"]),
        ("flock", &["run"]),
        ("consul lock", &["run"]),
    ] {
        let help: String = verbs.iter().map(|verb| bench.run(&[verb, "--help"]).out).collect();
        let known: BTreeSet<String> = help.lines().flat_map(options).collect();
        for option in rows(heading).into_iter().flat_map(|(_, ours)| ours) {
            // Those of a shell, and of a verb below `work`.
            let is_elsewhere = ["-c", "--json"].contains(&option.as_str());
            assert!(is_elsewhere || known.contains(&option), "{heading}: {option}");
        }
    }
}
