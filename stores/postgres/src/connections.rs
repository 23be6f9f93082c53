//! Where statements are sent: some connections that all statements of a store share, or a pool of the caller's.

mod exclusive;
mod own;

use crate::config::PostgresConfig;
use crate::connection::{Forms, Params};
use crate::error::{Call, exhausted, failed, is_demoted, unanswered, unconnected};
use deadpool_postgres::{Pool, PoolError, TimeoutType};
use exclusive::Pooled;
use own::{OwnConnections, SilenceWatch};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tenure_core::StoreError;
use tenure_store::parts::{Admission, Right};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error, Row};
use tokio_postgres_rustls::MakeRustlsConnect;

pub(crate) use exclusive::ExclusiveConnection;

/// How often a statement is sent again that the server has rolled back for the sake of another transaction.
const ROUNDS: usize = 16;

/// Where statements are sent, with a bound on each wait.
///
/// A statement leaves nothing behind on its connection that others need. So a pooler that lends connections for a transaction may stand
/// between.
#[derive(Clone)]
pub struct Connections {
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

impl Connections {
    /// Those of a pool that the caller made. Each statement has a connection for itself.
    pub fn of(pool: Pool, config: &PostgresConfig) -> Connections {
        Connections {
            source: ConnectionSource::Pool(pool),
            place: config.place(),
            timeout: config.timeout,
            admission: Arc::default(),
        }
    }

    /// Those to the server of `config`, whose settings are checked first. Nothing is connected yet.
    ///
    /// # Errors
    /// `Invalid`: what is wrong with the configuration.
    pub fn open(config: &PostgresConfig) -> Result<Connections, StoreError> {
        config.check()?;
        let own = Arc::new(OwnConnections::new(config)?);
        let admission = Arc::clone(&own.connector.admission);
        Ok(Connections {
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
        let connection = self.exclusive().await?;
        let answer = tokio::time::timeout(self.timeout, ask(connection.client()?)).await;
        let answer = answer.map_err(|_| unanswered(&self.place, call))?;
        // Of the server that is read-only now, the pool would have it for ever.
        if !answer.as_ref().err().is_some_and(is_demoted) {
            connection.done();
        }
        Ok(answer)
    }

    /// A connection for a transaction of several statements, which nobody else uses meanwhile.
    pub(crate) async fn exclusive(&self) -> Result<ExclusiveConnection, StoreError> {
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
        let both = [self.exclusive().await?, self.exclusive().await?];
        let (mut seen, mut are_lent) = (BTreeSet::<i32>::new(), false);
        for _ in 0..ROUNDS {
            let mut now = BTreeSet::new();
            for connection in &both {
                let asking = connection.client()?.query_typed("SELECT pg_backend_pid()", &[]);
                let answer = tokio::time::timeout(self.timeout, asking).await;
                let answer = answer.map_err(|_| unanswered(&self.place, Call::Read))?;
                let rows = answer.map_err(|error| failed(&self.place, Call::Read, error))?;
                let id: Option<i32> = rows.first().and_then(|row| row.try_get(0).ok());
                now.insert(id.ok_or_else(|| {
                    StoreError::unavailable(format!("{}: an answer that is not understood", self.place))
                })?);
            }
            seen.extend(&now);
            are_lent |= now.len() < both.len() || seen.len() > both.len();
        }
        both.into_iter().for_each(ExclusiveConnection::done);
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
