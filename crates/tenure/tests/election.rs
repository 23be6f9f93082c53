//! Elections, as a user of the library sees them, in simulated time.
//!
//! Plan: one leader at a time through hangs, resignations and stops; belief that ends by the deadline though every call
//! hangs; falling back after errors in a row and not before; cooldown, preference, requests to hand over; what observers
//! and labels show; the cost of following, of a resignation, and of a thousand candidates on one session; a candidate that is
//! dropped. Bodies are in `election_bodies.rs`, settings in `election_settings.rs`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{TTL, TestStore, World, settle, timed};
use std::time::Duration;
use tenure::election::Standing;
use tenure::{AnyStore, Candidate, CandidateBuilder, Fence, MemoryStore, Metadata, Request, Store};
use tenure_store::{Fault, FaultyStore};

const MOMENT: Duration = Duration::from_millis(10);

struct Node {
    candidate: Candidate,
    faults: FaultyStore<MemoryStore>,
    store: TestStore,
}

fn node(world: &World, set: impl FnOnce(CandidateBuilder) -> CandidateBuilder) -> Node {
    let (faults, store) = world.line();
    let candidate =
        set(Candidate::builder(AnyStore::new(store.clone())).clock(world.clock.clone())).start().unwrap();
    Node { candidate, faults, store }
}

fn nodes(world: &World, n: usize) -> Vec<Node> {
    (0..n).map(|_| node(world, |candidate| candidate)).collect()
}

fn leaders(nodes: &[Node]) -> Vec<usize> {
    (0..nodes.len()).filter(|n| nodes[*n].candidate.is_leader()).collect()
}

/// Lets `span` pass, looking every moment that no two lead; answers how long nobody did.
async fn watch(nodes: &[Node], span: Duration) -> Duration {
    let mut without = Duration::ZERO;
    for _ in 0..span.as_millis() / MOMENT.as_millis() {
        tokio::time::sleep(MOMENT).await;
        let leading = leaders(nodes);
        assert!(leading.len() <= 1, "{leading:?} lead");
        without += if leading.is_empty() { MOMENT } else { Duration::ZERO };
    }
    without
}

async fn the_leader(nodes: &[Node]) -> usize {
    loop {
        if let [leader] = leaders(nodes)[..] {
            return leader;
        }
        tokio::time::sleep(MOMENT).await;
    }
}

#[tokio::test(start_paused = true)]
async fn s1_one_of_many_leads_and_all_know_who() {
    let world = World::new();
    let nodes = nodes(&world, 5);
    watch(&nodes, TTL).await;
    let leader = the_leader(&nodes).await;
    let term = nodes[leader].candidate.leadership().unwrap();
    for Node { candidate, .. } in &nodes {
        let seen = candidate.leader().unwrap();
        assert_eq!((&seen.holder, seen.fence), (nodes[leader].candidate.holder(), term.fence));
    }
    let starts_as_all_do = format!("{}-{}-", tenure::clock::host_name(), std::process::id());
    assert!(nodes[0].candidate.holder().as_str().starts_with(&starts_as_all_do), "{:?}", nodes[0].candidate);
    assert_eq!(nodes[0].candidate.key().as_str(), "default");
}

#[tokio::test(start_paused = true)]
async fn s1_s2_l1_a_leader_that_hangs_is_succeeded_in_time_with_a_higher_fence() {
    let world = World::new();
    let nodes = nodes(&world, 3);
    let mut fence = Fence(0);
    for _ in 0..6 {
        let leader = the_leader(&nodes).await;
        let term = nodes[leader].candidate.leadership().unwrap();
        assert!(term.fence > fence);
        fence = term.fence;
        watch(&nodes, TTL / 7).await;
        nodes[leader].faults.always(Fault::Hang);
        let others: Vec<&Node> =
            nodes.iter().filter(|node| node.candidate.holder() != nodes[leader].candidate.holder()).collect();
        let (_, after) = timed(async {
            while !others.iter().any(|node| node.candidate.is_leader()) {
                assert!(leaders(&nodes).len() <= 1);
                tokio::time::sleep(MOMENT).await;
            }
        })
        .await;
        assert!(after <= TTL * 115 / 100, "{after:?}");
        assert!(!nodes[leader].candidate.is_leader());
        nodes[leader].faults.always(Fault::None);
        watch(&nodes, TTL).await;
    }
}

