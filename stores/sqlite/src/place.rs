//! Looks at the place of the file before SQLite does, for clear errors.
//!
//! Nothing here opens the database file: closing it again would drop the POSIX locks that SQLite holds on it in this
//! very process.

use crate::config::SqliteConfig;
use std::fs::{File, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use tenure_core::StoreError;

/// The smallest database has one page of this size.
const LEAST_PAGE: u64 = 512;

/// What SQLite, or we, have beside a database.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut path = path.to_owned().into_os_string();
    path.push(suffix);
    PathBuf::from(path)
}

/// Where the file is, whatever links lead there.
#[derive(Debug)]
pub(crate) struct FileLocation {
    pub(crate) path: PathBuf,
    /// The side file: its lock orders the processes' transactions, its changes wake their waiters.
    pub(crate) side: PathBuf,
    pub(crate) directory: PathBuf,
    /// It can only be looked at.
    pub(crate) read_only: bool,
}

impl FileLocation {
    pub(crate) fn find(config: &SqliteConfig) -> Result<FileLocation, StoreError> {
        let path = &config.path;
        let at = path.display();
        let bad = |text: String| Err(StoreError::invalid(text));
        let exists = match std::fs::metadata(path) {
            Ok(found) if found.is_dir() => {
                return bad(format!("{at} is a directory; name a file in it, such as {at}/leases.db"));
            }
            Ok(found) if !found.is_file() => {
                return bad(format!("{at} is not a regular file; name another one"));
            }
            Ok(found) if links(&found) > 1 => {
                return bad(format!(
                    "{at} has several hard links, under which SQLite can't keep it whole; keep one name"
                ));
            }
            // SQLite takes a file of one byte for an empty one, and would write over it.
            Ok(found) if (1..LEAST_PAGE).contains(&found.len()) => {
                return Err(StoreError::foreign(format!(
                    "{at} is not an SQLite database; name another file"
                )));
            }
            Ok(_) => true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if path.is_symlink() {
                    return bad(format!("{at} is a symbolic link to nothing; remove it or make its target"));
                }
                if !config.create {
                    return bad(format!("{at} does not exist; check the path, or allow it to be created"));
                }
                false
            }
            Err(error) => return Err(io_error(path, &error)),
        };
        let path = if exists {
            path.canonicalize().map_err(|error| io_error(path, &error))?
        } else {
            new_path(path)?
        };
        let directory = path.parent().unwrap_or(Path::new("/")).to_owned();
        if exists && is_mounted_alone(&path) {
            return bad(format!(
                "{at} is mounted by itself, without the files beside it that its users must share; mount, or bind, its directory instead"
            ));
        }
        let side = beside(&path, "-lock");
        let mut place = FileLocation { path, side, directory, read_only: false };
        place.check_filesystem(config)?;
        let file = if exists { writable(&place.path, "the file") } else { Ok(()) };
        match file.and_then(|()| writable(&place.directory, "the directory")) {
            Err(_) if exists && config.look => place.read_only = true,
            can_write => can_write?,
        }
        Ok(place)
    }

    /// Makes the file for its user alone, where it is not there yet: whoever may read a database may lock it, and so hold up all others. SQLite would
    /// let everyone read it whom the umask lets.
    ///
    /// No descriptor of it is opened, and so none closed (see above).
    #[cfg(target_os = "linux")]
    pub(crate) fn make(&self) {
        use rustix::fs::{CWD, FileType, Mode, mknodat};
        // What is there stays as it is. Where none can be made, SQLite can't either, and says why.
        let _made = mknodat(CWD, &self.path, FileType::RegularFile, Mode::RUSR | Mode::WUSR, 0);
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn make(&self) {}

    /// Why the file can't be made, where that will not pass: a directory may take no files though its permissions allow it, as in /proc.
    pub(crate) fn unmakeable(&self, config: &SqliteConfig) -> Option<StoreError> {
        if !config.create || self.path.exists() {
            return None;
        }
        // What is made here is empty, and a database to be.
        let made = File::options().write(true).create(true).truncate(false).open(&self.path);
        match made.err()?.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::Unsupported => Some(StoreError::invalid(format!(
                "{}: no file can be made in {}; name another directory",
                self.path.display(),
                self.directory.display()
            ))),
            _ => None,
        }
    }

    #[cfg(target_os = "linux")]
    fn check_filesystem(&self, config: &SqliteConfig) -> Result<(), StoreError> {
        let Ok(found) = rustix::fs::statfs(&self.directory) else { return Ok(()) };
        // The type's width and sign differ between machines; the magic number is its low 32 bits.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "see above")]
        let magic = found.f_type as u32;
        match unfit_filesystem(magic) {
            Some(name) if !config.network_filesystem => Err(StoreError::invalid(format!(
                "{} is on a filesystem of type {name}, where SQLite's locks are not to be trusted; use a local one, or a \
                 store with a server",
                self.path.display()
            ))),
            _ => Ok(()),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn check_filesystem(&self, _config: &SqliteConfig) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Whether only this file comes from elsewhere, as a container's volume may be one file. Each container would have a log and locks of its own beside
/// it, and write over the others' pages.
#[cfg(target_os = "linux")]
fn is_mounted_alone(path: &Path) -> bool {
    use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};
    // A kernel before Linux 5.8 does not tell. That file and directory are of different devices does not: files of an overlay may be.
    let seen = statx(CWD, path, AtFlags::empty(), StatxFlags::BASIC_STATS);
    seen.is_ok_and(|file| file.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

#[cfg(not(target_os = "linux"))]
fn is_mounted_alone(_path: &Path) -> bool {
    false
}

/// The path of a file that is still to be made.
fn new_path(path: &Path) -> Result<PathBuf, StoreError> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let directory = parent.canonicalize().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => StoreError::invalid(format!(
            "{}: the directory {} does not exist; make it first (mkdir -p)",
            path.display(),
            parent.display()
        )),
        _ => io_error(path, &error),
    })?;
    Ok(directory.join(path.file_name().unwrap_or_default()))
}

