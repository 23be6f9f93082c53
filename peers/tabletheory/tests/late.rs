//! Requests and answers of TableTheory's leases that are lost, late, or cut off.
//!
//! Plan: a refresh that arrives after a later one has no effect, nor does a repeated one, or a release; while one is open, the lease
//! is held until the sooner of both expiries; a claim that landed when nobody waited any more is taken up by the same manager, and by
//! no other; a request that was never sent changes nothing; a lease that is kept in the background is prolonged, ends with its item,
//! and once lost stays lost.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests fail by panicking, also in what they share"
)]

use crate::support::{TABLE, clock, item, keys, make_table, manager, plain, until};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tenure_core::{Clock, ErrorKind, Wall};
use tenure_dynamodb_testkit::stub::{Fate, Stub};
use tenure_dynamodb_testkit::{client, endpoint};
use tenure_tabletheory::{HeldLease, LeaseError, Manager, TableTheoryOptions};
use tenure_testkit::{ManualClock, RealClock, unique};

const TEN: Duration = Duration::from_secs(10);

/// A manager behind a stub that lets all through but the next requests of `action`, as many as `left` says.
struct Behind {
    manager: Manager,
    stub: Stub,
    left: Arc<AtomicUsize>,
    clock: Arc<ManualClock>,
}

async fn behind(action: &'static str, fate: Fate) -> Behind {
    make_table(TABLE, ["pk", "sk"]).await;
    let left = Arc::new(AtomicUsize::new(0));
    let count = left.clone();
    let stub = Stub::start(move |asked, _| {
        let less = |left: usize| left.checked_sub(1);
        let spoilt = asked == action && count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok();
        if spoilt { fate.clone() } else { Fate::Through }
    })
    .await;
    let clock = clock();
    let manager = manager(client(&stub.endpoint), TableTheoryOptions::new(TABLE), clock.clone());
    Behind { manager, stub, left, clock }
}

impl Behind {
    fn spoil(&self, count: usize) {
        self.left.store(count, Ordering::SeqCst);
    }
}

fn kind(error: &LeaseError) -> Option<ErrorKind> {
    if let LeaseError::Store(error) = error { Some(error.kind()) } else { None }
}

#[tokio::test]
async fn a_refresh_that_comes_late_has_no_effect() {
    let Behind { manager, stub, left, clock } = behind("UpdateItem", Fate::RequestLost).await;
    let pk = unique("late");
    let mut lease = manager.acquire(&pk, TEN).await.unwrap();
    let first = lease.token().to_owned();
    left.store(usize::MAX, Ordering::SeqCst);
    stub.take();
    let refused = manager.refresh(&mut lease, TEN).await.unwrap_err();
    assert_eq!(kind(&refused), Some(ErrorKind::Unknown), "{refused}");
    assert!(lease.is_held(clock.now()), "it is still ours");
    let lost = stub.requests("UpdateItem");
    assert_eq!(lost.len(), 3, "one, and again with another token");

    left.store(0, Ordering::SeqCst);
    clock.advance(Duration::from_secs(5));
    manager.refresh(&mut lease, TEN).await.unwrap();
    assert_ne!(lease.token(), first, "what is on its way finds another token");
    let before = item(&pk, "LOCK").await.unwrap();
    assert_eq!(before["lease_token"].as_s().unwrap(), lease.token());
    for late in lost {
        let answer = late.repeat().await;
        assert!(answer.contains("ConditionalCheckFailed"), "{answer}");
    }
    assert_eq!(item(&pk, "LOCK").await.unwrap(), before);
    assert_eq!(lease.remaining(clock.now()), Duration::from_millis(9500));
    // From then on all is as ever.
    let second = lease.token().to_owned();
    manager.refresh(&mut lease, TEN).await.unwrap();
    assert_eq!(lease.token(), second);
    manager.release(&mut lease).await.unwrap();
    assert_eq!(item(&pk, "LOCK").await, None);
}

