//! Where calls are sent: to the server that has the namespace, on one connection that is made again when it ends.
//!
//! All keys of a namespace are in one slot of a cluster, so there is always one server that has them all. Which one it is shows by
//! its redirections. Nothing that was sent is sent again, unless the server said that it did not do it.

mod confirm;
mod search;

use crate::attempts::HEAD_START;
use crate::config::ServerAddress;
use crate::connect::{RedisConnector, ServerConnection};
use crate::error::{Call, failed, is_answer, is_read_only, is_turned_away, unanswered, unconnected};
use crate::scripts::Invocation;
use confirm::Confirmations;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use redis::aio::{MultiplexedConnection, PubSub};
use redis::{Cmd, ErrorKind, RedisError, ServerErrorKind, Value};
use search::first_of;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tenure_core::StoreError;
use tenure_store::parts::Wait;
use tokio::task::JoinHandle;

/// How often a call follows redirections, or is sent again because the server asks for that.
const ROUNDS: usize = 8;
/// How long to wait before a call is sent again that meets a slot on its way from one server to another.
const AGAIN: Duration = Duration::from_millis(30);
/// Which part of the time for a call is long to wait for an answer, and what always is.
const PATIENCE: (u32, Duration) = (100, Duration::from_millis(100));

pub(crate) struct ConnectionManager {
    connector: RedisConnector,
    pub(crate) place: String,
    state: Arc<Mutex<ConnectionState>>,
    confirmations: Confirmations,
    /// How often another server was looked for since a call was answered.
    searches: AtomicU32,
}

type Attempt = Shared<BoxFuture<'static, Result<Arc<ServerConnection>, StoreError>>>;

#[derive(Default)]
struct ConnectionState {
    connection: Option<Arc<ServerConnection>>,
    /// A connection that is being made.
    attempt: Option<Attempt>,
    /// Who has the namespace, by what a server of the cluster said last.
    owner: Option<ServerAddress>,
    /// A connection to the owner that is being made while whoever named it is asked.
    following: Option<(ServerAddress, Attempt)>,
    /// A search for a server that may do what the present one refuses. It ends some time after it has found one, or none.
    search: Option<JoinHandle<()>>,
    /// To whom calls go for what has left the owner already, while a slot is on its way.
    transferee: Option<Arc<ServerConnection>>,
}

impl ConnectionState {
    fn ready(&self) -> Option<Arc<ServerConnection>> {
        self.connection.as_ref().filter(|connection| connection.is_alive()).map(Arc::clone)
    }
}

impl ConnectionManager {
    pub(crate) fn new(connector: RedisConnector) -> ConnectionManager {
        let (place, confirmations) = (connector.config.place(), Confirmations::of(&connector.config));
        let (state, searches) = (Arc::default(), AtomicU32::new(0));
        ConnectionManager { connector, place, state, confirmations, searches }
    }

    /// Calls a script; each call is done at most once.
    pub(crate) async fn call(&self, call: Call, script: &Invocation<'_>) -> Result<Value, StoreError> {
        let (answer, connection) = self.call_on(call, script).await?;
        self.confirm_shown(&connection).await?;
        Ok(answer)
    }

    /// The answer, and the connection on which it came.
    async fn call_on(
        &self,
        call: Call,
        script: &Invocation<'_>,
    ) -> Result<(Value, Arc<ServerConnection>), StoreError> {
        if self.is_doubtful() {
            Box::pin(self.settle()).await?;
        }
        let mut is_whole = false;
        let mut asked: Option<Arc<ServerConnection>> = None;
        let mut trouble = None;
        for _ in 0..ROUNDS {
            let connection = match asked.as_ref().map(Arc::clone).or_else(|| self.ready()) {
                Some(connection) => connection,
                // What is rare is kept out of the future of each call, which would be ten times as large by it.
                None => Box::pin(self.connection()).await?,
            };
            let command = if is_whole { script.whole() } else { script.by_digest() };
            let error = match self.send(&connection, call, &command, asked.take().is_some()).await? {
                Ok(answer) => {
                    self.searches.store(0, Ordering::Relaxed);
                    return Ok((answer, connection));
                }
                Err(error) => error,
            };
            match error.kind() {
                ErrorKind::Server(ServerErrorKind::NoScript) => is_whole = true,
                ErrorKind::Server(ServerErrorKind::Moved) => {
                    trouble = Box::pin(self.follow(&connection, redirection(&connection, &error))).await?;
                }
                ErrorKind::Server(ServerErrorKind::Ask) => {
                    is_whole = true;
                    asked = Some(Box::pin(self.transferee(&redirection(&connection, &error))).await?);
                }
                ErrorKind::Server(ServerErrorKind::TryAgain) => tokio::time::sleep(AGAIN).await,
                _ => {
                    // One that was a primary knows by now who is.
                    if is_read_only(&error) {
                        connection.give_up();
                    }
                    if is_turned_away(&error) {
                        self.look_elsewhere(&connection);
                    }
                    return Err(failed(&self.place, call, &error));
                }
            }
        }
        Err(trouble.unwrap_or_else(|| {
            StoreError::unavailable(format!(
                "{}: the namespace is on its way from one server of the cluster to another; try again",
                self.place
            ))
        }))
    }