/// An operating system's refusal, as what it means to the caller.
pub(crate) fn io_error(path: &Path, error: &io::Error) -> StoreError {
    let at = path.display();
    match error.kind() {
        io::ErrorKind::PermissionDenied
        | io::ErrorKind::ReadOnlyFilesystem
        | io::ErrorKind::NotADirectory => {
            StoreError::invalid(format!("{at}: {error}; check the path and its permissions"))
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            StoreError::unavailable(format!("{at}: the disk is full ({error}); free some space"))
        }
        _ => StoreError::unavailable(format!("{at}: {error}")),
    }
}

#[cfg(unix)]
fn writable(path: &Path, what: &str) -> Result<(), StoreError> {
    rustix::fs::access(path, rustix::fs::Access::WRITE_OK).map_err(|error| {
        StoreError::invalid(format!(
            "{}: {what} is read-only for this process ({error}); leases need to write, also new files beside the database",
            path.display()
        ))
    })
}

#[cfg(not(unix))]
fn writable(_path: &Path, _what: &str) -> Result<(), StoreError> {
    Ok(())
}

#[cfg(unix)]
fn links(found: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::nlink(found)
}

#[cfg(not(unix))]
fn links(_found: &Metadata) -> u64 {
    1
}

/// The name of a filesystem on which processes of several hosts meet, or whose locks are up to a user-space program
/// (statfs(2) and linux/magic.h have the numbers).
#[cfg(target_os = "linux")]
fn unfit_filesystem(magic: u32) -> Option<&'static str> {
    Some(match magic {
        0x6969 => "NFS",
        0x517b | 0xff53_4d42 | 0xfe53_4d42 => "SMB/CIFS",
        0x6573_5546 => "FUSE",
        0x0102_1997 => "9P",
        0x00c3_6400 => "Ceph",
        0x5346_414f | 0x6b41_4653 => "AFS",
        0x7375_7245 => "Coda",
        0x0116_1970 => "GFS2",
        0x7461_636f => "OCFS2",
        0x0bd0_0bd0 => "Lustre",
        0x786f_4256 => "vboxsf",
        0xbacb_acbc => "vmhgfs",
        0x7c7c_6673 => "Parallels shared folders",
        0x1983_0326 => "BeeGFS",
        0x4750_4653 => "GPFS",
        0xaad7_aaea => "PanFS",
        0x2003_0528 => "OrangeFS",
        0x0131_11a8 => "IBRIX",
        0xbeef_dead => "StorNext (SNFS)",
        0x6163_6673 => "ACFS",
        0x564c => "NCP",
        0x00c0_ffee => "hostfs",
        _ => return None,
    })
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn filesystems_of_several_hosts_are_known_by_number() {
        assert_eq!(unfit_filesystem(0x6969), Some("NFS"));
        assert_eq!(unfit_filesystem(0xff53_4d42), Some("SMB/CIFS"));
        let parallel = [0x1983_0326, 0x4750_4653, 0xaad7_aaea, 0x2003_0528, 0xbacb_acbc];
        let names = ["BeeGFS", "GPFS", "PanFS", "OrangeFS", "vmhgfs"];
        assert_eq!(parallel.map(unfit_filesystem), names.map(Some));
        let (ext4, tmpfs, overlay) = (0xef53, 0x0102_1994, 0x794c_7630);
        assert_eq!([ext4, tmpfs, overlay].map(unfit_filesystem), [None; 3]);
    }
}
