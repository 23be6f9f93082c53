//! What is told, and done, while the store fails, in simulated time. Plan: whoever waits for a key through trouble is told at once, then
//! now and then, and when it is over, by a state that can be asked for; a candidate's "nobody leads" is told
//! apart from "nothing is known"; a wait ends with the store's own error once its patience is over, by default and as set,
//! whether calls are refused or hang, or only writes are; trouble that is over in time ends no wait, that of before changes nothing, and losing to another is no trouble.
//! Events and the metric are in `trouble_told.rs`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{TTL, World, timed};
use std::time::Duration;
use tenure::{AcquireError, AnyStore, Candidate, ErrorKind};
use tenure_store::Fault;

const MINUTE: Duration = Duration::from_secs(60);

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