    /// Asks the server that has the namespace for something about itself.
    pub(crate) async fn ask<T: redis::FromRedisValue>(&self, command: &Cmd) -> Result<T, StoreError> {
        self.ask_on(&self.connection().await?, command).await
    }

    async fn ask_on<T: redis::FromRedisValue>(
        &self,
        connection: &Arc<ServerConnection>,
        command: &Cmd,
    ) -> Result<T, StoreError> {
        let answer = self.send(connection, Call::Read, command, false).await?;
        let answer = answer.and_then(|answer| redis::from_redis_value(answer).map_err(RedisError::from));
        answer.map_err(|error| failed(&self.place, Call::Read, &error))
    }

    /// Whether calls go to a cluster.
    pub(crate) async fn is_cluster(&self) -> Result<bool, StoreError> {
        Ok(self.connection().await?.is_cluster)
    }

    /// Whether calls go to this server, and it still takes writes. One that is demoted goes on to answer reads, so its connection is given up.
    pub(crate) async fn goes_to(&self, peer: SocketAddr) -> bool {
        let Some(connection) = self.ready() else { return true };
        if self.connector.has_lost_role(&connection).await {
            connection.give_up();
            return false;
        }
        connection.peer == peer
    }

    /// Begins to wait for something on the connection that there is.
    pub(crate) fn under_way(&self) -> PendingReply {
        let connection = self.lock().connection.clone();
        PendingReply::on(connection, self.connector.config.timeout)
    }

    /// A connection that receives what is published on a channel, and its server.
    pub(crate) async fn subscription(&self, channel: &str) -> Result<(PubSub, SocketAddr), StoreError> {
        // Whoever answers calls is up, and what is published anywhere in a cluster is told everywhere.
        let connection = self.connection().await?;
        Ok((self.connector.subscription(&connection, channel).await?, connection.peer))
    }

    /// The connection on which calls are sent. If there is none, one attempt serves all who wait, and goes on without them: a caller
    /// who has no patience for a whole handshake finds it done the next time.
    async fn connection(&self) -> Result<Arc<ServerConnection>, StoreError> {
        let attempt = {
            let mut state = self.lock();
            if let Some(connection) = state.ready() {
                return Ok(connection);
            }
            match state.attempt.as_ref().filter(|attempt| is_under_way(attempt)) {
                Some(attempt) => attempt.clone(),
                None => {
                    let (connector, shared) = (self.connector.clone(), Arc::clone(&self.state));
                    let attempt = attempted(async move { connect(&connector, &shared).await });
                    state.attempt.insert(attempt).clone()
                }
            }
        };
        match tokio::time::timeout(self.connector.config.timeout, attempt).await {
            Ok(connection) => connection,
            Err(_) => Err(unconnected(&self.place, self.connector.config.tls)),
        }
    }

    /// The connection on which calls are sent, if it is there.
    fn ready(&self) -> Option<Arc<ServerConnection>> {
        self.lock().ready()
    }

    async fn transferee(&self, address: &ServerAddress) -> Result<Arc<ServerConnection>, StoreError> {
        let known = self.lock().transferee.clone();
        if let Some(connection) =
            known.filter(|connection| connection.is_alive() && connection.address == *address)
        {
            return Ok(connection);
        }
        let connection = Arc::new(self.connector.connect(address).await?);
        self.lock().transferee = Some(Arc::clone(&connection));
        Ok(connection)
    }

