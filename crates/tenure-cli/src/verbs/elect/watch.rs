//! Who leads, for those who only look. A leader that nobody can see for a ttl counts as none, and what was seen before is forgotten.

use super::hook::Changes;
use crate::exit::Failure;
use crate::supervise::outage::Outage;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tenure::election::{Leader, Observer, Status};
use tenure::{Fence, InvalidInput, Key, Latest, Leases, Store};

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
    /// The tenure of who leads.
    led: Option<Fence>,
    /// For how long that one is believed in while nothing can be read, once that was read.
    ttl: Option<Duration>,
    /// The same until then.
    usual: Duration,
    reading_ttl: Option<TtlRead>,
    /// Nothing could be read for a ttl.
    is_blind: bool,
}

impl LeaderWatch {
    /// `usual`: the ttl of a leader whose own is not known yet.
    pub(crate) fn start(
        leases: &Leases,
        key: &Key,
        outage: &Arc<Outage>,
        usual: Duration,
    ) -> Result<LeaderWatch, Failure> {
        let observer = observe(leases, key)?;
        Ok(LeaderWatch {
            leases: leases.clone(),
            key: key.clone(),
            changes: observer.changes(),
            observer,
            known: None,
            outage: Arc::clone(outage),
            led: None,
            ttl: None,
            usual,
            reading_ttl: None,
            is_blind: false,
        })
    }

    /// Somebody has looked already, and knows who leads.
    pub(crate) fn knowing(self, known: Option<Leader>) -> LeaderWatch {
        LeaderWatch { known, ..self }
    }

    fn believed(&self) -> Duration {
        self.ttl.unwrap_or(self.usual)
    }

    /// Who leads, by what was seen. Each leader has a ttl of its own.
    fn look(&mut self) -> Option<Leader> {
        if self.changes.has_changed().unwrap_or(false) {
            self.known = None;
        }
        let seen = self.changes.get_and_update().leader;
        let leader = self.known.clone().or(seen);
        let led = leader.as_ref().map(|leader| leader.fence);
        if self.led != led {
            (self.led, self.ttl) = (led, None);
            self.reading_ttl = led.map(|_| self.read_ttl());
        }
        leader
    }

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
        let is_blind = self.outage.unread() >= self.believed();
        let was_blind = std::mem::replace(&mut self.is_blind, is_blind);
        if self.is_blind && !was_blind {
            self.forget();
        }
        self.look().filter(|_| !self.is_blind)
    }

    async fn goes_on(&mut self) -> bool {
        /// What is not told, as that the store is away, is looked at once in a while.
        const SELDOM: Duration = Duration::from_secs(1);
        const OFTEN: Duration = Duration::from_millis(10);
        let pause = (self.believed() / 4).clamp(OFTEN, SELDOM);
        tokio::select! {
            biased;
            changed = self.changes.changed() => {
                self.known = None;
                return changed.is_ok();
            }
            ttl = ended(&mut self.reading_ttl) => (self.reading_ttl, self.ttl) = (None, ttl),
            () = tokio::time::sleep(pause) => {
                // One that failed is made again.
                if self.led.is_some() && self.ttl.is_none() && self.reading_ttl.is_none() {
                    self.reading_ttl = Some(self.read_ttl());
                }
            }
        }
        true
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
    //! until the observer has seen anything; each leader has a ttl of its own.
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

    /// A leader is seen, and this is known to be its ttl.
    async fn sees_with_ttl(watch: &mut LeaderWatch, ttl: Duration) {
        let known = async {
            while watch.latest().is_none() || watch.ttl != Some(ttl) {
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
        sees_with_ttl(&mut watch, TTL).await;
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
    async fn each_leader_has_a_ttl_of_its_own_which_is_read_until_it_is_known() {
        let outage = Outage::new(false);
        let (store, leases, elsewhere) = two(&outage);
        let first = elsewhere.lock("k").ttl(TTL * 9).acquire().await.unwrap();
        let mut watch = LeaderWatch::start(&leases, first.key(), &outage, TTL).unwrap();
        sees_with_ttl(&mut watch, TTL * 9).await;
        first.release().await;
        let _second = elsewhere.lock("k").ttl(TTL * 2).acquire().await.unwrap();
        // The first reads of it fail.
        store.inject([Fault::None, Fault::Refuse, Fault::Refuse]);
        sees_with_ttl(&mut watch, TTL * 2).await;
    }

    #[tokio::test]
    async fn who_led_before_an_outage_is_not_told_after_it_when_another_leads() {
        let outage = Outage::new(false);
        let (store, leases, elsewhere) = two(&outage);
        let first = elsewhere.lock("k").ttl(TTL).acquire().await.unwrap();
        let mut watch = LeaderWatch::start(&leases, first.key(), &outage, LONG).unwrap();
        sees_with_ttl(&mut watch, TTL).await;
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
