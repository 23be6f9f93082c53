//! The files of one database: whether they are still those that were opened.
//!
//! What SQLite holds open stays usable for it when its name is removed or given to another file, as a restore does, though no other
//! process sees that any more. In WAL mode SQLite does not notice. A look costs some calls of stat(2).

use rusqlite::config::DbConfig;
use rusqlite::{Connection, Transaction};
use std::path::{Path, PathBuf};

/// Which file stands at a path.
type Identity = (u64, u64);

/// The files as they were opened.
#[derive(Debug)]
pub(crate) struct OpenedFiles {
    database: (PathBuf, Option<Identity>),
    /// The log and the shared memory, which are there from the first transaction in WAL mode on for as long as the connection is: without
    /// its leave nobody can change the mode back.
    beside: Option<[(PathBuf, Option<Identity>); 2]>,
}

impl OpenedFiles {
    /// The database at the path now: to be called before SQLite opens it. SQLite follows links, too, and names the others by their end.
    pub(crate) fn at(path: &Path) -> OpenedFiles {
        let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        OpenedFiles { database: found(real), beside: None }
    }

    /// What is wrong with them, if anything is: then what is done on this connection reaches nobody else.
    pub(crate) fn fault(&self) -> Option<String> {
        let mut opened = std::iter::once(&self.database).chain(self.beside.iter().flatten());
        let gone = opened.find(|(path, opened)| opened.is_none() || identity(path) != *opened);
        gone.map(|(path, _)| removed(path))
    }

    /// Notes the files beside the database, once the connection uses them.
    pub(crate) fn see(&mut self, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
        if self.beside.is_none() {
            let mode: String = transaction.query_row("PRAGMA journal_mode", [], |row| row.get(0))?;
            self.beside = (mode == "wal").then(|| ["-wal", "-shm"].map(|suffix| found(self.named(suffix))));
        }
        Ok(())
    }

    fn named(&self, suffix: &str) -> PathBuf {
        let mut path = self.database.0.clone().into_os_string();
        path.push(suffix);
        PathBuf::from(path)
    }

    /// Prepares a connection for its end. The last one that is closed moves the log into the database, and removes it by its name. That would
    /// damage what others have written there if the log is not the one that they share.
    pub(crate) fn leave(&self, connection: &Connection) {
        if self.fault().is_some() {
            // It fails for unknown names only, and this one is SQLite's own.
            let _ = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        }
    }
}

/// What to say of a file that is not the one that was opened.
pub(crate) fn removed(path: &Path) -> String {
    format!("{} was removed or replaced while it was in use; restart this process", path.display())
}

fn found(path: PathBuf) -> (PathBuf, Option<Identity>) {
    let identity = identity(&path);
    (path, identity)
}

#[cfg(unix)]
fn identity(path: &Path) -> Option<Identity> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

#[cfg(not(unix))]
fn identity(path: &Path) -> Option<Identity> {
    std::fs::metadata(path).ok().map(|_| (0, 0))
}
