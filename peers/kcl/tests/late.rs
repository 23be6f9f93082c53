//! Coordinators of the dialect `kcl` on DynamoDB Local, where time passes between a request and its answer.
//!
//! Plan: the clock stands still but for what passes while a request is under way. Belief counts from before a request was sent, at
//! a take and at a renewal; where an answer was lost, from before the first of the requests that may have done it; a lease that
//! was taken too late to be believed in is given back and never told; a look that is asked for follows that which is under way; a silent row is looked at when its silence is over,
//! however seldom the table is read otherwise; only so many requests are under way at a time. A stolen lease is told a whole
//! failover time after the take, or at once if that was chosen, and never if it was stolen in turn; so is one that a peer was evicted
//! from, but not one that was given back; what was lost before anybody listened is not told; so many are stolen by one look, and never more taken than the limit.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking, also in what they share"
)]

use crate::support::{lease_table, name_of};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tenure_core::{Clock, Drift, Tick, Ttl};
use tenure_dynamodb::DynamoConfig;
use tenure_dynamodb::aws_sdk_dynamodb::Client;
use tenure_dynamodb_testkit::client;
use tenure_dynamodb_testkit::stub::{Fate, Stub};
use tenure_kcl::{Coordinator, Edit, Event, Events, Fields, Format, Held, Options, Row, Table};
use tenure_testkit::{ManualClock, RealClock};
use tokio::time::{sleep, timeout};

const FAILOVER: Duration = Duration::from_secs(10);
/// Long enough for anything on a busy machine.
const LONG: Duration = Duration::from_secs(30);

fn belief() -> Duration {
    Drift::default().belief(Ttl::new(FAILOVER).unwrap())
}

/// A table with so many leases, and the same behind a stub that is told of each write, and how manyth it is. To read it
/// takes a moment.
async fn behind(
    leases: usize,
    clock: Arc<dyn Clock>,
    on_write: impl Fn(usize) -> Fate + Send + Sync + 'static,
) -> (Table, Table, Stub) {
    let table = lease_table("kcl-late", Format::kcl()).await;
    for n in 0..leases {
        table.create(&format!("k{n:02}"), Fields::new()).await.unwrap();
    }
    let writes = AtomicUsize::new(0);
    let stub = Stub::start(move |action, _| match action {
        "UpdateItem" => on_write(writes.fetch_add(1, Ordering::SeqCst)),
        "Scan" => Fate::Late(Duration::from_millis(100)),
        _ => Fate::Through,
    })
    .await;
    let client = Client::from_conf(client(&stub.endpoint).build());
    let config = DynamoConfig::new(name_of(&table));
    let slow = Table::with_client(&client, config, Format::kcl(), clock).await.unwrap();
    (table, slow, stub)
}