#[tokio::test]
async fn s1_a_release_that_comes_late_leaves_what_was_refreshed_after_it() {
    let Behind { manager, stub, left, clock } = behind("DeleteItem", Fate::RequestLost).await;
    let pk = unique("regretted");
    let mut lease = manager.acquire(&pk, TEN).await.unwrap();
    left.store(usize::MAX, Ordering::SeqCst);
    let told = manager.release(&mut lease).await.unwrap_err();
    assert_eq!(kind(&told), Some(ErrorKind::Unknown), "{told}");
    // It is wanted after all.
    manager.refresh(&mut lease, TEN).await.unwrap();
    assert!(lease.is_held(clock.now()));
    for late in stub.requests("DeleteItem") {
        let answer = late.repeat().await;
        assert!(answer.contains("ConditionalCheckFailed"), "{answer}");
    }
    assert!(item(&pk, "LOCK").await.is_some(), "it is believed");
    left.store(0, Ordering::SeqCst);
    manager.release(&mut lease).await.unwrap();
    assert_eq!(item(&pk, "LOCK").await, None);
}

#[tokio::test]
async fn a_refresh_whose_answer_was_lost_is_read_up() {
    let Behind { manager, stub, left, clock } = behind("UpdateItem", Fate::AnswerLost).await;
    let pk = unique("read-up");
    let mut lease = manager.acquire(&pk, TEN).await.unwrap();
    let first = lease.token().to_owned();
    clock.advance(Duration::from_secs(3));
    stub.take();
    left.store(1, Ordering::SeqCst);
    manager.refresh(&mut lease, TEN).await.unwrap();
    let asked = ["UpdateItem", "GetItem"].map(|action| stub.requests(action).len());
    assert_eq!((asked, stub.take()), ([1, 1], 2), "it has landed, so nothing is repeated");
    assert_eq!((lease.token(), lease.remaining(clock.now())), (&*first, Duration::from_millis(9500)));
    // And nothing is open: the next one is as ever.
    manager.refresh(&mut lease, TEN).await.unwrap();
    assert_eq!((lease.token(), stub.take()), (&*first, 1));
}

#[tokio::test]
async fn a_change_of_token_whose_answer_was_lost_is_found_out() {
    for round in 0..2 {
        let lost = Behind { ..behind("UpdateItem", Fate::AnswerLost).await };
        let pk = unique("moved");
        let mut lease = lost.manager.acquire(&pk, TEN).await.unwrap();
        // One refresh that does not arrive, and is not known not to.
        let nowhere = Stub::start(|_, _| Fate::RequestLost).await;
        let cut = manager(client(&nowhere.endpoint), TableTheoryOptions::new(TABLE), lost.clock.clone());
        assert_eq!(kind(&cut.refresh(&mut lease, TEN).await.unwrap_err()), Some(ErrorKind::Unknown));
        let first = lease.token().to_owned();
        lost.spoil(1);
        lost.clock.advance(Duration::from_secs(2));
        if round == 0 {
            lost.manager.refresh(&mut lease, TEN).await.unwrap();
            assert_ne!(lease.token(), first);
            assert_eq!(item(&pk, "LOCK").await.unwrap()["lease_token"].as_s().unwrap(), lease.token());
            assert_eq!(lease.remaining(lost.clock.now()), Duration::from_millis(9500));
        }
        lost.manager.release(&mut lease).await.unwrap();
        assert_eq!(item(&pk, "LOCK").await, None, "whichever token it had");
    }
}

#[tokio::test]
async fn a_release_finds_a_token_that_was_changed() {
    let lost = behind("UpdateItem", Fate::AnswerLost).await;
    let pk = unique("moved");
    let mut lease = lost.manager.acquire(&pk, TEN).await.unwrap();
    let nowhere = Stub::start(|_, _| Fate::RequestLost).await;
    let cut = manager(client(&nowhere.endpoint), TableTheoryOptions::new(TABLE), lost.clock.clone());
    cut.refresh(&mut lease, TEN).await.unwrap_err();
    // The token is changed, but neither the answer to that comes nor to the read that follows.
    let blind = Stub::start(|action, _| match action {
        "UpdateItem" => Fate::AnswerLost,
        _ => Fate::RequestLost,
    })
    .await;
    let blind = manager(client(&blind.endpoint), TableTheoryOptions::new(TABLE), lost.clock.clone());
    assert_eq!(kind(&blind.refresh(&mut lease, TEN).await.unwrap_err()), Some(ErrorKind::Unknown));
    assert_ne!(item(&pk, "LOCK").await.unwrap()["lease_token"].as_s().unwrap(), lease.token());
    lost.manager.release(&mut lease).await.unwrap();
    assert_eq!(item(&pk, "LOCK").await, None);
}

