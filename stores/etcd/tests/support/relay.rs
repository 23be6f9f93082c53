//! A relay before a server, which counts connections, passes requests on, and can keep an answer back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

/// Where it listens, and what it does.
pub(crate) struct Relay {
    pub(crate) port: u16,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    cuts: AtomicBool,
    mutes: AtomicBool,
    kept_back: AtomicU32,
    accepted: AtomicU32,
}

impl Relay {
    /// Relays to that port of this host, for as long as the runtime lasts.
    pub(crate) async fn start(to: u16) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (port, state) = (listener.local_addr().unwrap().port(), Arc::new(State::default()));
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                shared.accepted.fetch_add(1, Ordering::SeqCst);
                let Ok(server) = TcpStream::connect(("127.0.0.1", to)).await else { continue };
                let ((from_client, to_client), (from_server, to_server)) =
                    (client.into_split(), server.into_split());
                let state = Arc::clone(&shared);
                tokio::spawn(async move {
                    // Whichever way ends first ends both.
                    tokio::select! {
                        () = pass(from_client, to_server, None) => {}
                        () = pass(from_server, to_client, Some(&state)) => {}
                    }
                });
            }
        });
        Relay { port, state }
    }

    /// From now on the head of an answer ends its connection, unseen by the client. What the server says of the connection
    /// passes: it comes at any time, also before the server has done what it was asked.
    pub(crate) fn cut(&self, cuts: bool) {
        self.state.cuts.store(cuts, Ordering::SeqCst);
    }

    /// From now on the server answers no call, and tells of nothing. It goes on to answer pings.
    pub(crate) fn mute(&self) {
        self.state.mutes.store(true, Ordering::SeqCst);
    }

    /// How many connections were made to it.
    pub(crate) fn accepted(&self) -> u32 {
        self.state.accepted.load(Ordering::SeqCst)
    }

    /// How many answers were kept back.
    pub(crate) fn kept_back(&self) -> u32 {
        self.state.kept_back.load(Ordering::SeqCst)
    }
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, cutter: Option<&State>) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        let cuts = |state: &&State| state.cuts.load(Ordering::SeqCst) && begins_an_answer(&bytes[..count]);
        if let Some(state) = cutter.filter(cuts) {
            state.kept_back.fetch_add(1, Ordering::SeqCst);
            return;
        }
        let is_mute = cutter.is_some_and(|state| state.mutes.load(Ordering::SeqCst));
        let passed = if is_mute { &without_answers(&bytes[..count])[..] } else { &bytes[..count] };
        if to.write_all(passed).await.is_err() {
            return;
        }
    }
}

/// The types of frames that an answer consists of (RFC 9113, sections 4.1, 6.1 and 6.2).
const DATA: u8 = 0;
const HEADERS: u8 = 1;

/// Whether one of these frames is of the type HEADERS.
fn begins_an_answer(bytes: &[u8]) -> bool {
    frames(bytes).any(|(kind, _)| kind == HEADERS)
}

/// These frames, but for those that answer something.
fn without_answers(bytes: &[u8]) -> Vec<u8> {
    frames(bytes)
        .filter(|(kind, _)| ![DATA, HEADERS].contains(kind))
        .flat_map(|(_, frame)| frame)
        .copied()
        .collect()
}

/// The frames with their types. A server sends whole ones.
fn frames(mut bytes: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let [high, middle, low, kind, ..] = bytes else { return None };
        let length = u32::from_be_bytes([0, *high, *middle, *low]) as usize;
        let (frame, rest) = bytes.split_at((9 + length).min(bytes.len()));
        bytes = rest;
        Some((*kind, frame))
    })
}
