//! A port that stands for a server's, for as long as a test likes.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Passes connections on to the server, until it is dropped.
pub struct TcpRelay {
    state: Arc<RelayState>,
}

#[derive(Default)]
struct RelayState {
    is_over: AtomicBool,
    taken: AtomicUsize,
    streams: Mutex<Vec<TcpStream>>,
}

impl TcpRelay {
    pub fn start(listener: TcpListener, to: SocketAddr) -> TcpRelay {
        let state = Arc::new(RelayState::default());
        listener.set_nonblocking(true).unwrap();
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            while !shared.is_over.load(SeqCst) {
                let Ok((client, _)) = listener.accept() else {
                    std::thread::sleep(Duration::from_millis(5));
                    continue;
                };
                client.set_nonblocking(false).unwrap();
                let server = TcpStream::connect(to).unwrap();
                shared.taken.fetch_add(1, SeqCst);
                for (from, to) in [(&client, &server), (&server, &client)] {
                    shared.streams.lock().unwrap().push(from.try_clone().unwrap());
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    std::thread::spawn(move || pass(from, to));
                }
            }
        });
        TcpRelay { state }
    }

    /// How many connections it has passed on.
    pub fn taken(&self) -> usize {
        self.state.taken.load(SeqCst)
    }
}

impl Drop for TcpRelay {
    fn drop(&mut self) {
        self.state.is_over.store(true, SeqCst);
        for stream in self.state.streams.lock().unwrap().iter() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
