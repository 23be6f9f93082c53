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
    outage: Arc<Outage>,
    ttl: Duration,
    /// The observation ends with it.
    _observer: Observer,
}

impl LeaderWatch {
    /// `ttl`: for how long a leader is believed in while nothing can be read.
    pub(crate) fn start(
        leases: &Leases,
        key: &Key,
        outage: &Arc<Outage>,
        ttl: Duration,
    ) -> Result<LeaderWatch, Failure> {
        let observer = leases.candidate().key(key.as_str()).observe()?;
        let (changes, outage) = (observer.changes(), Arc::clone(outage));
        Ok(LeaderWatch { changes, outage, ttl, _observer: observer })
    }
}

impl Changes for LeaderWatch {
    type Told = Option<Leader>;

    fn latest(&mut self) -> Option<Leader> {
        let leader = self.changes.get_and_update().leader;
        // It may have died since, and the observer goes by what it has read.
        leader.filter(|_| self.outage.unread() < self.ttl)
    }

    async fn goes_on(&mut self) -> bool {
        /// What is not told, as that the store is away, is looked at once in a while.
        const SELDOM: Duration = Duration::from_secs(1);
        tokio::select! {
            changed = self.changes.changed() => changed.is_ok(),
            () = tokio::time::sleep(SELDOM.min(self.ttl / 4)) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    //! Plan: a leader is none while nothing can be read for a ttl, and is seen again after that.
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
        store.always(Fault::Refuse);
        sees(&mut watch, false).await;
        store.always(Fault::None);
        sees(&mut watch, true).await;
    }
}
