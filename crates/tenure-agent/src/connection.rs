//! Connections: how long anybody may take, and how many there are.

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

#[cfg(test)]
mod tests {
    //! Plan: who sends no request, half of one, or takes nothing of what is sent to it, or too little, is cut off. Who shows no token makes room for others; who has shown one
    //! never does, and is not kept out, also where there is room for few. A token is asked for before a body is read. Who sends no more has its answer.
    use super::*;
    use crate::access::{Access, Secret, guard};
    use crate::config::Address;
    use axum::routing::get;
    use std::net::SocketAddr;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
    use tokio::task::JoinHandle;

    /// Far longer than anybody has patience here.
    const LONG: Duration = Duration::from_secs(60);
    const FULL: &str = "full-token-0123456789";

    /// A connection that holds 1 KiB each way, to an agent that has little patience and much to say.
    fn connection() -> (DuplexStream, JoinHandle<()>) {
        let (client, server) = tokio::io::duplex(1024);
        let router = Router::new().route("/", get(async || vec![b'x'; 1 << 20]));
        let limits = Limits { patience: Duration::from_millis(50), ..Limits::default() };
        let place = ConnectionRoom::of_clients(1, 0, 0).enter(true).unwrap();
        let guest = Guest { peer: Arc::new(ClientIdentity::unknown()), place, router, limits };
        (client, tokio::spawn(guest.attend(server, None)))
    }

