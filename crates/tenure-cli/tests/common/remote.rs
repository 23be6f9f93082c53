//! A store for one test, on whichever server: a URL, and a directory to run commands in.

use super::{Bench, Process, Ran};
use std::process::{Command, Stdio};

pub struct Remote {
    pub bench: Bench,
    pub url: String,
}

/// What a variable says that `cargo xtask services` sets.
pub fn told(variable: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| {
        panic!("{variable} does not say where the server listens: `cargo xtask services up` starts it and prints that")
    })
}

/// The port in the URL of a server.
pub fn port_of(url: &str) -> u16 {
    url.rsplit(':').next().unwrap().split('/').next().unwrap().parse().unwrap()
}

/// Runs SQL on the tests' PostgreSQL, as its owner.
#[track_caller]
pub fn psql(sql: &str) {
    let ran = Command::new("psql").args([&told("TENURE_TEST_POSTGRES"), "-qc", sql]).output().unwrap();
    assert!(ran.status.success(), "{sql}: {}", String::from_utf8_lossy(&ran.stderr));
}

impl Remote {
    pub fn at(url: String) -> Remote {
        Remote { bench: Bench::new(), url }
    }

    /// The same, with what doctor alone makes: a table, or a schema.
    #[track_caller]
    pub fn made(url: String) -> Remote {
        let place = Remote::at(url);
        let ran = place.run(&["doctor", "--create-table", "--json"]);
        assert!(well(&ran), "{ran:?}");
        place
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.bench.tenure(arguments);
        command.env("TENURE_STORE", &self.url);
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.command(arguments).output().unwrap())
    }

    pub fn start(&self, arguments: &[&str]) -> Process {
        let mut command = self.command(arguments);
        Process::from(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

/// Whether doctor found nothing broken. What servers on one machine warn of is another matter: one member, no replica, no sync.
pub fn well(ran: &Ran) -> bool {
    ran.code == 0 || ran.code == 2
}
