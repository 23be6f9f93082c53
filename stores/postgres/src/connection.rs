//! One connection that many statements share: each is sent without waiting for the answers to those before it.
//!
//! A statement is prepared from its second use on, if the server's session is this connection's own. Behind a pooler that lends
//! sessions, the name of a prepared statement may be another client's: what is prepared there is looked for in vain, or worse, found.

use crate::error::{Call, failed, is_demoted, unanswered};
use crate::proof::Proof;
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tenure_core::StoreError;
use tenure_store::parts::{Silence, Wait};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, Row, Statement};

/// No further statements are sent behind one that waits for longer than this, as long as another connection does better.
const PATIENCE: Duration = Duration::from_millis(100);

/// A statement's parameters with their types: so nothing has to be asked of the server first.
pub type Params<'a> = [(&'a (dyn ToSql + Sync), Type)];

/// A statement, in up to two forms that do the same with the same parameters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Forms<'a> {
    /// What is prepared.
    pub(crate) prepared: &'a str,
    /// What is sent where it is not, and so is planned each time.
    pub(crate) once: &'a str,
}

impl<'a> From<&'a str> for Forms<'a> {
    fn from(sql: &'a str) -> Self {
        Forms { prepared: sql, once: sql }
    }
}

pub(crate) struct PostgresConnection {
    client: Client,
    /// Whether what is prepared is found again.
    keeps: AtomicBool,
    is_given_up: AtomicBool,
    is_slow: AtomicBool,
    silence: Silence,
    uses: Mutex<BTreeMap<String, StatementUse>>,
}

/// What is known of a statement on a connection.
enum StatementUse {
    Once,
    Preparing,
    Prepared(Statement),
}

impl PostgresConnection {
    /// `keeps`: what is prepared is found again, as the caller says; with a `proof`, if the session shows it.
    pub(crate) fn start(client: Client, keeps: bool, proof: Option<Proof>) -> Arc<PostgresConnection> {
        let connection = Arc::new(PostgresConnection {
            client,
            keeps: AtomicBool::new(keeps),
            is_given_up: AtomicBool::new(false),
            is_slow: AtomicBool::new(false),
            silence: Silence::default(),
            uses: Mutex::default(),
        });
        if let Some(proof) = proof {
            let connection = Arc::clone(&connection);
            // The first statements don't wait for it.
            tokio::spawn(async move {
                if proof.holds(&connection.client).await {
                    connection.keeps.store(true, Ordering::SeqCst);
                }
            });
        }
        connection
    }

    /// Whether statements can still be sent on it.
    pub(crate) fn is_usable(&self) -> bool {
        !self.is_given_up.load(Ordering::SeqCst) && !self.client.is_closed()
    }

    /// Whether a statement waits on it for long.
    pub(crate) fn is_slow(&self) -> bool {
        self.is_slow.load(Ordering::SeqCst)
    }

    /// The next statement takes another one. Those that were sent are answered still.
    pub(crate) fn give_up(&self) {
        self.is_given_up.store(true, Ordering::SeqCst);
    }

