//! The examples in the help of each verb and in the READMEs, that of SQLite's store among them, docs/command-line.md and docs/parallel.md, run as they stand there; and the manual pages that have them.
//!
//! Plan: every example is run by sh in one directory, in their order, with scripts of the names that it uses; it ends with 0, or, if it works
//! for ever, works until it is told to stop; of the pages', some may find that there is nothing to do. What needs something else is named here with the test that has it. The pages of all verbs are
//! installed, and man(1) has nothing to say against them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{Bench, Process, Ran, wait_until};
use nix::sys::signal::Signal;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Command, Stdio};

/// Works until it is told to stop.
const ENDLESS: [&str; 5] =
    ["cron '*/5", "cron --missed", "tenure serve", "leader --follow", "work --forever"];
/// Needs a terminal, a worker, a service or a broken record: `top.rs`, `fleet_ops.rs`, `kcl.rs`, `damaged.rs`; a cluster that
/// asks who calls: `opening.rs` of the store in etcd.
const ELSEWHERE: [&str; 7] =
    ["work top", "fleet top shards", "fleet drain", "fleet adopt", "rm --damaged", "sim ", "etcdctl "];

fn verbs(bench: &Bench, path: &[String], all: &mut Vec<Vec<String>>) {
    let help =
        bench.run(&[path.iter().map(String::as_str).collect::<Vec<_>>().as_slice(), &["--help"]].concat());
    let list =
        help.out.split("Commands:\n").nth(1).and_then(|rest| rest.split("\n\n").next()).unwrap_or_default();
    for line in list.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   ")) {
        let verb = line.split_whitespace().next().unwrap();
        if verb != "help" {
            let path = [path, &[verb.to_owned()]].concat();
            all.push(path.clone());
            verbs(bench, &path, all);
        }
    }
}

#[test]
fn each_example_works_as_it_stands_in_the_help() {
    let bench = desk();
    let mut all = Vec::new();
    verbs(&bench, &[], &mut all);
    let mut count = 0;
    for path in all {
        let arguments: Vec<&str> = path.iter().map(String::as_str).collect();
        let help = bench.run(&["help"].iter().chain(&arguments).copied().collect::<Vec<_>>());
        assert_eq!(help.code, 0, "{path:?}: {help:?}");
        let help = bench.run(&[&arguments[..], &["--help"]].concat()).out;
        let examples = help.split("Examples:\n").nth(1).unwrap_or_else(|| panic!("{path:?}: {help}"));
        for example in examples.lines().map(str::trim) {
            count += 1;
            follow(&bench, example);
        }
    }
    assert!(count > 50, "{count}");
}

/// A directory with all that examples name.
pub(crate) fn desk() -> Bench {
    const SCRIPTS: &str =
        "backup search transfer build mount alarm serve send report convert test after scheduler";
    let bench = Bench::new();
    for name in SCRIPTS.split(' ') {
        script(&bench, name, "exit 0");
    }
    script(&bench, "consume", "echo >> consumed; exec sleep 600");
    bench.write("token", "0123456789abcdef0123456789abcdef");
    bench.write("units.txt", "x.jpg\ny.jpg\n");
    assert!(Command::new("gzip").arg(bench.path("units.txt")).arg("-k").status().unwrap().success());
    std::fs::create_dir(bench.path("bin")).unwrap();
    symlink(env!("CARGO_BIN_EXE_tenure"), bench.path("bin/tenure")).unwrap();
    bench
}

/// The commands of a page, without what is said beside them.
pub(crate) fn commands(text: &str) -> Vec<String> {
    let blocks = text.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    let lines = blocks.flat_map(str::lines).filter_map(|line| line.split(" # ").next());
    let ours = lines.map(str::trim).filter(|line| line.contains("tenure ") && !line.starts_with("cargo "));
    ours.map(str::to_owned).collect()
}

/// Lines of the pages' blocks that are no commands of tenure's: what builds it, what CI runs, and the store, which each test has its own of.
const NOT_OURS: [&str; 3] = ["cargo ", "examples/word-counts.sh", "export TENURE_STORE="];

#[test]
fn the_commands_of_the_pages_work_as_they_stand_there() {
    for (page, most) in [
        (include_str!("../../../README.md"), 8),
        (include_str!("../../../docs/command-line.md"), 20),
        (include_str!("../README.md"), 10),
        (include_str!("../../../docs/parallel.md"), 1),
        (include_str!("../../../stores/sqlite/README.md"), 1),
    ] {
        let (bench, commands) = (desk(), commands(page));
        let blocks = page.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
        let lines = blocks.flat_map(str::lines).map(str::trim).filter(|line| !line.is_empty());
        let is_known = |line: &&str| {
            commands.iter().any(|it| line.starts_with(it.as_str()))
                || NOT_OURS.iter().any(|it| line.starts_with(it))
        };
        assert_eq!(lines.filter(|line| !is_known(line)).collect::<Vec<_>>(), Vec::<&str>::new());
        assert!(commands.len() > most, "{commands:?}");
        for command in commands {
            follow(&bench, &command);
        }
    }
}

