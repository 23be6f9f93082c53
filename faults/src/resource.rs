//! What the leases protect: a resource outside every partition, which refuses fences lower than the highest that it has seen.

use crate::check::Asked;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Listens at a Unix socket: those are found by path, whatever network a process is in.
#[derive(Debug)]
pub(crate) struct Resource {
    pub(crate) path: PathBuf,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    checks: bool,
    highest: u64,
    asked: Vec<Asked>,
}

impl State {
    fn write(&mut self, fence: u64) -> bool {
        let accepted = !self.checks || fence >= self.highest;
        self.highest = self.highest.max(fence);
        self.asked.push(Asked { fence, accepted });
        accepted
    }
}

impl Resource {
    /// One that checks fences, or one that takes whatever comes: to show what the checks are for.
    pub(crate) fn listen(path: &Path, checks: bool) -> Result<Resource, String> {
        // One of an earlier cell is gone.
        let _ = std::fs::remove_file(path);
        let listener = UnixListener::bind(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let state = Arc::new(Mutex::new(State { checks, highest: 0, asked: Vec::new() }));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                std::thread::spawn(move || serve(stream, &state));
            }
        });
        Ok(Resource { path: path.to_owned(), state })
    }

    /// All that it was asked for.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).asked.clone()
    }
}

/// Each line is a write with that fence; each answer says whether it was accepted.
fn serve(stream: UnixStream, state: &Mutex<State>) {
    let Ok(mut answers) = stream.try_clone() else { return };
    for line in BufReader::new(stream).lines() {
        let Some(fence) = line.ok().and_then(|line| line.parse().ok()) else { return };
        let accepted = state.lock().unwrap_or_else(PoisonError::into_inner).write(fence);
        if answers.write_all(if accepted { b"ok\n" } else { b"old\n" }).is_err() {
            return;
        }
    }
}
