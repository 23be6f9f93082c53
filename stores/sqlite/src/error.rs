//! What SQLite's errors mean to the caller.

use rusqlite::{Error, ErrorCode};
use std::path::Path;
use tenure_core::StoreError;

/// The error of a call of which it is certain that it wrote nothing.
pub(crate) fn undone(path: &Path, error: Error) -> StoreError {
    meaning(path, &error).because(error)
}

fn meaning(path: &Path, error: &Error) -> StoreError {
    let at = path.display();
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::unavailable(format!(
            "{at}: the disk is full (or a quota used up): nothing was written; free some space"
        )),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::unavailable(format!(
            "{at}: busy: another process has been in a write transaction for too long; is it stopped? (`fuser {at}` names \
             those that use the file)"
        )),
        Some(ErrorCode::NotADatabase) => {
            StoreError::foreign(format!("{at} is not an SQLite database; name another file"))
        }
        Some(ErrorCode::DatabaseCorrupt) => StoreError::foreign(format!(
            "{at} is damaged ({error}): nothing was written; put it aside with its -wal and -shm, and begin with a new file once \
             every lease has expired"
        )),
        Some(ErrorCode::ReadOnly) => {
            StoreError::unavailable(format!("{at} has become read-only ({error}): nothing was written"))
        }
        Some(ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => StoreError::unavailable(format!(
            "{at}: can't open it or the files beside it ({error}): check the permissions of the directory"
        )),
        Some(ErrorCode::SystemIoFailure) => {
            let full = if is_full(path) { "the disk is full; free some space: " } else { "" };
            StoreError::unavailable(format!("{at}: {full}I/O failed ({error}); nothing was written"))
        }
        // Out of memory, interrupted, or stepped on by a changed schema: all of them pass.
        Some(
            ErrorCode::OutOfMemory
            | ErrorCode::OperationInterrupted
            | ErrorCode::OperationAborted
            | ErrorCode::SchemaChanged
            | ErrorCode::FileLockingProtocolFailed,
        ) => StoreError::unavailable(format!("{at}: {error}; nothing was written")),
        // Whatever is left says that the tables are not what this program made: triggers, constraints, lost columns.
        _ => StoreError::foreign(format!("{at}: its tables are not as tenure made them ({error})")),
    }
}

/// The error of a COMMIT that failed.
pub(crate) fn at_commit(path: &Path, error: Error) -> StoreError {
    match error.sqlite_error_code() {
        // The frames may be in the log all the same, and a recovery after a crash would find them.
        Some(ErrorCode::SystemIoFailure | ErrorCode::OutOfMemory) => StoreError::unknown(format!(
            "{}: I/O failed while committing ({error}); it may or may not have taken effect",
            path.display()
        ))
        .because(error),
        // For want of space the frame that commits was not written in full, and without it nothing counts.
        _ => undone(path, error),
    }
}

/// The least bytes of the index of a log.
pub(crate) const INDEX: u64 = 32 << 10;

/// Whether the disk of this file has no room for the index of a log (32 KiB), which whoever opens the file first makes.
#[cfg(unix)]
#[must_use]
pub fn is_full(path: &Path) -> bool {
    rustix::fs::statvfs(path).is_ok_and(|fs| fs.f_bavail.saturating_mul(fs.f_frsize) < INDEX)
}

/// Whether the disk of this file is full; that is not known here.
#[cfg(not(unix))]
#[must_use]
pub fn is_full(_path: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::ffi;
    use tenure_core::ErrorKind;

    #[test]
    fn only_what_is_certain_is_called_undone() {
        let path = Path::new("/x/leases.db");
        let error = |code| Error::SqliteFailure(ffi::Error::new(code), None);
        let kinds = |code| (undone(path, error(code)).kind(), at_commit(path, error(code)).kind());
        assert_eq!(kinds(ffi::SQLITE_IOERR_FSYNC), (ErrorKind::Unavailable, ErrorKind::Unknown));
        assert_eq!(kinds(ffi::SQLITE_FULL), (ErrorKind::Unavailable, ErrorKind::Unavailable));
        assert_eq!(kinds(ffi::SQLITE_BUSY), (ErrorKind::Unavailable, ErrorKind::Unavailable));
        assert_eq!(kinds(ffi::SQLITE_CORRUPT), (ErrorKind::Foreign, ErrorKind::Foreign));
        assert_eq!(kinds(ffi::SQLITE_CONSTRAINT_TRIGGER), (ErrorKind::Foreign, ErrorKind::Foreign));
        for code in
            [ffi::SQLITE_FULL, ffi::SQLITE_IOERR, ffi::SQLITE_BUSY, ffi::SQLITE_NOTADB, ffi::SQLITE_READONLY]
        {
            let undone = undone(path, error(code));
            assert!(undone.to_string().contains("/x/leases.db"));
            for kept in [undone, at_commit(path, error(code))] {
                let source =
                    std::error::Error::source(&kept).and_then(|source| source.downcast_ref::<Error>());
                assert_eq!(source.and_then(Error::sqlite_error).map(|error| error.extended_code), Some(code));
            }
        }
    }
}
