//! What the tests of this store share.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::expect_used,
    reason = "tests fail by panicking, also in what they share"
)]

pub(crate) mod peer;

use std::fs::Permissions;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tenure_core::Key;
use tenure_sqlite::{SqliteConfig, SqliteStore};
use tenure_store::{Outcome, Store};

/// Waits for others on the file for as long as any machine may stand still, or its disk take.
pub(crate) fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(SqliteConfig::new(path).busy_timeout(SqliteConfig::MAX_BUSY_TIMEOUT)).unwrap()
}

pub(crate) fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

/// Whether a write won. Anything but an answer fails the test.
pub(crate) async fn wins(store: &impl Store, write: tenure_store::Write) -> bool {
    matches!(store.write(write).await.unwrap(), Outcome::Won { .. })
}

/// Runs a program that must succeed.
pub(crate) fn must_run(program: &str, arguments: &[&str]) {
    let output =
        Command::new(program).args(arguments).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?} failed: {complaint}");
}

/// Whether this process may mount filesystems. If not, the test of this name has been run, and passed, in a namespace of
/// its own where it may: there is nothing left to do here.
///
/// Where neither is allowed, as in a container without rights, the test fails and says so.
pub(crate) fn may_mount(test: &str) -> bool {
    const INSIDE: &str = "TENURE_TEST_NAMESPACE";
    let is_root = Command::new("unshare").args(["--mount", "true"]).stderr(Stdio::null()).status();
    if std::env::var_os(INSIDE).is_some() || is_root.unwrap().success() {
        return true;
    }
    let again = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount"])
        .arg(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(INSIDE, "1")
        .output()
        .unwrap();
    let (said, complaint) = (String::from_utf8_lossy(&again.stdout), String::from_utf8_lossy(&again.stderr));
    let passed = again.status.success() && said.contains("1 passed");
    assert!(passed, "this test needs root or a user namespace: {said}{complaint}");
    false
}

/// A small filesystem in memory, until dropped.
pub(crate) struct SmallDisk {
    directory: tempfile::TempDir,
}

impl SmallDisk {
    pub(crate) fn mount(options: &str) -> SmallDisk {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path().to_str().unwrap();
        must_run("mount", &["-t", "tmpfs", "-o", options, "tmpfs", at]);
        SmallDisk { directory }
    }

    pub(crate) fn remount(&self, options: &str) {
        let at = self.directory.path().to_str().unwrap();
        must_run("mount", &["-o", &format!("remount,{options}"), at]);
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file until there is no space left.
    pub(crate) fn fill(&self) {
        use std::io::Write;
        let mut file = std::fs::File::create(self.path("filler")).unwrap();
        while file.write(&[0; 4096]).is_ok() {}
    }

    pub(crate) fn free(&self) {
        std::fs::remove_file(self.path("filler")).unwrap();
    }
}

/// A file or directory that is seen at another place, too, until dropped.
pub(crate) struct Bound(PathBuf);

impl Bound {
    pub(crate) fn at(what: &Path, place: &Path) -> Bound {
        must_run("mount", &["--bind", what.to_str().unwrap(), place.to_str().unwrap()]);
        Bound(place.to_owned())
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        must_run("umount", &["-l", self.0.to_str().unwrap()]);
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily, because the threads of a store that was dropped may still be closing their files.
        must_run("umount", &["-l", self.directory.path().to_str().unwrap()]);
    }
}

/// A file or directory that this process can't change, until dropped.
pub(crate) struct Immutable<'a> {
    path: &'a Path,
    before: Permissions,
    /// Permissions don't bind root.
    is_root: bool,
}

impl<'a> Immutable<'a> {
    pub(crate) fn new(path: &'a Path) -> Self {
        let before = std::fs::metadata(path).unwrap().permissions();
        let mut after = before.clone();
        after.set_readonly(true);
        std::fs::set_permissions(path, after).unwrap();
        let is_root = Command::new("test").arg("-w").arg(path).status().unwrap().success();
        if is_root {
            must_run("chattr", &["+i", path.to_str().unwrap()]);
        }
        Immutable { path, before, is_root }
    }
}

impl Drop for Immutable<'_> {
    fn drop(&mut self) {
        if self.is_root {
            must_run("chattr", &["-i", self.path.to_str().unwrap()]);
        }
        std::fs::set_permissions(self.path, self.before.clone()).unwrap();
    }
}