    #[tokio::test]
    async fn a_client_whose_host_is_gone_is_found_out_by_the_system() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        probe(&stream);
        assert!(sockopt::socket_keepalive(&stream).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&stream).unwrap(), Duration::from_secs(60));
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
    async fn who_takes_a_little_now_and_then_is_cut_off_after_a_while() {
        let (mut client, attended) = connection();
        client.write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        // It always takes something in time.
        let takes = async {
            while client.read_u8().await.is_ok() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            ended = tokio::time::timeout(LONG, attended) => ended.unwrap().unwrap(),
            () = takes => panic!("all was taken, a byte at a time"),
        }
    }

    #[tokio::test]
    async fn who_begins_no_tls_or_half_of_it_is_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = (folder.path().join("cert"), folder.path().join("key"));
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        std::fs::write(&certificate, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        let certificate = Certificate::read(certificate, key, tenure::clock::system()).unwrap();
        let address = Address::Tls(([127, 0, 0, 1], 0).into());
        let door = Door::open(address, Some(&certificate)).await.unwrap();
        let Address::Tls(at) = *door.address() else { panic!("{door:?}") };
        let limits = Limits { patience: Duration::from_millis(50), ..Limits::default() };
        let room = ConnectionRoom::of_clients(2, 0, 0);
        let served = ConnectionContext { router: Router::new(), limits, room, is_open: true };
        let clients = async {
            // The first bytes of a greeting that would be longer.
            for half in [&b""[..], &[22, 3, 1, 2, 0, 1, 0]] {
                let mut client = TcpStream::connect(at).await.unwrap();
                client.write_all(half).await.unwrap();
                client.read_to_end(&mut Vec::new()).await.unwrap();
            }
        };
        among(&door, &served, clients).await;
    }

    #[tokio::test]
    async fn who_sends_no_more_has_its_answer_and_no_more_than_that() {
        let slow = get(async || {
            tokio::time::sleep(Duration::from_millis(10)).await;
            "here"
        });
        let long = get(async || {
            let first = futures_util::stream::iter([Ok::<_, Infallible>("begun")]);
            Body::from_stream(first.chain(futures_util::stream::pending()))
        });
        let router = Router::new().route("/slow", slow).route("/long", long);
        served(router, ConnectionRoom::of_clients(8, 4, 4), async |at| {
            for (path, says) in [("/slow", "here"), ("/long", "begun")] {
                let mut client = TcpStream::connect(at).await.unwrap();
                let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
                client.write_all(request.as_bytes()).await.unwrap();
                client.shutdown().await.unwrap();
                let mut said = String::new();
                client.read_to_string(&mut said).await.unwrap();
                assert!(said.starts_with("HTTP/1.1 200") && said.contains(says), "{path}: {said:?}");
            }
        })
        .await;
    }

    #[tokio::test]
    async fn who_takes_what_is_sent_to_it_has_all_of_it() {
        let (mut client, _attended) = connection();
        client.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
        let mut said = Vec::new();
        tokio::time::timeout(LONG, client.read_to_end(&mut said)).await.unwrap().unwrap();
        assert!(said.len() > 1 << 20, "{} bytes", said.len());
    }

    /// Serves while there are these clients.
    async fn among(door: &Door, served: &ConnectionContext, clients: impl Future<Output = ()>) {
        tokio::select! {
            () = serve(door, served) => unreachable!("it serves for ever"),
            done = tokio::time::timeout(LONG, clients) => done.unwrap(),
        }
    }

    /// Serves clients who are told the address, in this room. Nobody is cut off for being slow.
    async fn served(router: Router, room: Arc<ConnectionRoom>, clients: impl AsyncFnOnce(SocketAddr)) {
        let door = Door::open(Address::Loopback(([127, 0, 0, 1], 0).into()), None).await.unwrap();
        let Address::Loopback(at) = *door.address() else { panic!("{door:?}") };
        let limits = Limits { patience: 10 * LONG, ..Limits::default() };
        let served = ConnectionContext { router, limits, room, is_open: false };
        among(&door, &served, clients(at)).await;
    }

    /// What is answered to a request with this token and a body of so many bytes, before that has come.
    async fn asked(client: &mut TcpStream, what: &str, token: &str, length: usize) -> String {
        let request = format!(
            "{what} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\ncontent-length: {length}\r\n\r\n"
        );
        client.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            answer.push(client.read_u8().await.unwrap());
        }
        String::from_utf8_lossy(&answer).into_owned()
    }

    #[tokio::test]
    async fn who_shows_no_token_makes_room_for_others_and_who_has_shown_one_never_does() {
        let access = Access { full: Some(Secret::new(FULL).unwrap()), ..Access::default() };
        // It reads no body.
        let router = Router::new().route("/", axum::routing::post(async || ()));
        let router = router.layer(axum::middleware::from_fn_with_state(access, guard));
        // Two strangers at the most, and three who may only look.
        served(router, ConnectionRoom::of_clients(1024, 2, 3), async |at| {
            let mut known = TcpStream::connect(at).await.unwrap();
            assert!(asked(&mut known, "POST /", FULL, 0).await.starts_with("HTTP/1.1 200"));
            let mut wrong = TcpStream::connect(at).await.unwrap();
            let refused = asked(&mut wrong, "POST /", "other-token-0123456789", 9).await;
            assert!(
                refused.starts_with("HTTP/1.1 401") && refused.contains("connection: close"),
                "{refused}"
            );
            wrong.read_to_end(&mut Vec::new()).await.unwrap();
            let mut silent = Vec::new();
            for _ in 0..5 {
                silent.push(TcpStream::connect(at).await.unwrap());
            }
            // Those that came first are gone.
            for client in silent.iter_mut().take(3) {
                client.read_to_end(&mut Vec::new()).await.unwrap();
            }
            let mut newcomer = TcpStream::connect(at).await.unwrap();
            for client in [&mut newcomer, &mut known] {
                assert!(asked(client, "POST /", FULL, 0).await.starts_with("HTTP/1.1 200"));
            }
        })
        .await;
    }

    #[tokio::test]
    async fn who_may_only_look_or_asks_for_a_page_makes_room_too() {
        const READ: &str = "read-token-0123456789";
        let (full, read) = (Secret::new(FULL).unwrap(), Secret::new(READ).unwrap());
        let access = Access { full: Some(full), read: Some(read), ..Access::default() };
        let router = Router::new()
            .route("/", axum::routing::any(async || ()))
            .route("/dashboard/", get(async || ()))
            .layer(axum::middleware::from_fn_with_state(access, guard));
        // Two strangers at the most, and three who may only look.
        served(router, ConnectionRoom::of_clients(1024, 2, 3), async |at| {
            let mut known = TcpStream::connect(at).await.unwrap();
            assert!(asked(&mut known, "POST /", FULL, 0).await.starts_with("HTTP/1.1 200"));
            for (path, token, most) in [("/", READ, 3), ("/dashboard/", "no-token-at-all-012345", 2)] {
                let mut all = Vec::new();
                for _ in 0..5 {
                    let mut client = TcpStream::connect(at).await.unwrap();
                    let answer = asked(&mut client, &format!("GET {path}"), token, 0).await;
                    assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
                    all.push(client);
                }
                // Those that came first are gone.
                for client in all.iter_mut().take(5 - most) {
                    client.read_to_end(&mut Vec::new()).await.unwrap();
                }
            }
            assert!(asked(&mut known, "POST /", FULL, 0).await.starts_with("HTTP/1.1 200"));
        })
        .await;
    }

    #[tokio::test]
    async fn however_few_connections_there_may_be_silent_ones_keep_no_token_out() {
        let limits = Limits { connections: 4, patience: 10 * LONG, ..Limits::default() };
        let leases = tenure::Leases::new(tenure::memory()).unwrap();
        let agent = crate::Agent::new(leases, limits, None);
        let access = Access { full: Some(Secret::new(FULL).unwrap()), ..Access::default() };
        let door = async || Door::open(Address::Loopback(([127, 0, 0, 1], 0).into()), None).await.unwrap();
        let (one, other) = (door().await, door().await);
        let at = |door: &Door| match *door.address() {
            Address::Loopback(at) => at,
            _ => panic!("{door:?}"),
        };
        let clients = async {
            let mut silent = Vec::new();
            for _ in 0..4 {
                silent.push(TcpStream::connect(at(&one)).await.unwrap());
            }
            let mut known = Vec::new();
            for door in [&one, &other, &one, &other] {
                let mut client = TcpStream::connect(at(door)).await.unwrap();
                let answer = asked(&mut client, "GET /v1/leases", FULL, 0).await;
                assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
                known.push(client);
            }
            for client in &mut silent {
                client.read_to_end(&mut Vec::new()).await.unwrap();
            }
            // Those who are known have all places, whichever address they came by.
            let mut fifth = TcpStream::connect(at(&other)).await.unwrap();
            assert_eq!(fifth.read(&mut [0]).await.unwrap_or_default(), 0);
        };
        tokio::select! {
            () = agent.serve(&one, access.clone()) => unreachable!("it serves for ever"),
            () = agent.serve(&other, access) => unreachable!("it serves for ever"),
            done = tokio::time::timeout(LONG, clients) => done.unwrap(),
        }
    }
}
