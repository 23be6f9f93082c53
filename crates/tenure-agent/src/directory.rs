//! The directory of a socket: whether others can put something in its place.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// By which directory others can put something in the place of what is in there, or of the directory itself: this one, or one above it. None if they
/// can't.
pub(crate) fn open_to_others(directory: &Path) -> std::io::Result<Option<PathBuf>> {
    let us = DirectoryUser::ours();
    // Whoever owns a link can make it lead elsewhere.
    let (link, found) = (directory.symlink_metadata()?, directory.metadata()?);
    let is_ours = |owner: u32| owner == us.id || owner == 0;
    if !is_ours(link.uid()) || !is_ours(found.uid()) || found.mode() & (GROUP_WRITES | OTHERS_WRITE) != 0 {
        return Ok(Some(directory.to_owned()));
    }
    // Both where it is named and where it leads to.
    let (named, real) = (std::path::absolute(directory)?, directory.canonicalize()?);
    for above in named.ancestors().skip(1).chain(real.ancestors().skip(1)) {
        let is_owned = us.trusts_owner(above.symlink_metadata()?.uid());
        if !is_owned || !us.trusts(DirectoryAccess::of(&above.metadata()?)) {
            return Ok(Some(above.to_owned()));
        }
    }
    Ok(None)
}

const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;
/// What is in there is renamed by its owner and the directory's alone.
const STICKY: u32 = 0o1000;

/// Who may do what to a directory.
#[derive(Debug, Clone, Copy)]
struct DirectoryAccess {
    owner: u32,
    group: u32,
    mode: u32,
}

impl DirectoryAccess {
    fn of(found: &Metadata) -> DirectoryAccess {
        DirectoryAccess { owner: found.uid(), group: found.gid(), mode: found.mode() }
    }
}

/// Who this process is.
#[derive(Debug, Clone, Copy)]
struct DirectoryUser {
    id: u32,
    group: u32,
    /// In a user namespace, what owners are shown as that are outside of it, such as the host's root.
    outside: Option<u32>,
}

impl DirectoryUser {
    fn ours() -> DirectoryUser {
        let (id, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        DirectoryUser { id, group, outside: outside() }
    }

    /// Whether an owner is this user, or can do everything anyhow.
    fn trusts_owner(&self, owner: u32) -> bool {
        owner == self.id || owner == 0 || Some(owner) == self.outside
    }

    /// Whether nobody else has the group. A user's own group has the user's number, as tools that make users have it. Whoever has
    /// root's group looks after the host.
    fn trusts_group(&self, group: u32) -> bool {
        group == 0 || (group == self.group && group == self.id)
    }

    /// Whether nobody else can rename what is in such a directory.
    fn trusts(&self, above: DirectoryAccess) -> bool {
        let may_write = |bit: u32| above.mode & STICKY == 0 && above.mode & bit != 0;
        self.trusts_owner(above.owner)
            && !may_write(OTHERS_WRITE)
            && (!may_write(GROUP_WRITES) || self.trusts_group(above.group))
    }
}

/// None where all users are known, as outside of user namespaces: that number is a user's there.
fn outside() -> Option<u32> {
    const USUAL: u32 = 65_534;
    let known = std::fs::read_to_string("/proc/self/uid_map").ok()?;
    if known.split_whitespace().eq(["0", "0", "4294967295"]) {
        return None;
    }
    let number = std::fs::read_to_string("/proc/sys/kernel/overflowuid").ok();
    Some(number.and_then(|number| number.trim().parse().ok()).unwrap_or(USUAL))
}

#[cfg(test)]
mod tests {
    //! Plan: whose directories, with which modes and groups, may lie above; in and outside of a user namespace; directories and links as they are.
    use super::*;
    use std::fs::{Permissions, create_dir_all, set_permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn above_may_lie_what_nobody_else_can_rename_things_in() {
        let us = DirectoryUser { id: 1000, group: 1000, outside: None };
        let of_users = DirectoryUser { group: 100, ..us };
        for (us, owner, group, mode, is_trusted) in [
            (us, 0, 0, 0o755, true),
            (us, 1000, 1000, 0o700, true),
            // /tmp.
            (us, 0, 0, 0o1777, true),
            (us, 0, 0, 0o777, false),
            // A home and what is in it, where each user has a group.
            (us, 1000, 1000, 0o775, true),
            (us, 1000, 1000, 0o2775, true),
            (of_users, 1000, 100, 0o775, false),
            (of_users, 1000, 1000, 0o775, false),
            // As /var/local.
            (us, 0, 50, 0o2775, false),
            (us, 0, 50, 0o3775, true),
            (us, 0, 0, 0o775, true),
            (us, 1001, 1001, 0o755, false),
            (us, 1001, 1001, 0o1777, false),
            (us, 65_534, 65_534, 0o755, false),
            (DirectoryUser { outside: Some(65_534), ..us }, 65_534, 65_534, 0o755, true),
            (DirectoryUser { outside: Some(65_534), ..us }, 65_534, 65_534, 0o775, false),
        ] {
            let above = DirectoryAccess { owner, group, mode: 0o40_000 | mode };
            assert_eq!(us.trusts(above), is_trusted, "{above:?} to {us:?}");
        }
    }

    #[test]
    fn what_lies_above_is_looked_at_where_it_is_named_and_where_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let (above, inner) = (folder.path().join("above"), folder.path().join("above/inner"));
        create_dir_all(&inner).unwrap();
        symlink(&above, folder.path().join("link")).unwrap();
        let by_link = folder.path().join("link/inner");
        let safe = |mode: u32| {
            set_permissions(&above, Permissions::from_mode(mode)).unwrap();
            (open_to_others(&inner).unwrap().is_none(), open_to_others(&by_link).unwrap().is_none())
        };
        set_permissions(&inner, Permissions::from_mode(0o755)).unwrap();
        assert_eq!(safe(0o755), (true, true));
        assert_eq!(safe(0o777), (false, false));
        assert_eq!(safe(0o1777), (true, true));
        // Where this is done by root, of a group of another one.
        let other = std::os::unix::fs::chown(&above, None, Some(4321));
        if other.is_ok() {
            assert_eq!(safe(0o770), (false, false));
            assert_eq!(safe(0o750), (true, true));
            std::os::unix::fs::chown(&above, Some(4321), None).unwrap();
            assert_eq!(safe(0o755), (false, false));
        }
        set_permissions(&inner, Permissions::from_mode(0o775)).unwrap();
        assert_eq!(safe(0o700), (false, false), "the directory itself is nobody's to write to");
    }
}
