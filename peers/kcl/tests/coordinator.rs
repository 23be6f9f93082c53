//! Coordinators of the dialect `kcl` on DynamoDB Local, with a failover time of some seconds: a machine may stand still for one.
//!
//! Plan: a fleet of three splits the leases evenly and comes to rest, with at most one believer at every instant, while one
//! joins by stealing, one dies and one stops; what is stopped is released; loss is told by the deadline without any I/O, and by
//! the next renewal when another has taken, evicted or deleted the row; answers that are lost cost nothing; a handoff of the
//! KCL's is told and carried out, also where it meets a release; updates keep other fields; what is not held can't be changed; requests
//! whose code panics are failures like others.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking, also in what they share"
)]

use crate::support::{item, lease_table, name_of, number, open, put, text};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tenure_core::{Clock, Loss};
use tenure_dynamodb::DynamoConfig;
use tenure_dynamodb::aws_sdk_dynamodb::Client;
use tenure_dynamodb::aws_sdk_dynamodb::config::interceptors::BeforeTransmitInterceptorContextRef;
use tenure_dynamodb::aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use tenure_dynamodb::aws_sdk_dynamodb::error::BoxError;
use tenure_dynamodb_testkit::client;
use tenure_dynamodb_testkit::stub::{Fate, Stub};
use tenure_kcl::{Coordinator, Edit, Event, Events, Fields, Format, Held, LeaseError, Options, Table};
use tenure_testkit::RealClock;
use tokio::time::{sleep, timeout};

const FAILOVER: Duration = Duration::from_secs(4);
/// Long enough for anything on a busy machine.
const LONG: Duration = Duration::from_secs(60);

fn options(worker: &str) -> Options {
    Options::new(worker).failover(FAILOVER)
}

/// Where nobody dies, and all that could be told is a loss.
fn long_options(worker: &str) -> Options {
    options(worker).failover(FAILOVER * 10)
}

async fn create(table: &Table, leases: usize) {
    for n in 0..leases {
        table.create(&format!("k{n:02}"), Fields::new()).await.unwrap();
    }
}

/// Waits until it is so.
async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !is_so().await {
            sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(timeout(LONG, waiting).await.is_ok(), "in vain: {what}");
}

async fn next(events: &mut Events) -> Event {
    timeout(LONG, events.next()).await.expect("an event in time").expect("an event")
}

async fn taken(events: &mut Events) -> Held {
    match next(events).await {
        Event::Taken(held) => held,
        other => panic!("{other:?}"),
    }
}

async fn lost(events: &mut Events) -> (String, Loss) {
    match next(events).await {
        Event::Lost { lease, loss } => {
            assert!(!lease.is_held() && lease.loss() == Some(loss.clone()));
            (lease.key().to_owned(), loss)
        }
        other => panic!("{other:?}"),
    }
}

/// Looks, whenever one begins to believe in a lease, whether another still does: at no other time can two begin to.
struct Watchman {
    fleet: Vec<Coordinator>,
    watches: tokio::task::JoinSet<()>,
    takes: Arc<AtomicUsize>,
    doubles: Arc<Mutex<Vec<String>>>,
}

impl Watchman {
    fn of(fleet: &[&Coordinator], events: Vec<Events>) -> Watchman {
        let fleet: Vec<Coordinator> = fleet.iter().map(|one| (*one).clone()).collect();
        let mut watchman = Watchman {
            fleet,
            watches: tokio::task::JoinSet::new(),
            takes: Arc::default(),
            doubles: Arc::default(),
        };
        for (place, mut events) in events.into_iter().enumerate() {
            let mut others = watchman.fleet.clone();
            others.remove(place);
            let (takes, doubles) = (Arc::clone(&watchman.takes), Arc::clone(&watchman.doubles));
            watchman.watches.spawn(async move {
                while let Some(event) = events.next().await {
                    let Event::Taken(taken) = event else { continue };
                    takes.fetch_add(1, Ordering::SeqCst);
                    let theirs = others.iter().flat_map(Coordinator::held);
                    // The taker is asked last: it has believed since before the others were asked.
                    if theirs.into_iter().any(|held| held.key() == taken.key() && held.is_held())
                        && taken.is_held()
                    {
                        doubles.lock().unwrap().push(taken.key().to_owned());
                    }
                }
            });
        }
        watchman
    }