#[tokio::test]
async fn while_a_refresh_is_open_the_sooner_expiry_counts() {
    make_table(TABLE, ["pk", "sk"]).await;
    let clock = clock();
    let manager_ = manager(client(&endpoint()), TableTheoryOptions::new(TABLE), clock.clone());
    let pk = unique("sooner");
    let mut lease = manager_.acquire(&pk, TEN).await.unwrap();
    let blind = Stub::start(|action, _| match action {
        "UpdateItem" => Fate::AnswerLost,
        _ => Fate::RequestLost,
    })
    .await;
    let blind = manager(client(&blind.endpoint), TableTheoryOptions::new(TABLE), clock.clone());
    // It was made to end sooner, and the holder can't know.
    blind.refresh(&mut lease, Duration::from_secs(3)).await.unwrap_err();
    assert_eq!(lease.remaining(clock.now()), Duration::from_millis(2500));
    // Neither is it held for longer before that is known.
    blind.refresh(&mut lease, Duration::from_secs(60)).await.unwrap_err();
    assert_eq!(lease.remaining(clock.now()), Duration::from_millis(2500));
    manager_.refresh(&mut lease, TEN).await.unwrap();
    assert_eq!(lease.remaining(clock.now()), Duration::from_millis(9500));
}

#[tokio::test]
async fn a_claim_that_nobody_waited_for_is_taken_up() {
    let Behind { manager: ours, stub, left, clock } = behind("PutItem", Fate::RequestLost).await;
    let theirs = manager(client(&endpoint()), TableTheoryOptions::new(TABLE), clock.clone());
    let pk = unique("orphan");
    left.store(3, Ordering::SeqCst);
    let refused = ours.acquire(&pk, TEN).await.unwrap_err();
    assert_eq!(kind(&refused), Some(ErrorKind::Unknown), "{refused}");
    assert_eq!(item(&pk, "LOCK").await, None);
    let late = stub.requests("PutItem").remove(0);
    assert!(late.repeat().await.contains("200 OK"), "it arrives after all");
    assert!(matches!(theirs.acquire(&pk, TEN).await, Err(LeaseError::Held { .. })));

    clock.advance(Duration::from_secs(4));
    let landed = item(&pk, "LOCK").await.unwrap()["lease_token"].as_s().unwrap().clone();
    let mut lease = ours.acquire(&pk, TEN).await.unwrap();
    assert_ne!(lease.token(), landed, "an earlier attempt to take it up may still be on its way");
    assert_eq!(lease.remaining(clock.now()), Duration::from_millis(9500));
    assert!(matches!(ours.acquire(&pk, TEN).await, Err(LeaseError::Held { .. })), "but once only");
    assert!(late.repeat().await.contains("ConditionalCheckFailed"), "repeated, it has no effect");
    assert_eq!(item(&pk, "LOCK").await.unwrap()["lease_token"].as_s().unwrap(), lease.token());
    ours.release(&mut lease).await.unwrap();
}

#[tokio::test]
async fn a_claim_whose_future_was_dropped_is_taken_up() {
    let Behind { manager, stub, left, .. } = behind("PutItem", Fate::AnswerLost).await;
    let pk = unique("dropped");
    left.store(1, Ordering::SeqCst);
    let asking = tokio::spawn({
        let (manager, pk) = (manager.clone(), pk.clone());
        async move { manager.acquire(&pk, TEN).await }
    });
    until(async || item(&pk, "LOCK").await.is_some()).await;
    asking.abort();
    match asking.await {
        // It was faster, and has found out.
        Ok(lease) => manager.release(&mut lease.unwrap()).await.unwrap(),
        Err(error) => assert!(error.is_cancelled()),
    }
    assert!(!stub.requests("PutItem").is_empty());
    manager.acquire(&pk, TEN).await.unwrap();
}

