//! The file of a store: whether it is still the one that was opened. What is held open of one that was removed, or whose name another file
//! has, is seen by nobody else, and no call on it succeeds any more.

use crate::exit::{Failure, UNAVAILABLE};
use crate::text::escaped;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tenure::clock::boottime;

/// A file as it was when the store was opened; none of a store that is no file.
#[derive(Debug, Default)]
pub(crate) struct FileWatch(Option<(PathBuf, (u64, u64))>);

impl FileWatch {
    /// Of a store that was just opened.
    pub(super) fn of(path: Option<&Path>) -> FileWatch {
        FileWatch(path.and_then(|path| Some((std::path::absolute(path).ok()?, identity(path)?))))
    }

    /// Whether its name leads to another file now, or to none.
    pub(crate) fn is_gone(&self) -> bool {
        self.0.as_ref().is_some_and(|(path, opened)| identity(path).as_ref() != Some(opened))
    }

    /// What comes of `work`, unless the file has been gone for so long before.
    pub(crate) async fn unless_gone<T>(
        &self,
        span: Duration,
        work: impl Future<Output = T>,
    ) -> Result<T, Failure> {
        tokio::select! {
            biased;
            done = work => Ok(done),
            failure = self.gone(span) => Err(failure),
        }
    }

    /// Waits until it has been gone for so long: it may be put back. For ever where it is not. Cancel safe.
    pub(crate) async fn gone(&self, span: Duration) -> Failure {
        const OFTEN: Duration = Duration::from_millis(50);
        const SELDOM: Duration = Duration::from_secs(1);
        let Some((path, _)) = &self.0 else { return std::future::pending().await };
        let mut since = None;
        loop {
            since = self.is_gone().then(|| since.unwrap_or_else(boottime));
            if since.is_some_and(|since| boottime().saturating_sub(since) >= span) {
                let shown = escaped(&path.to_string_lossy());
                let text = format!("{shown} was removed or replaced while it was in use: to be started anew");
                return Failure::new(UNAVAILABLE, text);
            }
            tokio::time::sleep((span / 8).clamp(OFTEN, SELDOM)).await;
        }
    }
}

/// What a store has beside its file: `-wal`, `-shm` or `-lock`.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut beside = path.as_os_str().to_owned();
    beside.push(suffix);
    beside.into()
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}
