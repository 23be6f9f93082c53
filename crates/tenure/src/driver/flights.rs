//! The operations under way, and those that wait for their turn.
//!
//! The driver's task polls them itself. A task for each would be woken twice more for an answer, mostly on another core.

use super::Troubles;
use super::call::CallKind;
use super::queue::OpQueue;
use crate::meters;
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tenure_core::concurrency::{Completion, ConcurrencyLimit, Launch};
use tenure_core::op::{Answer, Op, OpId, Request};
use tenure_core::{Clock, ErrorKind, StoreError, Tick};
use tenure_store::parts::caught;
use tenure_store::{AnyStore, Store};

/// A failed operation keeps its place for so much of the time that it had, at least.
const REST: u32 = 16;

/// An operation that has come back, and when; or else the place of one is free again.
type Finished = Option<(OpInFlight, Tick, Result<Answer, StoreError>)>;
type UnderWay = Pin<Box<dyn Future<Output = Finished> + Send>>;

/// One operation under way.
#[derive(Debug)]
struct OpInFlight {
    op: OpId,
    /// The key, or what the keys of a listing begin with.
    about: String,
    call: CallKind,
    /// Renewals, looks and listings, of which there are few, go at once.
    waits: bool,
    launch: Launch,
    sent: Tick,
    timeout: Duration,
}

pub(super) struct Flights {
    store: AnyStore,
    clock: Arc<dyn Clock>,
    running: FuturesUnordered<UnderWay>,
    limit: ConcurrencyLimit,
    troubles: Arc<Troubles>,
    /// How many of those under way had to wait for their turn.
    ordinary: usize,
    waiting: OpQueue,
    /// What waited for too long, and was not begun.
    unsent: VecDeque<(OpId, StoreError)>,
}

impl Flights {
    pub(super) fn new(store: AnyStore, clock: Arc<dyn Clock>, troubles: Arc<Troubles>) -> Flights {
        let (running, limit) = (FuturesUnordered::new(), ConcurrencyLimit::default());
        let (waiting, unsent) = (OpQueue::default(), VecDeque::new());
        Flights { store, clock, running, limit, troubles, ordinary: 0, waiting, unsent }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.running.is_empty() && self.unsent.is_empty()
    }

    pub(super) fn start(&mut self, request: Request) {
        // A machine has one page of a listing under way at a time, and what it lists changes what it wants of the rest.
        let waits = !request.urgent && !matches!(request.op, Op::List { .. });
        if waits && !self.limit.has_room(self.ordinary) {
            self.waiting.push(request, self.clock.held());
        } else {
            self.launch(request, waits);
        }
    }

    fn launch(&mut self, request: Request, waits: bool) {
        let Request { id, op, timeout, .. } = request;
        let launch = self.limit.launch(self.ordinary);
        self.ordinary += usize::from(waits);
        let (store, clock) = (self.store.clone(), Arc::clone(&self.clock));
        let flight = OpInFlight {
            op: id,
            about: about(&op),
            call: CallKind::of(&op),
            waits,
            launch,
            sent: clock.held(),
            timeout,
        };
        self.running.push(Box::pin(async move {
            // A store that panics must not take all leases with it.
            let result = caught(ErrorKind::Unknown, perform(&store, op, timeout)).await;
            Some((flight, clock.held(), result))
        }));
    }

    /// The next that comes back; or none, now and then, as long as any is under way.
    pub(super) async fn next(&mut self) -> Option<(OpId, Result<Answer, StoreError>)> {
        if let Some((op, error)) = self.unsent.pop_front() {
            return Some((op, Err(error)));
        }
        let finished = self.running.next().await?;
        let came = finished.map(|(flight, landed, result)| {
            self.land(&flight, landed.since(flight.sent), &result);
            (flight.op, result)
        });
        if came.is_none() {
            self.ordinary -= 1;
        }
        self.give_up_late();
        while self.limit.has_room(self.ordinary) {
            let Some(request) = self.waiting.pop() else { break };
            self.launch(request, true);
        }
        came
    }

    /// As long as any wait, others are under way, which come back in their time.
    fn give_up_late(&mut self) {
        let now = self.clock.held();
        while let Some((late, since)) = self.waiting.pop_late(now) {
            let waited = now.since(since);
            let text =
                format!("not asked for: the store is slow, and for {waited:.1?} others were before it");
            let (error, call) = (StoreError::unavailable(text), CallKind::of(&late.op));
            self.troubles.failed(&about(&late.op), call, since, &error);
            self.unsent.push_back((late.id, error));
        }
    }

