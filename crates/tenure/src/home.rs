//! Where background work runs: on a thread of tenure's own, so that no work of the user's delays a renewal.
//!
//! One thread serves all leases, workers and sections of a process, and the connections of the stores that
//! [`open`](crate::open) opens. It starts with the first of them and ends with the last.

mod store;

#[cfg(any(feature = "dynamodb", feature = "etcd", feature = "postgres", feature = "redis"))]
pub(crate) use store::Homed;
pub(crate) use store::lives_elsewhere;

use crate::process::Process;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError, Weak, mpsc};
use std::thread::ThreadId;
use std::time::Duration;
use tenure_core::InvalidInput;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::oneshot;
use tracing::Dispatch;
use tracing::instrument::WithSubscriber as _;
use tracing::subscriber::NoSubscriber;

/// Where a driver runs.
#[derive(Debug, Clone, Default)]
pub(crate) enum Home {
    /// On tenure's own thread.
    #[default]
    Own,
    /// On the runtime of whoever starts it.
    Here,
    /// On this runtime.
    On(Handle),
}

impl Home {
    /// As the settings say. Who brings a clock for tests has a runtime whose timers go by it.
    pub(crate) fn of(runtime: Option<Handle>, has_own_clock: bool) -> Home {
        match runtime {
            Some(runtime) => Home::On(runtime),
            None if has_own_clock => Home::Here,
            None => Home::Own,
        }
    }

    /// Runs `driver` there. Its events go where the caller's go.
    pub(crate) fn run(
        self,
        driver: impl Future<Output = ()> + Send + 'static,
    ) -> Result<Driving, InvalidInput> {
        let thread = matches!(self, Home::Own).then(Thread::shared).transpose().map_err(|error| {
            InvalidInput::new(format!(
                "the thread that renews leases can't be started ({error}); allow this process one more, or name a runtime"
            ))
        })?;
        let runtime = match (&thread, self) {
            (Some(thread), _) => thread.runtime.clone(),
            (None, Home::On(runtime)) => runtime,
            (None, _) => Handle::try_current().map_err(|_| {
                InvalidInput::new("there is no tokio runtime here; call this within one, or name one")
            })?,
        };
        check_timers(&runtime)?;
        // A subscriber for all threads may come later.
        let own = tracing::dispatcher::get_default(|to| (!to.is::<NoSubscriber>()).then(|| to.clone()));
        let (ends, ended) = mpsc::channel();
        let held = thread.clone();
        let driver = async move {
            let _ends: (mpsc::Sender<()>, Option<Arc<Thread>>) = (ends, held);
            driver.await;
        };
        let driving =
            Driving { thread, runtime, subscriber: own, ended: Mutex::new(ended), process: Process::this() };
        driving.spawn(driver);
        Ok(driving)
    }
}

/// What runs in the background of a runtime without timers would panic at its first wait.
pub(crate) fn check_timers(runtime: &Handle) -> Result<(), InvalidInput> {
    let _there = runtime.enter();
    // Tokio tells in no other way.
    let timer = catch_unwind(AssertUnwindSafe(|| drop(tokio::time::sleep(Duration::ZERO))));
    timer.map_err(|_| {
        InvalidInput::new("the tokio runtime has no timers, which all that waits needs; build it with enable_time or enable_all")
    })
}

/// A driver that was begun.
#[derive(Debug)]
pub(crate) struct Driving {
    thread: Option<Arc<Thread>>,
    runtime: Handle,
    /// Whose events go where those of all threads do has none.
    subscriber: Option<Dispatch>,
    /// Closed when the driver has ended, by a panic or otherwise.
    ended: Mutex<mpsc::Receiver<()>>,
    process: Process,
}

impl Driving {
    /// Whether it is of this process: a forked child has no threads of its parent's.
    pub(crate) fn is_ours(&self) -> bool {
        self.process.is_this()
    }

    /// Does something beside the driver. A forked child drops it: nobody would ever do it, and whoever waits for it is to know.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        if self.process.is_forked() {
            return;
        }
        match &self.subscriber {
            Some(own) => drop(self.runtime.spawn(work.with_subscriber(own.clone()))),
            None => drop(self.runtime.spawn(work)),
        }
    }

    /// Blocks until it has ended, for so long at the most. False: it goes on. Where this thread is the one that has to work for that, it
    /// does not wait: `is_elsewhere` says that the store's connections are on none of the user's.
    pub(crate) fn outlast(&self, patience: Duration, is_elsewhere: bool) -> bool {
        let Some(thread) = self.thread.as_ref().filter(|_| self.is_ours()) else { return false };
        let works_here = !is_elsewhere && Handle::try_current().is_ok_and(|here| is_alone(&here));
        let patience = if works_here || thread.is_current() { Duration::ZERO } else { patience };
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        // Nothing is ever sent.
        matches!(ended.recv_timeout(patience), Err(mpsc::RecvTimeoutError::Disconnected))
    }
}

