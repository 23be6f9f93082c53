//! The command line on a store behind a service, and what holds there whichever store it is.

use super::{Bench, Process, Ran};
use std::io::Write as _;
use std::process::{Command, Stdio};

/// What `cargo xtask services up` says of a server.
pub fn told(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| {
        panic!("{variable} does not say where the server listens: `cargo xtask services up` starts it and prints that")
    })
}

/// A set of records of a test's own, and a directory to run commands in.
pub struct Remote {
    pub bench: Bench,
    pub url: String,
}

impl Remote {
    /// The store of this URL.
    pub fn at(url: String) -> Remote {
        Remote { bench: Bench::new(), url }
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.bench.tenure(arguments);
        command.env("TENURE_STORE", &self.url);
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.command(arguments).output().unwrap())
    }

    /// Runs it in the background. What it prints is lost.
    pub fn start(&self, arguments: &[&str]) -> Process {
        self.command(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap().into()
    }

    /// Makes the tables that the store needs.
    pub fn make(&self) {
        let ran = self.run(&["doctor", "--create-table", "--json"]);
        assert_eq!(ran.code, 0, "{ran:?}");
    }

    /// A command gets a fence that grows and passes its status on; its lease is seen as held, by itself and by another; the record
    /// stays when it has ended.
    pub fn runs_commands_under_a_lease(&self) {
        let fence = |ran: &Ran| ran.out.trim().parse::<u64>().unwrap_or_else(|_| panic!("{ran:?}"));
        let first = self.run(&["run", "k", "--", "sh", "-c", "echo $TENURE_FENCE"]);
        let second = self.run(&["run", "k", "--", "sh", "-c", "echo $TENURE_FENCE; exit 7"]);
        assert_eq!((first.code, second.code), (0, 7), "{first:?} {second:?}");
        assert!(fence(&second) > fence(&first));
        let looking = format!("{} show k --json", env!("CARGO_BIN_EXE_tenure"));
        let held = self.run(&["run", "k", "--", "sh", "-c", &looking]);
        assert_eq!(held.json()["state"], "held", "{held:?}");
        assert_eq!(self.run(&["show", "k", "--json"]).json()["state"], "vacant");
        let tried = format!("{} run k --try -- true; echo $?", env!("CARGO_BIN_EXE_tenure"));
        let ran = self.run(&["run", "k", "--", "sh", "-c", &tried]);
        assert_eq!(ran.out, "75\n", "held by another: {ran:?}");
        let listing = self.run(&["ls", "--all", "--json"]).json();
        assert!(listing["leases"].as_array().unwrap().iter().any(|lease| lease["key"] == "k"), "{listing}");
    }

    /// Two processes that are given the same units run each of them once.
    pub fn shares_a_job(&self) {
        let start = || {
            let arguments = [
                "work",
                "--name",
                "j",
                "--parallel",
                "4",
                "--",
                "sh",
                "-c",
                "echo $1 >> done.txt",
                "x",
                "{}",
            ];
            let mut command = self.command(&arguments);
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = command.spawn().unwrap();
            let units: String = (0..40).map(|n| format!("u{n}\n")).collect();
            child.stdin.take().unwrap().write_all(units.as_bytes()).unwrap();
            child
        };
        for child in [start(), start()] {
            let ran = Ran::of(child.wait_with_output().unwrap());
            assert_eq!(ran.code, 0, "{ran:?}");
        }
        let text = std::fs::read_to_string(self.bench.path("done.txt")).unwrap();
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        lines.dedup();
        assert_eq!((text.lines().count(), lines.len()), (40, 40), "each unit was run once");
    }
}

/// A URL that is wrong is refused with what is said here, and its password, `hush`, is not repeated.
pub fn is_refused_without_secrets(url: &str, says: &str) {
    let ran = Remote::at(url.to_owned()).run(&["run", "k", "--", "true"]);
    assert!(ran.code != 0 && ran.err.contains(says) && !ran.err.contains("hush"), "{url}: {ran:?}");
}
