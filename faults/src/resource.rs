//! What the leases protect: a resource outside every partition, which refuses fences lower than the highest that it has seen.

use crate::check::ResourceWrite;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Listens at a Unix socket: those are found by path, whatever network a process is in.
#[derive(Debug)]
pub(crate) struct ResourceServer {
    pub(crate) path: PathBuf,
    state: Arc<Mutex<ResourceState>>,
}

#[derive(Debug)]
struct ResourceState {
    checks: bool,
    highest: u64,
    asked: Vec<ResourceWrite>,
}

impl ResourceState {
    fn write(&mut self, fence: u64) -> bool {
        let accepted = !self.checks || fence >= self.highest;
        self.highest = self.highest.max(fence);
        self.asked.push(ResourceWrite { fence, accepted });
        accepted
    }
}

impl ResourceServer {
    /// One that checks fences, or one that takes whatever comes: to show what the checks are for.
    pub(crate) fn listen(path: &Path, checks: bool) -> Result<ResourceServer, String> {
        // One of an earlier cell is gone.
        let _ = std::fs::remove_file(path);
        let listener = UnixListener::bind(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let state = Arc::new(Mutex::new(ResourceState { checks, highest: 0, asked: Vec::new() }));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                std::thread::spawn(move || serve(stream, &state));
            }
        });
        Ok(ResourceServer { path: path.to_owned(), state })
    }

    /// All that it was asked for.
    pub(crate) fn asked(&self) -> Vec<ResourceWrite> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).asked.clone()
    }
}

/// Each line is a write with that fence; each answer says whether it was accepted.
fn serve(stream: UnixStream, state: &Mutex<ResourceState>) {
    let Ok(mut answers) = stream.try_clone() else { return };
    for line in BufReader::new(stream).lines() {
        let Some(fence) = line.ok().and_then(|line| line.parse().ok()) else { return };
        let accepted = state.lock().unwrap_or_else(PoisonError::into_inner).write(fence);
        if answers.write_all(if accepted { b"ok\n" } else { b"old\n" }).is_err() {
            return;
        }
    }
}
