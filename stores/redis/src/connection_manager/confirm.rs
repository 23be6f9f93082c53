//! What replicas have confirmed, where `wait=` asks for that.
//!
//! A write counts once they have. What is in doubt stays so until they have confirmed something later: until then nothing is read, and
//! nothing written. A write that was given up may still arrive, whenever the network delivers it. So from the first such write on,
//! replicas confirm whatever is shown, too, as it may be of that write.

use super::{ConnectionManager, redirection};
use crate::config::RedisConfig;
use crate::connect::ServerConnection;
use crate::error::{Call, is_turned_away};
use crate::scripts::Invocation;
use redis::{ErrorKind, ServerErrorKind, Value};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tenure_core::StoreError;
use tenure_core::time::millis;

/// Writes that too few replicas have confirmed, by number.
pub(super) struct Confirmations {
    wanted: u16,
    /// The key that is written so that replicas have something to confirm.
    marker: String,
    doubtful: AtomicU64,
    settled: AtomicU64,
    /// Whether a write was given up that may arrive at any time.
    may_arrive: AtomicBool,
}

impl Confirmations {
    pub(super) fn of(config: &RedisConfig) -> Confirmations {
        let (doubtful, settled) = (AtomicU64::new(0), AtomicU64::new(0));
        let (wanted, marker) = (config.wait, config.name("confirmed"));
        Confirmations { wanted, marker, doubtful, settled, may_arrive: AtomicBool::new(false) }
    }
}

impl ConnectionManager {
    /// Calls a script that writes.
    pub(crate) async fn write(&self, script: &Invocation<'_>) -> Result<Written<'_>, StoreError> {
        let mut unconfirmed = self.unconfirmed_write();
        match self.call_on(Call::Write, script).await {
            Ok((answer, connection)) => {
                unconfirmed.has_arrived = true;
                Ok(Written { unconfirmed, connection, answer })
            }
            Err(error) => {
                if error.kind() != tenure_core::ErrorKind::Unknown {
                    unconfirmed.nothing_done();
                }
                Err(error)
            }
        }
    }

    /// A write begins.
    pub(crate) fn unconfirmed_write(&self) -> Unconfirmed<'_> {
        Unconfirmed { connections: self, has_arrived: false, is_over: false }
    }

    pub(super) fn is_doubtful(&self) -> bool {
        let Confirmations { doubtful, settled, .. } = &self.confirmations;
        settled.load(Ordering::SeqCst) < doubtful.load(Ordering::SeqCst)
    }

    /// After a write that too few replicas have confirmed, nothing is read before they have, and nothing written, as a refusal shows what
    /// stands there, too: whoever finds its own write there takes it for done.
    pub(super) async fn settle(&self) -> Result<(), StoreError> {
        let Confirmations { doubtful, settled, .. } = &self.confirmations;
        let doubts = doubtful.load(Ordering::SeqCst);
        let connection = self.connection().await?;
        self.confirm_all(&connection).await?;
        settled.fetch_max(doubts, Ordering::SeqCst);
        Ok(())
    }

    /// After an answer that shows what stands on the server of this connection: if that may be of a write that has arrived late, or was given
    /// up meanwhile, replicas are to have it before it is told.
    pub(super) async fn confirm_shown(&self, connection: &Arc<ServerConnection>) -> Result<(), StoreError> {
        if self.confirmations.may_arrive.load(Ordering::SeqCst) || self.is_doubtful() {
            // What is rare is kept out of the future of each call.
            return Box::pin(self.confirm_all(connection)).await;
        }
        Ok(())
    }

