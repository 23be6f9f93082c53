//! The examples in the help of each verb, run as they stand there; and the manual pages that have them.
//!
//! Plan: every example is run by sh in one directory, in the order of the help, with scripts of the names that it uses; it ends with 0, or, if it works
//! for ever, works until it is told to stop. What needs something else is named here with the test that has it. The pages of all verbs are
//! installed, and man(1) has nothing to say against them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

mod common;

use common::{Bench, Process, Ran};
use nix::sys::signal::Signal;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Command, Stdio};

/// Works until it is told to stop.
const ENDLESS: [&str; 6] =
    ["cron '*/5", "cron --missed", "serve --listen", "serve --ttl", "leader --follow", "work --forever"];
/// Needs a terminal, a worker, a service or a broken record: `top.rs`, `fleet_ops.rs`, `kcl.rs`, `damaged.rs`.
const ELSEWHERE: [&str; 6] =
    ["work top", "fleet top shards", "fleet drain", "fleet adopt", "rm --damaged", "sim "];

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
    let bench = Bench::new();
    for name in [
        "backup", "search", "transfer", "build", "mount", "alarm", "serve", "send", "report", "convert",
        "test", "after",
    ] {
        script(&bench, name, "exit 0");
    }
    script(&bench, "consume", "exec sleep 600");
    bench.write("token", "0123456789abcdef0123456789abcdef");
    bench.write("units.txt", "x.jpg\ny.jpg\n");
    assert!(Command::new("gzip").arg(bench.path("units.txt")).arg("-k").status().unwrap().success());
    symlink(env!("CARGO_BIN_EXE_tenure"), bench.path("tenure")).unwrap();
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
            if !ELSEWHERE.iter().any(|elsewhere| example.contains(elsewhere)) {
                follow(&bench, example);
            }
        }
    }
    assert!(count > 50, "{count}");
}

fn script(bench: &Bench, name: &str, text: &str) {
    let name = format!("{name}.sh");
    bench.write(&name, format!("#!/bin/sh\n{text}\n"));
    std::fs::set_permissions(bench.path(&name), std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn follow(bench: &Bench, example: &str) {
    let path = format!("{}:{}", bench.path("").display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("sh");
    bench.settle(&mut shell).env("PATH", path).env("TENURE_STORE", "sqlite:leases.db").stdin(Stdio::null());
    if ENDLESS.iter().any(|endless| example.contains(endless)) {
        shell.args(["-c", &format!("exec {example}")]).stdout(Stdio::null()).stderr(Stdio::null());
        let mut process: Process = shell.spawn().unwrap().into();
        process.await_signals();
        process.signal(Signal::SIGTERM);
        assert_eq!(process.wait(), 143, "{example}");
        return;
    }
    let ran = Ran::of(shell.args(["-c", example]).output().unwrap());
    // Doctor warns of what this machine is.
    let is_well = ran.code == 0 || (example.contains("doctor") && ran.code == 2);
    assert!(is_well, "{example}: {ran:?}");
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
            page.contains(&format!(".TH {name} 1")) && page.contains("Examples:") != path.is_empty(),
            "{name}"
        );
        let words: Vec<&str> = path.iter().map(String::as_str).collect();
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
