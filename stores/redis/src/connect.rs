//! One connection: plain or over TLS, as the user that was named, to a server that may be used.

use crate::attempts::{first_by, in_turn};
use crate::config::{RedisConfig, ServerAddress};
use crate::error::{Call, evicting, failed, misnamed, not_connected, unanswered, unconnected};
use redis::aio::{MultiplexedConnection, PubSub};
use redis::{AsyncConnectionConfig, ProtocolVersion, RedisConnectionInfo, RedisError, Value};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use tenure_core::StoreError;
use tenure_store::parts::{Admission, Right, Silence, aside, tls_client};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;

/// How connections are made.
#[derive(Clone)]
pub(crate) struct RedisConnector {
    pub(crate) config: RedisConfig,
    tls: Option<TlsConnector>,
    pub(crate) admission: Arc<Admission>,
}

/// A connection that many calls share; the server answers them in their order.
pub(crate) struct ServerConnection {
    pub(crate) address: ServerAddress,
    /// Which of the addresses of that name it goes to.
    pub(crate) peer: SocketAddr,
    pub(crate) connection: MultiplexedConnection,
    /// Whether the server is one of a cluster.
    pub(crate) is_cluster: bool,
    driver: JoinHandle<()>,
    is_dead: AtomicBool,
    /// A call had no answer for a while, nor had any other since.
    is_doubtful: AtomicBool,
    pub(crate) silence: Silence,
    /// How many answers have come.
    answers: AtomicU64,
}

/// Why a server can't be used at one of the addresses of its name.
struct AddressError {
    /// Whether somebody takes connections there, and so has more to say than the others.
    was_reached: bool,
    error: StoreError,
}

impl Drop for ServerConnection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl ServerConnection {
    /// Whether calls can still be sent on it.
    pub(crate) fn is_alive(&self) -> bool {
        !self.is_doubtful.load(Ordering::SeqCst) && self.may_live()
    }

    /// Whether nothing is known against it but silence.
    pub(crate) fn may_live(&self) -> bool {
        !self.is_dead.load(Ordering::SeqCst) && !self.driver.is_finished()
    }

    /// The next call takes another one.
    pub(crate) fn give_up(&self) {
        self.is_dead.store(true, Ordering::SeqCst);
    }

    /// The next call takes another one, unless this one answers before that is there.
    pub(crate) fn doubt(&self) {
        self.is_doubtful.store(true, Ordering::SeqCst);
    }

    pub(crate) fn answers(&self) -> u64 {
        self.answers.load(Ordering::SeqCst)
    }

    pub(crate) fn answered(&self) {
        self.answers.fetch_add(1, Ordering::SeqCst);
        self.is_doubtful.store(false, Ordering::SeqCst);
        self.silence.answered();
    }
}

impl RedisConnector {
    /// Reads what the configuration names.
    pub(crate) async fn open(config: &RedisConfig) -> Result<RedisConnector, StoreError> {
        let connector = |tls| RedisConnector { config: config.clone(), tls, admission: Arc::default() };
        if !config.tls {
            return Ok(connector(None));
        }
        let (place, authority) = (config.place(), config.authority.clone());
        let read = move || tls_client(&place, authority.as_deref(), "ca");
        let client = aside("reading the authorities of ca=", config.timeout, read).await?;
        Ok(connector(Some(TlsConnector::from(Arc::new(client)))))
    }

    /// A connection to a server that was examined, within the time for a call, by the first address of its name that can be used. Once the store is
    /// open, a server that refuses this user, or may not be used, is one that an operator mends.
    pub(crate) async fn connect(&self, address: &ServerAddress) -> Result<ServerConnection, StoreError> {
        match tokio::time::timeout(self.config.timeout, self.resolved(address)).await {
            Ok(connection) => connection.map_err(|error| self.admission.refused(Right::Login, error)),
            Err(_) => Err(self.silent(address)),
        }
    }

    /// A server was not connected to in time.
    pub(crate) fn silent(&self, address: &ServerAddress) -> StoreError {
        unconnected(&self.at(address), self.tls.is_some())
    }

    /// Another connection to the server of `connection`, which receives what is published on a channel.
    pub(crate) async fn subscription(
        &self,
        connection: &ServerConnection,
        channel: &str,
    ) -> Result<PubSub, StoreError> {
        let at = self.at(&connection.address);
        let subscribing = async {
            let stream = self
                .stream(&connection.address, self.socket(&connection.address, connection.peer).await?)
                .await?;
            let mut messages = PubSub::new(&self.login().await?, stream)
                .await
                .map_err(|error| not_connected(&at, &error))?;
            messages.subscribe(channel).await.map_err(|error| failed(&at, Call::Read, &error))?;
            Ok(messages)
        };
        match tokio::time::timeout(self.config.timeout, subscribing).await {
            Ok(messages) => messages,
            Err(_) => Err(unanswered(&at, Call::Read)),
        }
    }

    fn at(&self, address: &ServerAddress) -> String {
        format!("Redis {address}, namespace {:?}", self.config.namespace)
    }

