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
        assert!(refused.starts_with("HTTP/1.1 401") && refused.contains("connection: close"), "{refused}");
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
