//! Threads that wait for commands: one each, kept for the next command for a while. To make one and to take it down costs as much
//! as a tenth of a very short command.

use std::io;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

type Task = Box<dyn FnOnce() + Send>;

/// Threads that have nothing to do at the moment.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    idle: Mutex<Vec<IdleThread>>,
}

#[derive(Debug)]
struct IdleThread {
    /// No two have the same.
    number: std::thread::ThreadId,
    task: SyncSender<Task>,
}

impl Threads {
    /// Does `task` in a thread of its own, for as long as it takes.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub(crate) fn run(self: &Arc<Threads>, task: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let mut task: Task = Box::new(task);
        while let Some(thread) = self.idle().pop() {
            match thread.task.send(task) {
                Ok(()) => return Ok(()),
                Err(unsent) => task = unsent.0,
            }
        }
        let threads = Arc::clone(self);
        let builder = std::thread::Builder::new().name("command".to_owned()).stack_size(256 << 10);
        builder.spawn(move || threads.serve(task)).map(drop)
    }

    fn serve(&self, first: Task) {
        const KEPT: Duration = Duration::from_secs(1);
        let number = std::thread::current().id();
        let (sender, tasks) = sync_channel(1);
        first();
        loop {
            self.idle().push(IdleThread { number, task: sender.clone() });
            let task = match tasks.recv_timeout(KEPT) {
                Ok(task) => Ok(task),
                Err(RecvTimeoutError::Timeout) if self.retire(number) => return,
                // Somebody has just chosen this thread.
                Err(_) => tasks.recv(),
            };
            let Ok(task) = task else { return };
            task();
        }
    }

    /// False if somebody has chosen this thread meanwhile.
    fn retire(&self, number: std::thread::ThreadId) -> bool {
        let mut idle = self.idle();
        let before = idle.len();
        idle.retain(|thread| thread.number != number);
        idle.len() < before
    }

    fn idle(&self) -> MutexGuard<'_, Vec<IdleThread>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_thread_is_used_again_and_as_many_run_as_there_are_tasks() {
        let threads = Arc::<Threads>::default();
        let (told, heard) = channel();
        let task = |told: std::sync::mpsc::Sender<_>| move || told.send(std::thread::current().id()).unwrap();
        threads.run(task(told.clone())).unwrap();
        let first = heard.recv().unwrap();
        while threads.idle().is_empty() {
            std::thread::yield_now();
        }
        threads.run(task(told.clone())).unwrap();
        assert_eq!(heard.recv().unwrap(), first);
        // Each of these waits for the other.
        let barrier = Arc::new(std::sync::Barrier::new(2));
        for _ in 0..2 {
            let (barrier, told) = (Arc::clone(&barrier), told.clone());
            let task = move || {
                barrier.wait();
                told.send(std::thread::current().id()).unwrap();
            };
            threads.run(task).unwrap();
        }
        assert_ne!(heard.recv().unwrap(), heard.recv().unwrap());
    }
}