/// Whether nothing else of this runtime goes on while this thread waits. A task may be on the only worker; what `block_on` runs is on none.
fn is_alone(here: &Handle) -> bool {
    match here.runtime_flavor() {
        RuntimeFlavor::CurrentThread => true,
        _ => here.metrics().num_workers() == 1 && tokio::task::try_id().is_some(),
    }
}

/// Tenure's own thread, with a runtime of its own. It ends when nobody has this value any more.
#[derive(Debug)]
pub(crate) struct Thread {
    runtime: Handle,
    id: ThreadId,
    process: Process,
    _lives: oneshot::Sender<()>,
}

static SHARED: Mutex<Weak<Thread>> = Mutex::new(Weak::new());

impl Thread {
    /// That of this process.
    pub(crate) fn shared() -> io::Result<Arc<Thread>> {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        // What a forked child finds here is its parent's.
        if let Some(thread) = shared.upgrade().filter(|thread| thread.process.is_this()) {
            return Ok(thread);
        }
        let thread = Arc::new(Thread::start()?);
        *shared = Arc::downgrade(&thread);
        Ok(thread)
    }

    fn start() -> io::Result<Thread> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (lives, ends) = oneshot::channel::<()>();
        let work = move || {
            // An error, which is all that ever comes, means that nobody needs it any more.
            let _ = runtime.block_on(ends);
        };
        let thread = std::thread::Builder::new().name("tenure".to_owned()).spawn(work)?;
        let (id, process) = (thread.thread().id(), Process::this());
        Ok(Thread { runtime: handle, id, process, _lives: lives })
    }

    pub(crate) fn runtime(&self) -> &Handle {
        &self.runtime
    }

    fn is_current(&self) -> bool {
        self.id == std::thread::current().id()
    }
}

#[cfg(test)]
mod tests {
    //! Plan: the thread is shared, and ends with its last user; a driver that panics has ended, and the thread goes on; whoever waits for a
    //! driver does not wait on the thread itself, nor in the runtime that has to do the work; a child has none of it.
    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    fn own(driver: impl Future<Output = ()> + Send + 'static) -> Driving {
        Home::Own.run(driver).unwrap()
    }

    #[test]
    fn one_thread_serves_all_and_a_panic_ends_one_driver_only() {
        let (go, gone) = oneshot::channel::<()>();
        let waits = own(async { drop(gone.await) });
        let panics = own(async { panic!("a driver's mistake") });
        assert!(panics.outlast(LONG, true));
        let thread = waits.thread.clone().unwrap();
        assert!(Arc::ptr_eq(&thread, &Thread::shared().unwrap()));
        assert!(!waits.outlast(Duration::from_millis(1), true), "it waits still");
        drop(go);
        assert!(waits.outlast(LONG, true));
        assert_ne!(thread.id, std::thread::current().id());
    }

    #[test]
    fn a_thread_ends_with_its_last_user() {
        let thread = Thread::start().unwrap();
        let (task, ended) = mpsc::channel::<()>();
        thread.runtime.spawn(async move {
            let _task = task;
            std::future::pending::<()>().await;
        });
        drop(thread);
        // What it had to do is dropped with it.
        assert_eq!(ended.recv_timeout(LONG), Err(mpsc::RecvTimeoutError::Disconnected));
    }

    #[test]
    fn nobody_waits_for_what_he_keeps_from_ending() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (_go, gone) = oneshot::channel::<()>();
        let driving = own(async { drop(gone.await) });
        // Each would take a year.
        let year = Duration::from_secs(365 * 24 * 60 * 60);
        runtime.block_on(async { assert!(!driving.outlast(year, false)) });
        let one_worker = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
        let on_it = one_worker.spawn(async move { (driving.outlast(year, false), driving) });
        let (has_ended, driving) = one_worker.block_on(on_it).unwrap();
        assert!(!has_ended);
        let (go, gone) = oneshot::channel::<()>();
        let beside_it = own(async { drop(gone.await) });
        let has_ended = one_worker.block_on(async {
            drop(go);
            beside_it.outlast(LONG, false)
        });
        assert!(has_ended, "the worker goes on meanwhile");
        let thread = driving.thread.clone().unwrap();
        let (told, tells) = mpsc::channel();
        thread.runtime.spawn(async move { told.send(driving.outlast(year, true)) });
        assert_eq!(tells.recv_timeout(LONG), Ok(false));
    }

    #[test]
    fn a_child_has_no_threads_of_its_parents() {
        let mut driving = own(async {});
        assert!(driving.is_ours());
        // As it is in one.
        driving.process = Process::parent();
        assert!(!driving.is_ours() && !driving.outlast(LONG, true));
        let (asked, answer) = mpsc::channel::<()>();
        driving.spawn(async move { drop(asked) });
        assert!(answer.recv_timeout(LONG).is_err(), "it is dropped");
    }

    #[test]
    fn without_any_runtime_the_thread_serves_and_a_clock_of_ones_own_needs_one() {
        assert!(Home::of(None, false).run(async {}).is_ok());
        let error = Home::of(None, true).run(async {}).unwrap_err();
        assert!(error.to_string().contains("no tokio runtime"), "{error}");
    }
}