    /// Who calls. The password may be another one than last time.
    async fn login(&self) -> Result<RedisConnectionInfo, StoreError> {
        let RedisConfig { user, password, db, .. } = &self.config;
        let mut login = RedisConnectionInfo::default()
            .set_protocol(ProtocolVersion::RESP2)
            .set_skip_set_lib_name()
            .set_db(i64::from(*db));
        if let Some(user) = user {
            login = login.set_username(user);
        }
        if let Some(password) = password {
            login = login.set_password(password.text().await?);
        }
        Ok(login)
    }

    async fn resolved(&self, address: &ServerAddress) -> Result<ServerConnection, StoreError> {
        self.config.check_plain(address)?;
        let found = lookup_host((address.host.as_str(), address.port)).await;
        self.first_of(address, found.map_err(|error| self.lost(address, error))?.collect()).await
    }

    /// By the first of these addresses at which a server can be used. A replica, or one that is silent, keeps nobody from the next.
    async fn first_of(
        &self,
        address: &ServerAddress,
        peers: Vec<SocketAddr>,
    ) -> Result<ServerConnection, StoreError> {
        let timeout = self.config.timeout;
        let attempt = async |peer| {
            let failed = |was_reached| move |error| AddressError { was_reached, error };
            let socket = self.socket(address, peer).await.map_err(failed(false))?;
            self.examined(address, socket).await.map_err(failed(true))
        };
        let found = first_by(in_turn(peers, timeout), timeout, |failure| failure.was_reached, attempt).await;
        let nowhere = || StoreError::unavailable(format!("{}: the name has no address", self.at(address)));
        found.map_err(|failure| failure.map_or_else(nowhere, |failure| failure.error))
    }

    /// What happened to a connection.
    fn lost(&self, address: &ServerAddress, error: std::io::Error) -> StoreError {
        not_connected(&self.at(address), &RedisError::from(error))
    }

    async fn socket(&self, address: &ServerAddress, peer: SocketAddr) -> Result<TcpStream, StoreError> {
        TcpStream::connect(peer).await.map_err(|error| self.lost(address, error))
    }

    async fn stream(&self, address: &ServerAddress, stream: TcpStream) -> Result<ServerStream, StoreError> {
        stream.set_nodelay(true).map_err(|error| self.lost(address, error))?;
        let Some(tls) = &self.tls else { return Ok(ServerStream::Plain(stream)) };
        let name = ServerName::try_from(address.host.clone()).map_err(|error| {
            let at = self.at(address);
            StoreError::invalid(format!("{at}: {error}; name a host that a certificate can name"))
        })?;
        let agreed = tls.connect(name, stream).await.map_err(|error| self.unsecured(address, error));
        Ok(ServerStream::Tls(Box::new(agreed?)))
    }

    /// TLS was not agreed on. If the URL does not name the server, the cluster does, and calls it as its certificate may not.
    fn unsecured(&self, address: &ServerAddress, error: std::io::Error) -> StoreError {
        if self.config.hosts.contains(address) {
            return self.lost(address, error);
        }
        misnamed(&self.at(address), &RedisError::from(error))
    }

    async fn examined(
        &self,
        address: &ServerAddress,
        socket: TcpStream,
    ) -> Result<ServerConnection, StoreError> {
        let at = self.at(address);
        let peer = socket.peer_addr().map_err(|error| self.lost(address, error))?;
        let stream = self.stream(address, socket).await?;
        // The time for a call is counted where it is made.
        let settings = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let (connection, driver) =
            MultiplexedConnection::new_with_config(&self.login().await?, stream, settings)
                .await
                .map_err(|error| not_connected(&at, &error))?;
        let mut connection = ServerConnection {
            address: address.clone(),
            peer,
            connection,
            is_cluster: false,
            driver: tokio::spawn(driver),
            is_dead: AtomicBool::new(false),
            is_doubtful: AtomicBool::new(false),
            silence: Silence::default(),
            answers: AtomicU64::new(0),
        };
        connection.is_cluster = self.check_role(&connection, &at).await?;
        if !self.config.accepts_eviction {
            check_eviction(&connection, &at).await?;
        }
        Ok(connection)
    }

    /// Whether a server says that it takes no writes any more. One that says nothing is found out by calls.
    pub(crate) async fn has_lost_role(&self, connection: &ServerConnection) -> bool {
        let at = self.at(&connection.address);
        let checked = tokio::time::timeout(self.config.timeout, self.check_role(connection, &at)).await;
        checked.is_ok_and(|checked| checked.is_err())
    }

    /// That it is a server of data, which takes writes or knows who does. Whether it is one of a cluster.
    async fn check_role(&self, connection: &ServerConnection, at: &str) -> Result<bool, StoreError> {
        let says = redis::cmd("HELLO").arg(2).query_async(&mut connection.connection.clone()).await;
        let says: Vec<Value> = says.map_err(|error| not_connected(at, &error))?;
        let text = |value: &Value| match value {
            Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Value::SimpleString(text) => text.clone(),
            _ => String::new(),
        };
        let find =
            |name: &str| says.chunks_exact(2).find(|pair| text(&pair[0]) == name).map(|pair| text(&pair[1]));
        match (find("mode").as_deref(), find("role").as_deref()) {
            (Some("sentinel"), _) => Err(StoreError::invalid(format!(
                "{at}: it is a Sentinel, which keeps no data; name the Redis servers that it watches, with commas between"
            ))),
            // A replica in a cluster says who the primary of a key is.
            (Some("cluster"), _) => Ok(true),
            (_, Some("master")) => Ok(false),
            (_, Some(_)) => Err(StoreError::unavailable(format!(
                "{at}: it is a read-only replica; name the primary, or all servers with commas between"
            ))),
            _ => Err(StoreError::invalid(format!("{at}: it does not answer as Redis or Valkey does"))),
        }
    }
}

