//! Locks for scheduled jobs, in simulated time. Plan: one node of several gets a job's lock; a short job keeps it for the minimum
//! time and no longer, a long one is renewed for as long as it takes; a lock that is dropped keeps its minimum too; jobs are
//! independent; a lost lock is told; a clean stop gives no lock back before its minimum time, and does so then; bad names are
//! refused.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{TTL, World, settle, timed};
use std::time::Duration;
use tenure::AcquireError;
use tenure::election::Locker;
use tenure_store::Fault;

const MINIMUM: Duration = Duration::from_secs(3);

#[tokio::test(start_paused = true)]
async fn a_short_job_keeps_its_lock_for_the_minimum_time() {
    let world = World::new();
    let (a, b) = (world.process(), world.process());
    let of = |leases: &tenure::Leases| Locker::new(leases.clone()).at_least_for(MINIMUM);
    let (first, second) = (of(&a.leases), of(&b.leases));
    for dropped in [false, true] {
        let lock = first.try_lock("job").await.unwrap().unwrap();
        assert!(lock.is_held() && lock.fence().0 > 0);
        assert!(second.try_lock("job").await.unwrap().is_none());
        assert!(second.try_lock("another").await.unwrap().is_some(), "other jobs have their own");
        tokio::time::sleep(Duration::from_secs(1)).await;
        let began = tokio::time::timeout(Duration::from_secs(60), async {
            if dropped {
                drop(lock);
            } else {
                let (released, took) = timed(lock.release()).await;
                assert_eq!((released, took), (true, MINIMUM - Duration::from_secs(1)));
            }
            let free = timed(async {
                loop {
                    if let Some(lock) = second.try_lock("job").await.unwrap() {
                        break lock;
                    }
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            });
            free.await
        });
        let (lock, after) = began.await.unwrap();
        let rest = if dropped { MINIMUM - Duration::from_secs(1) } else { Duration::ZERO };
        assert!(after >= rest && after <= rest + Duration::from_millis(20), "{after:?}");
        // The second keeps its own minimum, and "another" is free again by then.
        lock.release().await;
        tokio::time::sleep(MINIMUM).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_job_is_renewed_and_its_loss_is_told() {
    let world = World::new();
    let (a, b) = (world.process(), world.process());
    let (first, second) = (Locker::new(a.leases.clone()), Locker::new(b.leases.clone()));
    let lock = first.try_lock("job").await.unwrap().unwrap();
    tokio::time::sleep(TTL * 5).await;
    assert!(lock.is_held() && second.try_lock("job").await.unwrap().is_none());
    let cancelled = lock.cancelled();
    a.faults.always(Fault::Hang);
    let (_, after) = timed(lock.lost()).await;
    settle().await;
    assert!(after <= TTL * 82 / 100 && cancelled.is_cancelled() && !lock.is_held());
    tokio::time::sleep(TTL).await;
    assert!(second.try_lock("job").await.unwrap().is_some());
    let (released, took) = timed(lock.release()).await;
    assert!(!released && took < Duration::from_secs(1), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn locks_have_their_prefix_and_bad_names_are_refused() {
    let world = World::new();
    let process = world.process();
    let lock = Locker::new(process.leases.clone()).prefix("cron/").try_lock("job").await.unwrap().unwrap();
    assert!(matches!(process.leases.try_acquire("cron/job").await, Err(AcquireError::Held(_))));
    lock.release().await;
    assert!(process.leases.try_acquire("cron/job").await.is_ok(), "no minimum: free at once");
    let refused = Locker::new(process.leases.clone()).try_lock("x".repeat(600)).await;
    assert!(
        matches!(refused, Err(AcquireError::Store(error)) if error.to_string().contains("the limit is 512"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_clean_stop_keeps_the_minimum_time() {
    for unlocked_first in [false, true] {
        let world = World::new();
        let (a, b) = (world.process(), world.process());
        let of = |leases: &tenure::Leases| Locker::new(leases.clone()).at_least_for(MINIMUM);
        let lock = of(&a.leases).try_lock("job").await.unwrap().unwrap();
        let other = Locker::new(a.leases.clone()).try_lock("another").await.unwrap().unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let held = if unlocked_first {
            drop(lock);
            None
        } else {
            Some(lock)
        };
        settle().await;
        a.leases.stop().await;
        assert!(held.is_none_or(|lock| !lock.is_held()), "whoever was stopped believes nothing");
        let second = of(&b.leases);
        assert!(
            Locker::new(b.leases.clone()).try_lock("another").await.unwrap().is_some(),
            "without a minimum it is free"
        );
        drop(other);
        let (_, after) = timed(async {
            loop {
                if let Some(lock) = second.try_lock("job").await.unwrap() {
                    break lock;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        })
        .await;
        let (least, most) = (MINIMUM - Duration::from_secs(1), TTL * 115 / 100);
        assert!((least..=most).contains(&after), "{after:?}");
    }
}