async fn taken(events: &mut Events) -> Held {
    match timeout(LONG, events.next()).await.expect("an event in time").expect("an event") {
        Event::Taken(held) => held,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn belief_counts_from_before_the_request_was_sent() {
    const PASSES: Duration = Duration::from_secs(2);
    let clock = Arc::new(ManualClock::new());
    let passing = Arc::clone(&clock);
    let (_, table, _stub) = behind(1, clock, move |_| {
        passing.advance(PASSES);
        Fate::Through
    })
    .await;
    let (worker, mut events) = Coordinator::start(&table, Options::new("me").failover(FAILOVER)).unwrap();
    let held = taken(&mut events).await;
    assert_eq!(held.remaining(), belief() - PASSES, "of a take");
    worker.renew_now().await.unwrap();
    assert_eq!(held.remaining(), belief() - PASSES, "of a renewal");
}

#[tokio::test]
async fn where_an_answer_was_lost_belief_counts_from_before_the_first_request() {
    const PASSES: Duration = Duration::from_secs(2);
    let clock = Arc::new(ManualClock::new());
    let passing = Arc::clone(&clock);
    let (_, table, _stub) = behind(1, clock, move |nth| {
        // The takes and the renewals are two requests each: one without an answer, and one that finds what it did.
        if nth.is_multiple_of(2) {
            passing.advance(PASSES);
            Fate::AnswerLost
        } else {
            Fate::Through
        }
    })
    .await;
    let (worker, mut events) = Coordinator::start(&table, Options::new("me").failover(FAILOVER)).unwrap();
    let held = taken(&mut events).await;
    assert_eq!((held.counter_at_take(), held.remaining()), (2, belief() - PASSES), "of a take");
    worker.renew_now().await.unwrap();
    assert_eq!((held.row().counter(), held.remaining()), (3, belief() - PASSES), "of a renewal");
}

#[tokio::test]
async fn what_was_taken_too_late_is_given_back_and_never_told() {
    let clock = Arc::new(ManualClock::new());
    let passing = Arc::clone(&clock);
    let (there, table, _stub) = behind(1, clock.clone(), move |nth| {
        passing.advance(if nth == 0 { FAILOVER } else { Duration::ZERO });
        Fate::Through
    })
    .await;
    let (_worker, mut events) = Coordinator::start(&table, Options::new("me").failover(FAILOVER)).unwrap();
    let given_back = async {
        while there.read("k00").await.unwrap().unwrap().counter() < 3 {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(LONG, given_back).await.expect("it is given back");
    // By the next look, if not before, it is seen to be free.
    clock.advance(FAILOVER);
    let first = taken(&mut events).await;
    assert_eq!(first.counter_at_take(), 4, "taken, given back, and taken again: the first that is told");
}

#[tokio::test]
async fn a_row_is_looked_at_when_its_silence_is_over() {
    let clock = Arc::new(ManualClock::new());
    let (there, table, _stub) = behind(1, clock.clone(), |_| Fate::Through).await;
    let row = there.read("k00").await.unwrap().unwrap();
    there.take(&row, "dead").await.unwrap();
    let options = Options::new("me").failover(FAILOVER).look_every(FAILOVER * 9);
    let (worker, mut events) = Coordinator::start(&table, options).unwrap();
    // The first look is under way, and not the one that is asked for.
    timeout(LONG, worker.take_now()).await.expect("a look at once").unwrap();
    assert!(worker.held().is_empty(), "it was seen just now");
    clock.advance(FAILOVER);
    assert_eq!(taken(&mut events).await.counter_at_take(), 3);
}

/// The same, with a clock that stands still; each lease is that of "other".
async fn of_another(leases: usize) -> (Arc<ManualClock>, Table) {
    let clock = Arc::new(ManualClock::new());
    let (there, table, _stub) = behind(leases, clock.clone(), |_| Fate::Through).await;
    for row in there.list().await.unwrap().rows {
        there.take(&row, "other").await.unwrap();
    }
    (clock, table)
}

#[tokio::test]
async fn a_stolen_lease_is_told_a_whole_failover_time_after_the_take() {
    let (clock, table) = of_another(2).await;
    let (worker, mut events) = Coordinator::start(&table, Options::new("me").failover(FAILOVER)).unwrap();
    worker.take_now().await.unwrap();
    for _ in 0..3 {
        clock.advance(Duration::from_secs(3));
        // So it was taken, and is renewed: else there would be nothing to be told in the end.
        timeout(LONG, worker.renew_now()).await.expect("a renewal in time").unwrap();
        assert!(worker.held().is_empty(), "whoever it was stolen from may not have noticed");
    }
    let stolen = table.list().await.unwrap().rows.into_iter().find(|row| row.owner() == Some("me")).unwrap();
    clock.advance(Duration::from_secs(1));
    let mut held = taken(&mut events).await;
    if held.key() != stolen.key() {
        // The other one is silent by now.
        held = taken(&mut events).await;
    }
    // The fourth renewal has shown that nobody has stolen it in turn.
    assert_eq!((held.counter_at_take(), held.row().counter()), (3, 7), "taken once, and renewed four times");
}

#[tokio::test]
async fn what_is_stolen_in_turn_before_it_is_told_is_never_told() {
    let (clock, table) = of_another(2).await;
    let (worker, mut events) = Coordinator::start(&table, Options::new("me").failover(FAILOVER)).unwrap();
    worker.take_now().await.unwrap();
    let mine = |rows: Vec<Row>| rows.into_iter().find(|row| row.owner() == Some("me"));
    let stolen = mine(table.list().await.unwrap().rows).expect("one of two");
    clock.advance(FAILOVER / 4);
    worker.renew_now().await.unwrap();
    clock.advance(FAILOVER / 2);
    worker.renew_now().await.unwrap();
    // When it is to be told, another has it, which no renewal has shown so far.
    let row = table.read(stolen.key()).await.unwrap().unwrap();
    table.take(&row, "other").await.unwrap();
    clock.advance(FAILOVER / 4);
    // By then the other lease is silent. What is told first is that, or this one when it is silent in turn.
    clock.advance(FAILOVER / 10);
    let first = taken(&mut events).await;
    assert!(first.key() != stolen.key() || first.counter_at_take() > stolen.counter() + 2, "{first:?}");
}

#[tokio::test]
async fn what_was_evicted_is_told_later_and_what_was_given_back_at_once() {
    let clock = Arc::new(ManualClock::new());
    let (there, table, _stub) = behind(2, clock.clone(), |_| Fate::Through).await;
    let of_peers = there.read("k00").await.unwrap().unwrap();
    let of_peers = there.take(&of_peers, "peer").await.unwrap();
    there.evict(&of_peers).await.unwrap();
    let (first, mut told) = Coordinator::start(&table, Options::new("first").failover(FAILOVER)).unwrap();
    assert_eq!(taken(&mut told).await.key(), "k01", "nobody ever had it");
    first.take_now().await.unwrap();
    assert_eq!(first.held().len(), 1, "the peer may have stolen the other from one who does not know yet");
    clock.advance(FAILOVER / 2);
    first.renew_now().await.unwrap();
    clock.advance(FAILOVER / 2);
    assert_eq!(taken(&mut told).await.key(), "k00");
    first.stop().await;
    let (second, mut told) = Coordinator::start(&table, Options::new("second").failover(FAILOVER)).unwrap();
    for _ in 0..2 {
        taken(&mut told).await;
    }
    assert_eq!(second.held().len(), 2, "the clock stood still");
}

#[tokio::test]
async fn what_was_lost_before_anybody_listened_is_not_told() {
    let clock = Arc::new(ManualClock::new());
    let (there, table, _stub) = behind(1, clock.clone(), |_| Fate::Through).await;
    let (worker, mut events) = Coordinator::start(&table, Options::new("me").failover(FAILOVER)).unwrap();
    worker.take_now().await.unwrap();
    assert_eq!(worker.held().len(), 1);
    let row = there.read("k00").await.unwrap().unwrap();
    there.take(&row, "other").await.unwrap();
    worker.renew_now().await.unwrap();
    assert!(worker.held().is_empty(), "a renewal has shown that");
    worker.take_now().await.unwrap();
    clock.advance(FAILOVER);
    assert_eq!(taken(&mut events).await.counter_at_take(), 4, "when the other has been silent");
}

#[tokio::test]
async fn as_many_as_allowed_are_stolen_by_one_look_and_told_at_once_if_that_was_chosen() {
    let (_clock, table) = of_another(6).await;
    let options = Options::new("me").failover(FAILOVER).settle_steals(false).leases_to_steal(3);
    let (worker, _events) = Coordinator::start(&table, options).unwrap();
    // Two looks at the most, of which each would take one.
    worker.take_now().await.unwrap();
    assert_eq!(worker.held().len(), 3);
}

#[tokio::test]
async fn no_worker_takes_more_than_its_limit() {
    let (_clock, table) = of_another(6).await;
    for n in 6..12 {
        table.create(&format!("k{n:02}"), Fields::new()).await.unwrap();
    }
    let options = Options::new("me").failover(FAILOVER).max_leases(2);
    let (worker, _events) = Coordinator::start(&table, options).unwrap();
    for _ in 0..2 {
        worker.take_now().await.unwrap();
        assert_eq!(worker.held().len(), 2, "though six are free, and six would be its share");
    }
}

#[tokio::test]
async fn only_so_many_requests_are_under_way_at_a_time() {
    const TAKES: Duration = Duration::from_millis(60);
    const AT_ONCE: usize = 3;
    let clock = RealClock::new();
    let came: Arc<Mutex<Vec<Tick>>> = Arc::default();
    let arrivals = Arc::clone(&came);
    let (_, table, _stub) = behind(12, Arc::new(RealClock::new()), move |_| {
        arrivals.lock().unwrap().push(clock.held());
        Fate::Late(TAKES)
    })
    .await;
    let options = Options::new("me").failover(FAILOVER).requests_at_once(AT_ONCE);
    let (worker, mut events) = Coordinator::start(&table, options).unwrap();
    for _ in 0..12 {
        taken(&mut events).await;
    }
    worker.renew_now().await.unwrap();
    let came = came.lock().unwrap().clone();
    assert!(came.len() >= 24, "{came:?}");
    // Each needs that long, so the next but two comes no sooner.
    let soonest = came.windows(AT_ONCE + 1).map(|span| span[AT_ONCE].since(span[0])).min();
    assert!(soonest >= Some(TAKES), "{soonest:?}");
}

#[tokio::test]
async fn rows_that_are_passed_over_are_counted_and_told_once() {
    let clock = Arc::new(ManualClock::new());
    let (there, table, _stub) = behind(0, clock, |_| Fate::Through).await;
    for n in 0..2 {
        let fields = [("entityType".to_owned(), crate::support::text("STREAM"))].into();
        there.create(&format!("k{n}"), fields).await.unwrap();
    }
    let (worker, mut events) = Coordinator::start(&table, Options::new("me").failover(FAILOVER)).unwrap();
    for _ in 0..3 {
        worker.take_now().await.unwrap();
    }
    worker.stop().await;
    drop(worker);
    let mut told = Vec::new();
    while let Some(event) = events.next().await {
        told.push(event);
    }
    assert!(matches!(told.as_slice(), [Event::Skipped(2)]), "{told:?}");
}

#[tokio::test]
async fn a_worker_that_was_taken_for_dead_and_goes_on_is_told() {
    let (clock, table) = of_another(1).await;
    let (worker, mut events) = Coordinator::start(&table, Options::new("me").failover(FAILOVER)).unwrap();
    worker.take_now().await.unwrap();
    let more = table.create("more", Fields::new()).await.unwrap();
    let more = table.take(&more, "other").await.unwrap();
    clock.advance(FAILOVER);
    assert_eq!(taken(&mut events).await.key(), "k00", "it was silent");
    table.renew(&more, &Edit::new()).await.unwrap();
    worker.take_now().await.unwrap();
    match timeout(LONG, events.next()).await.expect("a word in time") {
        Some(Event::Revived(other)) => assert_eq!(other, "other"),
        event => panic!("{event:?}"),
    }
}
