//! Who leads, for those who only look. A leader that nobody can see for a ttl counts as none, and what was seen before is forgotten.

use super::hook::Changes;
use crate::exit::Failure;
use crate::supervise::outage::Outage;
use std::sync::Arc;
use std::time::Duration;
use tenure::election::{Leader, Observer, Status};
use tenure::{InvalidInput, Key, Latest, Leases};

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
    /// For how long a leader is believed in while nothing can be read.
    ttl: Duration,
    /// Nothing could be read for a ttl.
    is_blind: bool,
}

impl LeaderWatch {
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
            is_blind: false,
        })
    }

    /// Somebody has looked already, and knows who leads.
    pub(crate) fn knowing(self, known: Option<Leader>) -> LeaderWatch {
        LeaderWatch { known, ..self }
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
        tokio::select! {
            changed = self.changes.changed() => {
                self.known = None;
                changed.is_ok()
            }
            () = tokio::time::sleep(SELDOM.min(self.ttl / 4)) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    //! Plan: a leader is none while nothing can be read for a ttl, and is seen again after that, or whoever leads then; one that is known leads
    //! until the observer has seen anything.
    use super::*;
    use tenure::AnyStore;
    use tenure_store::{Fault, FaultyStore};

    const TTL: Duration = Duration::from_millis(200);

    async fn sees(watch: &mut LeaderWatch, is_led: bool) {
        let seen = async {
            while watch.latest().is_some() != is_led {
                assert!(watch.goes_on().await);
            }
        };
        tokio::time::timeout(Duration::from_secs(20), seen).await.unwrap();
    }

    #[tokio::test]
    async fn a_leader_that_can_not_be_seen_for_a_ttl_is_none() {
        let store = FaultyStore::new(tenure::memory());
        let outage = Outage::new(false);
        let leases =
            Leases::builder(outage.watch(AnyStore::new(store.clone()))).poll(TTL / 5).start().unwrap();
        let guard = leases.lock("k").ttl(Duration::from_secs(60)).acquire().await.unwrap();
        let mut watch = LeaderWatch::start(&leases, guard.key(), &outage, TTL).unwrap();
        sees(&mut watch, true).await;
        // Somebody who knows of the leader begins to look, and has no answer yet.
        store.always(Fault::Held);
        let mut slow = LeaderWatch::start(&leases, guard.key(), &outage, TTL).unwrap();
        slow = slow.knowing(watch.latest());
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
        let memory = tenure::memory();
        let store = FaultyStore::new(memory.clone());
        let outage = Outage::new(false);
        let leases =
            Leases::builder(outage.watch(AnyStore::new(store.clone()))).poll(TTL / 5).start().unwrap();
        let elsewhere = Leases::new(memory).unwrap();
        let first = elsewhere.acquire("k").await.unwrap();
        let mut watch = LeaderWatch::start(&leases, first.key(), &outage, TTL).unwrap();
        sees(&mut watch, true).await;
        store.always(Fault::Refuse);
        sees(&mut watch, false).await;
        first.release().await;
        let second = elsewhere.acquire("k").await.unwrap();
        store.always(Fault::None);
        // Something else can be read before the observer has looked again.
        leases.peek("other").await.unwrap();
        assert!(watch.latest().is_none_or(|leader| leader.fence == second.fence()));
        sees(&mut watch, true).await;
        assert_eq!(watch.latest().map(|leader| leader.fence), Some(second.fence()));
    }
}
