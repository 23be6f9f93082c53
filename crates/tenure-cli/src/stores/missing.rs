//! Before the file of a store is opened: whether there is one, and where it is to be made.

use super::file::beside;
use crate::exit::{Failure, UNAVAILABLE};
use crate::text::escaped;
use std::path::Path;

/// Fails unless there is a file that this process can read. Where nobody has named it, `is_default`, nothing may have been done with it yet.
pub(super) fn look_for(path: &Path, is_default: bool) -> Result<(), Failure> {
    use nix::unistd::{AccessFlags, access};
    let shown = escaped(&path.to_string_lossy());
    let text = match path.try_exists() {
        Ok(true) if path.is_file() => match access(path, AccessFlags::R_OK) {
            // Whoever looks makes no store of it.
            Ok(()) if is_empty(path) => {
                format!("{shown} is empty: there is no store in it; name another by --store or TENURE_STORE")
            }
            Ok(()) => return Ok(()),
            Err(error) => format!("{shown} can't be read: {}; ask its owner for that", error.desc()),
        },
        // What it is instead is told where it is opened.
        Ok(true) => return Ok(()),
        Ok(false) if is_default => format!(
            "there is no store at {shown} yet: the first `tenure run` or `tenure work` makes it; or name another by --store or TENURE_STORE"
        ),
        Ok(false) => format!("there is no store at {shown}; name another by --store or TENURE_STORE"),
        Err(error) => format!(
            "whether there is a store at {shown} can't be seen: {error}; check who may enter its directory"
        ),
    };
    Err(Failure::new(UNAVAILABLE, text))
}

/// Whether a file is empty, and nobody is about to make a store of it, who would have its lock.
fn is_empty(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.len() == 0) && !beside(path, "-lock").exists()
}

/// Makes the directory of the default store, for nobody but its user.
pub(super) fn make_directory_of(path: &Path) -> Result<(), Failure> {
    use std::os::unix::fs::DirBuilderExt as _;
    let directory = path.parent().unwrap_or(Path::new("/"));
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.map_err(|error| {
        let text = "make it for this user, or name a store by --store or TENURE_STORE (see `tenure config`)";
        let directory = escaped(&directory.to_string_lossy());
        Failure::new(UNAVAILABLE, format!("{directory} can't be made: {error}; {text}"))
    })
}
