//! A relay before the server, which counts what passes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking, also in what they share"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};
use tenure_postgres::tokio_postgres::Config;
use tenure_postgres::tokio_postgres::config::Host;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

/// Where it listens, and what it has counted on all its connections.
pub(crate) struct Relay {
    pub(crate) port: u16,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    statements: AtomicU64,
    turns: AtomicU64,
}

impl Relay {
    /// Relays to the tests' server, for as long as the runtime lasts.
    pub(crate) async fn start() -> Relay {
        let server: Config = crate::support::url().parse().unwrap();
        let [Host::Tcp(host)] = server.get_hosts() else { panic!("the tests' server is on loopback") };
        let to = (host.clone(), server.get_ports()[0]);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (port, counts) = (listener.local_addr().unwrap().port(), Arc::new(Counts::default()));
        let shared = Arc::clone(&counts);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect((to.0.as_str(), to.1)).await.unwrap();
                client.set_nodelay(true).unwrap();
                server.set_nodelay(true).unwrap();
                let ((from_client, to_client), (from_server, to_server)) =
                    (client.into_split(), server.into_split());
                let counts = Arc::clone(&shared);
                tokio::spawn(async move {
                    // It is asked to begin.
                    let waiting = AtomicI64::new(1);
                    let asks = |kind| counts.ask(kind, &waiting);
                    let answers = |kind| {
                        const READY: u8 = b'Z';
                        waiting.fetch_sub(i64::from(kind == READY), SeqCst);
                    };
                    // Whichever way ends first ends both.
                    tokio::select! {
                        () = pass(from_client, to_server, true, asks) => {}
                        () = pass(from_server, to_client, false, answers) => {}
                    }
                });
            }
        });
        Relay { port, counts }
    }

    /// How many statements were sent, and how often a client waited for an answer, since the last call.
    pub(crate) fn take(&self) -> (u64, u64) {
        (self.counts.statements.swap(0, SeqCst), self.counts.turns.swap(0, SeqCst))
    }
}

impl Counts {
    /// A message to the server. Those that are sent while others are not answered yet share their turn.
    fn ask(&self, kind: u8, waiting: &AtomicI64) {
        const EXECUTE: u8 = b'E';
        const QUERY: u8 = b'Q';
        const SYNC: u8 = b'S';
        if [EXECUTE, QUERY].contains(&kind) {
            self.statements.fetch_add(1, SeqCst);
        }
        if [SYNC, QUERY].contains(&kind) && waiting.fetch_add(1, SeqCst) == 0 {
            self.turns.fetch_add(1, SeqCst);
        }
    }
}

/// Passes messages on: each has its kind, and a length that counts itself. The first of a client has no kind.
async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, is_client: bool, seen: impl Fn(u8)) {
    let mut is_first = is_client;
    loop {
        let mut head = vec![0; if is_first { 4 } else { 5 }];
        if from.read_exact(&mut head).await.is_err() {
            return;
        }
        let (kind, length) = head.split_at(head.len() - 4);
        let length = u32::from_be_bytes(length.try_into().unwrap()) as usize - 4;
        if let [kind] = kind {
            seen(*kind);
        }
        let mut message = head;
        let head = message.len();
        message.resize(head + length, 0);
        if from.read_exact(&mut message[head..]).await.is_err() || to.write_all(&message).await.is_err() {
            return;
        }
        is_first = false;
    }
}
