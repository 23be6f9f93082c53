//! What a process can see without asking for anything. Plan: a peek shows the holder, whoever that is, and nobody where a lease is over
//! with its session; the list of what is held follows acquisitions, releases, losses and lapses, and has what bodies and leaders
//! hold; what is told of losses names the lease; what is exported survives JSON.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use crate::common::{TTL, World, settle};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use tenure::election::{Leader, Status};
use tenure::fleet::FleetName;
use tenure::range::Entry;
use tenure::{AnyStore, Candidate, Fence, Key, Loss, Metadata, Sighting, Store, StoreError};
use tenure_store::Fault;
use tenure_testkit::listens;
use tracing::span;

/// Writes down each event of one target: its name, and its fields with their values.
#[derive(Clone, Default)]
struct EventLog(Arc<Mutex<Vec<String>>>);

impl tracing::Subscriber for EventLog {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target() == "tenure::lease"
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = event.metadata().name().to_owned();
        event.record(&mut |field: &tracing::field::Field, value: &dyn std::fmt::Debug| {
            let _ = write!(line, " {}={value:?}", field.name());
        });
        self.0.lock().unwrap().push(line);
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[tokio::test(start_paused = true)]
async fn a_peek_shows_who_holds_a_key_and_asks_for_nothing() {
    let world = World::new();
    let (a, b) = (world.process(), world.process());
    assert_eq!(b.leases.peek("k").await.unwrap(), None);
    assert!(b.leases.peek("").await.is_err());
    for ttl in [None, Some(TTL)] {
        let fields = Metadata::from([("at".to_owned(), "10.0.0.7".into())]);
        let lock = a.leases.lock("k").metadata(fields.clone());
        let guard = if let Some(ttl) = ttl { lock.ttl(ttl) } else { lock }.acquire().await.unwrap();
        let before = b.store.counts().writes;
        let seen = b.leases.peek("k").await.unwrap().unwrap();
        assert_eq!((&seen.occupant.holder, seen.occupant.fence), (a.leases.holder(), guard.fence()));
        assert_eq!(seen.metadata, fields);
        assert_eq!(b.store.counts().writes, before, "nobody is disturbed");
        guard.release().await;
        assert_eq!(b.leases.peek("k").await.unwrap(), None);
    }
    // Who takes the one key of a dead process fences its session, with which the other is over, though its record stays.
    let _dead = [a.leases.acquire("k").await.unwrap(), a.leases.acquire("other").await.unwrap()];
    a.faults.always(Fault::Hang);
    assert!(b.leases.peek("k").await.unwrap().is_some());
    let _taken = b.leases.acquire("other").await.unwrap();
    assert_eq!(b.leases.peek("k").await.unwrap(), None, "it is over with its session");
}

#[tokio::test(start_paused = true)]
async fn what_a_process_holds_is_listed() {
    let world = World::new();
    let a = world.process();
    let held = || a.leases.held().into_iter().map(|(key, _)| key.to_string()).collect::<Vec<_>>();
    assert!(held().is_empty());
    let (two, one) =
        (a.leases.acquire("two").await.unwrap(), a.leases.lock("one").ttl(TTL).acquire().await.unwrap());
    assert_eq!(a.leases.held(), [(one.key().clone(), one.fence()), (two.key().clone(), two.fence())]);
    two.release().await;
    drop(one);
    settle().await;
    assert!(held().is_empty());
    let inside = a.leases.lock("body").with_lease({
        let leases = a.leases.clone();
        |_| async move { leases.held() }
    });
    assert_eq!(inside.await.unwrap()[0].0, Key::new("body").unwrap());
    let candidate = a.leases.candidate().key("led").start().unwrap();
    candidate.elected().await.unwrap();
    assert_eq!(held(), ["led"]);
    candidate.stop().await;
    let _guards =
        [a.leases.acquire("attached").await.unwrap(), a.leases.lock("own").ttl(TTL).acquire().await.unwrap()];
    assert_eq!(held(), ["attached", "own"]);
    a.faults.always(Fault::Hang);
    tokio::time::sleep(TTL).await;
    assert!(held().is_empty(), "nothing is held past its deadline");
}

#[tokio::test(start_paused = true)]
async fn a_loss_is_told_with_its_key_and_fence() {
    let event_log = EventLog::default();
    let _here = listens(event_log.clone());
    let world = World::new();
    let a = world.process();
    let guard = a.leases.lock("told").ttl(TTL).acquire().await.unwrap();
    a.faults.always(Fault::Hang);
    guard.lost().await;
    settle().await;
    a.faults.always(Fault::None);
    let fence = guard.fence();
    assert!(!guard.release().await);
    let given = a.leases.acquire("given").await.unwrap();
    let next = given.fence();
    drop(given);
    let all = event_log.0.lock().unwrap().clone();
    let ours = |line: &&String| line.contains("key=told ") || line.contains("key=given ");
    let lines: Vec<&String> = all.iter().filter(ours).collect();
    let me = a.leases.holder();
    let begin = [
        format!("lease.acquired message=lease acquired key=told fence={fence} holder={me}"),
        format!("lease.lost message=lease lost key=told fence={fence} holder={me} reason="),
        format!("lease.acquired message=lease acquired key=given fence={next} holder={me}"),
        format!("lease.released message=lease released key=given fence={next} holder={me}"),
    ];
    assert_eq!(lines.len(), begin.len(), "{lines:?}");
    assert!(lines.iter().zip(&begin).all(|(line, begins)| line.starts_with(begins)), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn what_is_exported_survives_json() {
    fn twice<T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug>(
        value: &T,
    ) -> String {
        let json = serde_json::to_string(value).unwrap();
        assert_eq!(&serde_json::from_str::<T>(&json).unwrap(), value, "{json}");
        json
    }
    let world = World::new();
    let a = world.process();
    let guard = a.leases.acquire("k").await.unwrap();
    assert_eq!(twice(&guard.fence()), guard.fence().to_string());
    assert_eq!(twice(guard.key()), "\"k\"");
    twice(a.leases.holder());
    let seen: Sighting = a.leases.peek("k").await.unwrap().unwrap();
    twice(&seen);
    assert!(serde_json::from_str::<Key>("\"\"").is_err(), "it is checked on its way in");
    assert_eq!(twice(&StoreError::unavailable("no answer")), r#"{"kind":"Unavailable","text":"no answer"}"#);

    let candidate = Candidate::builder(world.memory.clone()).clock(world.clock.clone()).start().unwrap();
    candidate.elected().await.unwrap();
    let status: Status = candidate.status();
    assert_eq!(
        status.to_string(),
        format!("leading, led by {} (fence {})", candidate.holder(), status.leader.as_ref().unwrap().fence)
    );
    twice(&status);
    let leader: Leader = candidate.leader().unwrap();
    twice(&leader);

    let section = a.leases.section("s").start().unwrap();
    let ranges = section.try_acquire(0x10u64..0x20, TTL).await.unwrap();
    let entries: Vec<Entry> = section.list().await.unwrap();
    assert!(twice(&entries).contains(r#""parts":["10_20"]"#));
    ranges.release().await;

    let fleet = tenure::fleet::Fleet::new(AnyStore::new(world.memory.clone()), "f").unwrap();
    fleet.create(tenure::fleet::NewUnit::named("u").weight(3).needs("gpu")).await.unwrap();
    twice(&fleet.list().await.unwrap());
    assert_eq!(twice(&Fence(7)), "7");

    twice(&candidate.leadership().unwrap());
    let permit = a.leases.semaphore("p", 2).acquire().await.unwrap();
    twice(&a.leases.semaphore("p", 2).peek().await.unwrap());
    permit.release().await;
    a.leases.once_every("job", TTL).run(async |_| Ok::<_, String>(())).await.unwrap();
    let runs = a.leases.last_runs("job").await.unwrap();
    twice(&runs);
    assert!(runs.last().unwrap().to_string().ends_with("has run"));
    let worker = fleet.join().ttl(TTL).start().unwrap();
    worker.joined().await.unwrap();
    twice(&worker.planning());
    assert_eq!(twice(fleet.name()), "\"f\"");
    assert!(serde_json::from_str::<FleetName>("\"a/b\"").is_err(), "it is checked on its way in");
    let forced = a.leases.release_by_force("k", |_, _| {}).await.unwrap();
    twice(&forced);
    assert!(forced.to_string().starts_with("the tenure with fence "), "{forced}");
    twice(&Loss::Taken(Some(seen.occupant)));
    a.faults.always(Fault::Refuse);
    assert!(a.leases.peek("k").await.is_err());
    let waits = tokio::spawn({
        let leases = a.leases.clone();
        async move { leases.acquire("k").await.map(drop) }
    });
    tokio::time::sleep(TTL / 4).await;
    let trouble = a.leases.trouble().unwrap();
    twice(&trouble);
    assert!(trouble.to_string().contains("have failed for"), "{trouble}");
    waits.abort();
    assert!(serde_json::to_string(&a.leases.store().capabilities()).unwrap().contains("fencing"));
}