/// What an example may end with: it is given what there is, which may be nothing.
fn statuses(example: &str) -> &'static [i32] {
    let of = [
        // Doctor warns of what this machine is.
        ("tenure doctor", &[0, 2][..]),
        // Nobody holds it, leads, or has failed.
        ("tenure revoke nightly", &[66]),
        ("tenure release nightly", &[66]),
        ("tenure leader", &[0, 66]),
        ("tenure ready", &[0, 69]),
        ("tenure work retry night", &[0, 66]),
        // One page has it run before.
        ("tenure work status night", &[0, 66]),
        // They ask, and nobody is there to answer.
        ("tenure reclaim mail", &[0, 64]),
        ("tenure gc", &[0, 64]),
        // Its input ends at once.
        ("tenure hold nightly --json", &[0, 75]),
    ];
    of.into_iter().find(|(begin, _)| example.starts_with(begin)).map_or(&[0], |(_, statuses)| statuses)
}

fn script(bench: &Bench, name: &str, text: &str) {
    for name in [name.to_owned(), format!("{name}.sh")] {
        bench.write(&name, format!("#!/bin/sh\n{text}\n"));
        std::fs::set_permissions(bench.path(&name), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

fn follow(bench: &Bench, example: &str) {
    follow_on(bench, "sqlite:leases.db", example);
}

/// Runs an example on that store, unless another test does.
pub(crate) fn follow_on(bench: &Bench, url: &str, example: &str) {
    // By what it calls, and not by what stands anywhere in it.
    let called = example.split_once("tenure ").map_or(example, |(_, called)| called);
    if ELSEWHERE
        .iter()
        .any(|elsewhere| [called, example].iter().any(|it| format!("{it} ").starts_with(elsewhere)))
    {
        return;
    }
    let is_endless = ENDLESS.iter().any(|endless| example.contains(endless));
    let path = format!("{}:{}", bench.path("bin").display(), std::env::var("PATH").unwrap());
    // One that works for ever though nobody knew is named, too.
    let mut shell = Command::new(if is_endless { "sh" } else { "timeout" });
    bench.settle(&mut shell).env("PATH", path).env("TENURE_STORE", url).stdin(Stdio::null());
    if is_endless {
        let consumed = bench.read("consumed").len();
        shell.args(["-c", &format!("exec {example}")]).stdout(Stdio::null()).stderr(Stdio::null());
        let mut process: Process = shell.spawn().unwrap().into();
        process.await_signals();
        if example.contains("--forever") {
            wait_until("the first unit", || bench.read("consumed").len() > consumed);
        }
        process.signal(Signal::SIGTERM);
        assert_eq!(process.wait(), 143, "{example}");
        return;
    }
    let ran = Ran::of(shell.args(["120", "sh", "-c", example]).output().unwrap());
    assert!(statuses(example).contains(&ran.code), "{example}: {ran:?}");
}

#[test]
fn man_has_nothing_to_say_against_the_pages() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["man", "--install", "man"]).code, 0);
    for page in std::fs::read_dir(bench.path("man/man1")).unwrap() {
        let page = page.unwrap().path();
        let mut man = Command::new("man");
        man.args(["--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z"])
            .arg(&page)
            .env("LC_ALL", "C.UTF-8")
            .env("MANWIDTH", "80");
        let ran = Ran::of(man.stdin(Stdio::null()).output().unwrap());
        assert!(
            ran.code == 0 && ran.err.is_empty() && !ran.out.is_empty(),
            "{}: {}",
            page.display(),
            ran.err
        );
    }
}

#[test]
fn each_verb_has_a_manual_page_that_man_can_show() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["man", "--install", "man"]).code, 0);
    let mut all = vec![Vec::new()];
    verbs(&bench, &[], &mut all);
    for path in &all {
        let name = [&["tenure".to_owned()], &path[..]].concat().join("-");
        let page = bench.read(&format!("man/man1/{name}.1"));
        assert!(
            page.contains(&format!(".TH {name} 1")) && page.contains(".SH EXAMPLES\n") != path.is_empty(),
            "{name}"
        );
        let words: Vec<&str> = path.iter().map(String::as_str).collect();
        let help = bench.run(&[&words[..], &["--help"]].concat()).out;
        let usage = help.lines().find_map(|line| line.strip_prefix("Usage: ")).unwrap();
        assert!(page.replace('\\', "").contains(&format!(".SH SYNOPSIS\n{usage}\n")), "{name}: {usage}");
        assert_eq!(bench.run(&[&["man"], &words[..]].concat()).out, page, "{name}");
    }
    assert_eq!(
        std::fs::read_dir(bench.path("man/man1")).unwrap().count(),
        all.len(),
        "one each, and no other"
    );
    let by_name = bench.run(&["man", "fleet-top"]);
    assert!(by_name.code == 0 && by_name.out.contains("tenure-fleet-top"), "{by_name:?}");
    bench.write("file", "");
    let refused = bench.run(&["man", "--install", "file"]);
    assert!(refused.code == 64 && refused.err.contains("file/man1"), "{refused:?}");
}

#[test]
fn with_json_errors_are_json() {
    let bench = Bench::new();
    for (arguments, code, message) in [
        (&["show", "--json", "k"][..], 69, "there is no store at leases.db"),
        (&["ls", "--json", "--colour"], 64, "--colour"),
        (&["gc", "--json", "--older-than", "soon"], 64, "span of time"),
    ] {
        let ran = bench.run(arguments);
        let told: serde_json::Value = serde_json::from_str(ran.err.lines().last().unwrap()).unwrap();
        assert_eq!((ran.code, &told["error"]["code"]), (code, &code.into()), "{ran:?}");
        assert!(told["error"]["message"].as_str().unwrap().contains(message), "{ran:?}");
    }
    let plain = bench.run(&["run", "k", "--", "sh", "-c", "exit 0", "--json"]);
    assert_eq!(plain.code, 0, "what the command is given is its own");
}