    /// A server of the cluster has said who has the namespace. Until that one answers, whoever said so is asked again, as another one may be
    /// elected meanwhile. What is told is why it does not answer.
    async fn follow(
        &self,
        connection: &Arc<ServerConnection>,
        owner: ServerAddress,
    ) -> Result<Option<StoreError>, StoreError> {
        let attempt = {
            let mut state = self.lock();
            state.transferee = None;
            if state.ready().is_some_and(|ready| ready.address == owner && owner != connection.address) {
                return Ok(None);
            }
            let under_way =
                state.following.as_ref().filter(|(to, attempt)| *to == owner && is_under_way(attempt));
            let attempt = under_way.map(|(_, attempt)| attempt.clone()).unwrap_or_else(|| {
                let (connector, shared, owner) =
                    (self.connector.clone(), Arc::clone(&self.state), owner.clone());
                attempted(async move { reach(&connector, &shared, &owner).await })
            });
            state.owner = Some(owner.clone());
            state.following = Some((owner.clone(), attempt.clone()));
            attempt
        };
        match tokio::time::timeout(HEAD_START, attempt).await {
            Ok(Ok(_)) => Ok(None),
            Ok(Err(error)) => {
                self.look_elsewhere(connection);
                Err(error)
            }
            Err(_) => Ok(Some(self.connector.silent(&owner))),
        }
    }

    fn lock(&self) -> MutexGuard<'_, ConnectionState> {
        locked(&self.state)
    }

    /// The server's answer, or its refusal; the outer error is what happened to the connection.
    async fn send(
        &self,
        connection: &Arc<ServerConnection>,
        call: Call,
        command: &Cmd,
        is_asked: bool,
    ) -> Result<Result<Value, RedisError>, StoreError> {
        let timeout = self.connector.config.timeout;
        let mut under_way = PendingReply::on(Some(Arc::clone(connection)), timeout);
        let mut multiplexed = connection.connection.clone();
        let answer = async {
            if is_asked {
                return Box::pin(asking(&mut multiplexed, command)).await;
            }
            multiplexed.send_packed_command(command).await.and_then(Value::extract_error)
        };
        let answer = match tokio::time::timeout(timeout, under_way.waited(answer)).await {
            Ok(answer) => answer,
            // Whoever drops this finds out whether the connection is of any use.
            Err(_) => return Err(unanswered(&self.place, call)),
        };
        if answer.as_ref().err().is_none_or(is_answer) {
            connection.answered();
            under_way.is_over = true;
            return Ok(answer);
        }
        connection.give_up();
        answer.map(Ok).map_err(|error| failed(&self.place, call, &error))
    }
}

/// Sends a command to a server that is about to have its keys.
async fn asking(connection: &mut MultiplexedConnection, command: &Cmd) -> Result<Value, RedisError> {
    let mut both = redis::Pipeline::new();
    both.cmd("ASKING").ignore().add_command(command.clone());
    let answers = connection.send_packed_commands(&both, 1, 1).await?;
    answers.into_iter().next().unwrap_or(Value::Nil).extract_error()
}

/// Connects to whoever has the namespace; if that is not known or it does not answer soon, to whichever server of those that are named can
/// be used, and answers first.
async fn connect(
    connector: &RedisConnector,
    state: &Mutex<ConnectionState>,
) -> Result<Arc<ServerConnection>, StoreError> {
    let owner = locked(state).owner.clone();
    let connection = first_of(connector, owner.as_ref()).await?;
    let mut state = locked(state);
    // The server that answers knows better.
    if state.owner == owner && owner.as_ref() != Some(&connection.address) {
        state.owner = None;
    }
    Ok(Arc::clone(state.connection.insert(Arc::new(connection))))
}

/// Connects to whoever is said to have the namespace, and sends calls there, unless that is another one by then.
async fn reach(
    connector: &RedisConnector,
    state: &Mutex<ConnectionState>,
    owner: &ServerAddress,
) -> Result<Arc<ServerConnection>, StoreError> {
    let connection = Arc::new(connector.connect(owner).await?);
    let mut state = locked(state);
    if state.owner.as_ref() == Some(owner) {
        state.connection = Some(Arc::clone(&connection));
        state.following = None;
    }
    Ok(connection)
}

