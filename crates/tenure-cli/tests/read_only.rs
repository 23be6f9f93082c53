//! Looking at a file that can't be written, by the real binary on real files.
//!
//! Plan: `ls`, `show`, `leader`, `doctor` and what looks at fleets show what there is, and say that nothing can be changed; what changes something is refused;
//! a log that can't be read is told, and nothing is shown without it; a file that can't be read, or looked for, is told as that;
//! a full disk keeps nobody from looking.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{Bench, Ran};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A directory in which nothing can be made or changed, not even by root, until dropped.
struct Sealed(PathBuf);

impl Sealed {
    fn new(path: PathBuf) -> Sealed {
        set(&path, true);
        Sealed(path)
    }
}

impl Drop for Sealed {
    fn drop(&mut self) {
        set(&self.0, false);
    }
}

fn set(path: &Path, sealed: bool) {
    let is_root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    let (program, how) = match (is_root, sealed) {
        (true, true) => ("chattr", "+i"),
        (true, false) => ("chattr", "-i"),
        (false, true) => ("chmod", "a-w"),
        (false, false) => ("chmod", "u+w"),
    };
    assert!(Command::new(program).arg(how).arg(path).status().unwrap().success());
}

#[test]
fn a_full_disk_keeps_nobody_from_looking() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path("small")).unwrap();
    // Where a process ended in a hurry, its log is there, which can't be read from a full disk.
    let script = "mount -t tmpfs -o size=1m none small && export TENURE_STORE=sqlite:small/leases.db && \
                  $TENURE run k -- true && for n in $(seq 99); do test ! -e small/leases.db-wal || $TENURE ls > ls; done && { cat /dev/zero > small/rest 2> /dev/null; \
                  $TENURE show k && $TENURE ls -a && $TENURE doctor > doctor; echo doctor $?; }";
    let ran = bench.run_with_mounts(script);
    assert!(ran.code == 0 && ran.out.matches("vacant").count() == 2, "{ran:?}");
    assert!(ran.err.contains("no space left") && ran.out.ends_with("doctor 1\n"), "{ran:?}");
    let doctor = bench.read("doctor");
    assert!(doctor.contains("its disk is full") && doctor.contains("records"), "{doctor}");
}

#[test]
fn what_only_looks_needs_no_write_access() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path("there")).unwrap();
    let at = |arguments: &[&str]| bench.run(&[&["--store", "sqlite:there/leases.db"], arguments].concat());
    assert_eq!(at(&["run", "k", "--", "true"]).code, 0);
    assert_eq!(at(&["fleet", "add", "f", "unit-1"]).code, 0);
    let sealed = Sealed::new(bench.path("there"));
    let ls = at(&["ls", "--all"]);
    assert_eq!((ls.code, ls.out.contains("k ")), (0, true), "{ls:?}");
    assert!(ls.err.contains("read-only for this process"), "{ls:?}");
    assert_eq!(at(&["show", "k"]).code, 0);
    assert_eq!(at(&["leader", "k"]).code, 66);
    let fleet = |verb: &[&str]| at(&[&["fleet"], verb].concat());
    for (verb, shows) in
        [(["ls"].as_slice(), "f "), (&["units", "f"], "unit-1"), (&["top", "f", "--once"], "unit-1")]
    {
        let looked = fleet(verb);
        assert_eq!((looked.code, looked.out.contains(shows)), (0, true), "{verb:?}: {looked:?}");
        assert!(looked.err.contains("read-only for this process"), "{looked:?}");
    }
    let workers = fleet(&["workers", "f"]);
    assert_eq!((workers.code, workers.err.contains("has no workers, and 1 unit")), (0, true), "{workers:?}");
    let doctor = at(&["doctor"]);
    assert_eq!((doctor.code, doctor.out.contains("it can hold no lease here")), (2, true), "{doctor:?}");
    assert!(doctor.out.contains("a read takes") && !doctor.out.contains("races"), "{doctor:?}");
    for verb in [
        ["run", "k", "--", "true"].as_slice(),
        &["gc", "--yes"],
        &["fleet", "add", "f", "unit-2"],
        &["rm", "--damaged", "k", "--yes"],
    ] {
        let refused = at(verb);
        assert_eq!((refused.code, refused.err.contains("read-only")), (64, true), "{refused:?}");
    }
    drop(sealed);
    let ls = at(&["ls"]);
    assert!(!ls.err.contains("read-only"), "{ls:?}");
}

#[test]
fn nothing_is_shown_without_what_was_written_last() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path("there")).unwrap();
    assert_eq!(bench.run(&["run", "k", "--", "sh", "-c", "cp leases.db leases.db-wal there"]).code, 0);
    let _sealed = Sealed::new(bench.path("there"));
    for verb in [["ls"].as_slice(), &["show", "k"], &["doctor"]] {
        let refused = bench.run(&[&["--store", "sqlite:there/leases.db"], verb].concat());
        assert_eq!((refused.code, refused.err.contains("leases.db-wal")), (64, true), "{refused:?}");
        assert_eq!(refused.out, "");
    }
}

/// What a user sees who may do no more than the modes of files allow; root may do more.
fn as_modes_allow(bench: &Bench, arguments: &[&str]) -> Ran {
    let tenure = bench.tenure(arguments);
    let mut command = Command::new("setpriv");
    command.arg("--bounding-set=-dac_override,-dac_read_search").arg(tenure.get_program()).args(arguments);
    bench.settle(&mut command).env("TENURE_STORE", "sqlite:there/leases.db");
    let is_root = nix::unistd::geteuid().is_root();
    let mut tenure = bench.tenure(arguments);
    tenure.env("TENURE_STORE", "sqlite:there/leases.db");
    Ran::of(if is_root { command } else { tenure }.stdin(Stdio::null()).output().unwrap())
}

#[test]
fn what_can_t_be_read_or_looked_for_is_told_as_that() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path("there")).unwrap();
    assert_eq!(bench.run(&["--store", "sqlite:there/leases.db", "run", "k", "--", "true"]).code, 0);
    for (what, mode, told) in
        [("there/leases.db", 0o200, "can't be read: "), ("there", 0o600, "can't be seen: ")]
    {
        let path = bench.path(what);
        let usual = path.metadata().unwrap().permissions();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        for verb in [["ls"].as_slice(), &["show", "k"], &["wait", "k"], &["doctor"]] {
            let refused = as_modes_allow(&bench, verb);
            assert_eq!((refused.code, refused.err.contains(told)), (69, true), "{refused:?}");
            assert!(!refused.err.contains("read-only"), "{refused:?}");
        }
        std::fs::set_permissions(&path, usual).unwrap();
    }
    assert_eq!(as_modes_allow(&bench, &["show", "k"]).code, 0);
}
