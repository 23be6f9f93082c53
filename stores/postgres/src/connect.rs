//! Making connections, over TLS or not.

use crate::config::{PostgresConfig, Prepare, Tls};
use crate::connection::PostgresConnection;
use crate::error::{not_connected, unreached};
use crate::hosts::reach;
use crate::proof::Proof;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tenure_core::StoreError;
use tenure_store::parts::{Admission, Right, tls_client};
use tokio::sync::OwnedSemaphorePermit;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

/// The place of a connection among those that may be open at a time: taken until the server is done with it, be it given up or not.
pub(crate) type ConnectionPlace = Option<Arc<OwnedSemaphorePermit>>;

/// How connections are made.
#[derive(Clone)]
pub(crate) struct PostgresConnector {
    config: PostgresConfig,
    pub(crate) tls: Option<MakeRustlsConnect>,
    /// Hosts that take no options at a start: poolers.
    without_options: Arc<Mutex<BTreeSet<String>>>,
    pub(crate) admission: Arc<Admission>,
}

impl PostgresConnector {
    pub(crate) fn new(config: &PostgresConfig) -> Result<PostgresConnector, StoreError> {
        Ok(PostgresConnector {
            config: config.clone(),
            tls: tls(config)?,
            without_options: Arc::default(),
            admission: Arc::default(),
        })
    }

    /// There is no place for one.
    pub(crate) fn exhausted(&self) -> StoreError {
        StoreError::unavailable(format!(
            "{}: on all connections the server is at work on what was given up; do its commits wait for a standby that is away?",
            self.config.place()
        ))
    }

    /// A new connection, at a place. Once the store is open, a server that refuses this user is one that an operator mends.
    pub(crate) async fn connection(
        &self,
        at: ConnectionPlace,
    ) -> Result<Arc<PostgresConnection>, StoreError> {
        let (server, place) = (self.config.driver().await?, self.config.place());
        let connect = |host| {
            let at = at.clone();
            async move { self.connected(&host, &at).await }
        };
        let made = reach(&server, self.config.connecting(), connect).await;
        let made = made
            .map_err(|error| error.map_or_else(|| unreached(&place), |error| not_connected(&place, error)));
        made.map_err(|error| self.admission.refused(Right::Login, error))
    }

    /// To one host.
    async fn connected(
        &self,
        server: &tokio_postgres::Config,
        at: &ConnectionPlace,
    ) -> Result<Arc<PostgresConnection>, Error> {
        let keeps = self.config.prepare == Prepare::Always;
        let host = format!("{:?} {:?}", server.get_hosts(), server.get_ports());
        if !self.without_options().contains(&host) {
            let bounded = self.bounded(server);
            let (proof, server) = match self.config.prepare {
                Prepare::Automatic => {
                    let (proof, marked) = Proof::of(&bounded);
                    (Some(proof), marked)
                }
                _ => (None, bounded),
            };
            match self.client(&server, at).await {
                Err(error) if takes_no_options(&error) => drop(self.without_options().insert(host)),
                made => return made.map(|client| PostgresConnection::start(client, keeps, proof)),
            }
        }
        let client = self.client(server, at).await?;
        Ok(PostgresConnection::start(client, keeps, None))
    }

    fn without_options(&self) -> MutexGuard<'_, BTreeSet<String>> {
        // No code that can panic runs under the lock, so what it guards is whole.
        self.without_options.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the server itself give up a wait for a lock, before the caller does. So the caller hears what became of the statement, and no
    /// connection is left behind that waits on. Options of the URL come after it, and win.
    ///
    /// What was given up is never cancelled: a commit that waits for its standby would be shown to all, and a failover could still lose it.
    ///
    /// Statements that are prepared keep the plan of when they were, as functions do ([`crate::functions`]). Where there is no index, forbidding
    /// the scan makes it look dear enough to be compiled.
    fn bounded(&self, server: &tokio_postgres::Config) -> tokio_postgres::Config {
        let mut bounded = server.clone();
        let limit = self.config.lock_timeout().as_millis();
        let asked = server.get_options().unwrap_or_default();
        bounded.options(format!("-c lock_timeout={limit} -c enable_seqscan=off -c jit=off {asked}"));
        bounded
    }

    async fn client(&self, server: &tokio_postgres::Config, at: &ConnectionPlace) -> Result<Client, Error> {
        let at = at.clone();
        match &self.tls {
            None => {
                let (client, connection) = server.connect(NoTls).await?;
                tokio::spawn(until_done(connection, at));
                Ok(client)
            }
            Some(tls) => {
                let (client, connection) = server.connect(tls.clone()).await?;
                tokio::spawn(until_done(connection, at));
                Ok(client)
            }
        }
    }
}

/// Drives a connection until all that was sent on it is answered, and nobody has more to send.
async fn until_done(connection: impl Future<Output = Result<(), Error>>, at: ConnectionPlace) {
    // Whoever sent something hears of the error.
    let _ = connection.await;
    drop(at);
}

/// Whether a connection was refused for what it says at its start. PostgreSQL itself has no objection.
fn takes_no_options(error: &Error) -> bool {
    let codes = [
        SqlState::PROTOCOL_VIOLATION,
        SqlState::FEATURE_NOT_SUPPORTED,
        SqlState::UNDEFINED_OBJECT,
        SqlState::INVALID_PARAMETER_VALUE,
    ];
    error.code().is_some_and(|code| codes.contains(code))
}

/// What speaks TLS, or none for plain text.
pub(crate) fn tls(config: &PostgresConfig) -> Result<Option<MakeRustlsConnect>, StoreError> {
    if !config.uses_tls() {
        return Ok(None);
    }
    let authorities = match &config.tls {
        Tls::Verified(file) => file.as_deref(),
        _ => None,
    };
    tls_client(&config.place(), authorities, "sslrootcert").map(|client| Some(MakeRustlsConnect::new(client)))
}
