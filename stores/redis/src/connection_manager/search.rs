//! To whom a connection is made: who has the namespace goes first.

use super::{ConnectionManager, locked};
use crate::attempts::{HEAD_START, Rank, first_by};
use crate::config::ServerAddress;
use crate::connect::{RedisConnector, ServerConnection, info_field};
use crate::error::is_said;
use futures_util::future::join_all;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tenure_core::StoreError;
use tokio::time::sleep;

/// How long to wait before another server is looked for again: at first, and at most while no call is answered.
const SEARCH_AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(3));

/// In which order servers are tried.
fn ranks<'a>(
    named: &'a [ServerAddress],
    owner: Option<&'a ServerAddress>,
    timeout: Duration,
) -> [Rank<&'a ServerAddress>; 2] {
    let others = named.iter().filter(|server| owner != Some(*server));
    [
        Rank { members: owner.into_iter().collect(), patience: HEAD_START.min(timeout / 4) },
        Rank { members: others.collect(), patience: Duration::MAX },
    ]
}

/// A connection to the first server that answers and can be used: to the owner, if that is known and answers soon.
pub(super) async fn first_of(
    connector: &RedisConnector,
    owner: Option<&ServerAddress>,
) -> Result<ServerConnection, StoreError> {
    first_server(connector, ranks(&connector.config.hosts, owner, connector.config.timeout)).await
}

/// The same of those who are named, but for this one.
pub(super) async fn first_other(
    connector: &RedisConnector,
    than: &ServerAddress,
) -> Result<ServerConnection, StoreError> {
    let others = connector.config.hosts.iter().filter(|server| *server != than);
    first_server(connector, [Rank { members: others.collect(), patience: Duration::MAX }]).await
}

/// What a server says of its refusal is told rather than that others can't be reached.
async fn first_server<const N: usize>(
    connector: &RedisConnector,
    ranks: [Rank<&ServerAddress>; N],
) -> Result<ServerConnection, StoreError> {
    let found = first_by(ranks, connector.config.timeout, is_said, |server| connector.connect(server)).await;
    // A URL names one server at least.
    found.map_err(|failure| failure.unwrap_or_else(|| StoreError::unavailable("no Redis server is named")))
}

/// How long to wait before another server is looked for again, after so many searches since a call was answered.
fn pause_after(searches: u32) -> Duration {
    SEARCH_AGAIN.0.saturating_mul(1 << searches.min(8)).min(SEARCH_AGAIN.1)
}

impl ConnectionManager {
    /// A server does not do what another one may do. If others are named, calls go to the first of them that can be used. Until one is found this one goes
    /// on answering what it does: reads, say, and all once its trouble is over. While nobody answers calls, as in a cluster whose owner can't be reached, the
    /// next one does no better, and is looked for ever more seldom.
    pub(super) fn look_elsewhere(&self, connection: &Arc<ServerConnection>) {
        let is_alone = self.connector.config.hosts.iter().all(|host| *host == connection.address);
        let mut state = self.lock();
        let is_looked_for = state.search.as_ref().is_some_and(|search| !search.is_finished());
        let is_present = state.connection.as_ref().is_some_and(|present| Arc::ptr_eq(present, connection));
        if is_alone || is_looked_for || !is_present {
            return;
        }
        let pause = pause_after(self.searches.fetch_add(1, Ordering::Relaxed));
        let (connector, shared, left) =
            (self.connector.clone(), Arc::clone(&self.state), Arc::clone(connection));
        state.search = Some(tokio::spawn(async move {
            if let Ok(found) = first_other(&connector, &left.address).await {
                let mut state = locked(&shared);
                if state.connection.as_ref().is_some_and(|present| Arc::ptr_eq(present, &left)) {
                    (state.connection, state.owner) = (Some(Arc::new(found)), None);
                    left.give_up();
                }
            }
            // Neither the connection that was left nor a store that is dropped is kept for as long.
            drop((connector, shared, left));
            sleep(pause).await;
        }));
    }

    /// The named servers that are primaries, of no cluster. One that has several names is there once.
    pub(crate) async fn primaries(&self) -> Vec<ServerAddress> {
        let named = &self.connector.config.hosts;
        let runs = join_all(named.iter().map(|server| self.run_of_primary(server))).await;
        let mut seen = BTreeSet::new();
        let named = named.iter().zip(runs);
        named.filter_map(|(server, run)| seen.insert(run?).then(|| server.clone())).collect()
    }

    /// What only this run of a primary calls itself; its address where that is not told.
    async fn run_of_primary(&self, server: &ServerAddress) -> Option<String> {
        let connection =
            Arc::new(self.connector.connect(server).await.ok().filter(|connection| !connection.is_cluster)?);
        let info = self.ask_on::<String>(&connection, redis::cmd("INFO").arg("server")).await;
        info.ok().and_then(|info| info_field(&info, "run_id")).or_else(|| Some(server.to_string()))
    }
}

#[cfg(test)]
mod tests {
    //! Plan: the order in which servers are tried, whoever is known of them, and how long each waits for those before.
    use super::*;

    #[test]
    fn who_has_the_namespace_is_tried_first() {
        let [a, b, c] = ["a", "b", "c"].map(|name| ServerAddress::parse(name).unwrap());
        let named = [a.clone(), b.clone()];
        let timeout = Duration::from_secs(4);
        for (owner, order) in [
            (None, [vec![], vec![&a, &b]]),
            (Some(&c), [vec![&c], vec![&a, &b]]),
            (Some(&a), [vec![&a], vec![&b]]),
        ] {
            let found = ranks(&named, owner, timeout);
            assert_eq!(found.map(|rank| rank.members), order, "{owner:?}");
        }
        let patience = |timeout| ranks(&named, None, timeout).map(|rank| rank.patience);
        assert_eq!(patience(timeout), [HEAD_START, Duration::MAX]);
        assert_eq!(patience(Duration::from_millis(100))[0], Duration::from_millis(25));
    }
}
