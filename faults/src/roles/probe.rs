//! An onlooker on a machine that nothing happens to: it makes what has to be there, takes and gives up leases whose release must
//! not be forgotten, and looks at records.

use super::{leases, open, orders, say};
use std::time::Duration;
use tenure::{Key, Metadata, Store as _, Value};

/// No call takes longer, so that a store which is down costs little time.
const LIMIT: Duration = Duration::from_millis(800);

pub(super) async fn run(words: &[&str]) -> Result<(), String> {
    let [url] = words else { return Err("probe URL".into()) };
    let mut lines = orders();
    // The server may still be starting. Whoever started us ends us when that takes too long.
    let store = loop {
        match tokio::time::timeout(8 * LIMIT, open(url, !url.starts_with("sqlite"))).await {
            Ok(Ok(store)) => break store,
            Ok(Err(error)) => say(&format!("trouble {}", error.replace('\n', " "))),
            Err(_) => say("trouble no answer"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    let leases = leases(store, Duration::from_secs(10))?;
    say("ready");
    while let Some(line) = lines.recv().await {
        let (order, key) = line.split_once(' ').unwrap_or((&line, ""));
        let answer = match order {
            "mark" => mark(&leases, key).await,
            "look" => look(&leases, key).await,
            "fill" => fill(&leases, key).await,
            _ => Err("mark KEY, look KEY, fill PREFIX".into()),
        };
        say(&answer.unwrap_or_else(|error| format!("trouble {}", error.replace('\n', " "))));
    }
    Ok(())
}

/// A tenure whose release the store has confirmed.
async fn mark(leases: &tenure::Leases, key: &str) -> Result<String, String> {
    let lock = leases.lock(key).ttl(Duration::from_secs(10));
    let guard = lock.acquire_within(LIMIT).await.map_err(|error| error.to_string())?;
    let fence = guard.fence();
    match tokio::time::timeout(LIMIT, guard.release()).await {
        Ok(true) => Ok(format!("released {}", fence.0)),
        Ok(false) => Err("lost before it was released".into()),
        Err(_) => Err("the release is not answered".into()),
    }
}

/// Writes records of some size until the store has no room for another.
async fn fill(leases: &tenure::Leases, prefix: &str) -> Result<String, String> {
    /// More than any file has reserved.
    const MOST: u64 = 1500;
    for n in 0..MOST {
        let size = Metadata::from([("size".to_owned(), Value::Text("x".repeat(3500)))]);
        let lock = leases.lock(format!("{prefix}/{n}")).ttl(Duration::from_secs(10)).metadata(size);
        let Ok(guard) = lock.acquire_within(LIMIT).await else { return Ok(format!("filled {n}")) };
        // Not waited for: its record has its size either way.
        drop(guard);
    }
    Ok(format!("filled {MOST}"))
}

/// What the record shows. Nobody holds what is attached to a session that has ended, as it has where a failover forgot its renewals while a
/// claim was on its way: whoever comes next takes it at once.
async fn look(leases: &tenure::Leases, key: &str) -> Result<String, String> {
    let key = Key::new(key).map_err(|error| error.to_string())?;
    let both = async {
        let held = leases.peek(&key).await?.is_some();
        Ok::<_, tenure::StoreError>((held, leases.store().read(&key).await?))
    };
    let seen = tokio::time::timeout(LIMIT, both).await.map_err(|_| "no answer")?;
    Ok(match seen.map_err(|error| error.to_string())? {
        (_, None) => "nothing 0".to_owned(),
        (true, Some(stored)) => format!("held {}", stored.record.fence.0),
        (false, Some(stored)) => format!("vacant {}", stored.record.fence.0),
    })
}
