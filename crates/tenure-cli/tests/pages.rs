//! The pages on dialects, followed literally on DynamoDB Local.
//!
//! Plan: every command of a page is run in its order, as it stands there but for the endpoint and the tables' names. Those that work
//! for ever run in the background; all others end with success, and what a page promises of them is there afterwards.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{Bench, Process, Ran, service, wait_until};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Command, Stdio};

struct Reader {
    bench: Bench,
    working: Vec<Process>,
}

/// The commands of that peer's page, one a line.
fn commands(peer: &str) -> Vec<String> {
    let path = format!("{}/../../peers/{peer}/docs/{peer}.md", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).unwrap();
    let mut inside = false;
    let lines = text.lines().map(str::trim).filter(|line| {
        if line.starts_with("```") {
            inside = *line == "```sh";
            return false;
        }
        inside
    });
    lines.map(str::to_owned).collect()
}

impl Reader {
    fn new() -> Reader {
        let bench = Bench::new();
        for (name, script) in
            [("consume.sh", "echo $1 >> consumed; exec sleep 600"), ("report.sh", "echo done >> reports")]
        {
            bench.write(name, format!("#!/bin/sh\n{script}\n"));
            std::fs::set_permissions(bench.path(name), std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        symlink(env!("CARGO_BIN_EXE_tenure"), bench.path("tenure")).unwrap();
        Reader { bench, working: Vec::new() }
    }

    fn follow(&mut self, command: &str) {
        let endpoint = service::endpoint();
        let mut here = command
            .replace("region=eu-west-1", &format!("region=eu-west-1&endpoint={endpoint}&timeout_ms=20000"));
        for table in ["my-consumers", "tenure-leases", "app-table"] {
            here = here.replace(&format!("//{table}?"), &format!("//{table}-{}?", std::process::id()));
        }
        if command.starts_with("tenure fleet adopt") {
            // No KCL's leader runs here, for which it would watch for minutes.
            here.push_str(" --watch 1s");
        }
        let mut shell = Command::new("sh");
        self.bench.settle(&mut shell);
        let path = format!("{}:{}", self.bench.path("").display(), std::env::var("PATH").unwrap());
        shell.env("PATH", path).stdin(Stdio::null());
        if command.starts_with("tenure work") {
            shell.args(["-c", &format!("exec {here}")]).stdout(Stdio::null()).stderr(Stdio::null());
            self.working.push(shell.spawn().unwrap().into());
            return;
        }
        let ran = Ran::of(shell.args(["-c", &here]).output().unwrap());
        assert!(ran.code == 0, "{command}: {ran:?}");
    }
}

#[test]
fn the_page_on_the_kcl_s_tables_works_as_it_stands_there() {
    let commands = commands("kcl");
    assert!(commands.len() == 8 && commands.iter().all(|line| line.starts_with("tenure ")), "{commands:?}");
    let mut reader = Reader::new();
    let consumed = |reader: &Reader, unit: &str| {
        reader.bench.read("consumed").lines().filter(|line| *line == unit).count()
    };
    for command in &commands {
        reader.follow(command);
        if command.starts_with("tenure work") && reader.working.len() == 1 {
            wait_until("both to be worked on", || {
                ["shard-1", "shard-2"].iter().all(|unit| consumed(&reader, unit) == 1)
            });
        }
    }
    wait_until("both to go on in the native fleet", || {
        ["shard-1", "shard-2"].iter().all(|unit| consumed(&reader, unit) == 2)
    });
}

#[test]
fn the_page_on_tabletheory_s_tables_works_as_it_stands_there() {
    let commands = commands("tabletheory");
    assert!(commands.len() == 5 && commands.iter().all(|line| line.starts_with("tenure ")), "{commands:?}");
    let mut reader = Reader::new();
    for command in &commands {
        reader.follow(command);
    }
    assert_eq!(reader.bench.read("reports").lines().count(), 3, "each run has run it");
}
