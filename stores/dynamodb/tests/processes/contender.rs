//! A contender in a process of its own: this test program again, told by an environment variable what to do.

use crate::clocks::Wrong;
use std::io::Write as _;
use std::process::Command;
use std::time::Duration;
use tenure::{AnyStore, Leases};
use tenure_dynamodb::aws_sdk_dynamodb::Client;
use tenure_dynamodb::{DynamoConfig, DynamoStore};
use tenure_dynamodb_testkit::{Party, REGION, client, monotonic};

const ROLE: &str = "TENURE_PROCESSES_ROLE";
/// The test within which a contender lives.
pub(crate) const HOST: &str = "holders_are_stopped";
pub(crate) const KEY: &str = "prize";
/// How long a contender leaves the key to the others, who look more often than that.
const REST: Duration = Duration::from_millis(200);

/// Where contenders meet.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) endpoint: String,
    pub(crate) table: String,
    pub(crate) namespace: String,
    pub(crate) ttl: Duration,
}

/// Starts one whose clock is that (see [`Wrong::parse`]).
pub(crate) fn start(id: &str, clock: &str, place: &Place) -> Party {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", HOST, "--nocapture", "--test-threads=1"]);
    let Place { endpoint, table, namespace, ttl } = place;
    command.env(ROLE, format!("{id} {clock} {endpoint} {table} {namespace} {}", ttl.as_millis()));
    Party::start(id, &mut command)
}

/// Contends, if this process was started for that, until it is told to stop; false if it was not.
pub(crate) async fn contended() -> bool {
    let Ok(role) = std::env::var(ROLE) else { return false };
    let words: Vec<&str> = role.split(' ').collect();
    let [id, clock, endpoint, table, namespace, ttl] = words[..] else { unreachable!("{ROLE} is {role:?}") };
    let clock = Wrong::parse(clock);
    let client = Client::from_conf(client(endpoint).build());
    assert_eq!(client.config().region().map(|region| region.as_ref()), Some(REGION));
    let config = DynamoConfig::new(table).namespace(namespace);
    let store = DynamoStore::with_client(&client, config, clock.clone()).await.unwrap();
    let ttl = Duration::from_millis(ttl.parse().unwrap());
    let leases = Leases::builder(AnyStore::new(store)).clock(clock).session_ttl(ttl).poll(REST / 2);
    let leases = leases.start().unwrap();
    say(&format!("ready {}", monotonic()));
    let told_to_stop = tokio::task::spawn_blocking(|| {
        // The end of the input means that whoever started this is gone.
        std::io::stdin().lines().map_while(Result::ok).find(|line| line == "stop");
    });
    tokio::select! {
        _ = told_to_stop => leases.stop().await,
        () = contend(id, &leases, ttl) => {}
    }
    true
}

/// Takes the key over and over, mostly for a moment, sometimes for longer than a ttl; says when it began to believe in it, and
/// when it still did the last time that it asked itself.
async fn contend(id: &str, leases: &Leases, ttl: Duration) {
    for turn in 0_u32.. {
        let lock = leases.lock(KEY);
        // Now with a heartbeat of its own, now on the session.
        let lock = if turn % 2 == 0 { lock.ttl(ttl) } else { lock };
        let Ok(guard) = lock.acquire_within(ttl * 4).await else { continue };
        let from = monotonic();
        if guard.is_held() {
            say(&format!("taken {id} {KEY} {} {from}", guard.fence().0));
            let mut belief = Belief { id, last: from };
            let span = if turn % 4 < 2 { ttl * 5 / 4 } else { ttl / 8 };
            while Duration::from_nanos(belief.last - from) < span {
                let asked = monotonic();
                if !guard.is_held() {
                    break;
                }
                belief.last = asked;
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
        guard.release().await;
        tokio::time::sleep(REST).await;
    }
}

/// Says that it is over with this value, also when the process is told to stop, which gives the lease up some time before it ends.
struct Belief<'a> {
    id: &'a str,
    last: u64,
}

impl Drop for Belief<'_> {
    fn drop(&mut self) {
        say(&format!("lost {} {KEY} {}", self.id, self.last));
    }
}

fn say(line: &str) {
    // In one piece, so that a kill leaves a whole line or nothing.
    std::io::stdout().write_all(format!("{line}\n").as_bytes()).unwrap();
    std::io::stdout().flush().unwrap();
}
