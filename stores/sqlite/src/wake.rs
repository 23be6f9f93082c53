//! Wake-ups between processes: a byte written to the side file, seen by whoever watches it.

use std::fs::File;
use tenure_store::Changes;

/// Tells all watchers, in whatever process, to look again.
#[cfg(unix)]
pub(crate) fn touch(side: &File) {
    use std::os::unix::fs::FileExt;
    // A hint that fails to go out costs a waiter one poll, so there is nothing to report.
    let _ = side.write_at(b"~", 0);
}

#[cfg(not(unix))]
pub(crate) fn touch(_side: &File) {}

#[cfg(target_os = "linux")]
pub(crate) use linux::Watcher;
#[cfg(not(target_os = "linux"))]
pub(crate) use nowhere::Watcher;

#[cfg(target_os = "linux")]
mod linux {
    use super::Changes;
    use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
    use rustix::fs::inotify;
    use rustix::io::Errno;
    use std::mem::MaybeUninit;
    use std::os::fd::OwnedFd;
    use std::path::Path;
    use std::sync::{Arc, Mutex, PoisonError};
    use tenure_core::StoreError;
    use tenure_core::op::Hint;
    use tokio::sync::mpsc;

    type Subscribers = Arc<Mutex<Vec<mpsc::Sender<Hint>>>>;

    /// A thread that watches the side file for this handle.
    #[derive(Debug)]
    pub(crate) struct Watcher {
        subscribers: Subscribers,
        stop: Arc<OwnedFd>,
    }

    impl Watcher {
        pub(crate) const WORKS: bool = true;

        pub(crate) fn start(side: &Path) -> Result<Watcher, StoreError> {
            let failed = |error: Errno| {
                let remedy = match error {
                    Errno::MFILE => "; raise fs.inotify.max_user_instances",
                    Errno::NOSPC => "; raise fs.inotify.max_user_watches",
                    _ => "",
                };
                StoreError::unavailable(format!("{}: can't watch it ({error}){remedy}", side.display()))
            };
            let events = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)
                .map_err(failed)?;
            inotify::add_watch(&events, side, inotify::WatchFlags::MODIFY).map_err(failed)?;
            let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(failed)?);
            let subscribers = Subscribers::default();
            let (told, stopped) = (Arc::clone(&subscribers), Arc::clone(&stop));
            std::thread::Builder::new()
                .name("tenure-watch".into())
                .spawn(move || watch(&events, &stopped, &told))
                .map_err(|error| StoreError::unavailable(format!("can't start a thread ({error})")))?;
            Ok(Watcher { subscribers, stop })
        }

        pub(crate) fn subscribe(&self) -> Changes {
            // One place is enough: a hint that waits there says all that a second one could.
            let (sender, changes) = mpsc::channel(1);
            self.subscribers.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
            changes
        }
    }

    impl Drop for Watcher {
        fn drop(&mut self) {
            // Can't fail: the counter is far from its end, and the thread holds the other reference.
            let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
        }
    }

    fn watch(events: &OwnedFd, stop: &OwnedFd, subscribers: &Subscribers) {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(events, &mut buffer);
        loop {
            let mut fds = [PollFd::new(events, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
            match poll(&mut fds, None) {
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                // The subscribers' channels close, which tells them that no more hints come.
                Err(_) => return subscribers.lock().unwrap_or_else(PoisonError::into_inner).clear(),
            }
            if !fds[1].revents().is_empty() {
                return;
            }
            while reader.next().is_ok() {}
            let mut subscribers = subscribers.lock().unwrap_or_else(PoisonError::into_inner);
            subscribers.retain(|subscriber| {
                !matches!(subscriber.try_send(Hint::Any), Err(mpsc::error::TrySendError::Closed(_)))
            });
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod nowhere {
    use super::Changes;
    use std::path::Path;
    use tenure_core::StoreError;

    /// Nothing watches here.
    #[derive(Debug)]
    pub(crate) struct Watcher;

    impl Watcher {
        pub(crate) const WORKS: bool = false;

        pub(crate) fn start(_side: &Path) -> Result<Watcher, StoreError> {
            Err(StoreError::unsupported("wake-ups of the SQLite store need Linux"))
        }

        pub(crate) fn subscribe(&self) -> Changes {
            tokio::sync::mpsc::channel(1).1
        }
    }
}
