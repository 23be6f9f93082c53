//! Connections: a pool of them, over TLS or not.

use crate::config::{PostgresConfig, Tls};
use crate::error::{Call, failed, unanswered, unconnected};
use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tenure_core::StoreError;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{NoTls, Row};
use tokio_postgres_rustls::MakeRustlsConnect;

/// A statement's parameters with their types: so nothing has to be asked of the server first.
pub type Params<'a> = [(&'a (dyn ToSql + Sync), Type)];

/// Where statements are sent: a pool, with a bound on each wait.
///
/// A statement is sent as one message with the types of its parameters, and leaves nothing behind on its connection. So a pooler
/// that lends connections for a transaction may stand between.
#[derive(Clone)]
pub struct Lines {
    pool: Pool,
    pub(crate) place: String,
    pub(crate) timeout: Duration,
}

impl Lines {
    /// Lines of a pool that the caller made.
    pub fn of(pool: Pool, config: &PostgresConfig) -> Lines {
        Lines { pool, place: config.place(), timeout: config.timeout }
    }

    pub(crate) fn new(config: &PostgresConfig) -> Result<Lines, StoreError> {
        let recycling_method = RecyclingMethod::Fast;
        let settings = ManagerConfig { recycling_method };
        let manager = match tls(config)? {
            None => Manager::from_config(config.driver(), NoTls, settings),
            Some(tls) => Manager::from_config(config.driver(), tls, settings),
        };
        let pool = Pool::builder(manager)
            .max_size(config.connections)
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(config.timeout))
            .create_timeout(Some(config.timeout))
            .build()
            .map_err(|error| StoreError::invalid(format!("{}: {error}", config.place())))?;
        Ok(Lines::of(pool, config))
    }

    pub(crate) async fn line(&self) -> Result<Line, StoreError> {
        let object = self.pool.get().await.map_err(|error| unconnected(&self.place, &error))?;
        Ok(Line { object: Some(object) })
    }

    /// Lines to the server of `config`, whose settings are checked first.
    ///
    /// # Errors
    /// `Invalid`: what is wrong with the configuration.
    pub fn open(config: &PostgresConfig) -> Result<Lines, StoreError> {
        config.check()?;
        Lines::new(config)
    }

    /// The server, the database and the schema, without secrets.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Several statements as one transaction, without an answer.
    ///
    /// # Errors
    /// As the store's own calls.
    pub async fn run(&self, sql: &str) -> Result<(), StoreError> {
        let line = self.line().await?;
        let ran = match tokio::time::timeout(self.timeout, line.client()?.batch_execute(sql)).await {
            Ok(ran) => ran.map_err(|error| failed(&self.place, Call::Write, &error)),
            Err(_) => return Err(unanswered(&self.place, Call::Write)),
        };
        line.done();
        ran
    }

    /// One statement by itself, which is a transaction of its own.
    ///
    /// # Errors
    /// As the store's own calls.
    pub async fn ask(&self, call: Call, sql: &str, params: &Params<'_>) -> Result<Vec<Row>, StoreError> {
        let line = self.line().await?;
        let answer = line.client()?.query_typed(sql, params);
        let rows = match tokio::time::timeout(self.timeout, answer).await {
            Ok(rows) => rows.map_err(|error| failed(&self.place, call, &error)),
            Err(_) => return Err(unanswered(&self.place, call)),
        };
        line.done();
        rows
    }
}

/// A connection in use. One that is dropped in the middle of a statement goes out of the pool: whoever had it next would wait for
/// that statement's end.
pub(crate) struct Line {
    object: Option<Object>,
}

impl Line {
    pub(crate) fn client(&self) -> Result<&tokio_postgres::Client, StoreError> {
        let client = self.object.as_deref().map(|wrapper| &**wrapper);
        client.ok_or_else(|| StoreError::unavailable("the connection is gone"))
    }

    /// Begins a transaction on it.
    pub(crate) async fn transaction(
        &mut self,
        place: &str,
    ) -> Result<deadpool_postgres::Transaction<'_>, StoreError> {
        let object = self.object.as_mut().ok_or_else(|| StoreError::unavailable("the connection is gone"))?;
        object.transaction().await.map_err(|error| failed(place, Call::Read, &error))
    }

    /// Gives the connection back: nothing is under way on it.
    pub(crate) fn done(mut self) {
        self.object = None;
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if let Some(object) = self.object.take() {
            drop(Object::take(object));
        }
    }
}

/// What speaks TLS, or none for plain text.
pub(crate) fn tls(config: &PostgresConfig) -> Result<Option<MakeRustlsConnect>, StoreError> {
    if !config.uses_tls() {
        return Ok(None);
    }
    let roots = match &config.tls {
        Tls::Verified(Some(file)) => authorities(file)?,
        _ => system_authorities(&config.place())?,
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| StoreError::invalid(format!("{}: TLS: {error}", config.place())))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Some(MakeRustlsConnect::new(client)))
}

fn authorities(file: &Path) -> Result<rustls::RootCertStore, StoreError> {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    let bad = |error: &dyn std::fmt::Display| {
        StoreError::invalid(format!(
            "sslrootcert {}: {error}; name a PEM file of certificates",
            file.display()
        ))
    };
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| bad(&error))? {
        roots.add(certificate.map_err(|error| bad(&error))?).map_err(|error| bad(&error))?;
    }
    if roots.is_empty() { Err(bad(&"it holds no certificate")) } else { Ok(roots) }
}

fn system_authorities(place: &str) -> Result<rustls::RootCertStore, StoreError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = rustls::RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        return Err(StoreError::invalid(format!(
            "{place}: this system trusts no certificate authority; install ca-certificates, or name one with sslrootcert="
        )));
    }
    Ok(roots)
}
