//! The connections that all statements of a store share: which one takes the next statement, and when another one is made.

use super::Connections;
use crate::config::PostgresConfig;
use crate::connect::{ConnectionPlace, PostgresConnector};
use crate::connection::PostgresConnection;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tenure_core::StoreError;
use tokio::sync::Semaphore;

/// The connections of a store.
pub(super) struct OwnConnections {
    pub(super) connector: PostgresConnector,
    slots: Mutex<Vec<Slot>>,
    places: ConnectionPlaces,
    pub(super) pulse: Pulse,
}

/// Places of connections: those of the slots, and as many for what was given up and is still under way at the server, such as a statement that
/// waits for a lock. There are no more than these and the spare ones.
#[derive(Clone)]
struct ConnectionPlaces {
    free: Arc<Semaphore>,
    /// As many once more, for who has waited in vain.
    spare: Arc<Semaphore>,
    /// How long one is waited for. What goes on for longer is no wait for a lock: a commit waits for its standby, and reads go on meanwhile; or it
    /// is a connection of which nothing will ever be heard.
    patience: Duration,
}

impl ConnectionPlaces {
    fn of(config: &PostgresConfig) -> ConnectionPlaces {
        const FEW: usize = 2;
        let count = config.connections + config.connections.max(FEW);
        let places = || Arc::new(Semaphore::new(count));
        ConnectionPlaces { free: places(), spare: places(), patience: config.lock_timeout() }
    }

    /// None if all are taken for longer: more would only wait at the server, too, and leave no connection for others.
    async fn next(self) -> ConnectionPlace {
        let place = match tokio::time::timeout(self.patience, self.free.acquire_owned()).await {
            Ok(place) => place.ok()?,
            Err(_) => self.spare.try_acquire_owned().ok()?,
        };
        Some(Arc::new(place))
    }
}

/// Counts what is sent and heard on all connections, by which it is told what came after what.
#[derive(Default)]
pub(super) struct Pulse {
    count: AtomicU64,
    /// When the statement was sent that had no answer in time last.
    silent: AtomicU64,
}

impl Pulse {
    pub(super) fn next(&self) -> u64 {
        self.count.fetch_add(1, Ordering::SeqCst)
    }

    fn silent_since(&self, sent: u64) {
        self.silent.fetch_max(sent, Ordering::SeqCst);
    }
}

/// A statement that waits for its answer. If it is given up after a while, by its caller or because of the time, the silence is noted.
pub(super) struct SilenceWatch<'a> {
    pub(super) pulse: &'a Pulse,
    /// When it was sent; none once it is answered.
    pub(super) sent: Option<u64>,
    pub(super) connection: &'a PostgresConnection,
}

impl Drop for SilenceWatch<'_> {
    fn drop(&mut self) {
        // Who goes away at once says nothing about the server.
        if let Some(sent) = self.sent.filter(|_| self.connection.is_slow()) {
            self.pulse.silent_since(sent);
        }
    }
}

type Attempt = Shared<BoxFuture<'static, Result<Arc<PostgresConnection>, StoreError>>>;

/// Room for one connection.
#[derive(Default)]
struct Slot {
    connection: Option<Arc<PostgresConnection>>,
    /// It is being made.
    attempt: Option<Attempt>,
    /// Each statement under way has a copy.
    users: Arc<()>,
    /// When it had its last answer.
    heard: Arc<AtomicU64>,
}

/// A connection, among whose users the caller counts for as long as this lives.
pub(super) struct SharedConnection {
    pub(super) connection: Arc<PostgresConnection>,
    pub(super) heard: Arc<AtomicU64>,
    _user: Arc<()>,
}

impl OwnConnections {
    pub(super) fn new(config: &PostgresConfig) -> Result<OwnConnections, StoreError> {
        let slots = (0..config.connections).map(|_| Slot::default()).collect();
        Ok(OwnConnections {
            connector: PostgresConnector::new(config)?,
            slots: Mutex::new(slots),
            places: ConnectionPlaces::of(config),
            pulse: Pulse::default(),
        })
    }

