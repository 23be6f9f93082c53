//! What is held by all. Plan: a listing shows each key as a peek does, by key in byte order: of each kind of lease what is held, and neither what is
//! vacant, nor what was attached to a session that is over, nor tenure's own records, nor what can't be read; below a prefix only what begins so. What is
//! attached to a session that can't be read, or is gone, is shown.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

use crate::common::{TTL, World};
use tenure::{ErrorKind, Store};
use tenure_store::Fault;

#[tokio::test(start_paused = true)]
async fn a_listing_shows_each_key_as_a_peek_does() {
    let world = World::new();
    let (a, b) = (world.process(), world.process());
    let mut held = Vec::new();
    for n in 0..3 {
        held.push(a.leases.acquire(format!("jobs/{n}")).await.unwrap());
    }
    held.push(b.leases.lock("jobs/own").ttl(TTL).acquire().await.unwrap());
    held.push(b.leases.acquire("other").await.unwrap());
    let _permit = a.leases.semaphore("render", 2).acquire().await.unwrap();
    assert!(a.leases.acquire("jobs/over").await.unwrap().release().await);
    // Of a process that has died, and whose session another has fenced.
    let dead = world.process();
    let _lost = dead.leases.acquire("jobs/dead").await.unwrap();
    let _taken = dead.leases.acquire("jobs/taken").await.unwrap();
    dead.faults.always(Fault::Hang);
    let taken = b.leases.acquire("jobs/taken").await.unwrap();
    for prefix in ["", "jobs/", "jobs/o", "none", "session/"] {
        let listed = a.leases.list(prefix).await.unwrap();
        let all = held.iter().chain([&taken]).filter(|guard| guard.key().as_str().starts_with(prefix));
        let mut all: Vec<_> = all.map(|guard| (guard.key().clone(), guard.fence())).collect();
        all.sort();
        let shown: Vec<_> = listed.iter().map(|(key, seen)| (key.clone(), seen.occupant.fence)).collect();
        assert_eq!(shown, all, "below {prefix:?}");
        for (key, seen) in listed {
            assert_eq!(a.leases.peek(&key).await.unwrap(), Some(seen), "{key}");
        }
    }
    assert_eq!(a.leases.peek("jobs/dead").await.unwrap(), None);
    a.faults.always(Fault::Refuse);
    assert!(a.leases.list("").await.is_err());
}

#[tokio::test(start_paused = true)]
async fn whoever_is_attached_to_a_session_that_can_not_be_read_is_shown() {
    let world = World::new();
    let (a, b, c) = (world.process(), world.process(), world.process());
    let guard = a.leases.acquire("k").await.unwrap();
    b.faults.damage(a.leases.session_key().clone());
    let seen = b.leases.peek("k").await.unwrap().unwrap();
    assert_eq!((seen.occupant.fence, guard.is_held()), (guard.fence(), true));
    assert_eq!(b.leases.list("").await.unwrap(), [(guard.key().clone(), seen)]);
    // Its own record is another thing.
    b.faults.damage(guard.key().clone());
    assert_eq!(b.leases.peek("k").await.unwrap_err().kind(), ErrorKind::Foreign);
    assert_eq!(b.leases.list("").await.unwrap(), []);
    // A store that can't be asked has no answer, where the record itself was read.
    let store = &world.memory;
    let session = store.read(a.leases.session_key()).await.unwrap().unwrap();
    c.faults.inject([Fault::None, Fault::Refuse]);
    assert_eq!(c.leases.peek("k").await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(store.remove(a.leases.session_key(), session.version).await.unwrap());
    assert!(c.leases.peek("k").await.unwrap().is_some(), "it is not over before its holder knows");
    assert_eq!(c.leases.list("").await.unwrap().len(), 1);
}
