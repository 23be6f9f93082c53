//! Connections: how long anybody may take, and how many there are.

#[cfg(test)]
mod tests;

use crate::certificate::Certificate;
use crate::config::Limits;
use crate::delivery::DeliveringStream;
use crate::door::{AgentListener, Door};
use crate::peer::ClientIdentity;
use crate::room::{ConnectionPlace, ConnectionRoom};
use crate::socket::ClientSocket;
use crate::strangers::Stranger;
use axum::Router;
use axum::body::{Body, HttpBody};
use futures_util::StreamExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::net::sockopt;
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinSet;
use tokio_io_timeout::TimeoutStream;
use tower_service::Service;

/// What is served, and how patiently.
pub(crate) struct ConnectionContext {
    pub(crate) router: Router,
    pub(crate) limits: Limits,
    /// Shared by all addresses.
    pub(crate) room: Arc<ConnectionRoom>,
    /// Whether no token is asked for.
    pub(crate) is_open: bool,
}

/// Lets clients in, for ever.
pub(crate) async fn serve(door: &Door, served: &ConnectionContext) {
    /// There may be no descriptor left for a moment.
    const PAUSE: Duration = Duration::from_millis(100);
    // Ends with this future.
    let mut inside = JoinSet::new();
    loop {
        while inside.try_join_next().is_some() {}
        let accepted = match &door.listener {
            AgentListener::Unix { listener, .. } => listener
                .accept()
                .await
                .map(|(stream, _)| (Arc::new(ClientIdentity::of(&stream)), ClientStream::Unix(stream))),
            AgentListener::Tcp(listener) => listener.accept().await.map(|(stream, at)| {
                probe(&stream);
                (Arc::new(ClientIdentity::at(at)), ClientStream::Tcp(stream))
            }),
            AgentListener::Tls(listener, certificate) => listener.accept().await.map(|(stream, at)| {
                probe(&stream);
                (Arc::new(ClientIdentity::at(at)), ClientStream::Tls(stream, certificate.clone()))
            }),
        };
        let Ok((peer, stream)) = accepted else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let Some(place) = served.room.enter(served.is_open) else { continue };
        let guest = Guest { peer, place, router: served.router.clone(), limits: served.limits };
        inside.spawn(async move {
            let stranger = guest.place.stranger().cloned();
            tokio::select! {
                () = guest.greet(stream) => {}
                () = makes_room(stranger) => {}
            }
        });
        // Whoever was let in is heard before the next one, who may need its place: its token may have come already.
        tokio::task::yield_now().await;
    }
}

/// Has the system find out within two minutes that a client's host is gone. A request may wait for a day, and nothing is sent meanwhile.
fn probe(stream: &TcpStream) {
    const QUIET: Duration = Duration::from_secs(60);
    const EVERY: Duration = Duration::from_secs(15);
    // A system that can't is no reason to turn a client away.
    let _probed = sockopt::set_tcp_keepidle(stream, QUIET)
        .and_then(|()| sockopt::set_tcp_keepintvl(stream, EVERY))
        .and_then(|()| sockopt::set_tcp_keepcnt(stream, 4))
        .and_then(|()| sockopt::set_socket_keepalive(stream, true));
}

async fn makes_room(stranger: Option<Arc<Stranger>>) {
    match stranger {
        Some(stranger) => stranger.makes_room().await,
        None => std::future::pending().await,
    }
}

enum ClientStream {
    Unix(UnixStream),
    Tcp(TcpStream),
    Tls(TcpStream, Certificate),
}

/// Small answers are not held back. Where that can't be had, they are slower.
fn at_once(stream: TcpStream) -> TcpStream {
    let _ = stream.set_nodelay(true);
    stream
}

/// Whoever has made a connection, until it leaves or takes too long.
struct Guest {
    peer: Arc<ClientIdentity>,
    place: ConnectionPlace,
    router: Router,
    limits: Limits,
}

impl Guest {
    async fn greet(self, stream: ClientStream) {
        match stream {
            ClientStream::Unix(stream) => self.attend_at(stream.into()).await,
            ClientStream::Tcp(stream) => self.attend_at(at_once(stream).into()).await,
            ClientStream::Tls(stream, certificate) => {
                let socket = ClientSocket::from(at_once(stream));
                let shaken = certificate.shake_hands(socket.clone());
                // Whoever takes too long, or speaks no TLS, is cut off.
                if let Ok(Ok(stream)) = tokio::time::timeout(self.limits.patience, shaken).await {
                    self.attend(stream, Some(socket)).await;
                }
            }
        }
    }

    async fn attend_at(self, socket: ClientSocket) {
        self.attend(socket.clone(), Some(socket)).await;
    }

    /// `socket`: by which its end is heard, however much there still is to read.
    async fn attend<S: AsyncRead + AsyncWrite + Send + 'static>(
        self,
        stream: S,
        socket: Option<ClientSocket>,
    ) {
        const HEADERS: usize = 64;
        const HEAD_BYTES: usize = 16 * 1024;
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(self.limits.patience));
        let delivery = Arc::clone(self.peer.delivery());
        let stream = DeliveringStream::new(Box::pin(stream), delivery, self.limits.patience);
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(Arc::clone(&self.peer));
            if let Some(stranger) = self.place.stranger() {
                request.extensions_mut().insert(Arc::clone(stranger));
            }
            // A router is always ready.
            let (answer, socket) = (self.router.clone().call(request), socket.clone());
            async move {
                tokio::select! {
                    biased;
                    answer = answer => answer
                        .map(|answer| answer.map(|body| while_there(body, socket.clone())))
                        .map_err(|never: Infallible| match never {}),
                    () = has_gone(socket.clone()) => Err(io::Error::from(io::ErrorKind::ConnectionAborted)),
                }
            }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            // Who sends no more may still read; who has gone is found out here.
            .half_close(true)
            .header_read_timeout(self.limits.patience)
            .max_headers(HEADERS)
            .max_buf_size(HEAD_BYTES)
            .serve_connection(TokioIo::new(stream), service);
        // How a connection ends is its client's affair.
        let _ = connection.await;
    }
}

/// An answer that goes on for as long as there is something to tell ends when its client has gone.
fn while_there(body: Body, socket: Option<ClientSocket>) -> Body {
    match body.size_hint().exact() {
        Some(_) => body,
        None => Body::from_stream(body.into_data_stream().take_until(Box::pin(has_gone(socket)))),
    }
}

/// Waits until a client is gone that a request of is under way.
async fn has_gone(socket: Option<ClientSocket>) {
    /// Some end what they send with their request, and wait for an answer that is to come at once.
    const MOMENT: Duration = Duration::from_millis(100);
    let Some(socket) = socket else { return std::future::pending().await };
    socket.ended().await;
    tokio::time::sleep(MOMENT).await;
}
