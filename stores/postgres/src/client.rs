//! What all calls of a store share: the connections to the server, the statements, and how they are used.

use crate::config::PostgresConfig;
use crate::connections::Connections;
use crate::error::is_denial;
use crate::sql::{MendSql, ReadSql, WriteSql};
use std::sync::Mutex;
use tenure_core::StoreError;
use tenure_store::Capabilities;
use tenure_store::parts::{Right, Teller};
use tokio_postgres_rustls::MakeRustlsConnect;

pub(crate) struct PostgresClient {
    pub(crate) connections: Connections,
    pub(crate) writes: WriteSql,
    pub(crate) reads: ReadSql,
    pub(crate) mends: MendSql,
    pub(crate) channel: String,
    pub(crate) tells_ages: bool,
    pub(crate) config: PostgresConfig,
    /// For the connection that listens.
    pub(crate) tls: Option<MakeRustlsConnect>,
    pub(crate) id: String,
    pub(crate) capabilities: Capabilities,
    pub(crate) listener: Mutex<Option<Teller>>,
}

impl PostgresClient {
    /// What comes of a call that needs a right: the server looks at rights before it looks at rows.
    pub(crate) fn judged<T>(&self, right: Right, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        self.connections.admission.judged(right, is_denial, |_| true, answer)
    }
}
