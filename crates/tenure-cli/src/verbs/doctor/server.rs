//! What a store's server says of itself, and how far its clock is from this host's.

use super::findings::{Findings, Grade};
use crate::stores::Url;
use crate::text::brief;
use std::time::Duration;
use tenure::store::{Bearing, Inspection, ServerClock};
use tenure::{Leases, Wall};

pub(super) async fn check(url: &Url, leases: &Leases, findings: &mut Findings) {
    let before = leases.clock().now().wall;
    let inspected = match inspect(url, leases).await {
        Ok(inspected) => inspected,
        Err(error) => {
            return findings.add(Grade::Note, "server", format!("it says nothing of itself: {error}"));
        }
    };
    let after = leases.clock().now().wall;
    add(url, inspected, before, after, findings);
}

/// Of a store that was never used, and that can't be opened without its being begun: whether it is one, and what its server says then.
#[cfg(feature = "redis")]
pub(super) async fn unused(
    url: &Url,
    clock: &dyn tenure::Clock,
    findings: &mut Findings,
) -> Result<bool, tenure::StoreError> {
    use tenure::redis::{RedisConfig, RedisStore};
    let Url::Service(text) = url else { return Ok(false) };
    if !text.starts_with("redis:") && !text.starts_with("rediss:") {
        return Ok(false);
    }
    let before = clock.now().wall;
    let Some(inspected) = RedisStore::inspect_unused(RedisConfig::from_url(text)?.push(false)).await? else {
        return Ok(false);
    };
    let after = clock.now().wall;
    findings.add(
        Grade::Note,
        "namespace",
        "it was never used: leases begin it, and `doctor --create-table` does, which tries a write, too; if it should have been used, check its name and \
         the database",
    );
    add(url, inspected, before, after, findings);
    Ok(true)
}

fn add(url: &Url, inspected: Inspection, before: Wall, after: Wall, findings: &mut Findings) {
    for fact in inspected.facts {
        let grade = match fact.bearing {
            Bearing::Fine => Grade::Ok,
            Bearing::Note => Grade::Note,
            _ => Grade::Warn,
        };
        findings.add(grade, fact.about, fact.text);
    }
    let text = match (inspected.clock, url) {
        (Some(clock), _) => offset(before, after, clock),
        (None, Url::Service(_)) => "the server tells no time".to_owned(),
        (None, _) => return,
    };
    findings.add(Grade::Ok, "clock offset", format!("{text}; nothing depends on it"));
}

/// Asks the store by a connection of its own.
#[cfg_attr(not(feature = "dynamodb"), allow(unused_variables, reason = "no other store needs the clock"))]
#[allow(clippy::match_single_binding, reason = "without services there is nothing to choose from")]
async fn inspect(url: &Url, leases: &Leases) -> Result<Inspection, tenure::StoreError> {
    let url = match url {
        Url::Memory => return Ok(Inspection::default()),
        Url::Sqlite(path) | Url::Default(path) => {
            let config = tenure::sqlite::SqliteConfig::new(path).create(false).look(true);
            let opened = tokio::task::spawn_blocking(|| tenure::sqlite::SqliteStore::open(config)).await;
            let ended = |error| tenure::StoreError::unavailable(format!("the store's code failed: {error}"));
            return Ok(opened.map_err(ended)??.inspect().await);
        }
        Url::Service(url) => url,
    };
    match url.split_once(':') {
        #[cfg(feature = "dynamodb")]
        Some(("dynamodb", rest)) => {
            use tenure::dynamodb::{DynamoConfig, DynamoStore};
            let store =
                DynamoStore::open(DynamoConfig::from_url(rest)?, std::sync::Arc::clone(leases.clock()))
                    .await?;
            Ok(store.inspect().await)
        }
        #[cfg(feature = "etcd")]
        Some(("etcd" | "etcds", _)) => {
            use tenure::etcd::{EtcdConfig, EtcdStore};
            Ok(EtcdStore::open(EtcdConfig::from_url(url)?).await?.inspect().await)
        }
        #[cfg(feature = "postgres")]
        Some(("postgres" | "postgresql", rest)) => {
            use tenure::postgres::{PostgresConfig, PostgresStore};
            Ok(PostgresStore::open(PostgresConfig::from_url(rest)?).await?.inspect().await)
        }
        #[cfg(feature = "redis")]
        Some(("redis" | "rediss", _)) => {
            use tenure::redis::{RedisConfig, RedisStore};
            let config = RedisConfig::from_url(url)?.push(false).create(false);
            Ok(RedisStore::open(config).await?.inspect().await)
        }
        _ => Ok(Inspection::default()),
    }
}

/// How far a server's clock is from this host's, of which it was asked between two readings.
fn offset(before: Wall, after: Wall, server: ServerClock) -> String {
    let latest =
        Wall(server.wall.0.saturating_add(u64::try_from(server.resolution.as_millis()).unwrap_or(0)));
    // At the least, and at the most.
    let ahead = (server.wall.since(after), latest.since(before));
    let behind = (before.since(latest), after.since(server.wall));
    match (ahead.0 > Duration::ZERO, behind.0 > Duration::ZERO) {
        (true, _) => format!("the server's is {} to {} ahead of this host's", brief(ahead.0), brief(ahead.1)),
        (_, true) => format!("the server's is {} to {} behind this host's", brief(behind.0), brief(behind.1)),
        _ => {
            format!("none that shows: the server's is within {} of this host's", brief(ahead.1.max(behind.1)))
        }
    }
}

#[cfg(test)]
mod tests {
    //! Plan: an offset is told as a range that holds the truth, whichever side it is on, and only where it shows.
    use super::*;

    #[test]
    fn an_offset_is_told_as_a_range() {
        let told = |server: u64, resolution| {
            let clock = ServerClock::new(Wall(server), Duration::from_millis(resolution));
            offset(Wall(10_000), Wall(10_020), clock)
        };
        assert!(told(10_010, 1).starts_with("none that shows: the server's is within 11ms"));
        assert!(
            told(15_000, 1).contains("4980ms to 5001ms ahead") || told(15_000, 1).contains("5s to 5s ahead")
        );
        assert!(told(7_000, 1000).contains("2s to 3s behind"), "{}", told(7_000, 1000));
        assert!(told(9_500, 1000).starts_with("none that shows"), "{}", told(9_500, 1000));
    }
}
