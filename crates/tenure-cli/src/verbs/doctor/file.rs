//! What the file system says about a store's file.

use super::findings::{Findings, Grade};
use crate::stores::file::beside;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Its rights, its size, what is left on its disk, and what kind of file system it is on.
pub(super) fn check(path: &Path, findings: &mut Findings) {
    // Of a link: its log and its locks are beside what it leads to.
    let Ok(path) = &path.canonicalize() else { return };
    let Ok(file) = std::fs::metadata(path) else { return };
    let (size, mode) = (file.len(), file.mode() & 0o777);
    findings.add(Grade::Ok, "file", format!("{size} bytes, mode {mode:03o}, owner {}", file.uid()));
    if mode & 0o002 != 0 {
        findings.add(
            Grade::Warn,
            "permissions",
            "everyone on this host can write to the file, and so take any lease: chmod o-w",
        );
    }
    check_beside(path, &file, findings);
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if mode & 0o006 == 0o004 && std::fs::metadata(directory).is_ok_and(|parent| parent.mode() & 0o001 != 0) {
        findings.add(
            Grade::Warn,
            "permissions",
            "everyone on this host can read the file, and so lock it, which stops all leases: chmod o-r it and its -wal, -shm and -lock",
        );
    }
    if let Ok(parent) = std::fs::metadata(directory)
        && parent.mode() & 0o1002 == 0o0002
    {
        findings.add(
            Grade::Warn,
            "permissions",
            "everyone on this host can replace the file, its directory being open to all",
        );
    }
    match nix::sys::statvfs::statvfs(directory) {
        Ok(fs) => {
            let free = fs.blocks_available() * fs.fragment_size();
            let grade = if free < 16 << 20 { Grade::Warn } else { Grade::Ok };
            findings.add(grade, "space", format!("{} MiB free", free >> 20));
        }
        Err(error) => findings.add(Grade::Warn, "space", error.to_string()),
    }
    check_filesystem(directory, findings);
    // Bytes 18 and 19 of the header are 2 in WAL mode (https://www.sqlite.org/fileformat.html, 1.3.3).
    let header = std::fs::File::open(path).and_then(|mut file| {
        let mut header = [0; 20];
        std::io::Read::read_exact(&mut file, &mut header).map(|()| header)
    });
    match header {
        Ok([.., 2, 2]) => findings.add(Grade::Ok, "journal", "write-ahead log"),
        Ok(_) => findings.add(Grade::Warn, "journal", "not in write-ahead mode; it is put in it when opened"),
        Err(error) => findings.add(Grade::Warn, "journal", format!("its header can't be read: {error}")),
    }
}

/// Whoever may use the file needs the same of what SQLite has beside it. It gives these the file's rights when it makes them, and not when those change.
fn check_beside(path: &Path, file: &Metadata, findings: &mut Findings) {
    for suffix in ["-wal", "-shm", "-lock"] {
        let Ok(there) = std::fs::metadata(beside(path, suffix)) else { continue };
        let (mode, wanted) = (there.mode() & 0o777, file.mode() & 0o777);
        // The group matters where it may do more than everyone.
        let group = there.gid() != file.gid() && (wanted >> 3) & !mode & 0o6 != 0;
        if wanted & !mode & 0o666 != 0 || group {
            let text = format!(
                "those whom the file is shared with may not use its {suffix} (mode {mode:03o}, group {}): give it the mode {wanted:03o} and the group {}",
                there.gid(),
                file.gid()
            );
            findings.add(Grade::Warn, "permissions", text);
        }
    }
}

#[cfg(target_os = "linux")]
fn check_filesystem(directory: &Path, findings: &mut Findings) {
    use nix::sys::statfs;
    let Ok(fs) = statfs::statfs(directory) else { return };
    match fs.filesystem_type() {
        statfs::TMPFS_MAGIC => {
            findings.add(
                Grade::Warn,
                "file system",
                "tmpfs: the store is gone after a reboot, and its fences start over by the clock",
            );
        }
        statfs::NFS_SUPER_MAGIC
        | statfs::SMB_SUPER_MAGIC
        | statfs::FUSE_SUPER_MAGIC
        | statfs::CODA_SUPER_MAGIC => {
            findings.add(
                Grade::Fail,
                "file system",
                "a network or user-space file system: SQLite's locks don't work between hosts there",
            );
        }
        kind => findings.add(Grade::Ok, "file system", format!("local (type {:x})", kind.0)),
    }
}

#[cfg(not(target_os = "linux"))]
fn check_filesystem(_directory: &Path, findings: &mut Findings) {
    findings.add(Grade::Warn, "file system", "its kind can't be told on this system: it must be a local one");
}

#[cfg(test)]
mod tests {
    //! Plan: what is beside a file has its rights, or is told; of a link, what it leads to counts.
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn warnings(path: &Path) -> Vec<String> {
        let mut findings = Findings::default();
        check(path, &mut findings);
        findings.texts("permissions")
    }

    #[test]
    fn what_is_beside_a_file_and_can_not_be_used_by_those_it_is_shared_with_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("leases.db");
        let beside =
            ["leases.db-wal", "leases.db-shm", "leases.db-lock"].map(|name| directory.path().join(name));
        let set = |path: &Path, mode| {
            std::fs::write(path, "").unwrap();
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        set(&file, 0o660);
        beside.iter().for_each(|path| set(path, 0o660));
        assert_eq!(warnings(&file), Vec::<String>::new());
        set(&beside[0], 0o600);
        let [warning] = &warnings(&file)[..] else { panic!("one") };
        assert!(warning.contains("its -wal (mode 600") && warning.contains("the mode 660"), "{warning}");
        let elsewhere = tempfile::tempdir().unwrap();
        let link = elsewhere.path().join("link.db");
        symlink(&file, &link).unwrap();
        assert_eq!(warnings(&link), warnings(&file));
        set(&beside[0], 0o666);
        assert_eq!(warnings(&link), Vec::<String>::new());
    }
}