#[tokio::test]
async fn what_was_never_sent_changes_nothing() {
    let Behind { manager: ours, clock, .. } = behind("PutItem", Fate::Through).await;
    let unreachable = manager(client("http://127.0.0.1:9"), TableTheoryOptions::new(TABLE), clock.clone());
    let pk = unique("unsent");
    let refused = unreachable.acquire(&pk, TEN).await.unwrap_err();
    assert_eq!(kind(&refused), Some(ErrorKind::Unavailable), "{refused}");
    let mut lease = ours.acquire(&pk, TEN).await.unwrap();
    let before = lease.clone();
    let refused = unreachable.refresh(&mut lease, Duration::from_secs(1)).await.unwrap_err();
    assert_eq!((kind(&refused), &lease), (Some(ErrorKind::Unavailable), &before));
    assert!(unreachable.release(&mut lease).await.is_err());
    assert!(!lease.is_held(clock.now()), "whoever gives it back stops");
    ours.release(&mut lease).await.unwrap();
    assert_eq!(item(&pk, "LOCK").await, None);
}

#[tokio::test]
async fn a_wall_clock_that_is_set_ends_belief_and_never_prolongs_it() {
    let Behind { manager, clock, .. } = behind("PutItem", Fate::Through).await;
    let lease = manager.acquire(&unique("wall"), TEN).await.unwrap();
    let now = clock.now().wall.0;
    clock.set_wall(Wall(now - 3_600_000));
    assert_eq!(lease.remaining(clock.now()), Duration::from_millis(9500));
    clock.set_wall(Wall(now + 9499));
    assert_eq!(lease.remaining(clock.now()), Duration::from_millis(1));
    clock.set_wall(Wall(now + 3_600_000));
    assert!(!lease.is_held(clock.now()));
}

#[tokio::test]
async fn a_lease_that_was_seen_to_be_lost_stays_lost() {
    let Behind { manager, clock, .. } = behind("PutItem", Fate::Through).await;
    let now = clock.now().wall.0;
    let hour = Duration::from_secs(3600);
    // Long enough for no refresh to come before the end of this test.
    let hold = manager.hold(manager.acquire(&unique("sticky"), hour).await.unwrap(), hour);
    assert!(hold.is_held());
    clock.set_wall(Wall(now + 3_600_000));
    assert!(!hold.is_held(), "by the wall clock its time is over");
    clock.set_wall(Wall(now));
    assert!(!hold.is_held(), "its holder may have acted on that");
    hold.release().await.unwrap();
}

#[tokio::test]
async fn a_lease_is_kept_in_the_background_and_ends_with_its_item() {
    make_table(TABLE, ["pk", "sk"]).await;
    let clock: Arc<dyn Clock> = Arc::new(RealClock::new());
    let options = TableTheoryOptions::new(TABLE).skew_margin(Duration::from_millis(100));
    let manager = manager(client(&endpoint()), options, clock.clone());
    let (pk, span) = (unique("kept"), Duration::from_secs(6));
    let lease = manager.acquire(&pk, span).await.unwrap();
    let first: HeldLease = lease.clone();
    let hold = manager.hold(lease, span);
    // Longer than without a refresh, in which case this never comes.
    until(async || !first.is_held(clock.now())).await;
    assert!(hold.is_held(), "{:?}", hold.trouble());
    let standing = manager.look(&pk, "LOCK").await.unwrap().unwrap();
    assert!(standing.token == first.token() && standing.expires_at > first.expires_at());

    let delete = plain().delete_item().table_name(TABLE);
    delete.set_key(Some(keys(&pk, "LOCK").into_iter().collect())).send().await.unwrap();
    until(async || !hold.is_held()).await;
    assert_eq!(hold.trouble(), Some(LeaseError::NotOwned { key: hold.key().clone() }));
    hold.release().await.unwrap();

    let hold = manager.hold(manager.acquire(&pk, span).await.unwrap(), span);
    hold.release().await.unwrap();
    assert_eq!(item(&pk, "LOCK").await, None);
    let lease = manager.acquire(&pk, span).await.unwrap();
    let last: HeldLease = lease.clone();
    drop(manager.hold(lease, span));
    until(async || !last.is_held(clock.now())).await;
    let standing = manager.look(&pk, "LOCK").await.unwrap().unwrap();
    assert_eq!(standing.expires_at, last.expires_at(), "nobody wants it any more");
}
