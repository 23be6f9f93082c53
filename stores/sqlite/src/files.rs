//! The three files that are one database: whether they are still those that were opened.
//!
//! What SQLite holds open stays usable for it when its name is removed or given to another file, though nobody else sees
//! that any more. Each of them matters: the database, the log with what was committed last, and the shared memory with the
//! locks. A look costs three calls of stat(2), some microseconds beside a write's flush.

use crate::place::{FileLocation, beside};
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use tenure_core::StoreError;

/// Which file stands at a path.
pub(crate) type Identity = (u64, u64);

/// The files as they were opened.
#[derive(Debug)]
pub(crate) struct OpenedFiles {
    opened: [(PathBuf, Option<Identity>); 3],
    /// What is read as if nobody could change it: the size of the database, and when it was changed last.
    unchanged: Option<(u64, Option<SystemTime>)>,
}

impl OpenedFiles {
    /// Those at the place now: to be called when SQLite has just opened them. `before`: the database there before it did so. What was replaced in
    /// between is open under a name that is another's.
    pub(crate) fn opened(place: &FileLocation, before: Option<Identity>) -> Result<OpenedFiles, StoreError> {
        let paths = [place.path.clone(), beside(&place.path, "-wal"), beside(&place.path, "-shm")];
        let opened = paths.map(|path| (path.clone(), identity(&path)));
        let files = OpenedFiles { opened, unchanged: None };
        let is_replaced = before.is_some_and(|before| identity(&place.path) != Some(before));
        match files.opened.iter().find(|(_, identity)| identity.is_none()) {
            Some((path, _)) => Err(StoreError::unavailable(removed(path))),
            None if is_replaced => Err(StoreError::unavailable(removed(&place.path))),
            None => Ok(files),
        }
    }

    /// Of one that is only looked at, and has no log. `is_immutable`: SQLite reads it as one that nobody writes, and would not notice who does.
    pub(crate) fn without_log(
        place: &FileLocation,
        before: Option<Identity>,
        is_immutable: bool,
    ) -> OpenedFiles {
        let file = || (place.path.clone(), before);
        let unchanged = is_immutable.then(|| contents(&place.path)).flatten();
        OpenedFiles { opened: [file(), file(), file()], unchanged }
    }

    /// What is wrong with them now, if anything is: then what is done on this handle reaches nobody else.
    pub(crate) fn fault(&self) -> Option<String> {
        let gone = self.opened.iter().find(|(path, opened)| identity(path) != *opened);
        gone.map(|(path, _)| removed(path)).or_else(|| self.change())
    }

    /// What has changed of a database that is read as if nobody could change it.
    fn change(&self) -> Option<String> {
        let (unchanged, [(path, _), ..]) = (self.unchanged.as_ref()?, &self.opened);
        let is_logged = std::fs::metadata(beside(path, "-wal")).is_ok_and(|log| log.len() > 0);
        (is_logged || contents(path).as_ref() != Some(unchanged)).then(|| {
            format!(
                "{} has changed since it was opened to be looked at as it was; run this again",
                path.display()
            )
        })
    }

    /// Prepares a connection for its end. The last one that is closed moves the log into the database, which would damage
    /// what others have written there if the log is not the one that they share.
    pub(crate) fn leave(&self, connection: &Connection) {
        if self.fault().is_some() {
            // It fails for unknown names only, and this one is SQLite's own.
            let _ = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        }
    }
}

fn removed(path: &Path) -> String {
    format!("{} was removed or replaced while it was in use; restart this process", path.display())
}

fn contents(path: &Path) -> Option<(u64, Option<SystemTime>)> {
    std::fs::metadata(path).ok().map(|file| (file.len(), file.modified().ok()))
}

#[cfg(unix)]
pub(crate) fn identity(path: &Path) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

#[cfg(not(unix))]
pub(crate) fn identity(path: &Path) -> Option<Identity> {
    std::fs::metadata(path).ok().map(|_| (0, 0))
}
