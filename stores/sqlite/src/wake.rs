//! Wake-ups between processes: what is written to the side file is seen by whoever watches it.

use tenure_store::Changes;

#[cfg(unix)]
pub(crate) use crate::news::tell;

#[cfg(not(unix))]
pub(crate) fn tell(_side: &std::fs::File, _hints: &[tenure_core::op::Hint], _is_turn: bool) {}

#[cfg(target_os = "linux")]
pub(crate) use linux::Watcher;
#[cfg(not(target_os = "linux"))]
pub(crate) use nowhere::Watcher;

#[cfg(target_os = "linux")]
mod linux {
    use super::Changes;
    use crate::news::SideReader;
    use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
    use rustix::fs::inotify::{self, ReadFlags, WatchFlags};
    use rustix::io::Errno;
    use std::collections::BTreeMap;
    use std::fs::File;
    use std::mem::MaybeUninit;
    use std::os::fd::OwnedFd;
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;
    use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
    use tenure_core::StoreError;
    use tenure_store::parts::Subscribers;

    /// Who wants hints; none once nothing is watched any more.
    type Told = Mutex<Option<Subscribers>>;

    /// A device and an inode.
    type Identity = (u64, u64);

    /// The watchers of this process, by what they watch.
    static RUNNING: Mutex<BTreeMap<Identity, Weak<Watcher>>> = Mutex::new(BTreeMap::new());

    /// A thread that watches a side file for all handles of this process on it: the system lets a user have 128 instances of
    /// inotify.
    #[derive(Debug)]
    pub(crate) struct Watcher {
        subscribers: Arc<Told>,
        stop: Arc<OwnedFd>,
        /// Where its thread is. A forked child has a copy of this, and no such thread.
        process: u32,
    }

    fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        // No code that can panic runs under these locks, so what they guard is whole.
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    impl Watcher {
        pub(crate) const WORKS: bool = true;

        /// The one that watches this file. It ends with the last handle that has it.
        pub(crate) fn of(path: &Path, side: &File) -> Result<Arc<Watcher>, StoreError> {
            let found = side.metadata().map_err(|error| {
                StoreError::unavailable(format!("{}: can't watch it ({error})", path.display()))
            })?;
            let file = (found.dev(), found.ino());
            let mut running = locked(&RUNNING);
            let shared = running.get(&file).and_then(Weak::upgrade).filter(|shared| shared.is_here());
            if let Some(shared) = shared.filter(|shared| locked(&shared.subscribers).is_some()) {
                return Ok(shared);
            }
            let watcher = Arc::new(Watcher::start(path, side, file)?);
            running.retain(|_, other| other.strong_count() > 0);
            running.insert(file, Arc::downgrade(&watcher));
            Ok(watcher)
        }

        fn start(path: &Path, side: &File, file: Identity) -> Result<Watcher, StoreError> {
            let failed = |error: Errno| {
                let remedy = match error {
                    Errno::MFILE => "; raise fs.inotify.max_user_instances",
                    Errno::NOSPC => "; raise fs.inotify.max_user_watches",
                    _ => "",
                };
                StoreError::unavailable(format!("{}: can't watch it ({error}){remedy}", path.display()))
            };
            let events = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)
                .map_err(failed)?;
            // Whoever has a removed file open is told of its lost name only.
            let wanted = WatchFlags::MODIFY
                | WatchFlags::ATTRIB
                | WatchFlags::MOVE_SELF
                | WatchFlags::DELETE_SELF
                | WatchFlags::DONT_FOLLOW;
            inotify::add_watch(&events, path, wanted).map_err(failed)?;
            if identity(path) != Some(file) {
                let text = format!("{} was removed or replaced just now", path.display());
                return Err(StoreError::unavailable(text));
            }
            let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(failed)?);
            let side = side.try_clone().map_err(|error| {
                StoreError::unavailable(format!("{}: can't read it ({error})", path.display()))
            })?;
            // What is told from now on is seen.
            let news = SideReader::of(&side);
            let subscribers = Arc::new(Mutex::new(Some(Subscribers::default())));
            let (told, stopped, path) = (Arc::clone(&subscribers), Arc::clone(&stop), path.to_owned());
            std::thread::Builder::new()
                .name("tenure-watch".into())
                .spawn(move || {
                    watch(&events, &stopped, (&side, news), &told, || identity(&path) == Some(file));
                })
                .map_err(|error| StoreError::unavailable(format!("can't start a thread ({error})")))?;
            Ok(Watcher { subscribers, stop, process: std::process::id() })
        }

        fn is_here(&self) -> bool {
            self.process == std::process::id()
        }

        /// Hints of keys that begin with `prefix`.
        pub(crate) fn subscribe(&self, prefix: &str) -> Changes {
            match &*locked(&self.subscribers) {
                Some(subscribers) => subscribers.subscribe(prefix),
                // They have ended already.
                None => Subscribers::default().subscribe(prefix),
            }
        }
    }

    impl Drop for Watcher {
        fn drop(&mut self) {
            // A forked child shares the counter, and the thread is its parent's.
            if self.is_here() {
                // Can't fail: the counter is far from its end, and the thread holds the other reference.
                let _ = rustix::io::write(&self.stop, &1u64.to_ne_bytes());
            }
        }
    }

    fn identity(path: &Path) -> Option<Identity> {
        std::fs::symlink_metadata(path).ok().map(|found| (found.dev(), found.ino()))
    }

    /// Tells of what happens to a file for as long as it has its name: others write to what has it then.
    fn watch(
        events: &OwnedFd,
        stop: &OwnedFd,
        (side, mut news): (&File, SideReader),
        subscribers: &Told,
        has_name: impl Fn() -> bool,
    ) {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(events, &mut buffer);
        loop {
            let mut fds = [PollFd::new(events, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
            match poll(&mut fds, None) {
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                // The subscribers' channels close, which tells them that no more hints come.
                Err(_) => return *locked(subscribers) = None,
            }
            if !fds[1].revents().is_empty() {
                return;
            }
            let (mut is_gone, mut is_doubtful) = (false, false);
            while let Ok(event) = reader.next() {
                // The file is no more, and its number may be another's.
                is_gone |= event.events().contains(ReadFlags::IGNORED);
                is_doubtful |= !event.events().contains(ReadFlags::MODIFY);
            }
            if is_gone || is_doubtful && !has_name() {
                return *locked(subscribers) = None;
            }
            if let Some(subscribers) = &*locked(subscribers) {
                news.hints(side).iter().for_each(|hint| subscribers.tell(hint));
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod nowhere {
    use super::Changes;
    use std::path::Path;
    use std::sync::Arc;
    use tenure_core::StoreError;

    /// Nothing watches here.
    #[derive(Debug)]
    pub(crate) struct Watcher;

    impl Watcher {
        pub(crate) const WORKS: bool = false;

        pub(crate) fn of(_path: &Path, _side: &std::fs::File) -> Result<Arc<Watcher>, StoreError> {
            Err(StoreError::unsupported("wake-ups of the SQLite store need Linux"))
        }

        pub(crate) fn subscribe(&self, _prefix: &str) -> Changes {
            tokio::sync::mpsc::channel(1).1
        }
    }
}