    /// Once so many have been taken, which is told a little later than it is so.
    async fn report(mut self, least: usize) {
        let takes = Arc::clone(&self.takes);
        until("all are told of", async || takes.load(Ordering::SeqCst) >= least).await;
        self.watches.abort_all();
        assert_eq!(*self.doubles.lock().unwrap(), Vec::<String>::new(), "two believed in them");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_is_even_and_no_lease_has_two_believers() {
    let table = lease_table("kcl-fleet", Format::kcl()).await;
    create(&table, 12).await;
    let clock = RealClock::new();
    let (first, of_first) = Coordinator::start(&table, options("w1")).unwrap();
    until("one has all", async || first.held().len() == 12).await;

    let (second, of_second) = Coordinator::start(&table, options("w2").leases_to_steal(3)).unwrap();
    // The third runs in a world of its own, which ends without a word.
    let world = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (third, of_third) = {
        let _within = world.enter();
        Coordinator::start(&table, options("w3").leases_to_steal(3)).unwrap()
    };
    let watchman = Watchman::of(&[&first, &second, &third], vec![of_first, of_second, of_third]);
    let counts = |fleet: &[&Coordinator]| fleet.iter().map(|one| one.held().len()).collect::<Vec<_>>();
    until("four each", async || counts(&[&first, &second, &third]) == [4, 4, 4]).await;

    world.shutdown_background();
    let died = clock.held();
    until("six each", async || counts(&[&first, &second]) == [6, 6]).await;
    let took = clock.held().since(died);
    assert!(took < FAILOVER * 5, "a dead worker's leases took {took:?}");

    second.stop().await;
    let stopped = clock.held();
    assert!(second.held().is_empty());
    until("all back", async || first.held().len() == 12).await;
    let took = clock.held().since(stopped);
    assert!(took < FAILOVER * 5 / 2, "released leases are free at once, but this took {took:?}");
    // All at the start, four by each who joined, four of the dead one, six of the one that stopped.
    watchman.report(12 + 4 + 4 + 4 + 6).await;
    first.stop().await;
    let rows = table.list().await.unwrap().rows;
    assert!(rows.iter().all(|row| row.holder().is_none()), "all is released at stop");
    assert_eq!(second.take_now().await, Err(LeaseError::Stopped));
}

#[tokio::test]
async fn a_stolen_lease_is_told_when_its_last_owner_must_have_noticed() {
    let table = lease_table("kcl-steal", Format::kcl()).await;
    create(&table, 2).await;
    let (first, mut of_first) = Coordinator::start(&table, options("w1")).unwrap();
    let mut held = [taken(&mut of_first).await, taken(&mut of_first).await];
    let clock = RealClock::new();
    let (_second, mut of_second) = Coordinator::start(&table, options("w2")).unwrap();
    let (key, loss) = lost(&mut of_first).await;
    assert!(matches!(&loss, Loss::Taken(Some(by)) if by.holder.as_str() == "w2"), "{loss:?}");
    let noticed = clock.held();
    held.sort_by_key(|held| held.key() != key);
    let stolen = taken(&mut of_second).await;
    assert_eq!(stolen.key(), key);
    assert!(stolen.fence() > held[0].fence(), "the counter has grown");
    assert!(clock.held() > noticed, "told only after the last owner was");
    assert!(first.held().iter().all(|held| held.key() != key) && held[1].is_held());

    // As the peers do it, there is no such wait.
    let (_third, mut of_third) =
        Coordinator::start(&table, options("w3").settle_steals(false).max_leases(1)).unwrap();
    table.create("k02", Fields::new()).await.unwrap();
    assert!(taken(&mut of_third).await.is_held());
}

#[tokio::test]
async fn loss_is_told_by_the_deadline_without_an_answer_from_anybody() {
    let table = lease_table("kcl-silent", Format::a8m()).await;
    create(&table, 1).await;
    let silent = Arc::new(AtomicBool::new(false));
    let is_silent = Arc::clone(&silent);
    let stub =
        Stub::start(move |_, _| if is_silent.load(Ordering::SeqCst) { Fate::Silence } else { Fate::Through })
            .await;
    // A request could take longer than anything that is waited for here.
    let config = DynamoConfig::new(name_of(&table)).timeout(DynamoConfig::MAX_TIMEOUT);
    let service = Client::from_conf(client(&stub.endpoint).build());
    let clock = Arc::new(RealClock::new());
    let cut_off = Table::with_client(&service, config, Format::a8m(), clock.clone()).await.unwrap();
    let (worker, mut events) = Coordinator::start(&cut_off, options("w1")).unwrap();
    let held = taken(&mut events).await;
    let asked = clock.held();
    worker.renew_now().await.unwrap();
    silent.store(true, Ordering::SeqCst);
    let (left, belief) = (held.remaining(), FAILOVER * 9 / 11);
    let took = clock.held().since(asked);
    assert!(left <= belief && left + took >= belief, "{left:?}, after a renewal that took {took:?}");
    let (_, loss) = lost(&mut events).await;
    assert!(matches!(loss, Loss::Unreachable(_) | Loss::Expired), "{loss:?}");
    assert!(!held.is_held() && worker.held().is_empty());
    // Another has it when it was silent for a failover time, and the first is none the wiser.
    let (_other, mut of_other) = Coordinator::start(&table, options("w2")).unwrap();
    assert!(taken(&mut of_other).await.fence() > held.fence());
    // It ends all the same.
    timeout(LONG, worker.stop()).await.expect("an end in time");
}

#[tokio::test]
async fn what_others_do_to_a_row_is_told_at_the_next_renewal() {
    let table = lease_table("kcl-lost", Format::kcl()).await;
    create(&table, 3).await;
    // It renews seldom, so that what is done here comes between.
    let (worker, mut events) = Coordinator::start(&table, long_options("me")).unwrap();
    for _ in 0..3 {
        taken(&mut events).await;
    }
    worker.stop_taking();
    worker.renew_now().await.unwrap();
    let row = async |key| table.read(key).await.unwrap().unwrap();
    let before = worker.held();
    let occupied = table.take(&row("k00").await, "thief").await.unwrap();
    table.evict(&row("k01").await).await.unwrap();
    table.delete(&row("k02").await).await.unwrap();
    worker.renew_now().await.unwrap();
    let mut losses = vec![lost(&mut events).await, lost(&mut events).await, lost(&mut events).await];
    losses.sort_by(|a, b| a.0.cmp(&b.0));
    assert!(
        matches!(&losses[0].1, Loss::Taken(Some(by)) if by.holder.as_str() == "thief" && by.fence.0 == occupied.counter()),
        "{losses:?}"
    );
    assert_eq!((&losses[1].1, &losses[2].1), (&Loss::Revoked, &Loss::Deleted));
    // The deposed wrote nothing.
    assert_eq!(row("k00").await, occupied);
    assert_eq!(table.read("k02").await, Ok(None));
    for key in ["k00", "k01", "k02"] {
        let not_held = Err(LeaseError::NotHeld(key.to_owned()));
        assert_eq!(worker.update(key, Edit::new().set("p", number("1"))).await, not_held);
        assert_eq!(worker.release(key).await, not_held);
        let earlier = before.iter().find(|held| held.key() == key).unwrap();
        assert_eq!(worker.update_of(earlier, Edit::new().set("p", number("1"))).await, not_held);
    }
    assert_eq!(worker.delete("k00").await, Err(LeaseError::Changed("k00".into())), "another has it");
    worker.delete("k01").await.expect("nobody has it");
    worker.evict("k00").await.expect("anybody may");
    assert_eq!(row("k00").await.holder(), None);
}

#[tokio::test]
async fn lost_answers_cost_nothing() {
    let table = lease_table("kcl-answers", Format::kcl()).await;
    create(&table, 4).await;
    let writes = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&writes);
    let stub = Stub::start(move |action, _| match action {
        "UpdateItem" if counted.fetch_add(1, Ordering::SeqCst).is_multiple_of(2) => Fate::AnswerLost,
        _ => Fate::Through,
    })
    .await;
    let shaky = open(client(&stub.endpoint), &name_of(&table), Format::kcl()).await;
    let (worker, mut events) = Coordinator::start(&shaky, long_options("me")).unwrap();
    let mut held = Vec::new();
    for _ in 0..4 {
        held.push(taken(&mut events).await);
    }
    for round in 1..=5 {
        worker.update("k00", Edit::new().set("round", number(round))).await.unwrap();
        worker.renew_now().await.unwrap();
    }
    assert!(held.iter().all(|held| held.is_held() && held.counter_at_take() == 2), "{held:?}");
    assert!(writes.load(Ordering::SeqCst) > 20);
    worker.stop().await;
    let rows = table.list().await.unwrap().rows;
    assert!(rows.iter().all(|row| row.holder().is_none()), "{rows:?}");
    assert_eq!(rows[0].fields().get("round"), Some(&number("5")));
}

#[tokio::test]
async fn a_handoff_of_the_kcl_s_leader_is_told_and_carried_out() {
    let table = lease_table("kcl-leader", Format::kcl()).await;
    let name = name_of(&table);
    create(&table, 2).await;
    let (worker, mut events) = Coordinator::start(&table, long_options("me")).unwrap();
    let mut held = [taken(&mut events).await, taken(&mut events).await];
    held.sort_by(|a, b| a.key().cmp(b.key()));
    // As the leader of a KCL 3 fleet does it, which leaves the counter as it is.
    let hand_over = async |key| {
        let mut row = item(&name, key).await.unwrap();
        row.insert("leaseOwner".into(), text("next"));
        row.insert("checkpointOwner".into(), text("me"));
        let row: Vec<_> = row.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        put(&name, &row).await;
    };
    // What is released before the worker has seen that it is to be another's, is that one's.
    hand_over("k01").await;
    worker.release("k01").await.unwrap();
    let row = table.read("k01").await.unwrap().unwrap();
    assert_eq!((row.owner(), row.handing_over()), (Some("next"), None));
    assert!(row.counter() > held[1].counter_at_take());

    hand_over("k00").await;
    worker.renew_now().await.unwrap();
    match next(&mut events).await {
        Event::Wanted { lease, by } => assert_eq!((lease.key(), &*by), ("k00", "next")),
        other => panic!("{other:?}"),
    }
    worker.renew_now().await.unwrap();
    worker.update("k00", Edit::new().set("checkpoint", text("77"))).await.unwrap();
    assert!(held[0].is_held(), "it is ours until the work has ended");
    worker.release("k00").await.unwrap();
    assert!(!held[0].is_held());
    let row = table.read("k00").await.unwrap().unwrap();
    assert_eq!((row.owner(), row.handing_over()), (Some("next"), None));
    assert_eq!(row.fields().get("checkpoint"), Some(&text("77")));
    assert!(row.counter() > held[0].counter_at_take() + 2, "a renewal, an update and the release count");
}

#[tokio::test]
async fn what_is_held_is_updated_released_lapsed_and_deleted() {
    let table = lease_table("kcl-own", Format::a8m()).await;
    create(&table, 4).await;
    let (worker, mut events) = Coordinator::start(&table, long_options("me")).unwrap();
    for _ in 0..4 {
        taken(&mut events).await;
    }
    worker.stop_taking();
    assert_eq!(worker.held().len(), 4);
    let bad = worker.update("k00", Edit::new().set("leaseOwner", text("x"))).await.unwrap_err();
    assert!(bad.to_string().contains("leaseOwner"), "{bad}");
    worker.force_update("k00", &Edit::new().set("theirs", number("1"))).await.unwrap();
    let held = worker.held().into_iter().find(|held| held.key() == "k00").unwrap();
    let bad = worker.update_of(&held, Edit::new().remove("leaseOwner")).await.unwrap_err();
    assert!(bad.to_string().contains("leaseOwner"), "{bad}");
    worker.update_of(&held, Edit::new().set("ours", number("2"))).await.unwrap();
    let fields = ["ours", "theirs"].map(|name| held.row().fields().contains_key(name));
    assert_eq!(fields, [true, true]);

    let gone = worker.held().into_iter().find(|held| held.key() == "k01").unwrap();
    let (told, released) = tokio::join!(timeout(LONG, gone.lost()), worker.release("k01"));
    assert_eq!((told.unwrap(), released), (Loss::Released, Ok(())));
    assert_eq!(worker.give_back(&gone).await, Err(LeaseError::NotHeld("k01".into())), "once is enough");
    worker.delete("k02").await.unwrap();
    worker.lapse(worker.held().iter().find(|held| held.key() == "k03").unwrap());
    assert_eq!(worker.create("k00", Fields::new()).await.map(drop), Err(LeaseError::Exists("k00".into())));
    until("one is left", async || worker.held().len() == 1).await;
    let rows = table.list().await.unwrap().rows;
    let owners: Vec<_> = rows.iter().map(|row| (row.key(), row.holder())).collect();
    assert_eq!(owners, [("k00", Some("me")), ("k01", None), ("k03", Some("me"))]);
    let lapsed = rows[2].counter();
    worker.renew_now().await.unwrap();
    assert_eq!(table.read("k03").await.unwrap().unwrap().counter(), lapsed, "it is not renewed");
    drop(worker);
    // The last handle is gone, so what is held is given up, but for what was to lapse.
    until("released", async || table.read("k00").await.unwrap().unwrap().holder().is_none()).await;
    until("the end of events", async || events.next().await.is_none()).await;
    assert_eq!(table.read("k03").await.unwrap().unwrap().holder(), Some("me"));
}

#[tokio::test]
async fn what_can_t_be_read_is_told_once_and_left_alone() {
    let table = lease_table("kcl-bad", Format::kcl()).await;
    let name = name_of(&table);
    let bad = [("leaseKey", text("bad")), ("leaseCounter", text("two"))];
    put(&name, &bad).await;
    let failing = Arc::new(AtomicBool::new(false));
    let fails = Arc::clone(&failing);
    let stub = Stub::start(move |action, _| match action {
        "Scan" if fails.load(Ordering::SeqCst) => Fate::refusal(400, "ThrottlingException", "too fast"),
        _ => Fate::Through,
    })
    .await;
    let shaky = open(client(&stub.endpoint), &name, Format::kcl()).await;
    let (worker, mut events) = Coordinator::start(&shaky, options("me")).unwrap();
    match next(&mut events).await {
        Event::Foreign(error) => assert!(error.to_string().contains("\"bad\""), "{error}"),
        other => panic!("{other:?}"),
    }
    worker.take_now().await.unwrap();
    failing.store(true, Ordering::SeqCst);
    assert!(worker.take_now().await.unwrap_err().to_string().contains("throttled"));
    match next(&mut events).await {
        Event::LookFailed(error) => assert!(error.to_string().contains("throttled"), "{error}"),
        other => panic!("{other:?}"),
    }
    failing.store(false, Ordering::SeqCst);
    worker.stop().await;
    let left = item(&name, "bad").await.unwrap();
    assert_eq!(left, bad.map(|(name, value)| (name.to_owned(), value)).into());
}

/// What a program adds to its client: the first request of each kind panics.
#[derive(Debug)]
struct Panics {
    scans: AtomicBool,
    updates: AtomicBool,
}

impl Intercept for Panics {
    fn name(&self) -> &'static str {
        "panics"
    }

