//! Bad input is told by name, before any I/O.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use crate::common::{TTL, World};
use std::time::Duration;
use tenure::fleet::Fleet;
use tenure::range::Section;
use tenure::{AcquireError, AnyStore, Candidate, ErrorKind, Leases, Metadata, Value};

async fn refused(lock: tenure::Lock) -> String {
    match lock.try_acquire().await {
        Err(AcquireError::Store(error)) if error.kind() == ErrorKind::Invalid => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn keys_ttls_and_metadata_are_checked_first() {
    let world = World::new();
    let process = world.process();
    let leases = &process.leases;
    assert!(refused(leases.lock("")).await.contains("can't be empty"));
    assert!(refused(leases.lock("x".repeat(513))).await.contains("the limit is 512"));
    assert!(
        refused(leases.lock("k").ttl(Duration::ZERO)).await.contains("below this store's minimum of 10ms")
    );
    assert!(refused(leases.lock("k").ttl(Duration::from_secs(86_401))).await.contains("10 ms to 1 day"));
    let large = Metadata::from([("x".to_owned(), Value::Text("x".repeat(9000)))]);
    assert!(refused(leases.lock("k").metadata(large.clone())).await.contains("limit of 8192"));
    let mut guard = leases.try_acquire("k").await.unwrap();
    process.store.take();
    assert!(guard.update(large).await.is_err());
    assert_eq!(process.store.take().round_trips(), 0);
}

#[tokio::test(start_paused = true)]
async fn s1_keys_of_tenures_own_records_are_refused() {
    let world = World::new();
    let process = world.process();
    let (_, line) = world.line();
    let elsewhere = world.builder(&line).session_prefix("process/").start().unwrap();
    let own = process.leases.session_key().as_str().to_owned();
    for key in [own.as_str(), "session/other", "section/x", "fleet/f/unit/u", "work/j/u"] {
        let text = refused(process.leases.lock(key)).await;
        assert!(text.contains("choose a name that doesn't begin with"), "{text}");
        assert_eq!(refused(elsewhere.lock(key)).await, text);
    }
    let own = elsewhere.session_key().as_str().to_owned();
    for key in [own.as_str(), "process/other"] {
        assert!(refused(elsewhere.lock(key)).await.contains("a process's session"));
    }
    let (_, line_of_bare) = world.line();
    let bare = world.builder(&line_of_bare).session_prefix("").start().unwrap();
    assert!(refused(bare.lock(bare.session_key().as_str())).await.contains("a process's session"));
    assert!(bare.try_acquire("process").await.is_ok(), "without a prefix, only its own key is a session's");
    // A unit's record can be carried on, which harms nothing; the others can't.
    assert!(matches!(
        process.leases.lock("work/j/u").keep_metadata(None).try_acquire().await,
        Err(AcquireError::Absent)
    ));
    process.store.take();
    for key in ["section/x", "fleet/f/unit/u", "session/other"] {
        refused(process.leases.lock(key).keep_metadata(None)).await;
    }
    // Nor can a token be made up for one.
    let token = process.leases.try_acquire("k").await.unwrap().into_token().await.unwrap();
    let forged = serde_json::to_string(&token).unwrap().replace("\"k\"", "\"section/x\"");
    process.store.take();
    let forged = serde_json::from_str(&forged).unwrap();
    assert!(process.leases.adopt(&forged).await.unwrap_err().to_string().contains("a section of ranges"));
    assert_eq!(process.store.take().round_trips() + line.take().round_trips(), 0);
}

#[tokio::test(start_paused = true)]
async fn prefixes_of_metrics_are_few_and_each_is_the_start_of_a_key() {
    let world = World::new();
    let (_, line) = world.line();
    let named = |prefixes: Vec<String>| world.builder(&line).metrics_by_prefix(prefixes).start();
    let numbered = |most: u32| (0..most).map(|n| format!("k{n}/")).collect();
    assert!(named(numbered(32)).is_ok() && named(Vec::new()).is_ok());
    for (prefixes, why) in [
        (numbered(33), "metrics by 33 prefixes would make too many series; name 32 at the most"),
        (vec![String::new()], "the start of a key: a key can't be empty"),
        (vec!["x".repeat(513)], "the limit is 512"),
        (vec!["a/".to_owned(), "a/".to_owned()], "the prefix \"a/\" are there already"),
        (vec!["other".to_owned()], "none \"other\", which is for the rest"),
    ] {
        let refused = named(prefixes).unwrap_err().to_string();
        assert!(refused.contains(why), "{refused}");
    }
    assert_eq!(line.take().round_trips(), 0);
}

#[tokio::test(start_paused = true)]
async fn l4_a_drift_with_which_no_lease_could_be_kept_is_refused() {
    let world = World::new();
    let (_, line) = world.line();
    let drifting = |rho| world.builder(&line).drift(tenure::Drift::per_mille(rho).unwrap());
    for rho in [220, 500] {
        let refused = drifting(rho).start().unwrap_err().to_string();
        assert!(refused.contains("choose a smaller drift, or renew every"), "{refused}");
    }
    drifting(200).start().unwrap();
    // With more renewals there is room for more, but not for a lease with a ttl that they are too rare for.
    let often = drifting(300).renew_every(TTL / 5).start().unwrap();
    assert!(refused(often.lock("k").ttl(TTL / 2)).await.contains("drift by 300 ‰"));
    let fleet = tenure::fleet::Fleet::new(AnyStore::new(line.clone()), "f").unwrap();
    let worker = fleet.join().drift(tenure::Drift::per_mille(220).unwrap()).start();
    assert!(worker.unwrap_err().to_string().contains("a smaller drift"));
    assert_eq!(line.take().round_trips(), 0);
}

#[tokio::test(start_paused = true)]
async fn l4_plain_data_that_could_not_be_kept_is_not_adopted_and_stays_good() {
    let world = World::new();
    let steady = world.process().leases;
    let token = steady.lock("k").ttl(TTL / 2).acquire().await.unwrap().into_token().await.unwrap();
    let (_, line) = world.line();
    let drift = tenure::Drift::per_mille(300).unwrap();
    let unsteady = world.builder(&line).drift(drift).renew_every(TTL / 5).start().unwrap();
    let refused = unsteady.adopt(&token).await.unwrap_err().to_string();
    assert!(refused.contains("drift by 300 ‰"), "{refused}");
    assert_eq!(line.take().round_trips(), 0);
    let token = unsteady.refresh(&token).await.unwrap();
    assert!(steady.adopt(&token).await.unwrap().is_held());
}

#[test]
fn a_runtime_without_timers_is_refused_wherever_one_is_named_or_started_in() {
    let bare = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (store, there) = (tenure::memory(), || bare.handle().clone());
    let (leases, fleet) = (Leases::new(store.clone()).unwrap(), Fleet::new(store.clone(), "f").unwrap());
    let _inside = bare.enter();
    for (what, started) in [
        ("leases", Leases::builder(store.clone()).runtime(there()).start().map(drop)),
        ("with a clock", Leases::builder(store.clone()).clock(tenure::clock::system()).start().map(drop)),
        ("section", Section::builder(store.clone(), "s").runtime(there()).start().map(drop)),
        ("worker", fleet.join().runtime(there()).start().map(drop)),
        ("candidate", Candidate::builder(store).start().map(drop)),
        ("observer", leases.candidate().observe().map(drop)),
    ] {
        let refused = started.unwrap_err().to_string();
        assert!(refused.contains("build it with enable_time"), "{what}: {refused}");
    }
    // What needs none has its own.
    assert!(fleet.join().start().is_ok());
}

#[tokio::test(start_paused = true)]
async fn no_patience_is_too_long() {
    let world = World::new();
    let process = world.process();
    let held = process.leases.acquire_within("k", Duration::MAX).await.unwrap();
    assert!(held.is_held());
}

#[tokio::test(start_paused = true)]
async fn settings_are_checked_at_the_start() {
    let world = World::new();
    let (_, line) = world.line();
    let error = |builder: tenure::LeasesBuilder| builder.start().unwrap_err().to_string();
    assert!(error(world.builder(&line).session_ttl(Duration::from_millis(1))).contains("minimum"));
    assert!(error(world.builder(&line).session_ttl(TTL * 10_000)).contains("1 day"));
    assert!(error(world.builder(&line).poll(Duration::ZERO)).contains("poll interval"));
    assert!(error(world.builder(&line).session_prefix("x".repeat(600))).contains("limit is 512"));
    assert!(error(world.builder(&line).session_prefix("section/")).contains("a section of ranges"));
    let large = Metadata::from([("x".to_owned(), Value::Text("x".repeat(9000)))]);
    assert!(error(world.builder(&line).metadata(large)).contains("limit of 8192"));
    assert_eq!(line.take().round_trips(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_record_that_must_exist_is_not_made_up() {
    let world = World::new();
    let process = world.process();
    assert!(matches!(
        process.leases.lock("k").keep_metadata(None).try_acquire().await,
        Err(AcquireError::Absent)
    ));
}

#[tokio::test(start_paused = true)]
async fn stopped_leases_say_so() {
    let world = World::new();
    let process = world.process();
    process.leases.stop().await;
    process.leases.stop().await;
    assert!(matches!(process.leases.try_acquire("k").await, Err(AcquireError::Stopped)));
}
