//! Contenders for one key, each behind a network of its own that can be spoilt, and a record of who believed when.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tenure::{AcquireError, AnyStore, Leases};
use tenure_core::{Clock as _, ErrorKind, Tick};
use tenure_dynamodb_testkit::stub::{Fate, Stub};
use tenure_dynamodb_testkit::{client, store_by};
use tenure_testkit::{RealClock, unique};
use tokio::task::JoinSet;

pub(crate) const TABLE: &str = "tenure-episodes";
pub(crate) const KEY: &str = "prize";
pub(crate) const TTL: Duration = Duration::from_millis(1500);
pub(crate) const CONTENDERS: usize = 3;
/// How long a contender leaves the key to the others, who look more often than that: locks are not fair by themselves.
const REST: Duration = Duration::from_millis(300);
/// By when everything must go on after the last fault: a takeover, others' turns, and a busy machine.
const SOON: Duration = Duration::from_secs(60);
/// How often a holder asks itself.
const LOOK: Duration = Duration::from_millis(10);

/// What becomes of a request: of which contender it is, which action, and the how manyth of that contender's.
pub(crate) type Fault = fn(usize, &str, usize) -> Fate;

/// A span in which a contender believed that it held the key.
#[derive(Debug, Clone)]
struct Tenure {
    contender: usize,
    fence: u64,
    from: Tick,
    to: Tick,
}

/// What all of an arena share.
struct Shared {
    clock: RealClock,
    is_spoilt: AtomicBool,
    spoilt: AtomicUsize,
    over: Mutex<Vec<Tenure>>,
    foreign: AtomicUsize,
}

pub(crate) struct Arena {
    pub(crate) namespace: String,
    shared: Arc<Shared>,
    running: JoinSet<()>,
}

impl Arena {
    /// Contenders that take turns, with nothing spoilt yet.
    pub(crate) async fn start(name: &str, fault: Fault) -> Arena {
        let shared = Arc::new(Shared {
            clock: RealClock::new(),
            is_spoilt: AtomicBool::new(false),
            spoilt: AtomicUsize::new(0),
            over: Mutex::default(),
            foreign: AtomicUsize::new(0),
        });
        let (namespace, mut running) = (unique(name), JoinSet::new());
        for contender in 0..CONTENDERS {
            let (known, count) = (Arc::clone(&shared), AtomicUsize::new(0));
            let stub = Stub::start(move |action, _| {
                let nth = count.fetch_add(1, Ordering::SeqCst);
                if !known.is_spoilt.load(Ordering::SeqCst) || action == "DescribeTable" {
                    return Fate::Through;
                }
                let fate = fault(contender, action, nth);
                if !matches!(fate, Fate::Through) {
                    known.spoilt.fetch_add(1, Ordering::SeqCst);
                }
                fate
            })
            .await;
            let store = store_by(client(&stub.endpoint), TABLE, &namespace).await;
            let leases = Leases::builder(AnyStore::new(store)).session_ttl(TTL).poll(REST / 3).start();
            let leases = leases.unwrap();
            running.spawn(contend(contender, leases, Arc::clone(&shared)));
        }
        Arena { namespace, shared, running }
    }

    /// Spoils the network for as long as this, and until some requests were spoilt.
    pub(crate) async fn spoil(&self, span: Duration) {
        self.shared.is_spoilt.store(true, Ordering::SeqCst);
        tokio::time::sleep(span).await;
        let start = self.shared.clock.held();
        while self.spoilt() <= 2 {
            assert!(self.shared.clock.held().since(start) < SOON, "hardly anything was spoilt");
            tokio::time::sleep(LOOK).await;
        }
        self.shared.is_spoilt.store(false, Ordering::SeqCst);
    }

    /// Waits until each contender has had the key once more.
    pub(crate) async fn goes_on(&self) {
        let start = self.shared.clock.held();
        loop {
            let over = self.shared.over.lock().unwrap().clone();
            let since = over.iter().filter(|tenure| tenure.from >= start);
            let seen: BTreeSet<usize> = since.map(|tenure| tenure.contender).collect();
            if seen.len() == CONTENDERS {
                return;
            }
            let waited = self.shared.clock.held().since(start);
            assert!(waited < SOON, "only {seen:?} had the key within {waited:?}, of {over:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until a contender was told that the record is none of tenure's.
    pub(crate) async fn alarms(&self) {
        let (before, start) = (self.shared.foreign.load(Ordering::SeqCst), self.shared.clock.held());
        while self.shared.foreign.load(Ordering::SeqCst) == before {
            assert!(self.shared.clock.held().since(start) < SOON, "nobody was told");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Ends it, and checks that fences grew, and, unless a hand took the record from a holder, that belief was exclusive.
    pub(crate) fn check(mut self, is_exclusive: bool) {
        self.running.abort_all();
        let mut over = self.shared.over.lock().unwrap().clone();
        over.sort_by_key(|tenure| tenure.from);
        for pair in over.windows(2) {
            assert!(pair[0].fence < pair[1].fence, "S2: {pair:?}");
            assert!(!is_exclusive || pair[0].to <= pair[1].from, "S1: {pair:?}");
        }
        let spoilt = self.shared.spoilt.load(Ordering::SeqCst);
        println!("{}: {} tenures, {spoilt} requests spoilt", self.namespace, over.len());
    }

    fn spoilt(&self) -> usize {
        self.shared.spoilt.load(Ordering::SeqCst)
    }
}

/// Takes the key over and over: mostly for a moment, sometimes for longer than a ttl.
async fn contend(contender: usize, leases: Leases, shared: Arc<Shared>) {
    for turn in 0_u32.. {
        let lock = leases.lock(KEY);
        // One with a heartbeat of its own, the others on their sessions.
        let lock = if contender == 0 { lock.ttl(TTL) } else { lock };
        let guard = match lock.acquire_within(TTL * 2).await {
            Ok(guard) => guard,
            Err(error) => {
                if matches!(&error, AcquireError::Store(error) if error.kind() == ErrorKind::Foreign) {
                    shared.foreign.fetch_add(1, Ordering::SeqCst);
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            }
        };
        let from = shared.clock.held();
        let span = if turn % 4 == 3 { TTL * 5 / 4 } else { Duration::from_millis(60) };
        // It believed when it was asked: whoever is woken late has not believed meanwhile.
        let mut believed = None;
        loop {
            let asked = shared.clock.held();
            if !guard.is_held() {
                break;
            }
            believed = Some(asked);
            if asked.since(from) >= span {
                break;
            }
            tokio::time::sleep(LOOK).await;
        }
        if let Some(to) = believed {
            shared.over.lock().unwrap().push(Tenure { contender, fence: guard.fence().0, from, to });
        }
        guard.release().await;
        tokio::time::sleep(REST).await;
    }
}