    /// One statement by itself, which is a transaction of its own; the outer error is that there was no answer in time.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        place: &str,
        limit: Duration,
        call: Call,
        sql: Forms<'_>,
        params: &Params<'_>,
    ) -> Result<Result<Vec<Row>, Error>, StoreError> {
        let statement = async {
            match self.query(sql, params).await {
                // It was refused before it did anything.
                Err(error) if is_forgotten(&error) => self.client.query_typed(sql.once, params).await,
                answer => answer,
            }
        };
        self.answered(place, limit, call, statement).await
    }

    async fn query(self: &Arc<Self>, sql: Forms<'_>, params: &Params<'_>) -> Result<Vec<Row>, Error> {
        let Some(statement) = self.prepared(sql.prepared, params) else {
            return self.client.query_typed(sql.once, params).await;
        };
        let values: Vec<&(dyn ToSql + Sync)> = params.iter().map(|(value, _)| *value).collect();
        let answer = self.client.query(&statement, &values).await;
        if answer.as_ref().is_err_and(is_forgotten) {
            self.forget();
        }
        answer
    }

    /// Several statements as one transaction, without an answer.
    pub(crate) async fn run(&self, place: &str, limit: Duration, sql: &str) -> Result<(), StoreError> {
        let ran = self.answered(place, limit, Call::Write, self.client.batch_execute(sql)).await?;
        ran.map_err(|error| failed(place, Call::Write, error))
    }

    /// The connection itself, for a transaction of somebody who shares it with nobody.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Waits for an answer. A connection on which none came, or whose caller went away after a while, is not used again: what comes after it
    /// there might wait, too. Who goes away at once says nothing about it: see [`Silence`].
    async fn answered<T>(
        &self,
        place: &str,
        limit: Duration,
        call: Call,
        statement: impl Future<Output = Result<T, Error>>,
    ) -> Result<Result<T, Error>, StoreError> {
        let mut under_way = PendingStatement { connection: self, wait: Wait::default(), is_doubtful: None };
        let be_slow = || self.is_slow.store(true, Ordering::SeqCst);
        let answer = under_way.wait.noting(PATIENCE.min(limit / 2), be_slow, statement);
        let answer = tokio::time::timeout(limit, answer).await.map_err(|_| unanswered(place, call))?;
        self.silence.answered();
        // Whoever is read-only now may have been the primary: another one is looked for.
        let is_doubtful =
            answer.as_ref().err().is_some_and(|error| error.as_db_error().is_none() || is_demoted(error));
        under_way.is_doubtful = Some(is_doubtful);
        if !is_doubtful {
            self.is_slow.store(false, Ordering::SeqCst);
        }
        Ok(answer)
    }

    /// The statement as it was prepared on this connection, if it was.
    fn prepared(self: &Arc<Self>, sql: &str, params: &Params<'_>) -> Option<Statement> {
        if !self.keeps.load(Ordering::SeqCst) {
            return None;
        }
        let mut uses = self.uses();
        match uses.get(sql) {
            Some(StatementUse::Prepared(statement)) => return Some(statement.clone()),
            Some(StatementUse::Preparing) => {}
            None => drop(uses.insert(sql.to_owned(), StatementUse::Once)),
            Some(StatementUse::Once) => {
                uses.insert(sql.to_owned(), StatementUse::Preparing);
                let types: Vec<Type> = params.iter().map(|(_, of)| of.clone()).collect();
                tokio::spawn(Arc::clone(self).prepare(sql.to_owned(), types));
            }
        }
        None
    }

    async fn prepare(self: Arc<Self>, sql: String, types: Vec<Type>) {
        match self.client.prepare_typed(&sql, &types).await {
            Ok(statement) if self.keeps.load(Ordering::SeqCst) => {
                self.uses().insert(sql, StatementUse::Prepared(statement));
            }
            Ok(_) => {}
            // Somebody else's has its name.
            Err(error) if error.code() == Some(&SqlState::DUPLICATE_PSTATEMENT) => self.forget(),
            Err(_) => drop(self.uses().remove(&sql)),
        }
    }

    /// Nothing is prepared on this connection any more.
    fn forget(&self) {
        self.keeps.store(false, Ordering::SeqCst);
        let forgotten = std::mem::take(&mut *self.uses());
        drop(forgotten);
    }

    fn uses(&self) -> MutexGuard<'_, BTreeMap<String, StatementUse>> {
        // No code that can panic runs under the lock, so what it guards is whole.
        self.uses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the server knows a prepared statement no more, or would answer otherwise than it did: it has done nothing then.
fn is_forgotten(error: &Error) -> bool {
    let is = |code: &SqlState| error.code() == Some(code);
    is(&SqlState::INVALID_SQL_STATEMENT_NAME) || is(&SqlState::FEATURE_NOT_SUPPORTED)
}

/// A statement that waits for its answer.
struct PendingStatement<'a> {
    connection: &'a PostgresConnection,
    wait: Wait,
    /// Whether what comes after it on its connection might not be answered, either, as its answer says; none before that.
    is_doubtful: Option<bool>,
}

impl Drop for PendingStatement<'_> {
    fn drop(&mut self) {
        let is_silent = self.is_doubtful.is_none() && self.connection.silence.caller_left(self.wait);
        if is_silent {
            self.connection.is_slow.store(true, Ordering::SeqCst);
        }
        if is_silent || self.is_doubtful == Some(true) {
            self.connection.give_up();
        }
    }
}