    /// A connection on which nothing is under way, or else a new one, or else that with the fewest statements. One attempt to connect
    /// serves all who wait, and goes on without them. Where it fails, one that answers is shared all the same.
    pub(super) async fn take(&self, connections: &Connections) -> Result<SharedConnection, StoreError> {
        let (found, user, heard) = {
            let mut slots = self.lock();
            slots.iter_mut().for_each(|slot| slot.refresh(&self.pulse));
            let Some(slot) = slots.iter_mut().min_by_key(|slot| slot.cost()) else {
                return Err(connections.too_late());
            };
            let found = slot.connection.clone().ok_or_else(|| slot.attempt(&self.connector, &self.places));
            (found, Arc::clone(&slot.users), Arc::clone(&slot.heard))
        };
        let attempt = match found {
            Ok(connection) => return Ok(SharedConnection { connection, heard, _user: user }),
            Err(attempt) => attempt,
        };
        match tokio::time::timeout(connections.timeout, attempt).await.map_err(|_| connections.too_late())? {
            Ok(connection) => Ok(SharedConnection { connection, heard, _user: user }),
            Err(error) => self.busy().ok_or(error),
        }
    }

    /// That with the fewest statements, of those that answer.
    fn busy(&self) -> Option<SharedConnection> {
        let mut slots = self.lock();
        slots.iter_mut().for_each(|slot| slot.refresh(&self.pulse));
        let answering = slots.iter().filter(|slot| !slot.cost().0);
        let connected = answering.filter_map(|slot| Some((slot, slot.connection.clone()?)));
        let (slot, connection) = connected.min_by_key(|(slot, _)| slot.cost())?;
        Some(SharedConnection { connection, heard: Arc::clone(&slot.heard), _user: Arc::clone(&slot.users) })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Slot>> {
        // No code that can panic runs under the lock, so what it guards is whole.
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// Sees what became of its connection. An idle one on which nothing was heard since a statement was sent on another that had no answer
    /// in time is not used again: both may be to a host that is gone, and whoever tried them one after the other would never come to the next.
    fn refresh(&mut self, pulse: &Pulse) {
        let is_idle = Arc::strong_count(&self.users) == 1;
        let is_doubtful = is_idle && self.heard.load(Ordering::SeqCst) < pulse.silent.load(Ordering::SeqCst);
        if self.connection.as_ref().is_some_and(|connection| is_doubtful || !connection.is_usable()) {
            *self = Slot::default();
        }
        // All who waited for it may have gone before it ended: so it is asked, and not only looked at.
        if let Some(made) = self.attempt.as_ref().and_then(|attempt| attempt.clone().now_or_never()) {
            self.attempt = None;
            self.connection = made.ok().filter(|connection| connection.is_usable());
            self.heard.store(pulse.next(), Ordering::SeqCst);
        }
    }

    /// How little it lends itself to one more statement.
    fn cost(&self) -> (bool, usize) {
        let is_slow = self.connection.as_ref().is_some_and(|connection| connection.is_slow());
        (is_slow, 2 * Arc::strong_count(&self.users) + usize::from(self.connection.is_none()))
    }

    /// The attempt that is under way, or a new one.
    fn attempt(&mut self, connector: &PostgresConnector, places: &ConnectionPlaces) -> Attempt {
        let (connector, places) = (connector.clone(), places.clone());
        let begin = || {
            let attempt = tokio::spawn(async move {
                let place = places.next().await.ok_or_else(|| connector.exhausted())?;
                connector.connection(Some(place)).await
            });
            let settled = async move {
                let broken = |error| StoreError::unavailable(format!("connecting was broken off: {error}"));
                attempt.await.map_err(broken)?
            };
            settled.boxed().shared()
        };
        self.attempt.get_or_insert_with(begin).clone()
    }
}
