//! Who leads, for those who only look. A leader that nobody can see for a ttl counts as none, and what was seen before is forgotten.

use super::hook::Changes;
use crate::exit::Failure;
use crate::supervise::outage::Outage;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tenure::election::{Leader, Observer, Status};
use tenure::{InvalidInput, Key, Latest, Leases, Store};

/// A read of a leader's ttl that is under way.
type TtlRead = Pin<Box<dyn Future<Output = Option<Duration>> + Send>>;

/// An election that is observed.
pub(crate) struct LeaderWatch {
    leases: Leases,
    key: Key,
    /// The observation ends with it.
    observer: Observer,
    changes: Latest<Status>,
    /// Who led before the observer has seen anything, if somebody has looked already.
    known: Option<Leader>,
    outage: Arc<Outage>,
    /// For how long a leader is believed in while nothing can be read: its own ttl, once that was read.
    ttl: Duration,
    reading_ttl: Option<TtlRead>,
    /// Nothing could be read for a ttl.
    is_blind: bool,
}

impl LeaderWatch {
    /// `ttl`: of a leader whose own is not known yet.
    pub(crate) fn start(
        leases: &Leases,
        key: &Key,
        outage: &Arc<Outage>,
        ttl: Duration,
    ) -> Result<LeaderWatch, Failure> {
        let observer = observe(leases, key)?;
        Ok(LeaderWatch {
            leases: leases.clone(),
            key: key.clone(),
            changes: observer.changes(),
            observer,
            known: None,
            outage: Arc::clone(outage),
            ttl,
            reading_ttl: None,
            is_blind: false,
        })
    }

    /// Somebody has looked already, and knows who leads.
    pub(crate) fn knowing(self, known: Option<Leader>) -> LeaderWatch {
        let reading_ttl = known.is_some().then(|| self.read_ttl());
        LeaderWatch { known, reading_ttl, ..self }
    }

    /// One that fails leaves what is known of the leader before.
    fn read_ttl(&self) -> TtlRead {
        let (store, key) = (self.leases.store().clone(), self.key.clone());
        Box::pin(async move {
            let stored = store.read(&key).await.ok()??;
            Some(stored.record.tenure?.ttl.duration())
        })
    }

    /// Another may lead by now. Only an observer that begins anew tells what it has seen since.
    fn forget(&mut self) {
        self.known = None;
        // As at the start, where the key and the leases would do.
        if let Ok(observer) = observe(&self.leases, &self.key) {
            self.changes = observer.changes();
            self.observer = observer;
        }
    }
}

fn observe(leases: &Leases, key: &Key) -> Result<Observer, InvalidInput> {
    leases.candidate().key(key.as_str()).observe()
}

impl Changes for LeaderWatch {
    type Told = Option<Leader>;

    fn latest(&mut self) -> Option<Leader> {
        let was_blind = std::mem::replace(&mut self.is_blind, self.outage.unread() >= self.ttl);
        if self.is_blind && !was_blind {
            self.forget();
        }
        let seen = self.changes.get_and_update().leader;
        self.known.clone().or(seen).filter(|_| !self.is_blind)
    }

    async fn goes_on(&mut self) -> bool {
        /// What is not told, as that the store is away, is looked at once in a while.
        const SELDOM: Duration = Duration::from_secs(1);
        const OFTEN: Duration = Duration::from_millis(10);
        tokio::select! {
            changed = self.changes.changed() => {
                self.known = None;
                self.reading_ttl = self.changes.get().leader.is_some().then(|| self.read_ttl());
                changed.is_ok()
            }
            ttl = ended(&mut self.reading_ttl) => {
                self.reading_ttl = None;
                self.ttl = ttl.unwrap_or(self.ttl);
                true
            }
            () = tokio::time::sleep((self.ttl / 4).clamp(OFTEN, SELDOM)) => true,
        }
    }
}

/// Of the read that is under way, and never without one.
async fn ended(reading: &mut Option<TtlRead>) -> Option<Duration> {
    match reading {
        Some(reading) => reading.await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    //! Plan: a leader is none while nothing can be read for its ttl, and is seen again after that, or whoever leads then; one that is known leads
    //! until the observer has seen anything.
    use super::*;
    use tenure::AnyStore;
    use tenure_store::{Fault, FaultyStore};

    const TTL: Duration = Duration::from_millis(600);
    /// Of leaders whose ttl is not known yet.
    const LONG: Duration = Duration::from_secs(60);

    async fn sees(watch: &mut LeaderWatch, is_led: bool) {
        let seen = async {
            while watch.latest().is_some() != is_led {
                assert!(watch.goes_on().await);
            }
        };
        tokio::time::timeout(Duration::from_secs(20), seen).await.unwrap();
    }

    /// A leader is seen, and its ttl is known.
    async fn sees_with_ttl(watch: &mut LeaderWatch) {
        sees(watch, true).await;
        let known = async {
            while watch.ttl != TTL {
                assert!(watch.goes_on().await);
            }
        };
        tokio::time::timeout(Duration::from_secs(20), known).await.unwrap();
    }

    /// A process that sees what is in `store`, and one elsewhere that has no faults.
    fn two(outage: &Arc<Outage>) -> (FaultyStore<AnyStore>, Leases, Leases) {
        let memory = tenure::memory();
        let store = FaultyStore::new(memory.clone());
        let watched = outage.watch(AnyStore::new(store.clone()));
        let leases = Leases::builder(watched).poll(TTL / 20).start().unwrap();
        (store, leases, Leases::new(memory).unwrap())
    }

    #[tokio::test]
    async fn a_leader_that_can_not_be_seen_for_its_ttl_is_none() {
        let outage = Outage::new(false);
        let (store, leases, elsewhere) = two(&outage);
        let guard = elsewhere.lock("k").ttl(TTL).acquire().await.unwrap();
        let mut watch = LeaderWatch::start(&leases, guard.key(), &outage, LONG).unwrap();
        sees_with_ttl(&mut watch).await;
        // Somebody who knows of the leader begins to look, and has no answer yet.
        store.always(Fault::Held);
        let slow = LeaderWatch::start(&leases, guard.key(), &outage, TTL).unwrap();
        let mut slow = slow.knowing(watch.latest());
        for _ in 0..3 {
            assert!(slow.goes_on().await && slow.latest().is_some());
        }
        store.always(Fault::Refuse);
        store.go_on();
        sees(&mut watch, false).await;
        store.always(Fault::None);
        sees(&mut watch, true).await;
    }

    #[tokio::test]
    async fn who_led_before_an_outage_is_not_told_after_it_when_another_leads() {
        let outage = Outage::new(false);
        let (store, leases, elsewhere) = two(&outage);
        let first = elsewhere.lock("k").ttl(TTL).acquire().await.unwrap();
        let mut watch = LeaderWatch::start(&leases, first.key(), &outage, LONG).unwrap();
        sees_with_ttl(&mut watch).await;
        store.always(Fault::Refuse);
        sees(&mut watch, false).await;
        first.release().await;
        let second = elsewhere.lock("k").ttl(TTL).acquire().await.unwrap();
        store.always(Fault::None);
        // Something else can be read before the observer has looked again.
        leases.peek("other").await.unwrap();
        assert!(watch.latest().is_none_or(|leader| leader.fence == second.fence()));
        sees(&mut watch, true).await;
        assert_eq!(watch.latest().map(|leader| leader.fence), Some(second.fence()));
    }
}
