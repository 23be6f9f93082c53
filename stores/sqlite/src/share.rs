//! Who may use the side file: whoever may use the database.
//!
//! A new file has the group of the process, and no more permissions than its umask leaves, most often none for groups to write. SQLite gives
//! its own files those of the database.

use crate::place::FileLocation;
use std::fs::{File, Metadata, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};

/// Gives the side file the group of the database, and the permissions that it lacks. A file of another user, or one that has another
/// name as well, is left alone. What is not allowed is left undone: who is kept out by that is told so.
pub(crate) fn share(place: &FileLocation, side: &File) {
    let (Ok(database), Ok(found)) = (std::fs::metadata(&place.path), side.metadata()) else { return };
    if found.uid() != rustix::process::geteuid().as_raw() || !is_itself(place, &found) {
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

/// Whether this file stands at the place of the side file, and nowhere else: a link there may lead to any file of this user.
fn is_itself(place: &FileLocation, found: &Metadata) -> bool {
    let at = std::fs::symlink_metadata(&place.side);
    let is_there = at.is_ok_and(|at| (at.dev(), at.ino()) == (found.dev(), found.ino()));
    is_there && found.is_file() && found.nlink() == 1
}
