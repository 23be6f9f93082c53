//! Workers of a job named `j`, and of a fleet named `f`, whose commands tick.

use super::Bench;
use super::process::Process;
use super::waiting::{wait_for, wait_until};
use std::process::Stdio;

/// `work` on the job, of which no unit is tried again.
pub fn work<'a>(more: &[&'a str], command: &[&'a str]) -> Vec<&'a str> {
    [&["work", "--name", "j", "--retries", "0"], more, &["--"], command].concat()
}

/// Ticks into `ticks.UNIT` what fence it runs under and when, until it is killed; and is deaf to TERM, as are its children.
pub const TICKS: &str =
    "trap '' TERM; while :; do echo \"$TENURE_FENCE $(date +%s%3N)\" >> ticks.{}; sleep 0.02; done";
/// The same, but it ends when it is told to, and says so.
pub const OBEYS: &str = "trap 'echo {} >> told; exit' TERM; \
     while :; do echo \"$TENURE_FENCE $(date +%s%3N)\" >> ticks.{}; sleep 0.02; done";

/// The fleet.
impl Bench {
    /// A worker of it, with a short ttl, but not so short that it is lost when the machine stands still for two seconds.
    pub fn worker(&self, more: &[&str], script: &str) -> Process {
        self.worker_with("6s", more, script)
    }

    /// A worker with this ttl. What it says is added to the file `notes`.
    pub fn worker_with(&self, ttl: &str, more: &[&str], script: &str) -> Process {
        let base = ["work", "--forever", "--name", "f", "--ttl", ttl, "--grace", "1s", "--backoff", "50ms"];
        let mut command = self.tenure(&[&base, more, &["--", "sh", "-c", script]].concat());
        let notes = std::fs::OpenOptions::new().create(true).append(true).open(self.path("notes")).unwrap();
        Process::from(command.stdout(Stdio::null()).stderr(notes).spawn().unwrap())
    }

    /// Its units, as `fleet units` tells them.
    pub fn units(&self) -> Vec<serde_json::Value> {
        self.listed("units")
    }

    /// Its workers, as `fleet workers` tells them.
    pub fn workers(&self) -> Vec<serde_json::Value> {
        self.listed("workers")
    }

    fn listed(&self, what: &str) -> Vec<serde_json::Value> {
        let ran = self.run(&["fleet", what, "f", "--json"]);
        if ran.code != 0 {
            // There is no store, or no fleet yet.
            return Vec::new();
        }
        ran.json()[what].as_array().unwrap().clone()
    }

    pub fn unit(&self, name: &str) -> serde_json::Value {
        let found = self.units().into_iter().find(|unit| unit["unit"] == name);
        found.unwrap_or_else(|| panic!("no unit {name}"))
    }

    /// The name of the worker that is this process, once it has joined.
    pub fn name_of(&self, process: &Process) -> String {
        wait_for("the worker to join", || {
            let found = self.workers().into_iter().find(|worker| worker["fields"]["pid"] == process.id());
            Some(found?["worker"].as_str().unwrap().to_owned())
        })
    }

    /// Waits until each of these has so many units, and no other worker lives.
    pub fn await_shares(&self, shares: &[(&Process, u64)]) {
        wait_until("the shares", || {
            let live: Vec<_> =
                self.workers().into_iter().filter(|worker| worker["state"] == "live").collect();
            live.len() == shares.len()
                && shares.iter().all(|(process, share)| {
                    let is_so = |worker: &&serde_json::Value| {
                        worker["fields"]["pid"] == process.id() && worker["held"] == *share
                    };
                    live.iter().any(|worker| is_so(&worker))
                })
        });
    }

    /// Fence and time of each tick of a unit, in the order in which they were written.
    pub fn ticks(&self, unit: &str) -> Vec<(u64, i64)> {
        let text = self.read(&format!("ticks.{unit}"));
        let tick = |line: &str| {
            let (fence, at) = line.split_once(' ')?;
            Some((fence.parse().ok()?, at.parse().ok()?))
        };
        // The last line may be on its way yet.
        text.split_inclusive('\n').filter_map(|line| tick(line.strip_suffix('\n')?)).collect()
    }

    /// Fails if a unit's command ever ran while an older one did.
    pub fn no_overlaps(&self, units: &[&str]) {
        for unit in units {
            let ticks = self.ticks(unit);
            assert!(ticks.is_sorted_by_key(|(fence, _)| *fence), "{unit} ran twice at a time: {ticks:?}");
        }
    }

    /// Waits for a tick of the unit under a higher fence than this, and returns when it was.
    pub fn await_tick(&self, unit: &str, above: u64) -> (u64, i64) {
        wait_for("a tick", || self.ticks(unit).into_iter().find(|(fence, _)| *fence > above))
    }
}
