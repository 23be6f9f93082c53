//! The test kit's suite of leases on the native layout, in simulated time. Plan: the library's own leases as plain data, which
//! are renewed by whoever has them, so that a process can fall silent; the dialects run the same suite in their rooms.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking, also in what they share")]

use crate::common::{Process, TTL, World};
use std::time::Duration;
use tenure::clock::Tick;
use tenure::{AcquireError, Clock, Fence, Key, LeaseError, LeaseToken};
use tenure_core::{Drift, Ttl};
use tenure_store::{Fault, Store};
use tenure_testkit::{LeaseRefusal, LeaseSubject, LostMessage, Tenant, lease_conformance};

struct Native(World);

/// A token, and until when its user may go by it: [`LeaseToken`]s leave that to them.
struct Lease {
    token: LeaseToken,
    until: Option<Tick>,
}

struct One {
    process: Process,
    world: std::sync::Arc<crate::common::PausedClock>,
}

impl LeaseSubject for Native {
    type Tenant = One;

    async fn tenant(&self) -> One {
        One { process: self.0.process(), world: self.0.clock.clone() }
    }

    fn ttl(&self) -> Duration {
        TTL
    }

    fn takeover(&self) -> Duration {
        TTL * 14 / 10
    }

    fn has_fences(&self) -> bool {
        true
    }

    async fn pass(&self, span: Duration) {
        tokio::time::sleep(span).await;
    }

    async fn raw(&self, key: &str) -> Option<String> {
        let stored = self.0.memory.read(&Key::new(key).unwrap()).await.unwrap();
        stored.map(|stored| format!("{:?}", stored.record))
    }

    /// The memory store has no records that could be spoilt; the suite of stores has that.
    async fn damage(&self, _key: &str, _way: usize) -> bool {
        false
    }
}

impl One {
    fn until(&self, sent: Tick) -> Option<Tick> {
        Some(sent.after(Drift::default().belief(Ttl::new(TTL).unwrap())))
    }
}

impl Tenant for One {
    type Lease = Lease;

    async fn try_acquire(&self, key: &str) -> Result<Lease, LeaseRefusal> {
        let sent = self.world.held();
        let guard = self.process.leases.lock(key).ttl(TTL).try_acquire().await;
        let guard = guard.map_err(|error| match error {
            AcquireError::Held(_) => LeaseRefusal::Held,
            AcquireError::Store(error) => LeaseRefusal::Store(error),
            other => panic!("{other}"),
        })?;
        let token = guard.into_token().await.map_err(refusal)?;
        Ok(Lease { token, until: self.until(sent) })
    }

    async fn renew(&self, lease: &mut Lease) -> Result<(), LeaseRefusal> {
        let sent = self.world.held();
        match self.process.leases.refresh(&lease.token).await.map_err(refusal) {
            Ok(token) => {
                *lease = Lease { token, until: self.until(sent) };
                Ok(())
            }
            Err(refusal) => {
                if refusal == LeaseRefusal::NotOwned {
                    lease.until = None;
                }
                Err(refusal)
            }
        }
    }

    async fn release(&self, lease: &mut Lease) -> Result<(), LeaseRefusal> {
        lease.until = None;
        self.process.leases.give_back(&lease.token).await.map(|_| ()).map_err(refusal)
    }

    fn is_held(&self, lease: &Lease) -> bool {
        lease.until > Some(self.world.held())
    }

    fn fence(&self, lease: &Lease) -> Result<Fence, LeaseRefusal> {
        Ok(lease.token.fence())
    }

    fn lose_next(&self, lost: LostMessage) {
        self.process.faults.inject([match lost {
            LostMessage::Answer => Fault::LoseAnswer,
            LostMessage::Request => Fault::LoseRequest,
        }]);
    }
}

fn refusal(error: LeaseError) -> LeaseRefusal {
    match error {
        LeaseError::NotOurs(_) | LeaseError::Lost(_) => LeaseRefusal::NotOwned,
        LeaseError::Store(error) => LeaseRefusal::Store(error),
        other => panic!("{other}"),
    }
}

fn paused(check: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().start_paused(true).build().unwrap().block_on(check);
}

lease_conformance!(native, paused, || async { Native(World::new()) });
