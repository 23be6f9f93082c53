//! Connections that are kept by a request for long: so many at the most that beats and releases find a place.

use crate::problem::Problem;
use crate::room::ConnectionRoom;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The places of those whose requests wait or listen, at all addresses together.
#[derive(Debug)]
pub(crate) struct Waits {
    room: Arc<ConnectionRoom>,
    places: Arc<Semaphore>,
    most: usize,
    /// So many connections are left free by whoever begins to wait.
    spared: usize,
}

/// The place of one of them, until it is dropped.
#[derive(Debug)]
pub(crate) struct WaitPlace(#[allow(dead_code, reason = "held, not used")] OwnedSemaphorePermit);

impl Waits {
    /// Seven eighths of the room's so many connections.
    pub(crate) fn among(connections: usize, room: &Arc<ConnectionRoom>) -> Waits {
        let most = (connections - connections.div_ceil(8)).clamp(1, Semaphore::MAX_PERMITS);
        let spared = connections.saturating_sub(most);
        Waits { room: Arc::clone(room), places: Arc::new(Semaphore::new(most)), most, spared }
    }

    /// A place for a request that waits for so long, if at all.
    pub(crate) fn enter(&self, wait: Duration) -> Result<Option<WaitPlace>, Problem> {
        if wait.is_zero() { Ok(None) } else { self.stay().map(Some) }
    }

    /// A place for as long as it is wanted.
    pub(crate) fn stay(&self) -> Result<WaitPlace, Problem> {
        // Those who have leases keep connections, too.
        if self.room.free() < self.spared {
            return Err(Problem::too_many_wait(self.most));
        }
        let place = Arc::clone(&self.places).try_acquire_owned();
        place.map(WaitPlace).map_err(|_| Problem::too_many_wait(self.most))
    }
}
