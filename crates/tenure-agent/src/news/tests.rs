//! Plan: what others take, change, give up and remove is told, once, of a store that tells of nothing and of one that tells each key; renewals are no news;
//! very many at once come in parts; a store that fails for a while leaves nothing untold; tenures of others are kept with their ends, and one that can't be read has none; nobody looks when nobody
//! listens, nor where the store has no push.

use super::*;
use crate::config::Limits;
use crate::{Agent, history::PastTenure};
use serde_json::Value;
use tenure::store::Stored;
use tenure::store::{Capabilities, Expect, Nonce, Record, Tenure, Write};
use tenure::{AnyStore, Fence, HolderId, Metadata, Ttl, Wall};
use tenure_store::{Fault, FaultyStore, MemoryStore};
use tokio::sync::broadcast::Receiver;

/// A store that tells nothing, whether it says that it has a push or not.
#[derive(Clone)]
struct Mute(MemoryStore, bool);

impl Store for Mute {
    tenure_store::pass_on!(0: id, read, read_many, write, write_many, list, remove, image, mend);

    fn capabilities(&self) -> Capabilities {
        let Mute(store, says_it_tells) = self;
        if *says_it_tells { store.capabilities() } else { store.capabilities().without_watch() }
    }
    fn changed(&self, _: &str) -> Result<Changes, StoreError> {
        let (sender, changes) = tokio::sync::mpsc::channel(1);
        // It ends with its listener.
        tokio::spawn(async move { sender.closed().await });
        Ok(changes)
    }
}

struct NewsFixture {
    agent: Agent,
    store: AnyStore,
    lines: Receiver<Arc<str>>,
}

impl NewsFixture {
    /// Whoever listens has heard that all is watched.
    async fn watching(store: AnyStore) -> NewsFixture {
        let agent = Agent::new(Leases::new(store.clone()).unwrap(), Limits::default(), None);
        let lines = listen(&agent);
        let mut scene = NewsFixture { agent, store, lines };
        assert_eq!(scene.next().await["event"], "watching");
        scene
    }

    async fn next(&mut self) -> Value {
        let line = self.lines.recv().await.unwrap();
        let data = line.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
        serde_json::from_str(data).unwrap()
    }

    /// The next news of a key: its row, or nothing where its record is gone.
    async fn news_of(&mut self, key: &str) -> Option<Value> {
        loop {
            let event = self.next().await;
            assert_eq!(event["event"], "changed");
            let all = |name: &str| event[name].as_array().cloned().unwrap_or_default();
            if let Some(row) = all("leases").into_iter().find(|row| row["key"] == key) {
                return Some(row);
            }
            if all("gone").iter().any(|gone| gone == key) {
                return None;
            }
        }
    }

    fn past(&self, key: &str) -> Vec<PastTenure> {
        self.agent.shared.history.newest(Some(&Key::new(key).unwrap()), 10)
    }

    async fn write(&self, key: &str, nonce: u128, holder: Option<&str>) {
        let key = Key::new(key).unwrap();
        let before = self.store.read(&key).await.unwrap();
        let expect = before.as_ref().map_or(Expect::Absent, |stored| Expect::Unchanged(stored.version));
        let tenure = holder.map(|holder| {
            Tenure::new(
                Nonce(nonce),
                HolderId::new(holder).unwrap(),
                Ttl::new(Duration::from_secs(60)).unwrap(),
                Wall(5),
            )
        });
        let fence = Fence(u64::try_from(nonce).unwrap());
        let record = Record { fence, nonce: Nonce(nonce), stamp: Wall(5), tenure, metadata: Metadata::new() };
        self.store.write(Write { key, expect, record }).await.unwrap();
    }
}

fn listen(agent: &Agent) -> Receiver<Arc<str>> {
    let shared = &agent.shared;
    shared.news.listen(&shared.leases, &shared.table, &shared.history)
}

#[tokio::test]
async fn what_others_do_is_told_once_and_kept_whether_the_store_tells_or_not() {
    let memory = MemoryStore::new("m", tenure::clock::system());
    for store in [AnyStore::new(memory.clone()), AnyStore::new(Mute(memory, true))] {
        let mut scene = NewsFixture::watching(store).await;
        let others = Leases::new(scene.store.clone()).unwrap();
        let guard = others.lock("k").ttl(Duration::from_secs(60)).try_acquire().await.unwrap();
        let row = scene.news_of("k").await.unwrap();
        assert_eq!((&row["state"], &row["fence"]), (&"held".into(), &guard.fence().0.into()));
        assert_eq!((&row["holder"], &row["is_here"]), (&others.holder().as_str().into(), &false.into()));
        assert!(guard.release().await);
        assert_eq!(scene.news_of("k").await.unwrap()["state"], "vacant");
        let past = scene.past("k");
        assert_eq!((past.len(), past[0].reason.as_deref()), (1, Some("it was given up")));
        assert_eq!(past[0].holder, others.holder().as_str());
        let stored = scene.store.read(&Key::new("k").unwrap()).await.unwrap().unwrap();
        scene.store.remove(&Key::new("k").unwrap(), stored.version).await.unwrap();
        assert_eq!(scene.news_of("k").await, None);
    }
}