    fn land(&mut self, flight: &OpInFlight, took: Duration, result: &Result<Answer, StoreError>) {
        let OpInFlight { launch, timeout, waits, call, .. } = *flight;
        meters::store_called(call.name(), result.as_ref().err(), took);
        match result {
            Ok(_) => self.troubles.answered(&flight.about, call),
            Err(error) => self.troubles.failed(&flight.about, call, flight.sent, error),
        }
        let rest = (timeout / REST).saturating_sub(took);
        match result {
            Err(error) if error.is_passing() => {
                self.limit.landed(launch, Completion::Failed);
                if waits && !rest.is_zero() {
                    // A store that refuses at once would be asked the more often for it.
                    self.running.push(Box::pin(async move {
                        tokio::time::sleep(rest).await;
                        None
                    }));
                    return;
                }
            }
            // What a look or a page takes says little about claims.
            _ if !waits => self.limit.saw(took),
            _ => self.limit.landed(launch, Completion::Answered { took, of: timeout }),
        }
        self.ordinary -= usize::from(waits);
    }
}

fn about(op: &Op) -> String {
    match op {
        Op::Read(key) => key.as_str().to_owned(),
        Op::ReadMany(keys, _) => keys.first().map_or_else(String::new, |key| key.as_str().to_owned()),
        Op::List { prefix, .. } => prefix.clone(),
        Op::Write(write) => write.key.as_str().to_owned(),
    }
}

async fn perform(store: &AnyStore, op: Op, timeout: Duration) -> Result<Answer, StoreError> {
    let writes = matches!(op, Op::Write(_));
    let call = async {
        match op {
            Op::Read(key) => store.read(&key).await.map(Answer::Read),
            Op::ReadMany(keys, freshness) => store.read_many(&keys, freshness).await.map(Answer::Listed),
            Op::List { prefix, after, limit } => {
                store.list(&prefix, after.as_ref(), limit).await.map(Answer::Listed)
            }
            Op::Write(write) => store.write(*write).await.map(Answer::Write),
        }
    };
    match tokio::time::timeout(timeout, call).await {
        Ok(result) => result,
        Err(_) if writes => Err(StoreError::unknown(format!("no answer to a write within {timeout:?}"))),
        Err(_) => Err(StoreError::unavailable(format!("no answer to a read within {timeout:?}"))),
    }
}

#[cfg(test)]
mod tests {
    //! Plan: a store that panics leaves the outcome unknown, and is asked on; on a store that does not answer, only so many claims are begun, while renewals, looks and listings are begun at
    //! once; the rest follow in their order as places come free; a refusal keeps its place for a while; a claim that waited for too long is not begun.
    use super::*;
    use crate::driver::noting::{Noting, Paused};
    use tenure_core::op::{Expect, Write};
    use tenure_core::{
        ErrorKind, Fence, HolderId, Key, Metadata, Nonce, Now, Record, Tenure, Tick, Ttl, Wall,
    };
    use tenure_store::Freshness;
    use tokio::sync::Semaphore;

    fn request(n: u64, op: Op, urgent: bool) -> Request {
        Request { id: OpId(n), op, timeout: Duration::from_secs(16), urgent }
    }

    /// A store's answers take no time by this one.
    struct Still;

    impl Clock for Still {
        fn now(&self) -> Now {
            Now { held: Tick(0), waited: Tick(0), wall: Wall(0) }
        }
    }

    fn nobodys() -> Arc<Troubles> {
        Troubles::new(Arc::new(Still), HolderId::new("a").unwrap())
    }

    /// All that can go on does. How many have come back with an answer meanwhile.
    async fn settle(flights: &mut Flights) -> usize {
        let mut answered = 0;
        for _ in 0..100 {
            tokio::select! {
                biased;
                came = flights.next(), if !flights.is_empty() => answered += usize::from(came.is_some_and(|(_, result)| result.is_ok())),
                () = tokio::task::yield_now() => {}
            }
        }
        answered
    }