    fn read_before_transmit(
        &self,
        context: &BeforeTransmitInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        _config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let target = context.request().headers().get("x-amz-target").unwrap_or_default();
        for (action, armed) in [("Scan", &self.scans), ("UpdateItem", &self.updates)] {
            assert!(!target.ends_with(action) || !armed.swap(false, Ordering::SeqCst), "no {action} here");
        }
        Ok(())
    }
}

#[tokio::test]
async fn a_request_that_panics_is_a_failure_and_the_worker_goes_on_taking() {
    let table = lease_table("kcl-panics", Format::kcl()).await;
    create(&table, 1).await;
    let panics = Panics { scans: AtomicBool::new(true), updates: AtomicBool::new(true) };
    let own = Client::from_conf(client(&tenure_dynamodb_testkit::endpoint()).interceptor(panics).build());
    let config = DynamoConfig::new(name_of(&table));
    let spoilt = Table::with_client(&own, config, Format::kcl(), Arc::new(RealClock::new())).await.unwrap();
    let (worker, mut events) = Coordinator::start(&spoilt, options("me")).unwrap();
    match timeout(LONG, events.next()).await.expect("an event in time") {
        Some(Event::LookFailed(error)) => assert!(error.to_string().contains("no Scan here"), "{error}"),
        other => panic!("{other:?}"),
    }
    match next(&mut events).await {
        Event::TakeFailed { error, .. } => {
            assert!(error.to_string().contains("no UpdateItem here"), "{error}")
        }
        other => panic!("{other:?}"),
    }
    let held = taken(&mut events).await;
    worker.release(held.key()).await.unwrap();
}
