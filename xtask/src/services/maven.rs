//! What comes from Maven Central: libraries of Java, each kind in a folder of its own because their parts clash.

use super::package::need;
use super::workshop;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A library with all that it needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Library {
    /// For people.
    pub(super) name: &'static str,
    /// The folder in which it is kept, with its version.
    pub(super) folder: &'static str,
    /// Which project to fetch, in this package's folder.
    pub(super) pom: &'static str,
    /// Which file says that all of it is here.
    pub(super) whole: &'static str,
}

/// Something in this package's folder.
pub(super) fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

impl Library {
    pub(super) fn place(self) -> Result<PathBuf, String> {
        Ok(workshop()?.join(self.folder))
    }

    /// Has Java and the library, or says what is missing.
    pub(super) fn fetch(self) -> Result<(), String> {
        // A JDK, because our own programs in Java come as source.
        need("javac", "-version", "default-jdk-headless")?;
        let place = self.place()?;
        if place.join(self.whole).exists() {
            return Ok(());
        }
        need("mvn", "--version", "maven")?;
        let mut coming = place.clone().into_os_string();
        coming.push(".part");
        let coming = PathBuf::from(coming);
        // What an earlier run left there; that there was none is no mistake.
        let _ = std::fs::remove_dir_all(&coming);
        println!("fetching {} from Maven Central to {}", self.name, place.display());
        let status = Command::new("mvn")
            .args(["--quiet", "--batch-mode", "dependency:copy-dependencies", "--file"])
            .arg(source(self.pom))
            .arg(format!("-DoutputDirectory={}", coming.display()))
            .stdin(Stdio::null())
            .status()
            .map_err(|error| format!("mvn did not start: {error}"))?;
        if !status.success() || !coming.join(self.whole).exists() {
            let whole = self.whole;
            return Err(format!("mvn: {status}; {whole} did not come; is Maven Central within reach?"));
        }
        std::fs::rename(&coming, &place).map_err(|error| format!("{}: {error}", place.display()))
    }
}
