//! Where statements are sent: some connections that all statements of a store share, or a pool of the caller's.

use crate::config::PostgresConfig;
use crate::connect::{ConnectionPlace, PostgresConnector};
use crate::connection::{Forms, Params, PostgresConnection};
use crate::error::{Call, exhausted, failed, is_demoted, unanswered, unconnected};
use deadpool_postgres::{Object, Pool, PoolError, TimeoutType};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tenure_core::StoreError;
use tenure_store::parts::{Admission, Right};
use tokio::sync::Semaphore;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error, Row};
use tokio_postgres_rustls::MakeRustlsConnect;

/// How often a statement is sent again that the server has rolled back for the sake of another transaction.
const ROUNDS: usize = 16;

/// Where statements are sent, with a bound on each wait.
///
/// A statement leaves nothing behind on its connection that others need. So a pooler that lends connections for a transaction may stand
/// between.
#[derive(Clone)]
pub struct Lines {
    source: ConnectionSource,
    pub(crate) place: String,
    pub(crate) timeout: Duration,
    pub(crate) admission: Arc<Admission>,
}

#[derive(Clone)]
enum ConnectionSource {
    Own(Arc<OwnConnections>),
    Pool(Pool),
}

impl Lines {
    /// Lines of a pool that the caller made. Each statement has a connection for itself.
    pub fn of(pool: Pool, config: &PostgresConfig) -> Lines {
        Lines {
            source: ConnectionSource::Pool(pool),
            place: config.place(),
            timeout: config.timeout,
            admission: Arc::default(),
        }
    }

    /// Lines to the server of `config`, whose settings are checked first. Nothing is connected yet.
    ///
    /// # Errors
    /// `Invalid`: what is wrong with the configuration.
    pub fn open(config: &PostgresConfig) -> Result<Lines, StoreError> {
        config.check()?;
        let own = Arc::new(OwnConnections::new(config)?);
        let admission = Arc::clone(&own.connector.admission);
        Ok(Lines {
            source: ConnectionSource::Own(own),
            place: config.place(),
            timeout: config.timeout,
            admission,
        })
    }

    /// What speaks TLS on connections of its own.
    pub(crate) fn tls(&self) -> Option<MakeRustlsConnect> {
        match &self.source {
            ConnectionSource::Own(own) => own.connector.tls.clone(),
            ConnectionSource::Pool(_) => None,
        }
    }

    /// The server, the database and the schema, without secrets.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    /// One statement by itself, which is a transaction of its own.
    ///
    /// # Errors
    /// As the store's own calls.
    pub async fn ask(&self, call: Call, sql: &str, params: &Params<'_>) -> Result<Vec<Row>, StoreError> {
        self.ask_either(call, sql.into(), params).await
    }

    /// The same of a statement that has two forms.
    pub(crate) async fn ask_either(
        &self,
        call: Call,
        sql: Forms<'_>,
        params: &Params<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        let mut rounds = 1..ROUNDS;
        loop {
            match self.attempt(call, sql, params).await? {
                // Where the database's default is a stricter isolation than READ COMMITTED.
                Err(error) if is_rolled_back(&error) && rounds.next().is_some() => {}
                answer => return answer.map_err(|error| failed(&self.place, call, error)),
            }
        }
    }

    /// Several statements as one transaction, without an answer.
    ///
    /// # Errors
    /// As the store's own calls.
    pub async fn run(&self, sql: &str) -> Result<(), StoreError> {
        if let ConnectionSource::Own(own) = &self.source {
            return own.take(self).await?.connection.run(&self.place, self.timeout, sql).await;
        }
        let ran = self.borrowed(Call::Write, async |client| client.batch_execute(sql).await).await?;
        ran.map_err(|error| failed(&self.place, Call::Write, error))
    }

    async fn attempt(
        &self,
        call: Call,
        sql: Forms<'_>,
        params: &Params<'_>,
    ) -> Result<Result<Vec<Row>, Error>, StoreError> {
        if let ConnectionSource::Own(own) = &self.source {
            let shared = own.take(self).await?;
            let mut silence = SilenceWatch {
                pulse: &own.pulse,
                sent: Some(own.pulse.next()),
                connection: &shared.connection,
            };
            let answer = shared.connection.ask(&self.place, self.timeout, call, sql, params).await;
            if answer.is_ok() {
                shared.heard.store(own.pulse.next(), Ordering::SeqCst);
                silence.sent = None;
            }
            drop(silence);
            return answer;
        }
        self.borrowed(call, async |client| client.query_typed(sql.once, params).await).await
    }

    /// One call by a connection that nobody else uses meanwhile.
    async fn borrowed<T>(
        &self,
        call: Call,
        ask: impl AsyncFnOnce(&Client) -> Result<T, Error>,
    ) -> Result<Result<T, Error>, StoreError> {
        let line = self.line().await?;
        let answer = tokio::time::timeout(self.timeout, ask(line.client()?)).await;
        let answer = answer.map_err(|_| unanswered(&self.place, call))?;
        // Of the server that is read-only now, the pool would have it for ever.
        if !answer.as_ref().err().is_some_and(is_demoted) {
            line.done();
        }
        Ok(answer)
    }

