//! The side file: its lock is the queue of those who write, and what is written to it wakes those who wait ([`crate::news`]).
//!
//! Whoever may use the database may use it. A new file has the group of the process, and no more permissions than its umask leaves, most often
//! none for groups to write. SQLite gives its own files those of the database.
//!
//! It is written to, and its name may be in a directory that others write to as well. So it must be a file of its own: a link there may lead to
//! any file of this user.

use crate::place::{FileLocation, io_error};
use std::fs::File;
use tenure_core::StoreError;

/// Opens the file, and makes it if need be.
pub(crate) fn open(place: &FileLocation) -> Result<File, StoreError> {
    let mut options = File::options();
    options.create(true).truncate(false).read(true).write(true);
    #[cfg(unix)]
    unix::prepare(place, &mut options);
    let side = options.open(&place.side).map_err(|error| {
        if place.side.is_symlink() { stranger(place, "a link") } else { io_error(&place.side, &error) }
    })?;
    #[cfg(unix)]
    unix::check(place, &side)?;
    Ok(side)
}

/// Whether the file is what others find by its name.
pub(crate) fn stands(place: &FileLocation, side: &File) -> bool {
    #[cfg(unix)]
    return unix::stands(place, side);
    #[cfg(not(unix))]
    return place.side.exists() || side.metadata().is_err();
}

fn stranger(place: &FileLocation, what: &str) -> StoreError {
    StoreError::invalid(format!(
        "{} is {what}, and tenure writes only to a file of its own there; remove it once nobody uses the database, and a new one is made",
        place.side.display()
    ))
}

#[cfg(unix)]
mod unix {
    use super::{FileLocation, StoreError, io_error, stranger};
    use rustix::fs::OFlags;
    use std::fs::{File, Metadata, OpenOptions, Permissions};
    use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};

    pub(super) fn prepare(place: &FileLocation, options: &mut OpenOptions) {
        // A pipe is not waited for.
        options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed());
        if let Ok(database) = std::fs::metadata(&place.path) {
            options.mode(database.mode() & 0o666);
        }
    }

    /// Refuses what is not a file by itself, and shares what is.
    pub(super) fn check(place: &FileLocation, side: &File) -> Result<(), StoreError> {
        let found = side.metadata().map_err(|error| io_error(&place.side, &error))?;
        if !found.is_file() {
            return Err(stranger(place, "not a regular file"));
        }
        // None: removed since, which whoever writes sees.
        if found.nlink() > 1 {
            return Err(stranger(place, "a file with several hard links"));
        }
        share(place, side, &found);
        Ok(())
    }

    /// Gives the file the group of the database, and the permissions that it lacks. That of another user is left alone. What is not allowed
    /// is left undone: who is kept out by that is told so.
    fn share(place: &FileLocation, side: &File, found: &Metadata) {
        let Ok(database) = std::fs::metadata(&place.path) else { return };
        if found.uid() != rustix::process::geteuid().as_raw() {
            return;
        }
        let (user, group) = (database.uid(), database.gid());
        if (found.uid(), found.gid()) != (user, group) {
            // Only root may give a file away.
            let _ = fchown(side, Some(user), Some(group)).or_else(|_| fchown(side, None, Some(group)));
        }
        let mode = found.mode() & 0o777;
        let wanted = mode | (database.mode() & 0o666);
        if wanted != mode {
            let _ = side.set_permissions(Permissions::from_mode(wanted));
        }
    }

    pub(super) fn stands(place: &FileLocation, side: &File) -> bool {
        let at = std::fs::symlink_metadata(&place.side);
        let (Ok(at), Ok(found)) = (at, side.metadata()) else { return false };
        (at.dev(), at.ino()) == (found.dev(), found.ino())
    }
}
