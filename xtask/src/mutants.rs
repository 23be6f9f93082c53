//! `cargo xtask mutants`: small mistakes are made in tenure-core, one at a time, and a test must notice each. What needs no
//! test is excluded in `.cargo/mutants.toml`, with the reason.
//!
//! Each mistake costs a build, so what is built most often is small: the tests as one program, without those that take
//! long, notice most; the unit tests, those that take long, and the simulator see only what is left by those before.

use crate::program::SLOW;
use crate::simulator;
use crate::step::{CheckStep, cargo};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A full run takes hours.
const LIMIT: Duration = Duration::from_secs(12 * 60 * 60);

/// What cargo-mutants exits with when some were not noticed.
const MISSED: i32 = 2;

/// What it exits with when tests took too long for some.
const TIMEOUT: i32 = 3;

/// Which code is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// What differs from `main`.
    Changed,
    All,
}

/// Understands the words after `mutants`.
pub(crate) fn parse(words: &[String]) -> Result<Scope, String> {
    match words {
        [] => Ok(Scope::Changed),
        [word] if word == "--all" => Ok(Scope::All),
        _ => Err(format!("\"mutants\" takes nothing or --all, not {words:?}")),
    }
}

/// The tool, then the run with the core's own tests, then the simulator for what those did not notice.
pub(crate) fn steps(scope: Scope) -> Result<Vec<CheckStep>, String> {
    let shop = workshop();
    let mut which = vec!["--output".to_owned(), shop.display().to_string()];
    if scope == Scope::Changed {
        let diff = changed()?;
        if diff.is_empty() {
            return Ok(vec![CheckStep::check("nothing in crates/tenure-core differs from main", || Ok(()))]);
        }
        std::fs::create_dir_all(&shop).map_err(|error| format!("{}: {error}", shop.display()))?;
        let path = shop.join("changed.diff");
        std::fs::write(&path, diff).map_err(|error| format!("{}: {error}", path.display()))?;
        which.extend(["--in-diff".to_owned(), path.display().to_string()]);
    }
    let which: Vec<&str> = which.iter().map(String::as_str).collect();
    let core = ["mutants", "--package", "tenure-core", "--jobs", "1", "--no-shuffle"];
    let quick = "--cargo-arg=--config=profile.dev.debug=0";
    let own = ["--test-package", "tenure-core", "--timeout", "120", quick];
    let skips: Vec<&str> = SLOW.iter().flat_map(|test| ["--skip", test]).collect();
    let again: &[&str] = &["--iterate"];
    // What is given to cargo itself counts for what is built, too.
    let together: &[&str] = &["--cargo-arg=--test=core"];
    let fast = [together, &["--", "--"], &skips].concat();
    let profile = format!("--profile={}", simulator::PROFILE);
    let simulated = ["--iterate", "--test-package", simulator::PACKAGE, &profile, "--timeout", "900"];
    // What the first ones miss is no failure yet.
    let step = |name, args: &[&[&str]]| {
        let args = [&core[..], &which, &args.concat()].concat();
        CheckStep::cargo(name, &args).passes_with(&[MISSED, TIMEOUT]).within(LIMIT)
    };
    Ok(vec![
        CheckStep::check("cargo-mutants", have_tool),
        step("mutants by the core's fast tests", &[&own, &fast]),
        step("the rest by its unit tests", &[again, &own, &["--cargo-arg=--lib"]]),
        step("the rest by all of its tests", &[again, &own, together]),
        CheckStep::cargo("the rest by the simulator", &[&core[..], &which, &simulated].concat())
            .within(LIMIT),
    ])
}

fn workshop() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from).join("mutants")
}

/// How the core differs from `main`.
fn changed() -> Result<Vec<u8>, String> {
    let output = Command::new("git")
        .args(["diff", "main", "--", "crates/tenure-core/src"])
        .output()
        .map_err(|error| format!("git did not start: {error}"))?;
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(format!("git diff main: {}", String::from_utf8_lossy(&output.stderr)))
    }
}

fn have_tool() -> Result<(), String> {
    let succeeds =
        |args: &[&str]| Command::new(cargo()).args(args).status().is_ok_and(|status| status.success());
    if succeeds(&["mutants", "--version"]) {
        return Ok(());
    }
    println!("cargo-mutants is missing: cargo install cargo-mutants");
    if succeeds(&["install", "cargo-mutants", "--locked"]) {
        return Ok(());
    }
    Err("cargo-mutants is missing and could not be installed: cargo install cargo-mutants".into())
}

#[cfg(test)]
mod tests {
    //! Plan: what may be asked, and what is answered to anything else; all code is judged by the core's tests first and by
    //! the simulator after that; the tests that are left out are there.
    use super::*;

    #[test]
    fn the_scope_is_understood() {
        let parse = |words: &[&str]| parse(&words.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(parse(&[]), Ok(Scope::Changed));
        assert_eq!(parse(&["--all"]), Ok(Scope::All));
        assert!(parse(&["--some"]).unwrap_err().contains("--some"));
    }

    #[test]
    fn the_simulator_judges_what_the_cores_tests_missed() {
        let shown: Vec<String> = steps(Scope::All).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(shown.len(), 5);
        assert!(
            shown[1].contains("--test=core -- -- --skip") && !shown[1].contains("--in-diff"),
            "{}",
            shown[1]
        );
        assert!(shown[2].contains("--iterate") && shown[2].ends_with("=--lib"), "{}", shown[2]);
        assert!(shown[3].contains("--iterate") && shown[3].ends_with("--test=core"), "{}", shown[3]);
        assert!(shown[4].contains("--iterate --test-package tenure-sim --profile=simulator"), "{}", shown[4]);
    }

    #[test]
    fn what_takes_long_is_there() {
        let room = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/tenure-core/tests");
        for test in SLOW {
            let (file, name) = test.split_once("::").unwrap();
            let text = std::fs::read_to_string(room.join(file).with_extension("rs")).unwrap();
            assert!(text.contains(&format!("fn {name}()")), "{test} is not there");
        }
    }
}
