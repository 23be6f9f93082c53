//! A connection that fails as networks do: it stalls, or is cut after a request has arrived and before its answer goes back.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

const PASSES: u8 = 0;
const STALLS: u8 = 1;
const CUTS: u8 = 2;

/// Stands before a server, for as long as its runtime lives.
#[derive(Clone)]
pub(crate) struct Proxy {
    pub(crate) port: u16,
    state: Arc<AtomicU8>,
    connections: Arc<AtomicUsize>,
}

impl Proxy {
    pub(crate) async fn before(server: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(AtomicU8::new(PASSES));
        let (shared, connections) = (Arc::clone(&state), Arc::<AtomicUsize>::default());
        let count = Arc::clone(&connections);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                let state = Arc::clone(&shared);
                tokio::spawn(async move {
                    let Ok(server) = TcpStream::connect(("127.0.0.1", server)).await else { return };
                    let ((from, to), (back, forth)) = (client.into_split(), server.into_split());
                    // Whichever direction ends, ends both.
                    tokio::select! {
                        () = pass(from, forth, &state, false) => {}
                        () = pass(back, to, &state, true) => {}
                    }
                });
            }
        });
        Proxy { port, state, connections }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// How many were made in all.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Nothing gets through in either direction, and nobody is told.
    pub(crate) fn stall(&self) {
        self.state.store(STALLS, Ordering::SeqCst);
    }

    /// The next answer of each connection does not come: the connection ends instead.
    pub(crate) fn cut(&self) {
        self.state.store(CUTS, Ordering::SeqCst);
    }

    /// From now on all gets through, of what is sent from now on.
    pub(crate) fn pass(&self) {
        self.state.store(PASSES, Ordering::SeqCst);
    }
}

async fn pass(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    state: &AtomicU8,
    are_answers: bool,
) {
    let mut buffer = vec![0; 65536];
    while let Ok(count) = from.read(&mut buffer).await {
        match state.load(Ordering::SeqCst) {
            // What has met a stall is never delivered.
            STALLS => std::future::pending().await,
            CUTS if are_answers => return,
            _ => {}
        }
        if count == 0 || to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
    }
}
