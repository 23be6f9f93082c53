//! What a command runs under: a lease that is kept until it is given up or lost, whatever its layout.

use crate::output;
use crate::supervise::health::{LeaseHealth, UnknownSince, lease_health};
use crate::supervise::outage::Outage;
use crate::supervise::watchdog::Lead;
use std::time::Duration;
use tenure::{Fence, Guard, Leases, Wall};

/// A lease that is kept until it is given up or lost.
pub(crate) trait Tenancy {
    /// How long it is surely held. No I/O.
    fn remaining(&self) -> Duration;

    /// What that means for the command, `lead` being the time that stopping takes.
    fn health(&self, lead: Lead, unknown_since: &UnknownSince) -> LeaseHealth;

    /// The fence, where there are any.
    fn fence(&self) -> Option<Fence>;

    /// The time by the wall clock.
    fn wall(&self) -> Wall;

    /// Why it is not held any more, in words; none if it is, or was withdrawn.
    async fn loss(&self) -> Option<String>;

    /// What went wrong with the store of late, in words.
    fn trouble(&self) -> Option<String>;

    /// Gives it up.
    async fn release(self);

    /// Keeps it no longer, and leaves it to expire.
    async fn lapse(self);

    /// Whether it is held. No I/O.
    fn is_held(&self) -> bool {
        !self.remaining().is_zero()
    }
}

/// A lease in tenure's own layout.
pub(crate) struct Native<'l> {
    pub(crate) leases: &'l Leases,
    pub(crate) guard: Guard,
    pub(crate) outage: &'l Outage,
    pub(crate) ttl: Duration,
}

impl Tenancy for Native<'_> {
    fn remaining(&self) -> Duration {
        self.guard.remaining()
    }

    fn health(&self, lead: Lead, unknown_since: &UnknownSince) -> LeaseHealth {
        lease_health(&self.guard, lead, unknown_since)
    }

    fn fence(&self) -> Option<Fence> {
        Some(self.guard.fence())
    }

    fn wall(&self) -> Wall {
        self.leases.clock().now().wall
    }

    async fn loss(&self) -> Option<String> {
        if self.guard.is_held() || self.guard.is_revoked() {
            return None;
        }
        Some(output::loss(&self.guard.lost().await))
    }

    fn trouble(&self) -> Option<String> {
        self.outage.within(self.ttl)
    }

    async fn release(self) {
        self.guard.release().await;
    }

    async fn lapse(self) {
        self.guard.lapse().await;
    }
}
