//! Lines for a program that may read slowly, or not at all: a thread writes them, and whoever tells them goes on.

use crate::exit::{Failure, INTERNAL};
use crate::output;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;
use tokio::sync::oneshot;

/// Lines on their way to standard output.
#[derive(Debug)]
pub(crate) struct OutputQueue {
    sender: mpsc::Sender<String>,
    waiting: Arc<AtomicUsize>,
}

/// Told when nothing more can be written, and why.
pub(crate) type Broken = oneshot::Receiver<Failure>;

impl OutputQueue {
    /// # Errors
    /// There is no thread to be had.
    pub(crate) fn start() -> Result<(OutputQueue, Broken), Failure> {
        let (sender, lines) = mpsc::channel::<String>();
        let (failed, broken) = oneshot::channel();
        let waiting = Arc::<AtomicUsize>::default();
        let unwritten = Arc::clone(&waiting);
        let write = move || {
            for line in lines {
                if let Err(failure) = output::print(&line) {
                    let _nobody_asks = failed.send(failure);
                    return;
                }
                unwritten.fetch_sub(1, Ordering::Relaxed);
            }
        };
        let thread = std::thread::Builder::new().name("lines".to_owned()).spawn(write);
        thread.map_err(Failure::no_thread)?;
        Ok((OutputQueue { sender, waiting }, broken))
    }

    pub(crate) fn tell(&self, line: String) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        // The thread is gone where nothing can be written, which is told by then.
        let _broken = self.sender.send(line);
    }

    /// Whether what was told before is not written yet.
    pub(crate) fn is_behind(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Waits until all is written, or can't be.
    ///
    /// # Errors
    /// It can't, or not within this time, as nobody reads it.
    pub(crate) async fn end(self, broken: Broken, within: Duration) -> Result<(), Failure> {
        drop(self.sender);
        match tokio::time::timeout(within, broken).await {
            Ok(Ok(failure)) => Err(failure),
            Ok(Err(_all_is_written)) => Ok(()),
            Err(_) => {
                Err(Failure::new(INTERNAL, "standard output was not read, so not all of it was written"))
            }
        }
    }
}
