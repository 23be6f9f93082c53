//! What is held by all. Plan: a listing shows each key as a peek does, by key in byte order: of each kind of lease what is held, and neither what is
//! vacant, nor what was attached to a session that is over, nor tenure's own records, nor what can't be read; below a prefix only what begins so.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

use crate::common::{TTL, World};
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