/// That the server drops none of our keys when its memory is full. Ours have no expiry, so policies that evict only those that have
/// leave them alone.
async fn check_eviction(connection: &ServerConnection, at: &str) -> Result<(), StoreError> {
    let mut multiplexed = connection.connection.clone();
    let info: Result<String, RedisError> =
        redis::cmd("INFO").arg("memory").query_async(&mut multiplexed).await;
    let (limit, policy) = match info {
        Ok(info) => (info_field(&info, "maxmemory"), info_field(&info, "maxmemory_policy")),
        Err(error) if error.code() == Some("NOPERM") => {
            let mut ask = redis::cmd("CONFIG");
            let asked: Result<Vec<String>, RedisError> =
                ask.arg("GET").arg("maxmemory*").query_async(&mut multiplexed).await;
            let Ok(settings) = asked else {
                return Err(StoreError::invalid(format!(
                    "{at}: whether it evicts keys can't be checked, as this user may run neither INFO nor CONFIG GET; grant what tenure_redis::acl says (+info), \
                     or add eviction=accept if its maxmemory-policy is noeviction"
                )));
            };
            let find = |name: &str| {
                settings.chunks_exact(2).find(|pair| pair[0] == name).map(|pair| pair[1].clone())
            };
            (find("maxmemory"), find("maxmemory-policy"))
        }
        Err(error) => return Err(not_connected(at, &error)),
    };
    match (limit.as_deref(), policy) {
        (Some("0"), _) => Ok(()),
        (_, Some(policy)) if policy.starts_with("allkeys-") => Err(evicting(at, &policy)),
        _ => Ok(()),
    }
}

/// A field of what INFO answers.
pub(crate) fn info_field(info: &str, name: &str) -> Option<String> {
    let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.map(|text| text.trim().to_owned())
}

/// What bytes go over.
enum ServerStream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl AsyncRead for ServerStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        match self.get_mut() {
            ServerStream::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            ServerStream::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for ServerStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<std::io::Result<usize>> {
        match self.get_mut() {
            ServerStream::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            ServerStream::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        match self.get_mut() {
            ServerStream::Plain(stream) => Pin::new(stream).poll_flush(cx),
            ServerStream::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        match self.get_mut() {
            ServerStream::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            ServerStream::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    //! Plan: of a name's addresses, the first at which a server can be used is used: neither one that is silent nor a replica is; what a server said is
    //! told, whichever address was tried first or last.
    #![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

    use super::*;
    use tenure_core::ErrorKind;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    /// As long as a busy machine may take.
    const LONG: std::time::Duration = std::time::Duration::from_secs(30);

    /// Takes connections. What has a role answers with that, and tells of no limit of its memory.
    async fn server(role: Option<&'static str>) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let peer = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let mut asked = [0; 4096];
                    while let Ok(1..) = stream.read(&mut asked).await {
                        let Some(role) = role else { continue };
                        let info = "maxmemory:0\r\nmaxmemory_policy:noeviction";
                        let answer = match asked.windows(5).any(|word| word == b"HELLO") {
                            true => format!("*4\r\n+mode\r\n+standalone\r\n+role\r\n+{role}\r\n"),
                            false => format!("${}\r\n{info}\r\n", info.len()),
                        };
                        asked = [0; 4096];
                        stream.write_all(answer.as_bytes()).await.unwrap();
                    }
                });
            }
        });
        peer
    }

    #[tokio::test]
    async fn the_first_of_a_name_s_addresses_that_can_be_used_is_used() {
        let config = RedisConfig::from_url("redis://localhost").unwrap().namespace("n").timeout(LONG);
        let connector = RedisConnector::open(&config).await.unwrap();
        let name = ServerAddress::parse("localhost:6379").unwrap();
        let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let (silent, replica, primary) =
            (server(None).await, server(Some("slave")).await, server(Some("master")).await);
        let soon = connector.first_of(&name, vec![silent, nobody, replica, primary]);
        let connection = tokio::time::timeout(LONG / 2, soon).await.unwrap().ok().unwrap();
        assert_eq!((connection.peer, &connection.address), (primary, &name));
        for peers in [[nobody, replica], [replica, nobody]] {
            let error = connector.first_of(&name, peers.to_vec()).await.err().unwrap();
            let text = error.to_string();
            assert!(error.kind() == ErrorKind::Unavailable && text.contains("read-only replica"), "{text}");
            assert!(text.contains("localhost:6379"), "{text}");
        }
    }
}
