//! What comes from Debian's packages, installed where it is missing and we may.

use super::server::run;
use std::path::Path;
use std::process::{Command, Stdio};

pub(super) fn succeeds(program: &str, args: &[&str]) -> bool {
    let quiet = Command::new(program).args(args).stdout(Stdio::null()).stderr(Stdio::null()).status();
    quiet.is_ok_and(|status| status.success())
}

pub(super) fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n")
}

/// Has `program`, which answers when it is called with `version`.
pub(super) fn need(program: &str, version: &str, package: &str) -> Result<(), String> {
    if succeeds(program, &[version]) {
        return Ok(());
    }
    if is_root() && succeeds("apt-get", &["--version"]) {
        println!("{program} is missing: apt-get install {package}");
        let installed = succeeds("apt-get", &["update"])
            && succeeds("apt-get", &["install", "-y", "--no-install-recommends", package]);
        if installed && succeeds(program, &[version]) {
            return Ok(());
        }
    }
    Err(format!("{program} is missing, and tests need it: apt-get install {package}"))
}

/// Has the files of packages that this Debian release has among its backports, unpacked in `place` and not installed: what is
/// installed stays as it is. What they depend on must be here.
pub(super) fn unpacked(packages: &[&str], suite: &str, place: &Path) -> Result<(), String> {
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