fn locked(state: &Mutex<ConnectionState>) -> MutexGuard<'_, ConnectionState> {
    // No code that can panic runs under the lock, so what it guards is whole.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An attempt to connect that goes on without those who wait for it.
fn attempted(
    connecting: impl Future<Output = Result<Arc<ServerConnection>, StoreError>> + Send + 'static,
) -> Attempt {
    settled(tokio::spawn(connecting)).boxed().shared()
}

/// Whether it has no outcome yet. All who waited for it may have gone before it ended: so it is asked, and not only looked at.
fn is_under_way(attempt: &Attempt) -> bool {
    attempt.clone().now_or_never().is_none()
}

async fn settled(
    attempt: JoinHandle<Result<Arc<ServerConnection>, StoreError>>,
) -> Result<Arc<ServerConnection>, StoreError> {
    match attempt.await {
        Ok(connection) => connection,
        Err(error) => Err(StoreError::unavailable(format!("connecting to Redis was broken off: {error}"))),
    }
}

/// A call that waits for its answer. If it is given up after a while, and meanwhile no other call had one either, the connection may be dead
/// without anybody knowing: the next call takes another one. Should it answer before that is there, it was only slow. Who goes away at once says
/// nothing about it: see [`Silence`](tenure_store::parts::Silence).
pub(crate) struct PendingReply {
    connection: Option<Arc<ServerConnection>>,
    answers: u64,
    timeout: Duration,
    wait: Wait,
    pub(crate) is_over: bool,
}

impl PendingReply {
    fn on(connection: Option<Arc<ServerConnection>>, timeout: Duration) -> PendingReply {
        let answers = connection.as_ref().map_or(0, |connection| connection.answers());
        PendingReply { answers, connection, timeout, wait: Wait::default(), is_over: false }
    }

    /// Waits for the answer, and notes for how long.
    pub(crate) async fn waited<T>(&mut self, answer: impl Future<Output = T>) -> T {
        let (part, always) = PATIENCE;
        self.wait.noting((self.timeout / part).min(always), || (), answer).await
    }
}

impl Drop for PendingReply {
    fn drop(&mut self) {
        let Some(connection) = self.connection.take().filter(|_| !self.is_over) else { return };
        if connection.answers() != self.answers
            || !connection.may_live()
            || !connection.silence.caller_left(self.wait)
        {
            return;
        }
        connection.doubt();
        // Without a runtime there are no further calls, either.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let timeout = self.timeout;
        runtime.spawn(async move {
            let mut multiplexed = connection.connection.clone();
            let ping = redis::cmd("PING");
            let answer = tokio::time::timeout(timeout, multiplexed.send_packed_command(&ping)).await;
            if answer.is_ok_and(|answer| answer.is_ok()) {
                connection.answered();
            }
        });
    }
}

/// Where a server of a cluster sends us. Without a host it means its own.
fn redirection(connection: &ServerConnection, error: &RedisError) -> ServerAddress {
    redirected(&connection.address, error.redirect_node().map(|(address, _)| address))
}

fn redirected(from: &ServerAddress, to: Option<&str>) -> ServerAddress {
    match to.and_then(ServerAddress::parse) {
        // A question mark: it has no name to be told, though names are to be told.
        Some(address) if ["", "?"].contains(&address.host.as_str()) => {
            ServerAddress { host: from.host.clone(), ..address }
        }
        Some(address) => address,
        None => from.clone(),
    }
}

#[cfg(test)]
mod tests {
    //! Plan: a redirection without a host, or with one that is not known, means that of the server itself.
    use super::*;

    #[test]
    fn a_redirection_without_a_host_means_the_server_s_own() {
        let from = ServerAddress::parse("a:1").unwrap();
        for (to, host, port) in [
            (Some(":2"), "a", 2),
            (Some("?:2"), "a", 2),
            (Some("b:2"), "b", 2),
            (Some("::1:2"), "::1", 2),
            (None, "a", 1),
        ] {
            assert_eq!(redirected(&from, to), ServerAddress { host: host.into(), port }, "{to:?}");
        }
    }
}
