//! Where servers write.

use super::{unmount, until};
use crate::process::run;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A small disk in memory, which can be full, and whose power can be cut.
#[derive(Debug)]
pub(crate) struct Disk {
    pub(crate) path: PathBuf,
    size: u32,
    /// What a block device below the filesystem has, once there is one.
    image: Option<PathBuf>,
}

impl Disk {
    pub(super) fn new(path: &Path, size: u32) -> Result<Disk, String> {
        std::fs::create_dir_all(path).map_err(|error| format!("{}: {error}", path.display()))?;
        in_memory(path, size)?;
        Ok(Disk { path: path.to_owned(), size, image: None })
    }

    pub(super) fn is_block_device(&self) -> bool {
        self.image.is_some()
    }

    /// Puts what it has on a block device with a filesystem, of which only that survives a cut that was written down. Nobody may write to it
    /// meanwhile.
    pub(super) fn become_block_device(&mut self) -> Result<(), String> {
        /// The filesystem's own, with its journal.
        const MORE: u32 = 64;
        let images = self.path.with_extension("images");
        std::fs::create_dir_all(&images).map_err(|error| format!("{}: {error}", images.display()))?;
        in_memory(&images, self.size + MORE)?;
        let image = images.join("image");
        let size = format!("{}M", self.size + MORE);
        run(Command::new("truncate").args(["--size", &size]).arg(&image))?;
        run(Command::new("mkfs.ext4").args(["-q", "-F", "-m", "0", "-E", "nodiscard"]).arg(&image))?;
        let aside = images.join("aside");
        std::fs::create_dir_all(&aside).map_err(|error| format!("{}: {error}", aside.display()))?;
        mount(&image, &aside)?;
        run(Command::new("cp").arg("--archive").arg(self.path.join(".")).arg(&aside))?;
        run(Command::new("chmod").arg("777").arg(&aside))?;
        run(Command::new("umount").arg(&aside))?;
        self.image = Some(image.clone());
        mount(&image, &self.path)
    }

    /// From now on it writes nothing down any more.
    pub(super) fn lose_power(&self) -> Result<(), String> {
        let lost = self.unsynchronised();
        std::fs::write(&lost, "x").map_err(|error| format!("{}: {error}", lost.display()))?;
        // Without its journal's last entries, as the kernel's developers test what a crash leaves.
        run(Command::new("xfs_io").args(["-x", "-c", "shutdown"]).arg(&self.path)).map(drop)
    }

    /// It has power again, and what was written down. Nobody may have files open there. Tells whether a file is gone that nobody had
    /// synchronised, or what it had.
    pub(super) fn get_power(&self) -> Result<bool, String> {
        let image = self.image.as_ref().ok_or_else(|| format!("{} has no power", self.path.display()))?;
        // A process that was killed may need a moment to end.
        until("a disk is in use", || run(Command::new("umount").arg(&self.path)).map(|_| true))?;
        mount(image, &self.path)?;
        let lost = self.unsynchronised();
        let is_lost = std::fs::read(&lost).map_or(true, |left| left.is_empty());
        // The next one is to be a new file: what replaces another one is written down sooner.
        let _ = std::fs::remove_file(lost);
        Ok(is_lost)
    }

    fn unsynchronised(&self) -> PathBuf {
        self.path.join("unsynchronised")
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
        if let Some(images) = self.image.as_ref().and_then(|image| image.parent()) {
            unmount(&self.path);
            unmount(images);
        }
        unmount(&self.path);
    }
}

fn in_memory(path: &Path, size: u32) -> Result<(), String> {
    let size = format!("size={size}m,mode=777");
    run(Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tenure-faults"]).arg(path)).map(drop)
}

/// Files that nobody has synchronised are written down as late as the system allows.
fn mount(image: &Path, path: &Path) -> Result<(), String> {
    run(Command::new("mount").args(["-o", "loop,noatime,commit=600,noauto_da_alloc"]).arg(image).arg(path))
        .map(drop)
}
