//! What is told, and done, while the store fails, in simulated time. Plan: whoever waits for a key through trouble is told at once, then
//! now and then, and when it is over, by a state that can be asked for; a candidate's "nobody leads" is told
//! apart from "nothing is known"; a wait ends with the store's own error once its patience is over, by default and as set,
//! whether calls are refused or hang, or only writes are; trouble that is over in time ends no wait, nor does that of another record; that of before
//! changes nothing, and losing to another is no trouble. What is lost because the store is away is told to be. What is asked of the store without a driver fails in the end, too.
//! Events and the metric are in `trouble_told.rs`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{TTL, World, settle, timed};
use std::time::Duration;
use tenure::fleet::{Fleet, NewUnit};
use tenure::store::{Listed, Outcome, Stored, Write};
use tenure::{
    AcquireError, AnyStore, BodyError, Candidate, ErrorKind, Held, Key, Leases, Loss, MemoryStore, Request,
    Store, StoreError,
};
use tenure_store::{Fault, Freshness};

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_told_to_be_losing_is_believed_in_no_longer_than_it_was_then() {
    let world = World::new();
    let process = world.process();
    for lock in [process.leases.lock("attached"), process.leases.lock("own").ttl(TTL)] {
        let guard = lock.acquire().await.unwrap();
        let left = guard.remaining();
        guard.tell_losing();
        assert!(guard.is_held() && guard.remaining() <= left);
        // Renewals of the session, or its own, go on meanwhile.
        tokio::time::sleep(left).await;
        assert!(!guard.is_held());
        guard.lost().await;
        drop(guard);
    }
    settle().await;
    for key in ["attached", "own"] {
        assert!(world.process().leases.try_acquire(key).await.is_ok(), "{key} was given back");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_of_a_store_that_never_answers_fails_in_the_end() {
    let process = World::new().process();
    process.faults.always(Fault::Hang);
    let (leases, hour) = (&process.leases, MINUTE * 60);
    let fails = async |what: &str, call: &mut (dyn Future<Output = bool> + Unpin)| {
        let (failed, took) = timed(tokio::time::timeout(hour, call)).await;
        assert!(failed == Ok(true) && took < MINUTE * 3, "{what}: {failed:?} after {took:?}");
    };
    let tick = leases.once_every("daily", hour).wait(Duration::from_secs(2));
    fails("once_per", &mut Box::pin(async { tick.begin().await.is_err() })).await;
    fails("last_runs", &mut Box::pin(async { leases.last_runs("daily").await.is_err() })).await;
    fails("peek", &mut Box::pin(async { leases.peek("k").await.is_err() })).await;
    fails("request", &mut Box::pin(async { leases.request("k", Request::Revoke).await.is_err() })).await;
    let store = AnyStore::new(process.store.clone());
    let fleet = Fleet::with_clock(store.clone(), "f", leases.clock().clone()).unwrap().instance(1);
    fails("fleet", &mut Box::pin(async { fleet.list().await.is_err() })).await;
    fails("create", &mut Box::pin(async { fleet.create(NewUnit::named("a")).await.is_err() })).await;
    // Also where the caller's runtime has no timers.
    process.faults.always(Fault::None);
    let of_real_time = Fleet::new(store, "f").unwrap();
    let bare = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(of_real_time.list()).unwrap().units.len()
    });
    assert_eq!(bare.join().unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_with_the_stores_own_error_when_its_patience_is_over() {
    for fault in [Fault::Refuse, Fault::Hang] {
        for own_ttl in [None, Some(TTL)] {
            let process = World::new().process();
            process.faults.always(fault);
            let lock = process.leases.lock("k");
            let lock = own_ttl.map_or(lock.clone(), |ttl| lock.ttl(ttl));
            let (acquired, took) = timed(tokio::time::timeout(MINUTE * 60, lock.acquire())).await;
            let Err(AcquireError::Store(error)) = acquired.unwrap() else { panic!("it has the key") };
            assert!(error.is_passing(), "{error}");
            let says = if fault == Fault::Refuse { "injected fault: refused" } else { "no answer" };
            assert!(error.to_string().contains(says), "{error}");
            assert!((MINUTE..MINUTE + TTL).contains(&took), "{took:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_loses_a_lease_because_the_store_is_away_is_told_so_in_each_way() {
    for way in ["guard", "body", "all", "leader", "own ttl"] {
        let process = World::new().process();
        let candidate = process.leases.candidate().key("led").start().unwrap();
        candidate.elected().await.unwrap();
        let leases = process.leases.clone();
        let losing = tokio::spawn(async move {
            let cause = |ended: Result<(), BodyError<()>>| match ended {
                Err(BodyError::Interrupted { why, .. }) => why,
                other => panic!("{other:?}"),
            };
            let body = async |held: Held| held.cancelled().await;
            match way {
                "guard" => leases.acquire("k").await.unwrap().lost().await,
                "own ttl" => leases.lock("k").ttl(TTL).acquire().await.unwrap().lost().await,
                "body" => cause(leases.lock("k").with_lease(body).await),
                "all" => cause(leases.lock_all(["k", "l"]).with_lease(body).await),
                _ => cause(candidate.run_while_leader(body).await),
            }
        });
        settle().await;
        process.faults.always(Fault::Hang);
        let loss = losing.await.unwrap();
        assert!(
            matches!(&loss, Loss::Unreachable(error) if error.to_string().contains("no answer")),
            "{way}: {loss}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn patience_for_permits_grows_with_the_session_s_ttl_spread_or_not() {
    for is_spread in [false, true] {
        let world = World::new();
        let (faults, line) = world.line();
        faults.always(Fault::Refuse);
        let leases = world.builder(&line).session_ttl(MINUTE).start().unwrap();
        let permits = leases.semaphore("s", 2);
        let (acquired, took) =
            if is_spread { timed(permits.spread(2).acquire()).await } else { timed(permits.acquire()).await };
        assert!(matches!(acquired, Err(AcquireError::Store(_))), "{acquired:?}");
        assert!((MINUTE * 6..MINUTE * 7).contains(&took), "{is_spread}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn trouble_of_before_a_wait_changes_nothing_of_its_patience() {
    let (world, patience) = (World::new(), Duration::from_secs(5));
    let (faults, line) = world.line();
    let leases = world.builder(&line).store_patience(patience).start().unwrap();
    faults.always(Fault::Refuse);
    assert!(leases.lock("k").ttl(TTL).try_acquire().await.is_err());
    // Writes have failed for longer than that when the wait begins, which goes on with reads.
    tokio::time::sleep(patience * 2).await;
    let (acquired, took) = timed(leases.lock("k").ttl(TTL).acquire()).await;
    assert!(matches!(acquired, Err(AcquireError::Store(_))), "{acquired:?}");
    assert!((patience..patience + TTL / 3).contains(&took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_disk_that_is_full_is_trouble_though_it_can_be_read() {
    let process = World::new().process();
    // A claim is refused, the look after it is not, and so on.
    process.faults.inject((0..100_000).map(|n| if n % 2 == 0 { Fault::Refuse } else { Fault::None }));
    let (acquired, took) = timed(process.leases.lock("k").ttl(TTL).acquire()).await;
    assert!(matches!(acquired, Err(AcquireError::Store(_))), "{acquired:?}");
    assert!((MINUTE..MINUTE + TTL).contains(&took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn patience_is_what_it_is_set_to() {
    let world = World::new();
    let (faults, line) = world.line();
    faults.always(Fault::Refuse);
    let leases = world.builder(&line).store_patience(Duration::from_secs(5)).start().unwrap();
    let (acquired, took) = timed(leases.acquire("k")).await;
    assert!(matches!(acquired, Err(AcquireError::Store(_))));
    assert!((Duration::from_secs(5)..Duration::from_secs(8)).contains(&took), "{took:?}");
    let (acquired, took) = timed(leases.lock("k").with_lease(|_| async {})).await;
    assert!(acquired.is_err() && took < Duration::from_secs(8), "{took:?}");

    let (faults, line) = world.line();
    faults.always(Fault::Hang);
    let leases = world.builder(&line).store_patience(Duration::MAX).start().unwrap();
    assert!(tokio::time::timeout(MINUTE * 600, leases.acquire("k")).await.is_err(), "for ever is for ever");
}

#[tokio::test(start_paused = true)]
async fn trouble_that_passes_in_time_and_keys_of_others_end_no_wait() {
    let world = World::new();
    let (a, b) = (world.process(), world.process());
    let held = b.leases.acquire("k").await.unwrap();
    let waiting = tokio::spawn({
        let leases = a.leases.clone();
        async move { leases.acquire("k").await }
    });
    for _ in 0..5 {
        a.faults.always(Fault::Refuse);
        tokio::time::sleep(MINUTE - TTL).await;
        assert!(a.leases.trouble().is_some());
        a.faults.always(Fault::None);
        tokio::time::sleep(TTL).await;
        assert_eq!(a.leases.trouble(), None, "a key that another has is no trouble");
    }
    tokio::time::sleep(MINUTE * 10).await;
    assert!(!waiting.is_finished());
    held.release().await;
    assert!(waiting.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_candidate_tells_nobody_leads_from_nothing_is_known() {
    let world = World::new();
    let (faults, line) = world.line();
    faults.always(Fault::Refuse);
    let start = || Candidate::builder(AnyStore::new(line.clone())).clock(world.clock.clone()).key("k");
    let (candidate, observer) = (start().start().unwrap(), start().observe().unwrap());
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert_eq!(candidate.leader(), None);
    for trouble in [candidate.trouble(), observer.trouble()] {
        let trouble = trouble.unwrap();
        assert_eq!((trouble.key.as_str(), trouble.error.kind()), ("k", ErrorKind::Unavailable));
        assert!(trouble.failures > 3 && trouble.lasts > Duration::from_secs(14), "{trouble:?}");
    }
    faults.always(Fault::None);
    candidate.elected().await.unwrap();
    assert_eq!(candidate.trouble(), None);
}

/// A store of which one record can't be had for now.
#[derive(Clone)]
struct Without(&'static str, MemoryStore);

impl Without {
    fn check(&self, key: &Key) -> Result<(), StoreError> {
        if key.as_str() == self.0 { Err(StoreError::unavailable("this row is locked")) } else { Ok(()) }
    }
}

impl Store for Without {
    tenure_store::pass_on!(1: capabilities, id, write_many, list, remove, image, mend, changed);

    async fn read(&self, key: &Key) -> Result<Option<Stored>, StoreError> {
        self.check(key)?;
        self.1.read(key).await
    }
    async fn read_many(&self, keys: &[Key], freshness: Freshness) -> Result<Vec<Listed>, StoreError> {
        keys.iter().try_for_each(|key| self.check(key))?;
        self.1.read_many(keys, freshness).await
    }
    async fn write(&self, write: Write) -> Result<Outcome, StoreError> {
        self.check(&write.key)?;
        self.1.write(write).await
    }
}

impl Without {
    fn leases(self, world: &World) -> Leases {
        let builder = Leases::builder(AnyStore::new(self)).clock(world.clock.clone());
        // Another process's session would be the first of all keys.
        builder.session_ttl(TTL).session_prefix("a/").start().unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_permits_ends_by_trouble_with_their_own_record_and_no_other() {
    let world = World::new();
    let leases = Without("semaphore/k", world.memory.clone()).leases(&world);
    let (acquired, took) = timed(tokio::time::timeout(MINUTE * 60, leases.exclusive("k").acquire())).await;
    let Err(AcquireError::Store(error)) = acquired.unwrap() else { panic!("it has the permit") };
    assert!(error.to_string().contains("this row is locked"), "{error}");
    assert!((MINUTE..MINUTE + TTL).contains(&took), "{took:?}");
    // A lock of the same name is another record.
    let others = world.builder(&world.line().1).session_prefix("a/").start().unwrap();
    let held = others.exclusive("k").acquire().await.unwrap();
    let leases = Without("k", world.memory.clone()).leases(&world);
    let waiting = tokio::spawn({
        let leases = leases.clone();
        async move { leases.exclusive("k").acquire().await }
    });
    let lock = timed(leases.acquire("k")).await;
    assert!(lock.0.is_err() && lock.1 >= MINUTE, "{:?}", lock.1);
    tokio::time::sleep(MINUTE * 2).await;
    assert!(!waiting.is_finished());
    held.release().await;
    assert!(waiting.await.unwrap().is_ok());
}
