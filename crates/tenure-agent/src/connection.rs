//! Doors and connections: who is let in, and how long anybody may take.

use crate::config::{Address, Limits};
use crate::peer::Peer;
use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_io_timeout::TimeoutStream;
use tower_service::Service;

/// Why an address can't be listened at.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Another agent has the socket.
    #[error("another agent listens at {0}; stop it, or name another socket")]
    Taken(String),
    /// Others could put a socket of theirs in its place.
    #[error(
        "{0}: a directory of this user's own is needed, that nobody else can write to; name a socket in another one"
    )]
    Unsafe(String),
    /// There is something that is no socket.
    #[error("{0} is there already and is no socket; name another path")]
    NoSocket(String),
    /// The system says no.
    #[error("{0}: {1}")]
    Io(String, #[source] std::io::Error),
}

/// An address that is listened at.
#[derive(Debug)]
pub struct Door {
    listener: Listener,
    address: Address,
}

#[derive(Debug)]
enum Listener {
    Unix {
        listener: UnixListener,
        path: PathBuf,
        /// Nobody else removes the socket while this is locked.
        _lock: File,
    },
    Tcp(TcpListener),
}

impl Drop for Door {
    fn drop(&mut self) {
        if let Listener::Unix { path, .. } = &self.listener {
            // Whoever comes next removes it otherwise.
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Door {
    /// Listens there. A Unix socket's directory is made if it is missing, and a socket that nobody listens at any more is removed.
    ///
    /// # Errors
    /// When another agent listens there, the directory is not safe, or the system says no.
    pub async fn open(address: Address) -> Result<Door, ServeError> {
        let named = |error| ServeError::Io(address.to_string(), error);
        let listener = match &address {
            Address::Unix(path) => unix(path)?,
            Address::Loopback(at) => Listener::Tcp(TcpListener::bind(at).await.map_err(named)?),
        };
        let address = match &listener {
            // The port that was given for port 0.
            Listener::Tcp(tcp) => Address::Loopback(tcp.local_addr().map_err(named)?),
            Listener::Unix { .. } => address,
        };
        Ok(Door { listener, address })
    }

    /// Listens there, whoever can reach it.
    pub(crate) async fn open_to_all(address: SocketAddr) -> Result<Door, ServeError> {
        let named = |error| ServeError::Io(format!("http://{address}"), error);
        let tcp = TcpListener::bind(address).await.map_err(named)?;
        let address = Address::Loopback(tcp.local_addr().map_err(named)?);
        Ok(Door { listener: Listener::Tcp(tcp), address })
    }

    /// Where that is.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }
}

fn unix(path: &Path) -> Result<Listener, ServeError> {
    let named = |error| ServeError::Io(path.display().to_string(), error);
    // Before anything is made; the system's own words name no remedy.
    std::os::unix::net::SocketAddr::from_pathname(path).map_err(|error| {
        named(std::io::Error::new(
            error.kind(),
            "no socket may have such a path; name one of 100 bytes at most",
        ))
    })?;
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if !directory.exists() {
        std::fs::DirBuilder::new().mode(0o700).create(directory).map_err(named)?;
    }
    if !is_safe(directory).map_err(named)? {
        return Err(ServeError::Unsafe(directory.display().to_string()));
    }
    let mut side = path.as_os_str().to_owned();
    side.push(".lock");
    let lock = File::options().create(true).append(true).open(&side).map_err(named)?;
    lock.set_permissions(std::fs::Permissions::from_mode(0o600)).map_err(named)?;
    if lock.try_lock().is_err() {
        return Err(ServeError::Taken(path.display().to_string()));
    }
    match path.symlink_metadata() {
        Ok(found) if found.file_type().is_socket() => std::fs::remove_file(path).map_err(named)?,
        Ok(_) => return Err(ServeError::NoSocket(path.display().to_string())),
        Err(_) => {}
    }
    // From its first moment on nobody else can connect.
    let former = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
    let listener = UnixListener::bind(path);
    rustix::process::umask(former);
    Ok(Listener::Unix { listener: listener.map_err(named)?, path: path.to_owned(), _lock: lock })
}

/// Whether nobody else can put something in the place of what is in there, or of the directory itself.
fn is_safe(directory: &Path) -> std::io::Result<bool> {
    const OTHERS_WRITE: u32 = 0o002;
    const STICKY: u32 = 0o1000;
    let is_ours = |owner: u32| owner == rustix::process::geteuid().as_raw() || owner == 0;
    // Whoever owns a link can make it lead elsewhere.
    let (link, found) = (directory.symlink_metadata()?, directory.metadata()?);
    if !is_ours(link.uid()) || !is_ours(found.uid()) || found.mode() & 0o022 != 0 {
        return Ok(false);
    }
    // Both where it is named and where it leads to.
    let (named, real) = (std::path::absolute(directory)?, directory.canonicalize()?);
    for above in named.ancestors().chain(real.ancestors()).skip(1) {
        let mode = above.metadata()?.mode();
        if mode & OTHERS_WRITE != 0 && mode & STICKY == 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

/// What is served, and how patiently.
pub(crate) struct Served {
    pub(crate) router: Router,
    pub(crate) limits: Limits,
}

/// Lets clients in, for ever.
pub(crate) async fn serve(door: &Door, served: &Served) {
    /// There may be no descriptor left for a moment.
    const PAUSE: Duration = Duration::from_millis(100);
    let room = Arc::new(Semaphore::new(served.limits.connections));
    // Ends with this future.
    let mut inside = JoinSet::new();
    loop {
        while inside.try_join_next().is_some() {}
        match &door.listener {
            Listener::Unix { listener, .. } => match listener.accept().await {
                Ok((stream, _)) => {
                    let Some(place) = place(&room) else { continue };
                    let peer = Arc::new(Peer::of(&stream));
                    inside.spawn(attend(stream, peer, served.router.clone(), served.limits, place));
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            },
            Listener::Tcp(listener) => match listener.accept().await {
                Ok((stream, _)) => {
                    let Some(place) = place(&room) else { continue };
                    // Small answers are not held back. Where that can't be had, they are slower.
                    let _ = stream.set_nodelay(true);
                    let peer = Arc::new(Peer::unknown());
                    inside.spawn(attend(stream, peer, served.router.clone(), served.limits, place));
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            },
        }
    }
}

/// A place for one connection. Without one, the connection is closed as it is dropped.
fn place(room: &Arc<Semaphore>) -> Option<Place> {
    let permit = Arc::clone(room).try_acquire_owned().ok();
    if permit.is_none() {
        metrics::counter!("tenure_agent_refused_total").increment(1);
    }
    metrics::gauge!("tenure_agent_connections").increment(f64::from(u8::from(permit.is_some())));
    permit.map(Place)
}

struct Place(#[allow(dead_code, reason = "held, not used")] OwnedSemaphorePermit);

impl Drop for Place {
    fn drop(&mut self) {
        metrics::gauge!("tenure_agent_connections").decrement(1.0);
    }
}

/// One connection, until its client leaves or takes too long.
async fn attend<S: AsyncRead + AsyncWrite + Send + 'static>(
    stream: S,
    peer: Arc<Peer>,
    router: Router,
    limits: Limits,
    _place: Place,
) {
    const HEADERS: usize = 64;
    const HEAD_BYTES: usize = 16 * 1024;
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(limits.patience));
    let service = service_fn(move |request: hyper::Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(Arc::clone(&peer));
        // A router is always ready.
        router.clone().call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.patience)
        .max_headers(HEADERS)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(Box::pin(stream)), service);
    // How a connection ends is its client's affair.
    let _ = connection.await;
}

#[cfg(test)]
mod tests {
    //! Plan: who sends no request, half of one, or takes nothing of what is sent to it, is cut off.
    use super::*;
    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
    use tokio::task::JoinHandle;

    /// Far longer than anybody has patience here.
    const LONG: Duration = Duration::from_secs(60);

    /// A connection that holds 1 KiB each way, to an agent that has little patience and much to say.
    fn connection() -> (DuplexStream, JoinHandle<()>) {
        let (client, server) = tokio::io::duplex(1024);
        let router = Router::new().route("/", get(async || vec![b'x'; 1 << 20]));
        let limits = Limits { patience: Duration::from_millis(50), ..Limits::default() };
        let place = place(&Arc::new(Semaphore::new(1))).unwrap();
        (client, tokio::spawn(attend(server, Arc::new(Peer::unknown()), router, limits, place)))
    }

    #[tokio::test]
    async fn who_sends_no_request_or_half_of_one_is_cut_off() {
        for half in ["", "GET / HT", "GET / HTTP/1.1\r\nhost: x\r\nname: "] {
            let (mut client, attended) = connection();
            client.write_all(half.as_bytes()).await.unwrap();
            tokio::time::timeout(LONG, attended).await.unwrap().unwrap();
            // What was said of it, if anything, and the end.
            client.read_to_end(&mut Vec::new()).await.unwrap();
        }
    }

    #[tokio::test]
    async fn who_takes_nothing_of_what_is_sent_to_it_is_cut_off() {
        let (mut client, attended) = connection();
        client.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        // It waits, and reads nothing.
        tokio::time::timeout(LONG, attended).await.unwrap().unwrap();
        let mut said = Vec::new();
        client.read_to_end(&mut said).await.unwrap();
        assert!(said.starts_with(b"HTTP/1.1 200") && said.len() <= 1024, "{} bytes", said.len());
    }

    #[tokio::test]
    async fn who_takes_what_is_sent_to_it_has_all_of_it() {
        let (mut client, _attended) = connection();
        client.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut said = Vec::new();
        tokio::time::timeout(LONG, client.read_to_end(&mut said)).await.unwrap().unwrap();
        assert!(said.len() > 1 << 20, "{} bytes", said.len());
    }
}
