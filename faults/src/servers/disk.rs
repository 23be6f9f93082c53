//! Where servers write.

use crate::process::run;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A small disk in memory, which can be full.
#[derive(Debug)]
pub(crate) struct Disk {
    pub(crate) path: PathBuf,
}

impl Disk {
    pub(super) fn new(path: &Path, size: u32) -> Result<Disk, String> {
        std::fs::create_dir_all(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let size = format!("size={size}m,mode=777");
        run(Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tenure-faults"]).arg(path))?;
        Ok(Disk { path: path.to_owned() })
    }

    fn filler(&self) -> PathBuf {
        self.path.join("filler")
    }

    /// Leaves no room at all.
    pub(crate) fn fill(&self) -> Result<(), String> {
        use std::io::Write as _;
        let path = self.filler();
        let mut file =
            std::fs::File::create(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        // Large pieces first, then what is left.
        for size in [1 << 20, 1 << 12, 1] {
            let piece = vec![0; size];
            while file.write_all(&piece).is_ok() {}
        }
        Ok(())
    }

    pub(crate) fn free(&self) -> Result<(), String> {
        std::fs::remove_file(self.filler()).map_err(|error| format!("{}: {error}", self.path.display()))
    }

    pub(super) fn clear(&self) -> Result<(), String> {
        let error = |error: std::io::Error| format!("{}: {error}", self.path.display());
        for entry in std::fs::read_dir(&self.path).map_err(error)?.flatten() {
            let path = entry.path();
            let removed =
                if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
            removed.map_err(error)?;
        }
        Ok(())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Lazily: a process that is about to end may still be there.
        let _ = run(Command::new("umount").arg("-l").arg(&self.path));
    }
}
