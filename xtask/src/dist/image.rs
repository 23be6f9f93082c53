//! The files of a container image that has nothing but the static program, its licences, and what it needs to speak TLS and to write its default store.

use super::{clear, licences, output, run, write};
use crate::command::is_root;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Authorities that servers' certificates are verified by.
const AUTHORITIES: &str = "etc/ssl/certs/ca-certificates.crt";
/// As in the images of others that have no shell, so that volumes can be shared with them.
const USER: u32 = 65_532;

/// The directory that `packaging/Containerfile` makes an image of.
pub(super) fn stage(program: &Path, place: &Path, target: &str) -> Result<PathBuf, String> {
    let root = place.join("image");
    clear(&root)?;
    let install = |words: &[&str], from: &Path, to: &str| {
        run(Command::new("install").args(words).arg(from).arg(root.join(to)))
    };
    install(&["-D", "-m", "755", "--strip"], program, "usr/bin/tenure")?;
    let authorities = Path::new("/").join(AUTHORITIES);
    if !authorities.exists() {
        return Err(format!("{} is missing: apt-get install ca-certificates", authorities.display()));
    }
    install(&["-D", "-m", "644"], &authorities, AUTHORITIES)?;
    licences::stage(&root, target)?;
    write(
        &root.join("etc/passwd"),
        &format!("nonroot:x:{USER}:{USER}:nonroot:/var/lib/tenure:/sbin/nologin\n"),
    )?;
    write(&root.join("etc/group"), &format!("nonroot:x:{USER}:\n"))?;
    // Whoever the image is run as.
    for directory in ["tmp", "var/lib/tenure"] {
        run(Command::new("install").args(["-d", "-m", "1777"]).arg(root.join(directory)))?;
    }
    Ok(root)
}

/// Runs the program in the image's files and what every container has besides, as somebody whom the image does not know: clusters choose users.
pub(super) fn check(image: &Path, place: &Path) -> Result<(), String> {
    // The mounts are those of a namespace that ends with it.
    const ENTER: &str = r#"mount --rbind /dev "$0/dev"; mount -t proc proc "$0/proc"; enter=$1; shift; exec $enter "$0" "$@""#;
    licences::check(image)?;
    let root = place.join("image-test");
    clear(&root)?;
    run(Command::new("cp").arg("--archive").arg(image.join(".")).arg(&root))?;
    run(Command::new("mkdir").args(["dev", "proc"].map(|mount| root.join(mount))))?;
    let ask = |words: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--kill-child"]);
        let enter = if is_root() {
            "chroot --userspec=1000:1000"
        } else {
            command.args(["--user", "--map-root-user"]);
            "chroot"
        };
        command.args(["sh", "-ec", ENTER]).arg(&root).args([enter, "/usr/bin/tenure"]).args(words);
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("XDG_STATE_HOME", "/var/lib");
        output(&mut command)
    };
    // The command under the lease is the only program that there is.
    let ran = ask(&["run", "--try", "first", "--", "/usr/bin/tenure", "--version"])?;
    if !ran.starts_with(concat!("tenure ", env!("CARGO_PKG_VERSION"))) {
        return Err(format!("the command under the lease wrote {ran:?}"));
    }
    let shown = ask(&["work", "--units", "first", "--", "/usr/bin/tenure", "show", "{}"])?;
    if !shown.contains("fence") || !root.join("var/lib/tenure/leases.db").exists() {
        return Err(format!("the unit's command wrote {shown:?}"));
    }
    Ok(())
}