    /// Has replicas confirm all that was written on the server of this connection, by whatever connection.
    async fn confirm_all(&self, connection: &Arc<ServerConnection>) -> Result<(), StoreError> {
        let Confirmations { wanted, marker, .. } = &self.confirmations;
        // It comes after all that was written before. Only a write will do: a cluster replicates no message, and newer servers wait for
        // what this connection has written alone.
        let mut write = redis::cmd("HSET");
        write.arg(marker).arg("by").arg("wait");
        let marked = self.send(connection, Call::Read, &write, false).await?;
        if let Err(error) = marked {
            match error.kind() {
                ErrorKind::Server(ServerErrorKind::Moved) => {
                    self.follow(connection, redirection(connection, &error)).await?;
                }
                ErrorKind::Server(ServerErrorKind::ReadOnly) => connection.give_up(),
                _ if is_turned_away(&error) => self.look_elsewhere(connection),
                _ => {}
            }
            return Err(StoreError::unavailable(format!(
                "{}: whether replicas have confirmed what was written is not known: {error}",
                self.place
            ))
            .because(error));
        }
        let confirmed = self.confirmed(connection).await;
        if confirmed.as_ref().is_ok_and(|count| *count >= i64::from(*wanted)) {
            return Ok(());
        }
        Err(StoreError::unavailable(self.unconfirmed(confirmed)))
    }

    /// How many replicas have all that was written on this connection. It is to be that of the write, though others may have given it up
    /// meanwhile: another one may go to another server, which knows nothing of the write.
    async fn confirmed(&self, connection: &Arc<ServerConnection>) -> Result<i64, StoreError> {
        let span = self.connector.config.timeout / 4;
        let mut wait = redis::cmd("WAIT");
        wait.arg(self.confirmations.wanted).arg(millis(span).max(1));
        self.ask_on(connection, &wait).await
    }

    fn unconfirmed(&self, confirmed: Result<i64, StoreError>) -> String {
        let (place, wanted) = (&self.place, self.confirmations.wanted);
        match confirmed {
            Ok(count) => format!(
                "{place}: {count} replicas have confirmed the last write in time, of {wanted} that wait= asks for; see INFO replication"
            ),
            Err(error) => format!(
                "{place}: whether {wanted} replicas have confirmed the last write is not known: {error}"
            ),
        }
    }
}

/// A write that replicas have not confirmed yet. One that is given up, or whose outcome is not known, stays in doubt.
pub(crate) struct Unconfirmed<'a> {
    connections: &'a ConnectionManager,
    has_arrived: bool,
    is_over: bool,
}

impl Unconfirmed<'_> {
    /// Nothing was written.
    pub(crate) fn nothing_done(mut self) {
        self.is_over = true;
    }
}

/// What a script has answered that may have written.
pub(crate) struct Written<'a> {
    unconfirmed: Unconfirmed<'a>,
    /// On which it was called.
    connection: Arc<ServerConnection>,
    pub(crate) answer: Value,
}

impl Written<'_> {
    /// It has written nothing, and shows why.
    ///
    /// # Errors
    /// What it shows is in doubt.
    pub(crate) async fn refused(self) -> Result<(), StoreError> {
        let Written { unconfirmed, connection, .. } = self;
        let connections = unconfirmed.connections;
        unconfirmed.nothing_done();
        connections.confirm_shown(&connection).await
    }

    /// Waits until enough replicas have confirmed what it has written. Else the write's outcome is unknown: it stands, but may be gone
    /// after a failover.
    pub(crate) async fn confirm(mut self) -> Result<(), StoreError> {
        let connections = self.unconfirmed.connections;
        let wanted = connections.confirmations.wanted;
        if wanted > 0 {
            let confirmed = connections.confirmed(&self.connection).await;
            if !confirmed.as_ref().is_ok_and(|count| *count >= i64::from(wanted)) {
                return Err(StoreError::unknown(connections.unconfirmed(confirmed)));
            }
        }
        self.unconfirmed.is_over = true;
        Ok(())
    }
}

impl Drop for Unconfirmed<'_> {
    fn drop(&mut self) {
        let Confirmations { wanted, doubtful, may_arrive, .. } = &self.connections.confirmations;
        if !self.is_over && *wanted > 0 {
            doubtful.fetch_add(1, Ordering::SeqCst);
            may_arrive.fetch_or(!self.has_arrived, Ordering::SeqCst);
        }
    }
}