#[tokio::test]
async fn a_renewal_is_no_news_and_a_successor_ends_what_was_before() {
    let mut scene = NewsFixture::watching(tenure::memory()).await;
    scene.write("k", 7, Some("one")).await;
    assert_eq!(scene.news_of("k").await.unwrap()["holder"], "one");
    // The same tenure, written anew.
    let key = Key::new("k").unwrap();
    let Stored { version, mut record, .. } = scene.store.read(&key).await.unwrap().unwrap();
    (record.nonce, record.stamp) = (Nonce(8), Wall(9));
    record.tenure.as_mut().unwrap().heartbeat = Nonce(8);
    scene.store.write(Write { key, expect: Expect::Unchanged(version), record }).await.unwrap();
    scene.write("other", 1, None).await;
    // Had the renewal been told, it had been told with this.
    let event = scene.next().await;
    assert!(event["leases"].as_array().unwrap().iter().all(|row| row["key"] == "other"), "{event}");
    scene.write("k", 9, Some("two")).await;
    assert_eq!(scene.news_of("k").await.unwrap()["holder"], "two");
    let past: Vec<_> = scene.past("k").into_iter().map(|past| (past.holder, past.reason)).collect();
    assert_eq!(past, [("two".to_owned(), None), ("one".to_owned(), Some("another has it".to_owned()))]);
}

/// A record that somebody has damaged, as a listing shows it.
fn damaged(key: &str) -> Listed {
    Listed { key: Key::new(key).unwrap(), stored: Err(StoreError::foreign("no record")) }
}

#[tokio::test]
async fn whoever_holds_what_can_t_be_read_has_not_given_it_up() {
    let scene = NewsFixture::watching(tenure::memory()).await;
    let history = &scene.agent.shared.history;
    let mut compared = Compared::new(Arc::clone(history));
    compared.begin();
    compared.end();
    scene.write("k", 7, Some("one")).await;
    let listed = || async { scene.store.list("k", None, 1).await.unwrap() };
    assert_eq!(compared.changed(listed().await).len(), 1);
    assert_eq!(compared.changed(vec![damaged("k")]).len(), 1, "that it can't be read is told");
    let reason = || scene.past("k")[0].reason.clone();
    assert_eq!((scene.past("k").len(), reason()), (1, None));
    assert_eq!(compared.changed(listed().await).len(), 1);
    assert_eq!((scene.past("k").len(), reason()), (1, None), "it can be read again");
    assert_eq!(compared.changed(vec![damaged("k")]).len(), 1);
    scene.write("k", 8, None).await;
    assert_eq!(compared.changed(listed().await).len(), 1);
    assert_eq!((scene.past("k").len(), reason().as_deref()), (1, Some("it was given up")));
}

#[tokio::test]
async fn very_many_come_in_parts_and_none_is_left_out() {
    let mut scene = NewsFixture::watching(tenure::memory()).await;
    for n in 0..550 {
        scene.write(&format!("many/{n}"), n + 1, Some("h")).await;
    }
    let mut told = BTreeSet::new();
    while told.len() < 550 {
        let event = scene.next().await;
        let leases = event["leases"].as_array().unwrap();
        assert!(leases.len() <= TOGETHER);
        told.extend(leases.iter().map(|row| row["key"].as_str().unwrap().to_owned()));
    }
}

#[tokio::test]
async fn after_a_store_has_failed_all_is_to_be_read_once() {
    let faulty = FaultyStore::new(tenure::memory());
    let mut scene = NewsFixture::watching(AnyStore::new(faulty.clone())).await;
    faulty.inject(std::iter::repeat_n(Fault::Refuse, 3));
    assert_eq!(scene.next().await["event"], "watching");
    scene.write("k", 1, Some("h")).await;
    assert!(scene.news_of("k").await.is_some());
}

#[tokio::test]
async fn nobody_looks_when_nobody_listens_nor_where_the_store_has_no_push() {
    let mut scene = NewsFixture::watching(tenure::memory()).await;
    let looks =
        |agent: &Agent| agent.shared.news.reader().as_ref().is_some_and(|reader| !reader.is_finished());
    assert!(looks(&scene.agent));
    let (_, none) = broadcast::channel(1);
    drop(std::mem::replace(&mut scene.lines, none));
    while looks(&scene.agent) {
        tokio::time::sleep(REST).await;
    }
    // Whoever comes then is told as well.
    scene.lines = listen(&scene.agent);
    assert_eq!(scene.next().await["event"], "watching");
    let silent = AnyStore::new(Mute(MemoryStore::new("m", tenure::clock::system()), false));
    let agent = Agent::new(Leases::new(silent).unwrap(), Limits::default(), None);
    let _lines = listen(&agent);
    assert!(!looks(&agent));
}
