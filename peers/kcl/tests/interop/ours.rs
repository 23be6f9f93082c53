//! A worker of ours in a process of its own: this test program again, told by an environment variable what to do.

use crate::Terms;
use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use tenure_dynamodb::DynamoConfig;
use tenure_dynamodb_testkit::{Party, REGION, endpoint, monotonic};
use tenure_kcl::{Coordinator, Event, Format, Options, Table};
use tenure_testkit::RealClock;

const ROLE: &str = "TENURE_INTEROP_ROLE";

/// Starts one, within the test of this name.
pub(crate) fn start(test: &str, id: &str, terms: &Terms) -> Party {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    let failover = terms.failover.as_millis();
    command.env(ROLE, format!("{} {id} {failover} {}", terms.table, terms.steals));
    Party::start(id, &mut command)
}

/// Works, if this process was started for that, until it is told to stop; false if it was not.
pub(crate) async fn worked() -> bool {
    let Ok(role) = std::env::var(ROLE) else { return false };
    let words: Vec<&str> = role.split(' ').collect();
    let [table, id, failover, steals] = words.as_slice() else { panic!("{ROLE} is {role:?}") };
    let config = DynamoConfig::new(*table).region(REGION).endpoint(endpoint());
    let table = Table::open(config, Format::kcl(), Arc::new(RealClock::new())).await.unwrap();
    let options = Options::new(*id)
        .failover(Duration::from_millis(failover.parse().unwrap()))
        .leases_to_steal(steals.parse().unwrap());
    let (coordinator, mut events) = Coordinator::start(&table, options).unwrap();
    say(&format!("ready {}", monotonic()));
    let mut told = BTreeSet::new();
    let mut told_to_stop = tokio::task::spawn_blocking(|| {
        // The end of the input means that whoever started this is gone.
        std::io::stdin().lines().map_while(Result::ok).find(|line| line == "stop");
    });
    let mut stopping = false;
    loop {
        tokio::select! {
            event = events.next() => match event {
                None => return true,
                Some(Event::Taken(lease)) => {
                    assert!(told.insert(lease.key().to_owned()), "taken twice: {lease:?}");
                    say(&format!("taken {id} {} {} {}", lease.key(), lease.counter_at_take(), monotonic()));
                }
                Some(Event::Lost { lease, .. }) => {
                    assert!(told.remove(lease.key()), "lost but never taken: {lease:?}");
                    say(&format!("lost {id} {} {}", lease.key(), monotonic()));
                }
                Some(other) => eprintln!("{id}: {other:?}"),
            },
            _ = &mut told_to_stop, if !stopping => {
                stopping = true;
                coordinator.stop().await;
            }
        }
    }
}

fn say(line: &str) {
    // In one piece, so that a kill leaves a whole line or nothing.
    std::io::stdout().write_all(format!("{line}\n").as_bytes()).unwrap();
    std::io::stdout().flush().unwrap();
}
