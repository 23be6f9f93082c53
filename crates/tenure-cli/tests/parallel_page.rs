//! docs/parallel.md beside the programs that it speaks of.
//!
//! Plan: each option that GNU parallel tells shells of and that its manual describes, that flock(1) and xargs(1) tell of in their help, and that consul's source has, has a
//! place on the page, and a reason where it is not there; each of tenure's that the page names is one of the verb's; what newcomers type is answered as the page says.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::Bench;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

const PAGE: &str = include_str!("../../../docs/parallel.md");
/// What every program has.
const COMMON: [&str; 4] = ["--help", "--version", "-h", "-V"];
/// Those of `consul lock`, from its source: the package `lock` at 26ea2a80, and `flags` at 1b3036ab. Debian has no package of it.
const CONSUL: [&str; 19] = [
    "-child-exit-code",
    "-monitor-retry",
    "-n",
    "-name",
    "-pass-stdin",
    "-shell",
    "-timeout",
    "-try",
    "-verbose",
    "-http-addr",
    "-token",
    "-token-file",
    "-ca-file",
    "-ca-path",
    "-client-cert",
    "-client-key",
    "-tls-server-name",
    "-datacenter",
    "-stale",
];

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
pub(crate) fn options(text: &str) -> BTreeSet<String> {
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
    for program in ["flock", "xargs"] {
        let told: BTreeSet<String> = rows(program).into_iter().flat_map(|(theirs, _)| theirs).collect();
        let help = helped(program, &["--help"]);
        let known = help.lines().filter(|line| line.trim_start().starts_with('-'));
        // What follows two blanks says what it does.
        let known = known.flat_map(|line| options(line.trim_start().split("  ").next().unwrap()));
        let missing: Vec<String> =
            known.filter(|option| !told.contains(option) && !COMMON.contains(&option.as_str())).collect();
        assert!(missing.is_empty(), "{program}: {missing:?}");
    }
}

/// The options that GNU parallel tells zsh of, each with all its names; those without a description are not for users.
fn of_parallel() -> Vec<Vec<String>> {
    let script = helped("parallel", &["--shell-completion", "zsh"]).replace(r#"'"'"'"#, "");
    let pieces: Vec<&str> = script.split('\'').collect();
    // By turns names, and in quotes what they are for.
    let told = pieces.chunks_exact(2).filter(|piece| !piece[1].is_empty());
    let names = told.filter_map(|piece| piece[0].split_whitespace().last());
    let names = names.map(|names| names.trim_matches(['{', '}'])).filter(|names| names.starts_with('-'));
    names.map(|names| names.split(',').map(str::to_owned).collect()).collect()
}

#[test]
fn each_option_of_parallel_has_a_row() {
    let known = of_parallel();
    assert!(known.len() > 100, "{known:?}");
    let told: BTreeSet<String> = rows("GNU parallel").into_iter().flat_map(|(theirs, _)| theirs).collect();
    let is_told = |name: &String| told.contains(name) || COMMON.contains(&name.as_str());
    let missing: Vec<_> = known.into_iter().filter(|names| !names.iter().any(is_told)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// By every name that its manual has a heading for.
#[test]
fn each_name_of_parallels_manual_has_a_row() {
    let mut manual = Command::new("man");
    // Plain text, with each heading in one line.
    manual.args(["-P", "cat", "parallel"]).env("MANWIDTH", "200").env_remove("MAN_KEEP_FORMATTING");
    let text = String::from_utf8(manual.output().unwrap().stdout).unwrap();
    let list = text.split("\nOPTIONS\n").nth(1).and_then(|rest| rest.split("\nEXAMPLES").next()).unwrap();
    let headings = list.lines().filter_map(|line| line.strip_prefix("       -"));
    let words = headings.filter_map(|heading| heading.split_whitespace().next());
    let names = words.map(|word| format!("-{}", word.split(['[', '=']).next().unwrap_or_default()));
    // Those with a line below them are its own.
    let names: BTreeSet<String> = names.filter(|name| !name.starts_with("--_")).collect();
    assert!(names.len() > 150, "{names:?}");
    let told: BTreeSet<String> = rows("GNU parallel").into_iter().flat_map(|(theirs, _)| theirs).collect();
    let missing: Vec<_> =
        names.iter().filter(|name| !told.contains(*name) && !COMMON.contains(&name.as_str())).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn each_option_of_consul_lock_has_a_row() {
    let told: BTreeSet<String> = rows("consul lock").into_iter().flat_map(|(theirs, _)| theirs).collect();
    assert_eq!(told, CONSUL.map(str::to_owned).into());
}

#[test]
fn each_option_that_is_not_there_has_a_reason() {
    let rows = PAGE.lines().filter(|line| line.starts_with('|')).map(|line| line.replace("\\|", "\u{1}"));
    let rows: Vec<Vec<String>> =
        rows.map(|line| line.split('|').map(|cell| cell.trim().to_owned()).collect()).collect();
    let missing = rows.iter().filter(|cells| ["none", "not needed", "never"].contains(&cells[2].as_str()));
    let missing: Vec<_> = missing.collect();
    assert!(missing.len() > 20, "{missing:?}");
    let without: Vec<_> = missing.iter().filter(|cells| cells[3].is_empty()).collect();
    assert!(without.is_empty(), "{without:?}");
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

#[test]
fn what_newcomers_type_is_answered_as_the_page_says() {
    let bench = Bench::new();
    let section = PAGE.split("\n## What is tried first\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let mut tried = 0;
    for row in rows {
        // A bar of a shell's stands in a table with a stroke before it.
        let row = row.replace("\\|", "\u{1}");
        let cells: Vec<String> = row.split('|').map(|cell| cell.trim().replace('\u{1}', "|")).collect();
        let mut shell = Command::new("sh");
        bench.settle(shell.args(["-c", cells[1].trim_matches('`')]).stdin(Stdio::null()));
        shell.env("TENURE_STORE", "sqlite:leases.db").env("PATH", with_tenure());
        let output = shell.output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8(said).unwrap();
        assert_eq!(output.status.code().unwrap().to_string(), cells[2], "{row}: {said}");
        let told: Vec<&str> = cells[3].split('`').skip(1).step_by(2).collect();
        assert!(told.iter().all(|told| said.contains(told)), "{row}: {said}");
        assert!(!told.is_empty() || said.is_empty(), "{row}: {said}");
        tried += 1;
    }
    assert_eq!(tried, 10);
}

/// Where a shell finds programs, tenure among them.
fn with_tenure() -> OsString {
    let own = Path::new(env!("CARGO_BIN_EXE_tenure")).parent().unwrap().to_owned();
    let usual = std::env::var_os("PATH").unwrap();
    std::env::join_paths(std::iter::once(own).chain(std::env::split_paths(&usual))).unwrap()
}
