//! Plan: a store of several pages costs two listings, one read for the sessions that claims name, and a request for each thing that
//! is done, of which those that can be are made in batches; a look does nothing, and finds what is done then; no page is asked
//! for while two are in memory.
use super::{Collection, GcTally};
use crate::exit::Failure;
use crate::stores::pages::PAGE;
use crate::verbs::ageless::Ageless;
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;
use tenure::store::{Attachment, Expect, Outcome, Record, StoreExt, Tenure, Write};
use tenure::{AnyStore, Clock, Fence, HolderId, Key, Metadata, Store, Ttl, Wall};
use tenure_core::Nonces;
use tenure_store::{Counts, MeteredStore};

const OLD: usize = 2_500;
const ATTACHED: usize = 300;
const SESSIONS: usize = 3;

fn record(nonces: &mut Nonces, session: Option<usize>) -> Record {
    let nonce = nonces.draw();
    let tenure = session.map(|n| Tenure {
        attachment: Some(Attachment { session: session_key(n), fence: Fence(3) }),
        ..Tenure::new(nonce, HolderId::new("dead").unwrap(), Ttl::clamped(1_000), Wall(0))
    });
    // Its writer's clock is far beyond its fence, however soon after this it is looked at.
    Record { fence: Fence(5), nonce, stamp: Wall(60_000), tenure, metadata: Metadata::new() }
}

fn session_key(n: usize) -> Key {
    Key::new(format!("session/{n}")).unwrap()
}

async fn filled(store: &impl Store) {
    let mut nonces = Nonces::new(1);
    let named = |text: String| Key::new(text).unwrap();
    let old = (0..OLD).map(|n| (named(format!("old/{n:05}")), None));
    let attached = (0..ATTACHED).map(|n| (named(format!("attached/{n:05}")), Some(n % SESSIONS)));
    let sessions = (0..SESSIONS).map(|n| (session_key(n), None));
    let all = old.chain(attached).chain(sessions);
    let writes = all.map(|(key, session)| {
        let record = record(&mut nonces, session);
        Write { key, expect: Expect::Absent, record }
    });
    let outcomes = store.write_all(writes.collect()).await.unwrap();
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Won { .. })));
}

#[test]
fn a_store_of_many_pages_is_listed_twice_and_cleared_in_batches() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let metered = MeteredStore::new(tenure::memory());
        filled(&metered).await;
        let clock: Arc<dyn Clock> = tenure::clock::system();
        let mut collection = Collection {
            store: AnyStore::new(metered.clone()),
            nonces: Nonces::new(2),
            wall: clock.now().wall,
            clock: Arc::clone(&clock),
            prefix: String::new(),
            older_than: Duration::ZERO,
            sweeps: false,
            acts: false,
            watched: None,
        };
        let pages = (OLD + ATTACHED + SESSIONS).div_ceil(PAGE) as u64;
        let (mut before, names) = (metered.counts(), Cell::new(0));
        let mut name = |_: &Key| -> Result<(), Failure> {
            names.set(names.get() + 1);
            Ok(())
        };
        let looked = collection.run(false, &mut name).await.unwrap();
        let expected = GcTally { removable: OLD, vacated: ATTACHED, ..GcTally::default() };
        assert_eq!(looked, expected);
        let spent = |before: Counts| {
            let now = metered.counts();
            (
                now.lists - before.lists,
                now.reads - before.reads,
                now.batches - before.batches,
                now.removes - before.removes,
            )
        };
        assert_eq!(spent(before), (2 * pages, 1, 0, 0));
        before = metered.counts();
        let done = collection.run(true, &mut name).await.unwrap();
        assert_eq!(done, GcTally { removed: OLD, ..expected });
        // Attached leases are on one page or two.
        let (lists, reads, batches, removes) = spent(before);
        assert_eq!((lists, reads, removes), (2 * pages, 1, OLD as u64));
        assert!((1..=2).contains(&batches), "{batches}");
        assert_eq!(names.get(), 2 * OLD);
        assert_eq!(metered.counts().writes, 0, "none alone");
        // What the dead had is free now, and their sessions are not named any more.
        let again = collection.run(true, &mut name).await.unwrap();
        assert_eq!((again.removed, again.vacated), (SESSIONS + ATTACHED, 0), "{again:?}");
    });
}

/// What a process has left that died an hour ago goes in one run and the next, and what is written while one watches stays.
#[tokio::test]
async fn where_the_store_tells_no_ages_what_stays_as_it_is_is_watched() {
    let world = Ageless::new().await;
    let (old, young) = (Key::new("old").unwrap(), Key::new("young").unwrap());
    world.left(&old, None).await;
    world.left(&session_key(0), Some(Duration::from_millis(100))).await;
    // As a `run` whose host has lost power.
    let gone = Key::new("gone").unwrap();
    world.left(&gone, Some(Duration::from_millis(100))).await;
    let run = async |older_than| {
        let clock = world.here.clock();
        let mut collection = Collection {
            store: world.here.store().clone(),
            nonces: Nonces::new(2),
            wall: clock.now().wall,
            clock: Arc::clone(clock),
            prefix: String::new(),
            older_than,
            sweeps: false,
            acts: false,
            watched: None,
        };
        let began = clock.held();
        let write = async {
            tokio::time::sleep(older_than / 2).await;
            world.left(&young, None).await;
        };
        let (watched, ()) = tokio::join!(collection.watch(), write);
        watched.unwrap();
        assert!(clock.held().since(began) >= older_than);
        let tally = collection.run(true, |_| Ok(())).await.unwrap();
        world
            .here
            .store()
            .remove(&young, world.here.store().read(&young).await.unwrap().unwrap().version)
            .await
            .unwrap();
        (tally.removed, tally.sessions, tally.ahead, tally.vacated)
    };
    assert_eq!(run(Duration::from_secs(2)).await, (1, 1, 0, 1));
    assert!(world.here.store().read(&gone).await.unwrap().unwrap().record.tenure.is_none());
    assert!(world.here.store().read(&old).await.unwrap().is_none());
    assert_eq!(run(Duration::from_secs(2)).await.1, 0, "its session is ended");
    assert!(world.here.store().read(&gone).await.unwrap().is_none());
}