    /// A connection for a transaction of several statements, which nobody else uses meanwhile.
    pub(crate) async fn line(&self) -> Result<ExclusiveConnection, StoreError> {
        match &self.source {
            ConnectionSource::Pool(pool) => {
                // The pool itself may have no bound.
                let object = tokio::time::timeout(self.timeout, pool.get()).await;
                // It may have a bound of its own. While it has room, it is a server that it waits for.
                let is_full = || pool.status().size >= pool.status().max_size;
                let late =
                    || PoolError::Timeout(if is_full() { TimeoutType::Wait } else { TimeoutType::Create });
                let object = object.unwrap_or_else(|_| Err(late()));
                let object = object.map_err(|error| match error {
                    PoolError::Timeout(TimeoutType::Wait) => exhausted(&self.place, pool.status()),
                    error => self.admission.refused(Right::Login, unconnected(&self.place, error)),
                })?;
                Ok(ExclusiveConnection::Pooled(Pooled(Some(Box::new(object)))))
            }
            ConnectionSource::Own(own) => {
                Ok(ExclusiveConnection::Alone(own.connector.connection(None).await?))
            }
        }
    }

    /// Whether two connections that are open at once are not one process of the server each, always the same. Somebody between who lends
    /// out processes for a moment may lend each its own now and then, so this is asked more than once.
    pub(crate) async fn are_lent(&self) -> Result<bool, StoreError> {
        const ROUNDS: usize = 8;
        let lines = [self.line().await?, self.line().await?];
        let (mut seen, mut are_lent) = (BTreeSet::<i32>::new(), false);
        for _ in 0..ROUNDS {
            let mut now = BTreeSet::new();
            for line in &lines {
                let asking = line.client()?.query_typed("SELECT pg_backend_pid()", &[]);
                let answer = tokio::time::timeout(self.timeout, asking).await;
                let answer = answer.map_err(|_| unanswered(&self.place, Call::Read))?;
                let rows = answer.map_err(|error| failed(&self.place, Call::Read, error))?;
                let id: Option<i32> = rows.first().and_then(|row| row.try_get(0).ok());
                now.insert(id.ok_or_else(|| {
                    StoreError::unavailable(format!("{}: an answer that is not understood", self.place))
                })?);
            }
            seen.extend(&now);
            are_lent |= now.len() < lines.len() || seen.len() > lines.len();
        }
        lines.into_iter().for_each(ExclusiveConnection::done);
        Ok(are_lent)
    }

    fn too_late(&self) -> StoreError {
        StoreError::unavailable(format!("{}: no connection was free or made in time", self.place))
    }
}

/// The server has undone the statement, and wants it again.
fn is_rolled_back(error: &Error) -> bool {
    let is = |code: &SqlState| error.code() == Some(code);
    is(&SqlState::T_R_SERIALIZATION_FAILURE) || is(&SqlState::T_R_DEADLOCK_DETECTED)
}

/// The connections of a store.
struct OwnConnections {
    connector: PostgresConnector,
    slots: Mutex<Vec<Slot>>,
    places: ConnectionPlaces,
    pulse: Pulse,
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
struct Pulse {
    count: AtomicU64,
    /// When the statement was sent that had no answer in time last.
    silent: AtomicU64,
}

impl Pulse {
    fn next(&self) -> u64 {
        self.count.fetch_add(1, Ordering::SeqCst)
    }

    fn silent_since(&self, sent: u64) {
        self.silent.fetch_max(sent, Ordering::SeqCst);
    }
}

/// A statement that waits for its answer. If it is given up after a while, by its caller or because of the time, the silence is noted.
struct SilenceWatch<'a> {
    pulse: &'a Pulse,
    /// When it was sent; none once it is answered.
    sent: Option<u64>,
    connection: &'a PostgresConnection,
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
struct SharedConnection {
    connection: Arc<PostgresConnection>,
    heard: Arc<AtomicU64>,
    _user: Arc<()>,
}

impl OwnConnections {
    fn new(config: &PostgresConfig) -> Result<OwnConnections, StoreError> {
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
    async fn take(&self, lines: &Lines) -> Result<SharedConnection, StoreError> {
        let (found, user, heard) = {
            let mut slots = self.lock();
            slots.iter_mut().for_each(|slot| slot.refresh(&self.pulse));
            let Some(slot) = slots.iter_mut().min_by_key(|slot| slot.cost()) else {
                return Err(lines.too_late());
            };
            let found = slot.connection.clone().ok_or_else(|| slot.attempt(&self.connector, &self.places));
            (found, Arc::clone(&slot.users), Arc::clone(&slot.heard))
        };
        let attempt = match found {
            Ok(connection) => return Ok(SharedConnection { connection, heard, _user: user }),
            Err(attempt) => attempt,
        };
        match tokio::time::timeout(lines.timeout, attempt).await.map_err(|_| lines.too_late())? {
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

/// A connection that is its user's alone. One that is dropped in the middle of something is not used again: whoever had it next would
/// wait for that to end.
pub(crate) enum ExclusiveConnection {
    /// One that was made for that, and ends with it.
    Alone(Arc<PostgresConnection>),
    Pooled(Pooled),
}

/// One of the caller's pool. It goes out of that if it is dropped.
pub(crate) struct Pooled(Option<Box<Object>>);

impl ExclusiveConnection {
    pub(crate) fn client(&self) -> Result<&Client, StoreError> {
        match self {
            ExclusiveConnection::Alone(connection) => Ok(connection.client()),
            ExclusiveConnection::Pooled(Pooled(object)) => {
                let client = object.as_deref().map(|object| &***object);
                client.ok_or_else(|| StoreError::unavailable("the connection is gone"))
            }
        }
    }

    /// Gives the connection back: nothing is under way on it.
    pub(crate) fn done(self) {
        if let ExclusiveConnection::Pooled(mut pooled) = self {
            drop(pooled.0.take());
        }
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        drop(self.0.take().map(|object| Object::take(*object)));
    }
}
