//! A fleet on a lease table moves to tenure's own layout while it runs, on DynamoDB Local.
//!
//! Plan: two coordinators work on a table, with checkpoints, while workers of a native fleet wait for units and an adopter is
//! killed at each step of each unit, again and again, until everything is moved: at no instant two believe in a unit, none is lost,
//! no checkpoint that was answered is lost, and every field keeps its type; what stands in the way is left as it is. Only what was given
//! back is moved at once: who had an earlier row of that name may not know yet. A whole fleet
//! that steals much is moved with hardly a take too many and no unit idle for long. A scripted peer that writes without a condition
//! makes rows again: before anybody takes them they are deleted again, also of units that are not open yet; what was taken, or is made
//! again without end, is named; so it is with the leases that the KCL's leader makes again. An adopter knows of another that lives, and not of one that is dead.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tenure::fleet::{Event, Fleet, NewUnit, Unit};
use tenure::{Value, memory};
use tenure_dynamodb::aws_sdk_dynamodb::types::AttributeValue;
use tenure_dynamodb::service::number;
use tenure_dynamodb_testkit::{endpoint, plain};
use tenure_kcl::adopt::{Adopted, Adopter, AdoptionProgress, AdoptionStep};
use tenure_kcl::{Coordinator, Edit, Events, Fields, Held, Options, Place, Table};
use tokio::time::{sleep, timeout};

const FAILOVER: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(60);

pub(crate) async fn lease_table(name: &str) -> Table {
    let endpoint = endpoint();
    let name = format!("adopt-{name}-{}", std::process::id());
    let url = format!("//{name}?region=eu-west-1&endpoint={endpoint}&dialect=kcl");
    // DynamoDB Local has only just been started, perhaps on a busy machine.
    let patient = Place::from_url(&format!("{url}&timeout_ms=60000")).unwrap();
    Table::create_at(&patient).await.unwrap();
    let place = Place::from_url(&url).unwrap();
    Table::at(place, tenure::clock::system()).await.unwrap()
}

pub(crate) fn options(worker: &str) -> Options {
    Options::new(worker).failover(FAILOVER)
}

/// What was answered to checkpoints, by lease.
type Answered = Arc<Mutex<BTreeMap<String, usize>>>;

/// Works on what the coordinator holds: counts in its row, all the time.
async fn peer(worker: Coordinator, mut events: Events, answered: Answered, over: Arc<AtomicBool>) {
    while !over.load(Ordering::SeqCst) {
        // Nobody reads them here, so that they don't pile up.
        while timeout(Duration::from_millis(1), events.next()).await.is_ok_and(|event| event.is_some()) {}
        for held in worker.held() {
            let last = answered.lock().unwrap().get(held.key()).copied().unwrap_or(0);
            if worker.update_of(&held, Edit::new().set("n", number(last + 1))).await.is_ok() {
                answered.lock().unwrap().insert(held.key().to_owned(), last + 1);
            }
        }
        sleep(Duration::from_millis(20)).await;
    }
    worker.stop().await;
}

/// Works on what the native fleet gives it: it keeps it.
async fn native(fleet: Fleet, units: Arc<Mutex<Vec<Unit>>>, over: Arc<AtomicBool>) {
    let worker = fleet.join().ttl(FAILOVER * 2).start().unwrap();
    let mut kept = Vec::new();
    while !over.load(Ordering::SeqCst) {
        match timeout(Duration::from_millis(50), worker.next()).await {
            Ok(Some(Event::Assigned(assignment))) => {
                units.lock().unwrap().push(assignment.unit().clone());
                kept.push(assignment);
            }
            Ok(Some(Event::Draining { unit, .. })) => kept.retain(|assignment| assignment.name() != unit),
            _ => {}
        }
    }
    drop(kept);
    worker.stop().await;
}