#[tokio::test(start_paused = true)]
async fn s5_nobody_leads_past_the_deadline_though_every_call_hangs() {
    let world = World::new();
    // So many errors that only the deadline counts, and bodies that never end.
    let Node { candidate, faults, .. } = node(&world, |candidate| candidate.step_down_after(4));
    let term = candidate.elected().await.unwrap();
    assert!(term.valid_for <= TTL * 82 / 100);
    faults.always(Fault::Hang);
    let mut last = Duration::ZERO;
    for elapsed in 0..2 * TTL.as_millis() / MOMENT.as_millis() {
        let term = candidate.leadership();
        assert_eq!(candidate.is_leader(), term.is_some());
        if let Some(term) = term {
            last = MOMENT * u32::try_from(elapsed).unwrap();
            assert_eq!(term.fence, candidate.leader().unwrap().fence);
            assert!(last + term.valid_for <= TTL * 82 / 100);
        }
        tokio::time::sleep(MOMENT).await;
    }
    assert!(last <= TTL * 82 / 100 && last >= TTL / 2, "{last:?}");
    assert!(candidate.leader().is_none(), "it does not know of any");
}

#[tokio::test(start_paused = true)]
async fn a_leader_falls_back_after_errors_in_a_row_and_not_before() {
    let world = World::new();
    let Node { candidate, faults, .. } = node(&world, |candidate| candidate.step_down_after(3));
    candidate.elected().await.unwrap();
    // The store is back, and is tried once more, just before the third error in a row of one every 2 s.
    for _ in 0..5 {
        faults.always(Fault::Refuse);
        tokio::time::sleep(Duration::from_millis(3400)).await;
        faults.always(Fault::None);
        tokio::time::sleep(Duration::from_millis(2600)).await;
        assert!(candidate.is_leader());
    }
    faults.always(Fault::Refuse);
    let (_, after) = timed(async {
        while candidate.is_leader() {
            tokio::time::sleep(MOMENT).await;
        }
    })
    .await;
    assert!(after >= Duration::from_secs(4) && after <= Duration::from_millis(6010), "{after:?}");
    assert_ne!(candidate.status().standing, Standing::Leading);
    faults.always(Fault::None);
    candidate.elected().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_stall_that_a_leader_outlasts_deposes_nobody() {
    let world = World::new();
    let Node { candidate, faults, .. } = node(&world, |candidate| candidate.ttl(Duration::from_secs(1)));
    candidate.elected().await.unwrap();
    let fence = candidate.leadership().unwrap().fence;
    // A fifth of a ttl since the last renewal, the stall, and a pause before the store is tried again: less than belief lasts.
    for _ in 0..12 {
        faults.always(Fault::Refuse);
        tokio::time::sleep(Duration::from_millis(550)).await;
        faults.always(Fault::None);
        tokio::time::sleep(Duration::from_millis(450)).await;
        assert_eq!(candidate.leadership().map(|term| term.fence), Some(fence));
    }
}

#[tokio::test(start_paused = true)]
async fn who_resigns_stands_back_and_another_leads_at_once() {
    let world = World::new();
    let nodes = nodes(&world, 3);
    let leader = the_leader(&nodes).await;
    watch(&nodes, TTL).await;
    let resigned = &nodes[leader].candidate;
    assert!(resigned.resign().await);
    assert!(!resigned.is_leader());
    settle().await;
    let next = the_leader(&nodes).await;
    assert_ne!(next, leader);
    assert_eq!(resigned.status().standing, Standing::StandingBack);
    assert_eq!(resigned.leader().unwrap().holder, *nodes[next].candidate.holder(), "it looks on");
    assert!(!resigned.resign().await, "it does not lead");
    watch(&nodes, Duration::from_secs(5)).await;
    assert_eq!(resigned.status().standing, Standing::Following);
}

#[tokio::test(start_paused = true)]
async fn who_is_alone_leads_again_after_its_cooldown_and_not_before() {
    let world = World::new();
    let Node { candidate, .. } = node(&world, |candidate| candidate.cooldown(Duration::from_secs(7)));
    let first = candidate.elected().await.unwrap();
    candidate.resign().await;
    let (term, after) = timed(candidate.elected()).await;
    assert!(after >= Duration::from_secs(7) && after < Duration::from_secs(8), "{after:?}");
    assert!(term.unwrap().fence > first.fence);
}

#[tokio::test(start_paused = true)]
async fn the_most_preferred_of_those_who_wait_leads_next() {
    for first in 0..3usize {
        let world = World::new();
        let old = node(&world, |candidate| candidate.holder("old"));
        old.candidate.elected().await.unwrap();
        // In each order of arrival.
        let mut ranks = [0, 1, 2];
        ranks.rotate_left(first);
        let waiting: Vec<Node> = ranks
            .iter()
            .map(|rank| node(&world, |candidate| candidate.rank(*rank).holder(format!("r{rank}"))))
            .collect();
        watch(&waiting, TTL).await;
        let gap = timed(async {
            old.candidate.stop().await;
            the_leader(&waiting).await
        });
        let (next, after) = gap.await;
        assert_eq!(waiting[next].candidate.holder().as_str(), "r0");
        assert!(after < MOMENT * 2, "the first place waits for nobody: {after:?}");
        waiting[next].candidate.stop().await;
        let (next, after) = timed(the_leader(&waiting)).await;
        assert_eq!(waiting[next].candidate.holder().as_str(), "r1");
        assert!(after >= TTL / 20 && after < TTL / 10, "{after:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_asked_hands_over() {
    let world = World::new();
    let nodes = nodes(&world, 2);
    let leader = the_leader(&nodes).await;
    let operator = world.process();
    for ask in [Request::HandOver, Request::Revoke] {
        let leader = if ask == Request::HandOver { leader } else { 1 - leader };
        assert!(nodes[leader].candidate.is_leader());
        operator.leases.request("default", ask).await.unwrap();
        let (next, after) = timed(async {
            loop {
                if leaders(&nodes) == [1 - leader] {
                    break 1 - leader;
                }
                assert!(leaders(&nodes).len() <= 1);
                tokio::time::sleep(MOMENT).await;
            }
        })
        .await;
        assert!(nodes[next].candidate.is_leader());
        assert!(after <= Duration::from_millis(2100), "{after:?}: at its next renewal");
        watch(&nodes, TTL).await;
    }
}

#[tokio::test(start_paused = true)]
async fn observers_see_who_leads_and_write_nothing() {
    let world = World::new();
    let (_, line) = world.line();
    let observer =
        Candidate::builder(AnyStore::new(line.clone())).clock(world.clock.clone()).observe().unwrap();
    let mut changes = observer.changes();
    assert_eq!((observer.leader(), changes.get_and_update().standing), (None, Standing::Observing));
    let labels = Metadata::from([("address".to_owned(), "10.0.0.7:80".into())]);
    let first = node(&world, |candidate| candidate.holder("first").metadata(labels.clone()));
    first.candidate.elected().await.unwrap();
    changes.changed().await.unwrap();
    let seen = changes.get_and_update().leader.unwrap();
    assert_eq!((seen.holder.as_str(), &seen.metadata), ("first", &labels));
    assert_eq!(Some(seen.fence), first.candidate.leadership().map(|term| term.fence));
    let second = node(&world, |candidate| candidate.holder("second"));
    tokio::time::sleep(TTL).await;
    assert!(!changes.has_changed().unwrap(), "renewals are no news");
    // The first dies: nobody leads, or the second at once.
    first.faults.always(Fault::Hang);
    let (_, after) = timed(async {
        while observer.leader().is_none_or(|leader| leader.holder.as_str() != "second") {
            changes.changed().await.unwrap();
        }
    })
    .await;
    assert!(after <= TTL * 115 / 100 + Duration::from_millis(100), "{after:?}");
    // The second dies too, and nobody is there to follow: that is seen as well.
    second.faults.always(Fault::Hang);
    let (_, after) = timed(async {
        while observer.leader().is_some() {
            changes.changed().await.unwrap();
        }
    })
    .await;
    assert!(after <= TTL * 14 / 10, "{after:?}");
    let counts = line.take();
    assert_eq!(counts.round_trips(), counts.reads, "it only reads: {counts:?}");
    observer.stop().await;
    tokio::time::sleep(TTL).await;
    assert_eq!(line.take().round_trips(), 0);
}

#[tokio::test(start_paused = true)]
async fn c1_a_follower_reads_once_a_follow_rate_and_a_leader_writes_once_a_hold_rate() {
    let world = World::new();
    let leader = node(&world, |candidate| candidate);
    leader.candidate.elected().await.unwrap();
    let follower = node(&world, |candidate| candidate);
    tokio::time::sleep(TTL).await;
    leader.store.take();
    follower.store.take();
    tokio::time::sleep(TTL * 10).await;
    let (leads, follows) = (leader.store.take(), follower.store.take());
    // 2 s, or up to a quarter less.
    assert_eq!(leads.round_trips(), leads.writes);
    assert!((50..=67).contains(&leads.writes), "{leads:?}");
    assert_eq!(follows.round_trips(), follows.reads);
    // Each renewal is pushed too.
    assert!((50..=134).contains(&follows.reads), "{follows:?}");
}

#[tokio::test(start_paused = true)]
async fn c1_a_resignation_costs_two_round_trips_until_the_next_one_leads() {
    let world = World::new();
    let nodes = nodes(&world, 2);
    let leader = the_leader(&nodes).await;
    watch(&nodes, TTL).await;
    let next = &nodes[1 - leader];
    nodes[leader].store.take();
    next.store.take();
    let ((), gap) = timed(async {
        assert!(nodes[leader].candidate.resign().await);
        next.candidate.elected().await.unwrap();
    })
    .await;
    assert_eq!(nodes[leader].store.take().writes, 1, "one write frees the key");
    let counts = next.store.take();
    assert!(counts.round_trips() <= 2, "{counts:?}: a look and a claim");
    assert!(gap <= Duration::from_millis(1), "{gap:?}");
}

#[tokio::test(start_paused = true)]
async fn c1_a_thousand_candidates_are_attached_to_one_session() {
    let world = World::new();
    let process = world.process();
    let on = |n: usize| process.leases.candidate().key(format!("k{n}"));
    let candidates: Vec<Candidate> = (0..1000).map(|n| on(n).start().unwrap()).collect();
    for candidate in &candidates {
        candidate.elected().await.unwrap();
    }
    assert_eq!(process.store.take().writes, 1001, "one each, and one for the session");
    tokio::time::sleep(TTL * 10).await;
    let counts = process.store.take();
    // One renewal a third of a ttl, and the audit's one read after it.
    assert!((29..=31).contains(&counts.writes) && counts.reads <= counts.writes + 1, "{counts:?}");
    assert_eq!(counts.round_trips(), counts.writes + counts.reads);
    assert!(candidates.iter().all(Candidate::is_leader));
    // All of them are over with the session, and nobody believes for longer.
    process.faults.always(Fault::Hang);
    tokio::time::sleep(TTL * 82 / 100).await;
    assert_eq!(candidates.iter().filter(|candidate| candidate.is_leader()).count(), 0);
}

#[tokio::test(start_paused = true)]
async fn attached_leases_are_succeeded_like_others() {
    let world = World::new();
    let (a, b) = (world.process(), world.process());
    let on = |leases: &tenure::Leases| leases.candidate().start().unwrap();
    let (first, second) = (on(&a.leases), on(&b.leases));
    first.elected().await.unwrap();
    assert!(!second.is_leader());
    a.faults.always(Fault::Hang);
    let (_, after) = timed(async {
        while !second.is_leader() {
            assert!(!(first.is_leader() && second.is_leader()));
            tokio::time::sleep(MOMENT).await;
        }
    })
    .await;
    assert!(after <= TTL * 115 / 100, "{after:?}");
    a.faults.always(Fault::None);
    second.stop().await;
    let (_, after) = timed(first.elected()).await;
    assert!(after <= TTL, "{after:?}");
    // A stop of the leases ends what is attached to them.
    a.leases.stop().await;
    settle().await;
    assert!(!first.is_leader());
    assert!(first.elected().await.is_err());
    first.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_is_stopped_or_dropped_makes_room_at_once() {
    let world = World::new();
    let mut nodes = nodes(&world, 3);
    let leader = the_leader(&nodes).await;
    watch(&nodes, TTL).await;
    let stopped = nodes.remove(leader);
    let (next, after) = timed(async {
        stopped.candidate.stop().await;
        the_leader(&nodes).await
    })
    .await;
    assert!(after <= MOMENT * 2, "{after:?}");
    assert_eq!(stopped.candidate.status().standing, Standing::Stopped);
    assert!(stopped.candidate.elected().await.is_err());
    stopped.candidate.stop().await;
    let dropped = nodes.remove(next).candidate;
    let clone = dropped.clone();
    drop(dropped);
    watch(&nodes, TTL).await;
    assert!(clone.is_leader(), "a clone is the same candidate");
    drop(clone);
    let (_, after) = timed(the_leader(&nodes)).await;
    assert!(after <= MOMENT * 2, "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn a_candidate_outlives_trouble_with_its_records() {
    let world = World::new();
    let Node { candidate, .. } = node(&world, |candidate| candidate);
    let first = candidate.elected().await.unwrap();
    let key = candidate.key().clone();
    let seen = world.memory.read(&key).await.unwrap().unwrap();
    world.memory.remove(&key, seen.version).await.unwrap();
    let mut changes = candidate.changes();
    while candidate.leadership().is_none_or(|term| term.fence == first.fence) {
        changes.changed().await.unwrap();
    }
    assert!(candidate.leadership().unwrap().fence > first.fence, "deleted by hand: it leads anew");
}