    #[tokio::test]
    async fn a_store_that_panics_has_told_nothing_and_the_driver_goes_on() {
        let mut store = Noting::default();
        store.panics_at = Some("k0");
        let mut flights = Flights::new(AnyStore::new(store.clone()), Arc::new(Still), nobodys());
        for n in 0..2 {
            flights.start(request(n, Op::Read(Key::new(format!("k{n}")).unwrap()), false));
        }
        let mut answers = Vec::new();
        while !flights.is_empty() {
            answers.extend(flights.next().await);
        }
        answers.sort_by_key(|(op, _)| *op);
        let [(_, Err(error)), (OpId(1), Ok(Answer::Read(None)))] = &answers[..] else {
            panic!("{answers:?}")
        };
        assert!(error.kind() == ErrorKind::Unknown && error.to_string().contains("no k0 here"), "{error}");
        // Its place is free again.
        assert_eq!(flights.ordinary, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn claims_wait_for_their_turn_and_nothing_else_does() {
        let permits = Arc::new(Semaphore::new(0));
        let mut store = Noting::default();
        store.permits = Some(Arc::clone(&permits));
        let mut flights = Flights::new(AnyStore::new(store.clone()), Arc::new(Still), nobodys());
        let key = |n: u64| Key::new(format!("k{n}")).unwrap();
        for n in 0..100 {
            flights.start(request(n, Op::Read(key(n)), false));
        }
        flights.start(request(100, Op::ReadMany(vec![key(0)], Freshness::Latest), true));
        flights.start(request(101, Op::List { prefix: String::new(), after: None, limit: 1 }, false));
        // A page and a look that are answered make no room for claims.
        assert_eq!(settle(&mut flights).await, 2);
        let begun = || std::mem::take(&mut *store.log.lock().unwrap());
        let mut first: Vec<String> = (0..32).map(|n| format!("read k{n}")).collect();
        first.extend(["look".into(), "page".into()]);
        assert_eq!(begun(), first);
        // Of 32, half are to be under way from now on: the seventeenth that comes back makes room for the next one, and
        // only after a rest.
        permits.add_permits(17);
        for _ in 0..17 {
            assert!(flights.next().await.unwrap().1.is_err());
        }
        assert_eq!(settle(&mut flights).await, 0);
        assert_eq!(begun(), Vec::<String>::new());
        for _ in 0..17 {
            assert!(flights.next().await.is_none());
        }
        assert_eq!(settle(&mut flights).await, 0);
        assert_eq!(begun(), ["read k32"]);
    }

    #[tokio::test(start_paused = true)]
    async fn s1_a_claim_that_waited_for_its_turn_for_too_long_is_not_begun() {
        let mut store = Noting::default();
        store.permits = Some(Arc::new(Semaphore::new(0)));
        let clock: Arc<dyn Clock> = Arc::new(Paused::begun());
        let troubles = Troubles::new(Arc::clone(&clock), HolderId::new("a").unwrap());
        let mut flights = Flights::new(AnyStore::new(store.clone()), clock, Arc::clone(&troubles));
        let claim = |n: u64| {
            let nonce = Nonce(n.into());
            let tenure = Some(Tenure::new(nonce, HolderId::new("a").unwrap(), Ttl::MIN, Wall(0)));
            let record = Record { fence: Fence(1), nonce, stamp: Wall(0), tenure, metadata: Metadata::new() };
            let (key, expect) = (Key::new(format!("k{n}")).unwrap(), Expect::Vacant);
            request(n, Op::Write(Box::new(Write { key, expect, record })), false)
        };
        // Which are never answered.
        (0..32).for_each(|n| flights.start(request(n, Op::Read(Key::new(format!("k{n}")).unwrap()), false)));
        (32..40).for_each(|n| flights.start(claim(n)));
        let mut ended = Vec::new();
        while !flights.is_empty() {
            ended.extend(flights.next().await);
        }
        ended.sort_by_key(|(op, _)| *op);
        let unsent = ended.iter().skip(32).all(|(_, result)| {
            let error = result.as_ref().unwrap_err();
            error.kind() == ErrorKind::Unavailable && error.to_string().contains("not asked for")
        });
        assert!(ended.len() == 40 && unsent, "{ended:?}");
        assert_eq!(store.log.lock().unwrap().len(), 32);
        assert!(troubles.worst(Some(["k39", ""])).is_some());
    }
}
