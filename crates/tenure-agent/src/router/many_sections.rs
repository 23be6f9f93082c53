//! An agent whose clients use more sections than it keeps, on a store that tells no ages.
//!
//! Plan: a dead holder's range is had by who only tries, again and again, though the agent's clients have used very many other sections before.

use super::tests::RouterFixture;
use serde_json::json;
use std::time::Duration;
use tenure::range::{KeyRange, Section};
use tenure::store::{Capabilities, Expiry, Freshness, Listed, Outcome, Stored, Write};
use tenure::{AnyStore, Key, Store, StoreError};
use tenure_store::MemoryStore;

/// A store that tells nobody how old a record is.
#[derive(Clone)]
struct AgelessStore(MemoryStore);

fn untimed(stored: Stored) -> Stored {
    stored.timed(None)
}

fn all_untimed(mut listed: Vec<Listed>) -> Vec<Listed> {
    for one in &mut listed {
        if let Ok(stored) = &mut one.stored {
            stored.times = None;
        }
    }
    listed
}

impl Store for AgelessStore {
    tenure_store::pass_on!(0: id, write_many, remove, image, mend, changed);

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = self.0.capabilities();
        capabilities.expiry = Expiry::ObservedSilence;
        capabilities
    }
    async fn read(&self, key: &Key) -> Result<Option<Stored>, StoreError> {
        Ok(self.0.read(key).await?.map(untimed))
    }
    async fn read_many(&self, keys: &[Key], freshness: Freshness) -> Result<Vec<Listed>, StoreError> {
        Ok(all_untimed(self.0.read_many(keys, freshness).await?))
    }
    async fn write(&self, write: Write) -> Result<Outcome, StoreError> {
        Ok(match self.0.write(write).await? {
            Outcome::Lost(standing) => Outcome::Lost(standing.map(untimed)),
            won => won,
        })
    }
    async fn list(&self, prefix: &str, after: Option<&Key>, limit: usize) -> Result<Vec<Listed>, StoreError> {
        Ok(all_untimed(self.0.list(prefix, after, limit).await?))
    }
}

#[test]
fn l1_a_dead_range_is_had_by_who_only_tries_though_many_sections_were_used_before() {
    const FOR: Duration = Duration::from_millis(1500);
    let store = AnyStore::new(AgelessStore(MemoryStore::new("m", tenure::clock::system())));
    let served = RouterFixture::on(store.clone());
    let attempt = |section: &str| {
        let wish = json!({"range": "0_80", "for_ms": 60_000}).to_string().into_bytes();
        served.ask("POST", &format!("/v1/sections/{section}/leases"), wish).0
    };
    for n in 0..300 {
        assert_eq!(attempt(&format!("job-{n}")), 201);
    }
    served.runtime.block_on(async {
        let other = Section::builder(store, "last").start().unwrap();
        let range: KeyRange = "0_80".parse().unwrap();
        let guard = other.lock(range, FOR).all().try_acquire().await.unwrap();
        assert!(guard.is_held());
        // As of a process that ends.
        guard.lapse().await;
    });
    let mut tries = 0;
    while attempt("last") != 201 {
        tries += 1;
        assert!(tries < 300, "it is held for ever");
        served.runtime.block_on(async { tokio::time::sleep(Duration::from_millis(50)).await });
    }
    assert!(tries > 0, "its time was over before");
}
