//! What `work --forever` needs of a fleet, whatever its layout: units that this process has until a deadline, that drain, and
//! that are lost.

use crate::exit::{self, Failure};
use crate::supervise::lease::Lease;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// A call that is under way.
pub(super) type Underway<'c, T> = Pin<Box<dyn Future<Output = T> + 'c>>;

/// A unit that this process has, or had.
pub(super) trait Unit: Lease + Send + Sync {
    fn name(&self) -> &str;
    fn is_draining(&self) -> bool;
}

/// A unit that is assigned, with the obligation to let go of it. Dropping it does so, too: nothing was begun for it.
pub(super) trait Assignment: Send {
    fn unit(&self) -> Arc<dyn Unit>;
    /// What was done for it has ended.
    fn drained(self: Box<Self>);
    /// What is done for it can't be ended: it is left to expire.
    fn lapse(self: Box<Self>);
}

/// What a fleet tells one of its processes.
pub(super) enum Event {
    /// This is ours: work on it.
    Assigned(Box<dyn Assignment>),
    /// It is to go.
    Draining { unit: String, why: String, within: Duration },
    /// It is gone.
    Lost { unit: String, why: String },
}

/// This process, as one of those that work on a fleet.
pub(super) trait Member {
    /// What it is called; no other process ever is.
    fn name(&self) -> &str;
    /// What is said when units were registered: whose they are.
    fn fleet(&self) -> String;
    /// Creates those of these units that are not there yet, and says how many.
    fn register<'c>(&'c self, units: &'c [&'c str]) -> Underway<'c, Result<usize, Failure>>;
    /// The next event; none when this process has left. Dropping the future loses nothing.
    fn next(&mut self) -> Underway<'_, Option<Event>>;
    /// Why it has left, where this process had not told it to: an error, unless somebody had asked it to.
    fn end(&self) -> Result<(), Failure>;
    /// How long everything that it has is surely ours; zero if nothing is.
    fn remaining(&self) -> Duration;
    /// Gives back everything, unit by unit, and takes nothing more.
    fn leave(&mut self);
    /// Ends before anything was begun.
    fn resign(&mut self) -> Underway<'_, ()>;
    /// Says what does not go as it should.
    fn sound(&mut self);
}

/// What kept its leases is gone, and nobody has asked for that.
pub(super) fn crashed() -> Failure {
    Failure::new(
        exit::INTERNAL,
        "this worker has ended by itself: what renews its leases is gone; start it again",
    )
}
