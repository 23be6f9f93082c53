//! The worker processes of one fleet, of either kind.

use crate::library::Table;
use crate::{WORKERS, units};
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tenure::fleet::Fleet;
use tenure_bench::dynamodb::unique;
use tenure_bench::stopwatch;
use tenure_bench::wire::Relay;

enum Leases {
    Library(Table),
    Ours { fleet: Fleet, namespace: String },
}

pub(crate) struct Crew {
    pub(crate) name: &'static str,
    /// Whether balance is a matter of seconds.
    pub(crate) is_quick: bool,
    pub(crate) relay: Relay,
    leases: Leases,
    total: usize,
    workers: Vec<(String, Child)>,
    started: usize,
}

impl Crew {
    /// The library's: its leases belong to its workers from the start, because spreading them would take it hours.
    pub(crate) async fn library(relay: Relay, total: usize) -> Crew {
        let owners: Vec<String> = (0..WORKERS).map(worker).collect();
        let leases = Leases::Library(Table::create(total, &owners).await);
        Crew { name: "KCL 3.5.1", is_quick: false, relay, leases, total, workers: Vec::new(), started: 0 }
    }

    pub(crate) async fn ours(relay: Relay, total: usize) -> Crew {
        let namespace = unique("kcl");
        let fleet = units::create(&namespace, total).await;
        let leases = Leases::Ours { fleet, namespace };
        Crew { name: "tenure", is_quick: true, relay, leases, total, workers: Vec::new(), started: 0 }
    }

    /// Starts one more worker and tells its name.
    pub(crate) fn start(&mut self) -> String {
        let id = worker(self.started);
        self.started += 1;
        let mut command = match &self.leases {
            Leases::Library(table) => table.worker(&self.relay.endpoint, &id),
            Leases::Ours { namespace, .. } => {
                let mut command = Command::new(std::env::current_exe().unwrap());
                command.args(["worker", &self.relay.endpoint, namespace, &id]);
                command
            }
        };
        // They end with their input, so none outlives this program.
        self.workers
            .push((id.clone(), command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()));
        id
    }

    /// Waits until those that were started last work.
    pub(crate) fn await_ready(&mut self, last: usize) {
        let first = self.workers.len() - last;
        for (id, process) in &mut self.workers[first..] {
            let mut line = String::new();
            BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
            assert!(line.starts_with("ready"), "{id} says {line:?}");
        }
    }

    /// Kills the worker that has been there the longest, and tells its name.
    pub(crate) fn kill(&mut self) -> String {
        let (id, mut process) = self.workers.remove(0);
        process.kill().unwrap();
        process.wait().unwrap();
        id
    }

    pub(crate) fn stop(&mut self) {
        while !self.workers.is_empty() {
            self.kill();
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.workers.len()
    }

    /// How many leases each has by the table.
    pub(crate) async fn owners(&self) -> BTreeMap<String, usize> {
        match &self.leases {
            Leases::Library(table) => table.owners().await,
            Leases::Ours { fleet, .. } => units::owners(fleet).await,
        }
    }

    /// How many leases no worker of these has.
    pub(crate) async fn idle(&self) -> usize {
        let owners = self.owners().await;
        self.total - self.workers.iter().filter_map(|(id, _)| owners.get(id)).sum::<usize>()
    }

    /// Waits until all workers, and nobody else, have as many as the others, and tells how long that took.
    pub(crate) async fn even(&self, limit: Duration) -> Option<Duration> {
        let clock = stopwatch();
        while clock() < limit {
            let asked = clock();
            let owners = self.owners().await;
            let took = clock() - asked;
            let (low, high) = (self.total / self.count(), self.total.div_ceil(self.count()));
            if owners.len() == self.count()
                && self.workers.iter().all(|(id, _)| owners.contains_key(id))
                && owners.values().all(|count| (low..=high).contains(count))
                && owners.values().sum::<usize>() == self.total
            {
                return Some(clock());
            }
            // Of the emulator's time, most is to be left to the workers.
            tokio::time::sleep((took * 4).max(Duration::from_millis(100))).await;
        }
        None
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.stop();
    }
}

fn worker(n: usize) -> String {
    format!("worker-{n}")
}
