//! What comes from Debian's packages, installed where it is missing and we may.

use super::workshop;
use crate::command::{is_root, run, succeeds};
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Has `program`, which answers when it is called with `version`.
pub(super) fn need(program: &str, version: &str, package: &str) -> Result<(), String> {
    need_that(program, &[version], package)
}

/// Has what makes this call succeed.
pub(super) fn need_that(program: &str, call: &[&str], package: &str) -> Result<(), String> {
    if succeeds(program, call) {
        return Ok(());
    }
    let missing = format!("tests need `{program} {}`: apt-get install {package}", call.join(" "));
    if !is_root() || !succeeds("apt-get", &["--version"]) {
        return Err(missing);
    }
    println!("{program} is missing, or a part of it: apt-get install {package}");
    let because = |error| format!("{missing}; that has failed here: {error}");
    install(package).map_err(because)?;
    if succeeds(program, call) { Ok(()) } else { Err(because("it does not start".into())) }
}

/// Servers among the packages are not started: tests start their own.
fn install(package: &str) -> Result<(), String> {
    let apt = |words: &[&str]| {
        let mut apt = Command::new("apt-get");
        run(apt.args(words).env("DEBIAN_FRONTEND", "noninteractive")).map(drop)
    };
    apt(&["update"])?;
    let policy = PolicyFile::put()?;
    let installed = apt(&["install", "-y", "--no-install-recommends", package]);
    drop(policy);
    installed
}

/// What packages ask whether they may start what they have installed; here for as long as nobody else has one.
struct PolicyFile {
    is_ours: bool,
}

impl PolicyFile {
    const PATH: &str = "/usr/sbin/policy-rc.d";

    fn put() -> Result<PolicyFile, String> {
        use std::io::Write as _;
        use std::os::unix::fs::OpenOptionsExt as _;
        let made = OpenOptions::new().write(true).create_new(true).mode(0o755).open(Self::PATH);
        let is_ours = match made.and_then(|mut file| file.write_all(b"#!/bin/sh\nexit 101\n")) {
            Ok(()) => true,
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => false,
            Err(error) => return Err(format!("{}: {error}", Self::PATH)),
        };
        Ok(PolicyFile { is_ours })
    }
}

impl Drop for PolicyFile {
    fn drop(&mut self) {
        if self.is_ours {
            // Should it stay, whoever installs a server next has to start it by hand.
            let _ = std::fs::remove_file(Self::PATH);
        }
    }
}

/// A program that is unpacked from packages and not installed, unless it is installed anyway: what is installed stays as it is. What it
/// depends on must be here.
pub(super) struct Unpacked {
    pub(super) program: &'static str,
    /// It is of use if this call succeeds.
    pub(super) call: &'static [&'static str],
    /// Where it is in the packages.
    pub(super) folder: &'static str,
    pub(super) packages: &'static [&'static str],
    /// Of Debian's, such as a release's backports.
    pub(super) suite: &'static str,
}

impl Unpacked {
    /// Where it is.
    pub(super) fn path(&self) -> Result<PathBuf, String> {
        if succeeds(self.program, self.call) {
            return Ok(self.program.into());
        }
        Ok(self.place()?.join(self.folder).join(self.program))
    }

    fn place(&self) -> Result<PathBuf, String> {
        Ok(workshop()?.join(self.program))
    }

    pub(super) fn fetch(&self) -> Result<(), String> {
        let program = self.path()?.display().to_string();
        let works = || succeeds(&program, self.call);
        if works() {
            return Ok(());
        }
        let place = self.place()?;
        // What was there does not work.
        let _ = std::fs::remove_dir_all(&place);
        unpack(self.packages, self.suite, &place)?;
        if works() { Ok(()) } else { Err(format!("{program} does not start")) }
    }
}

fn unpack(packages: &[&str], suite: &str, place: &Path) -> Result<(), String> {
    let coming = place.with_extension("part");
    let error = |error: std::io::Error| format!("{}: {error}", coming.display());
    // What an earlier run left there; that there was none is no mistake.
    let _ = std::fs::remove_dir_all(&coming);
    for folder in ["lists/partial", "cache/archives/partial", "root"] {
        std::fs::create_dir_all(coming.join(folder)).map_err(error)?;
    }
    let source = coming.join("sources.list");
    let keys = "/usr/share/keyrings/debian-archive-keyring.gpg";
    let line = format!("deb [signed-by={keys}] http://deb.debian.org/debian {suite} main\n");
    std::fs::write(&source, line).map_err(error)?;
    let settings = [
        format!("Dir::Etc::sourcelist={}", source.display()),
        "Dir::Etc::sourceparts=-".to_owned(),
        format!("Dir::State::lists={}", coming.join("lists").display()),
        format!("Dir::Cache={}", coming.join("cache").display()),
    ];
    let apt = |words: &[&str]| {
        let mut apt = Command::new("apt-get");
        apt.args(settings.iter().flat_map(|setting| ["-o", setting])).args(words);
        run(apt.current_dir(&coming)).map(drop)
    };
    println!("fetching {} of {suite} to {}", packages.join(", "), place.display());
    apt(&["update"])?;
    apt(&[&["download"], packages].concat())?;
    for file in std::fs::read_dir(&coming).map_err(error)? {
        let file = file.map_err(error)?.path();
        if file.extension().is_some_and(|extension| extension == "deb") {
            run(Command::new("dpkg-deb").arg("-x").arg(&file).arg(coming.join("root")))?;
        }
    }
    std::fs::rename(coming.join("root"), place).map_err(error)?;
    std::fs::remove_dir_all(&coming).map_err(error)
}
