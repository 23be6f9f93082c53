//! A relay between a client and its agent, as a network between two hosts is one: it delays answers, and can be cut.

use super::Random;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Nobody who comes by it is the agent's peer: that is the process of the tests.
pub struct Relay {
    pub socket: PathBuf,
    way: Arc<Way>,
}

struct Way {
    agent: PathBuf,
    /// The longest delay of a part of an answer, in milliseconds.
    slowest: u64,
    seed: u64,
    is_cut: AtomicBool,
    is_over: AtomicBool,
}

impl Relay {
    pub fn start(socket: PathBuf, agent: &Path, slowest: u64, random: &mut Random) -> Relay {
        let listener = UnixListener::bind(&socket).unwrap();
        let way = Arc::new(Way {
            agent: agent.to_owned(),
            slowest,
            seed: random.below(u64::MAX),
            is_cut: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        });
        let served = Arc::clone(&way);
        std::thread::spawn(move || {
            for (n, client) in listener.incoming().enumerate() {
                if served.is_over.load(Ordering::Relaxed) {
                    return;
                }
                served.pass(client.unwrap(), n as u64);
            }
        });
        Relay { socket, way }
    }

    /// Nothing gets through any more, and nothing is lost.
    pub fn cut(&self) {
        self.way.is_cut.store(true, Ordering::Relaxed);
    }

    /// What was held up goes on.
    pub fn mend(&self) {
        self.way.is_cut.store(false, Ordering::Relaxed);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.way.is_over.store(true, Ordering::Relaxed);
        // Whoever waits for the next client sees that.
        let _ = UnixStream::connect(&self.socket);
    }
}

impl Way {
    fn pass(self: &Arc<Way>, client: UnixStream, n: u64) {
        // Without an agent, the connection is closed.
        let Ok(agent) = UnixStream::connect(&self.agent) else { return };
        let (from_client, from_agent) = (client.try_clone().unwrap(), agent.try_clone().unwrap());
        let (asking, answering) = (Arc::clone(self), Arc::clone(self));
        std::thread::spawn(move || asking.copy(from_client, agent, 0, Random(n)));
        let seed = self.seed.wrapping_add(n);
        std::thread::spawn(move || answering.copy(from_agent, client, answering.slowest, Random(seed)));
    }

    fn copy(&self, mut from: UnixStream, mut to: UnixStream, slowest: u64, mut random: Random) {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            if slowest > 0 {
                std::thread::sleep(Duration::from_millis(random.below(slowest)));
            }
            while self.is_cut.load(Ordering::Relaxed) && !self.is_over.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
            if to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        // The other side may be gone already.
        let _ = to.shutdown(Shutdown::Write);
        let _ = from.shutdown(Shutdown::Read);
    }
}
