//! The examples for systemd and Kubernetes: what they have tenure do, it does.
//!
//! Plan: every command line of a unit or a manifest is run as it stands there, but for the user's program. (systemd's own look at the units, and the
//! package that they are in, is a step of `cargo xtask test`.)
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{Bench, Process, wait_until};
use nix::sys::signal::Signal;
use std::path::PathBuf;
use std::process::Stdio;

/// What tenure is called with, and in which file.
fn commands() -> Vec<(PathBuf, Vec<String>)> {
    let packaging = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    let mut commands = Vec::new();
    for kind in ["systemd", "kubernetes"] {
        for file in std::fs::read_dir(packaging.join(kind)).unwrap() {
            let path = file.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            for line in text.lines().map(str::trim) {
                let words: Vec<String> = if let Some(words) = line.strip_prefix("ExecStart=/usr/bin/tenure ")
                {
                    words.split(' ').map(str::to_owned).collect()
                } else if let Some(words) = line.strip_prefix("args: ") {
                    serde_json::from_str(words).unwrap()
                } else {
                    continue;
                };
                commands.push((path.clone(), words));
            }
        }
    }
    commands
}

#[test]
fn units_and_manifests_have_tenure_do_what_it_can() {
    let commands = commands();
    assert_eq!(commands.len(), 6, "{commands:?}");
    for (path, words) in commands {
        let bench = Bench::new();
        if words[0] == "serve" {
            // The volume is the test's own directory.
            let here = bench.path("").display().to_string();
            let words: Vec<String> = words.iter().map(|word| word.replace("/run/tenure/", &here)).collect();
            let mut agent = bench.start(&words.iter().map(String::as_str).collect::<Vec<_>>());
            wait_until("the agent's socket is there", || bench.path("agent/agent.sock").exists());
            agent.signal(Signal::SIGTERM);
            assert_eq!(agent.wait(), 143, "{}", path.display());
            continue;
        }
        let end = words.iter().position(|word| word == "--").unwrap();
        let words: Vec<&str> = words[..end].iter().map(String::as_str).collect();
        if words.contains(&"--forever") {
            assert_eq!(bench.run(&["fleet", "add", "shards", "s0"]).code, 0);
            let mut command =
                bench.tenure(&[&words[..], &["--", "sh", "-c", "echo $$ > pid; exec sleep 600"]].concat());
            let mut process: Process =
                command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap().into();
            bench.await_number("pid");
            process.signal(Signal::SIGTERM);
            assert_eq!(process.wait(), 143, "{}", path.display());
        } else {
            let ran = bench.run(&[&words[..], &["--", "touch", "ran"]].concat());
            assert!(ran.code == 0 && bench.path("ran").exists(), "{}: {ran:?}", path.display());
        }
    }
}
