//! Who leads, for those who only look. A leader that nobody can see for a ttl counts as none.

use super::hook::Changes;
use crate::exit::Failure;
use crate::supervise::outage::Outage;
use std::sync::Arc;
use std::time::Duration;
use tenure::election::{Leader, Observer, Status};
use tenure::{Key, Latest, Leases};

/// An election that is observed.
pub(crate) struct LeaderWatch {
    changes: Latest<Status>,
    /// Who led before the observer has seen anything; the outer none once it has.
    known: Option<Option<Leader>>,
    outage: Arc<Outage>,
    ttl: Duration,
    /// The observation ends with it.
    _observer: Observer,
}

impl LeaderWatch {
    /// `known`: who leads, if somebody has looked already. `ttl`: for how long a leader is believed in while nothing can be read.
    pub(crate) fn start(
        leases: &Leases,
        key: &Key,
        outage: &Arc<Outage>,
        (known, ttl): (Option<Leader>, Duration),
    ) -> Result<LeaderWatch, Failure> {
        let observer = leases.candidate().key(key.as_str()).observe()?;
        let (changes, outage) = (observer.changes(), Arc::clone(outage));
        Ok(LeaderWatch { changes, known: Some(known), outage, ttl, _observer: observer })
    }
}

impl Changes for LeaderWatch {
    type Told = Option<Leader>;

    fn latest(&mut self) -> Option<Leader> {
        let leader = match &self.known {
            Some(known) => known.clone(),
            None => self.changes.get_and_update().leader,
        };
        // It may have died since, and the observer goes by what it has read.
        leader.filter(|_| self.outage.unread() < self.ttl)
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
    //! Plan: a leader is none while nothing can be read for a ttl, and is seen again after that; one that is known leads until the observer
    //! has seen anything.
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
        let mut watch = LeaderWatch::start(&leases, guard.key(), &outage, (None, TTL)).unwrap();
        sees(&mut watch, true).await;
        // Somebody who knows of the leader begins to look, and has no answer yet.
        store.always(Fault::Held);
        let mut slow = LeaderWatch::start(&leases, guard.key(), &outage, (watch.latest(), TTL)).unwrap();
        for _ in 0..3 {
            assert!(slow.goes_on().await && slow.latest().is_some());
        }
        store.always(Fault::Refuse);
        store.go_on();
        sees(&mut watch, false).await;
        store.always(Fault::None);
        sees(&mut watch, true).await;
    }
}
