//! What the tests of this store share.
#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking, also in what they share")]

use std::path::{Path, PathBuf};
use std::process::Command;
use tenure_core::Key;
use tenure_sqlite::{SqliteConfig, SqliteStore};
use tenure_store::{Outcome, Store};

pub(crate) fn open(path: &Path) -> SqliteStore {
    SqliteStore::open(SqliteConfig::new(path)).unwrap()
}

pub(crate) fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

/// Whether a write won. Anything but an answer fails the test.
pub(crate) async fn wins(store: &SqliteStore, write: tenure_store::Write) -> bool {
    matches!(store.write(write).await.unwrap(), Outcome::Won { .. })
}

/// Runs a program that must succeed: these tests need root, and say so loudly where they don't have it.
pub(crate) fn must_run(program: &str, arguments: &[&str]) {
    let output =
        Command::new(program).args(arguments).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?} failed (is this root?): {complaint}");
}

/// A small filesystem in memory, until dropped.
pub(crate) struct SmallDisk {
    directory: tempfile::TempDir,
}

impl SmallDisk {
    pub(crate) fn mount(size: &str) -> SmallDisk {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path().to_str().unwrap();
        must_run("mount", &["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs", at]);
        SmallDisk { directory }
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

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily, because the threads of a store that was dropped may still be closing their files.
        must_run("umount", &["-l", self.directory.path().to_str().unwrap()]);
    }
}

/// A file or directory that nobody can change, until dropped.
pub(crate) struct Immutable<'a>(&'a Path);

impl<'a> Immutable<'a> {
    pub(crate) fn new(path: &'a Path) -> Self {
        must_run("chattr", &["+i", path.to_str().unwrap()]);
        Immutable(path)
    }
}

impl Drop for Immutable<'_> {
    fn drop(&mut self) {
        must_run("chattr", &["-i", self.0.to_str().unwrap()]);
    }
}