/// Whether two believe in a unit at this instant.
fn double(peers: &[Coordinator], units: &[Unit]) -> Option<String> {
    let mut seen = BTreeSet::new();
    let held: Vec<Held> = peers.iter().flat_map(Coordinator::held).collect();
    let theirs = held.iter().filter(|held| held.is_held()).map(|held| held.key().to_owned());
    let ours = units.iter().filter(|unit| unit.is_held()).map(|unit| unit.name().to_owned());
    theirs.chain(ours).find(|name| !seen.insert(name.clone()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_unit_is_held_twice_and_none_is_lost_wherever_the_adopter_dies() {
    const UNITS: usize = 4;
    let table = lease_table("all").await;
    let fields = |n: usize| -> Fields {
        let set = AttributeValue::Ns(vec!["1.5".to_owned()]);
        [("n".to_owned(), number(0)), ("set".to_owned(), set), ("which".to_owned(), number(n))].into()
    };
    for n in 0..UNITS {
        table.create(&format!("u{n}"), fields(n)).await.unwrap();
    }
    let (over, answered) = (Arc::new(AtomicBool::new(false)), Answered::default());
    let units: Arc<Mutex<Vec<Unit>>> = Arc::default();
    let (mut peers, mut tasks) = (Vec::new(), Vec::new());
    for name in ["w1", "w2"] {
        let (worker, events) = Coordinator::start(&table, options(name)).unwrap();
        peers.push(worker.clone());
        tasks.push(tokio::spawn(peer(worker, events, Arc::clone(&answered), Arc::clone(&over))));
    }
    let fleet = Fleet::new(memory(), "f").unwrap();
    tasks.push(tokio::spawn(native(fleet.clone(), Arc::clone(&units), Arc::clone(&over))));
    let all_begun = async {
        // Each unit has a checkpoint that must not be lost; and who started first, and so took all, has passed some on.
        while answered.lock().unwrap().len() < UNITS || peers.iter().any(|peer| peer.held().is_empty()) {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(LONG, all_begun).await.expect("the peers work on everything");

    let (peers_seen, units_seen, watched) = (peers.clone(), Arc::clone(&units), Arc::clone(&over));
    let watchman = tokio::spawn(async move {
        let (mut looks, mut twice) = (0, None);
        while !watched.load(Ordering::SeqCst) {
            twice = twice.or(double(&peers_seen, &units_seen.lock().unwrap().clone()));
            looks += 1;
            sleep(Duration::from_millis(2)).await;
        }
        (looks, twice)
    });

    // Each unit's adopter dies after its first step, then the next one after its second, and so on; side by side.
    let steps = [
        AdoptionStep::Closed,
        AdoptionStep::Taken,
        AdoptionStep::Quiet,
        AdoptionStep::Ready,
        AdoptionStep::Deleted,
    ];
    let moving = (0..UNITS).map(|n| {
        let (table, fleet) = (table.clone(), fleet.clone());
        tokio::spawn(async move {
            let unit = format!("u{n}");
            for (life, deadly) in steps.into_iter().enumerate() {
                let name = format!("tenure-adopt-{n}-{life}");
                let adopter = Adopter::new(table.clone(), fleet.clone(), options(&name)).unwrap();
                let adopted = adopter.adopt(&unit, |step| step != deadly).await.unwrap();
                assert_eq!(adopted, Adopted::Stopped, "it dies at {deadly:?}");
                // A peer may have it again in between.
                sleep(FAILOVER * u32::try_from(n % 3).unwrap()).await;
            }
            let adopter = Adopter::new(table, fleet, options(&format!("tenure-adopt-{n}"))).unwrap();
            let found = adopter.find().await.unwrap();
            assert!(found.half_way.contains(&unit) && !found.rows.contains_key(&unit), "{found:?}");
            let adopted = adopter.adopt(&unit, |_| true).await.unwrap();
            assert_eq!(adopted, Adopted::Opened, "all but its opening was done");
            assert_eq!(adopter.adopt(&unit, |_| true).await.unwrap(), Adopted::Gone, "once is enough");
        })
    });
    for moved in moving.collect::<Vec<_>>() {
        timeout(LONG, moved).await.expect("moved in time").unwrap();
    }
    let all_here = async {
        while units.lock().unwrap().iter().filter(|unit| unit.is_held()).count() < UNITS {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(LONG, all_here).await.expect("none is lost");
    over.store(true, Ordering::SeqCst);
    let (looks, twice) = watchman.await.unwrap();
    assert!(looks > 100 && twice.is_none(), "{looks} looks, two believed in {twice:?}");
    for task in tasks {
        task.await.unwrap();
    }
    assert!(table.list().await.unwrap().rows.is_empty());
    let listed = fleet.list().await.unwrap().units;
    assert_eq!(listed.len(), UNITS);
    for (n, unit) in listed.into_iter().enumerate() {
        assert!(unit.spec.needs.is_empty(), "open to all: {unit:?}");
        let known = answered.lock().unwrap()[&unit.name];
        let moved = unit.fields["n"].as_i64().unwrap();
        assert!(moved >= i64::try_from(known).unwrap(), "{}: {moved} after {known}", unit.name);
        assert_eq!(unit.fields["which"].as_i64(), Some(i64::try_from(n).unwrap()));
        assert!(matches!(&unit.fields["set"], Value::NumberSet(set) if set.len() == 1), "{unit:?}");
        assert_eq!(unit.fields["checkpoint"].as_text(), Some("TRIM_HORIZON"));
    }
}

#[tokio::test]
async fn what_was_given_back_is_moved_at_once_and_what_stands_in_the_way_stays() {
    let table = lease_table("free").await;
    for unit in ["a", "b", "c"] {
        table.create(unit, Fields::new()).await.unwrap();
    }
    let (worker, _events) = Coordinator::start(&table, options("w")).unwrap();
    let has_all = async {
        while worker.held().len() < 3 {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(LONG, has_all).await.expect("it takes what is free");
    worker.stop().await;
    let fleet = Fleet::new(memory(), "f").unwrap();
    fleet.create(NewUnit::named("b")).await.unwrap();
    // Whoever had it knows that it has it no more, so there is nobody to wait for, however long the failover time.
    let patient = Options::new("tenure-adopt").failover(Duration::from_secs(3600));
    let adopter = Adopter::new(table.clone(), fleet.clone(), patient).unwrap();
    let found = adopter.find().await.unwrap();
    assert_eq!((found.rows.len(), found.half_way.len()), (3, 0));
    let mut steps = Vec::new();
    let adopted = timeout(
        LONG,
        adopter.adopt("a", |step| {
            steps.push(step);
            true
        }),
    );
    assert_eq!(adopted.await.expect("no wait").unwrap(), Adopted::Moved);
    assert_eq!(
        steps,
        [
            AdoptionStep::Closed,
            AdoptionStep::Taken,
            AdoptionStep::Quiet,
            AdoptionStep::Ready,
            AdoptionStep::Deleted,
            AdoptionStep::Opened
        ]
    );

    let error = adopter.adopt("b", |_| true).await.unwrap_err();
    assert!(error.to_string().contains("no adoption's"), "{error}");
    assert!(table.read("b").await.unwrap().unwrap().owner().is_none(), "the row is as it was");

    // Its row is deleted by its own program half way: there is nothing to open.
    assert_eq!(adopter.adopt("c", |step| step != AdoptionStep::Closed).await.unwrap(), Adopted::Stopped);
    table.delete(&table.read("c").await.unwrap().unwrap()).await.unwrap();
    assert_eq!(adopter.adopt("c", |_| true).await.unwrap(), Adopted::Gone);
    assert!(fleet.get("c").await.unwrap().is_none());

    // Too large for a unit: told, and left.
    let large = [("load".to_owned(), AttributeValue::S("x".repeat(300_000)))].into();
    table.create("d", large).await.unwrap();
    assert!(adopter.adopt("d", |_| true).await.is_err());
    assert!(fleet.get("d").await.unwrap().is_none() && table.read("d").await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_that_steals_much_is_moved_with_hardly_a_take_too_many() {
    const UNITS: usize = 40;
    const SETTLES: Duration = Duration::from_secs(3);
    let table = lease_table("calm").await;
    for n in 0..UNITS {
        table.create(&format!("u{n:02}"), Fields::new()).await.unwrap();
    }
    let (mut peers, mut unread) = (Vec::new(), Vec::new());
    for name in ["w1", "w2", "w3", "w4"] {
        let eager = Options::new(name).failover(SETTLES).leases_to_steal(8).look_every(SETTLES / 6);
        let (peer, events) = Coordinator::start(&table, eager).unwrap();
        peers.push(peer);
        unread.push(events);
    }
    let all_have_some = async {
        while peers.iter().any(|peer| peer.held().is_empty()) {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(LONG, all_have_some).await.expect("they share");
    let (fleet, over) = (Fleet::new(memory(), "f").unwrap(), Arc::new(AtomicBool::new(false)));
    let units: Arc<Mutex<Vec<Unit>>> = Arc::default();
    let natives = tokio::spawn(native(fleet.clone(), Arc::clone(&units), Arc::clone(&over)));
    let (peers, watched, ended) = (Arc::new(peers), Arc::clone(&units), Arc::clone(&over));
    // How long each unit was without anybody who had it.
    let idle = tokio::spawn(async move {
        let (mut last, mut longest) = (BTreeMap::new(), BTreeMap::<String, Duration>::new());
        while !ended.load(Ordering::SeqCst) {
            let now = tenure::clock::boottime();
            let of_peers = peers.iter().flat_map(Coordinator::held).map(|held| held.key().to_owned());
            let here: Vec<String> = watched
                .lock()
                .unwrap()
                .iter()
                .filter(|unit| unit.is_held())
                .map(|unit| unit.name().to_owned())
                .collect();
            for unit in of_peers.chain(here) {
                let since = last.insert(unit.clone(), now).unwrap_or(now);
                let idle = longest.entry(unit).or_default();
                *idle = now.saturating_sub(since).max(*idle);
            }
            sleep(Duration::from_millis(20)).await;
        }
        longest
    });
    let adopter = Adopter::new(table.clone(), fleet, Options::new("a").failover(SETTLES)).unwrap();
    let names = adopter.find().await.unwrap().rows.into_keys().collect();
    let mut takes = 0;
    let all = adopter.adopt_all(names, BTreeSet::new(), Duration::from_millis(200), |progress| {
        takes += usize::from(matches!(progress, AdoptionProgress::Step(_, AdoptionStep::Taken)));
    });
    // Side by side and without a fight, all is moved in little more than the time that owners have to notice.
    let all = timeout(SETTLES * 5, all).await.expect("no unit waits for others").unwrap();
    assert!(all.moved == UNITS && takes <= UNITS + UNITS / 10, "{takes} takes: {all:?}");
    let all_here = async {
        while units.lock().unwrap().iter().filter(|unit| unit.is_held()).count() < UNITS {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(LONG, all_here).await.expect("none is lost");
    over.store(true, Ordering::SeqCst);
    natives.await.unwrap();
    let idle = idle.await.unwrap();
    let longest = idle.values().max().copied().unwrap_or_default();
    assert!(idle.len() == UNITS && longest <= SETTLES + Duration::from_secs(5), "{longest:?}: {idle:?}");
}

#[tokio::test]
async fn what_looks_as_if_nobody_ever_had_it_is_kept_until_who_had_an_earlier_row_must_have_noticed() {
    let table = lease_table("anew").await;
    let row = table.create("a", Fields::new()).await.unwrap();
    // Its worker believes in it until its next renewal, when somebody deletes the row and makes it anew.
    table.delete(&table.take(&row, "w").await.unwrap()).await.unwrap();
    table.create("a", Fields::new()).await.unwrap();
    let adopter = Adopter::new(table, Fleet::new(memory(), "f").unwrap(), options("a")).unwrap();
    let mut steps = BTreeMap::new();
    let adopted = adopter.adopt("a", |step| {
        steps.insert(step, tenure::clock::boottime());
        true
    });
    assert_eq!(timeout(LONG, adopted).await.expect("moved in time").unwrap(), Adopted::Moved);
    let kept = steps[&AdoptionStep::Quiet].saturating_sub(steps[&AdoptionStep::Taken]);
    assert!(kept >= FAILOVER, "it was kept for {kept:?}");
}

/// As the KCL's leader does where a shard has no lease.
async fn create_if_not_exists(table: &str, unit: &str) {
    let text = |text: &str| AttributeValue::S(text.to_owned());
    let item = [
        ("leaseKey", text(unit)),
        ("leaseCounter", number(0)),
        ("checkpoint", text("TRIM_HORIZON")),
        ("checkpointSubSequenceNumber", number(0)),
        ("ownerSwitchesSinceCheckpoint", number(0)),
    ];
    let put = plain().put_item().table_name(table);
    let put = put.set_item(Some(item.map(|(name, value)| (name.to_owned(), value)).into()));
    put.condition_expression("attribute_not_exists(leaseKey)").send().await.unwrap();
}

#[tokio::test]
async fn leases_that_the_kcl_s_leader_makes_again_are_deleted_and_later_ones_are_named() {
    let table = lease_table("leader").await;
    let name = format!("adopt-leader-{}", std::process::id());
    let units = ["a", "b"].map(str::to_owned);
    for unit in &units {
        table.create(unit, Fields::new()).await.unwrap();
    }
    let fleet = Fleet::new(memory(), "f").unwrap();
    let adopter = Adopter::new(table.clone(), fleet, options("a")).unwrap();
    let mut leader = None;
    let all = adopter.adopt_all(units.into(), BTreeSet::new(), FAILOVER, |progress| {
        if let AdoptionProgress::Watching(_) = progress {
            let name = name.clone();
            leader = Some(tokio::spawn(async move {
                for unit in ["a", "b"] {
                    create_if_not_exists(&name, unit).await;
                }
            }));
        }
    });
    let all = timeout(LONG, all).await.expect("an end").unwrap();
    assert_eq!((all.moved, all.remade.deleted.len(), all.remade.taken.len()), (2, 2, 0), "{all:?}");
    assert!(!all.remade.is_doubtful() && table.list().await.unwrap().rows.is_empty());

    assert_eq!(adopter.find().await.unwrap().beside, BTreeMap::new());
    create_if_not_exists(&name, "a").await;
    create_if_not_exists(&name, "b").await;
    let row = table.read("b").await.unwrap().unwrap();
    table.take(&row, "kcl-A").await.unwrap();
    let found = adopter.find().await.unwrap();
    let beside = [("a".to_owned(), None), ("b".to_owned(), Some("kcl-A".to_owned()))];
    assert_eq!((found.beside, found.remade.len()), (beside.into(), 0));
}

/// As a peer does that knows no condition.
async fn force_update(table: &str, unit: &str) {
    let update = plain().update_item().table_name(table);
    let update = update.key("leaseKey", AttributeValue::S(unit.to_owned())).update_expression("SET x = :x");
    update.expression_attribute_values(":x", number(1)).send().await.unwrap();
}

#[tokio::test]
async fn rows_that_are_made_again_are_deleted_and_what_is_doubtful_is_named() {
    let table = lease_table("remade").await;
    let name = format!("adopt-remade-{}", std::process::id());
    for unit in ["early", "late", "taken", "calm"] {
        table.create(unit, Fields::new()).await.unwrap();
    }
    let fleet = Fleet::new(memory(), "f").unwrap();
    let adopter = Adopter::new(table.clone(), fleet, options("a")).unwrap();
    let mut writers = Vec::new();
    let units = ["early", "late", "taken", "calm"].map(str::to_owned);
    let all = adopter.adopt_all(units.into(), BTreeSet::new(), FAILOVER, |progress| {
        let AdoptionProgress::Done(unit, Ok(_)) = progress else { return };
        let (name, unit) = (name.clone(), unit.to_owned());
        writers.push(tokio::spawn(async move {
            match &*unit {
                "early" => force_update(&name, &unit).await,
                "late" => {
                    sleep(FAILOVER * 2 / 3).await;
                    force_update(&name, &unit).await;
                }
                // As a8m takes a row that has no counter: whatever it is by now.
                "taken" => {
                    let item = [
                        ("leaseKey", AttributeValue::S(unit.clone())),
                        ("leaseOwner", AttributeValue::S("a8m".to_owned())),
                        ("leaseCounter", number(1)),
                    ];
                    let item = item.map(|(name, value)| (name.to_owned(), value)).into();
                    plain().put_item().table_name(&name).set_item(Some(item)).send().await.unwrap();
                }
                _ => {}
            }
        }));
    });
    let all = timeout(LONG, all).await.expect("an end").unwrap();
    assert_eq!(all.moved, 4, "{all:?}");
    assert_eq!(all.remade.deleted, ["early".to_owned(), "late".to_owned()].into());
    assert_eq!(all.remade.taken, [("taken".to_owned(), Some("a8m".to_owned()))].into());
    assert!(all.remade.is_doubtful() && all.remade.restless.is_empty());
    let left = table.list().await.unwrap();
    assert!(left.bare.is_empty() && left.foreign.is_empty() && left.rows.len() == 1, "{left:?}");

    // An adoption that was killed before its watch was over is followed by one that finds what there is.
    force_update(&name, "calm").await;
    let found = adopter.find().await.unwrap();
    assert_eq!(found.remade, ["calm".to_owned()].into());
    let endless = tokio::spawn(async move {
        loop {
            force_update(&name, "calm").await;
            sleep(Duration::from_millis(50)).await;
        }
    });
    let all = adopter.adopt_all(Vec::new(), found.remade, FAILOVER / 2, |_| {});
    let all = timeout(LONG, all).await.expect("it does not watch for ever").unwrap();
    endless.abort();
    assert_eq!(all.remade.restless, ["calm".to_owned()].into());
}

#[tokio::test]
async fn a_row_that_is_made_again_before_its_unit_is_open_does_not_keep_it_closed() {
    let table = lease_table("closed").await;
    let name = format!("adopt-closed-{}", std::process::id());
    for unit in ["a", "b"] {
        table.create(unit, Fields::new()).await.unwrap();
    }
    let fleet = Fleet::new(memory(), "f").unwrap();
    let adopter = Adopter::new(table.clone(), fleet.clone(), options("a")).unwrap();
    assert_eq!(adopter.adopt("a", |step| step != AdoptionStep::Deleted).await.unwrap(), Adopted::Stopped);
    assert_eq!(adopter.adopt("b", |step| step != AdoptionStep::Closed).await.unwrap(), Adopted::Stopped);
    table.delete(&table.read("b").await.unwrap().unwrap()).await.unwrap();
    for unit in ["a", "b"] {
        force_update(&name, unit).await;
    }
    let found = adopter.find().await.unwrap();
    assert_eq!((found.half_way.len(), found.rows.len(), found.remade.len()), (2, 0, 0), "{found:?}");
    assert_eq!(adopter.adopt("a", |_| true).await.unwrap(), Adopted::Opened);
    let unit = fleet.get("a").await.unwrap().unwrap();
    assert!(unit.spec.needs.is_empty() && !unit.fields.contains_key("x"), "as it was moved: {unit:?}");
    assert_eq!(table.read("a").await.unwrap(), None);
    // Nobody knows what this row has to do with the one that was there.
    assert_eq!(adopter.adopt("b", |_| true).await.unwrap_err().kind(), tenure::ErrorKind::Foreign);
    assert_eq!(table.list().await.unwrap().bare, ["b"]);
    // What is to be deleted stands in the way of nothing, so it is not told as damage.
    assert!(found.damaged.len() == 1 && found.damaged[0].to_string().contains("\"b\""), "{found:?}");
}

#[tokio::test]
async fn an_adopter_knows_of_another_that_lives() {
    let table = lease_table("rivals").await;
    let row = table.create("a", Fields::new()).await.unwrap();
    table.take(&row, "w").await.unwrap();
    let fleet = Fleet::new(memory(), "f").unwrap();
    let [first, second] = ["one", "two"].map(|name| {
        Adopter::new(table.clone(), fleet.clone(), options(name).failover(FAILOVER * 2)).unwrap()
    });
    assert_eq!(second.rival().await.unwrap(), None, "the row is a worker's");
    let moving = tokio::spawn(async move { first.adopt("a", |step| step != AdoptionStep::Quiet).await });
    let is_taken = async {
        while table.read("a").await.unwrap().unwrap().owner() == Some("w") {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(LONG, is_taken).await.unwrap();
    assert!(second.rival().await.unwrap().is_some_and(|rival| rival.contains("one")));
    moving.await.unwrap().unwrap();
    assert_eq!(second.rival().await.unwrap(), None, "it has stopped");
}
