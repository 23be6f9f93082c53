//! `cargo xtask mutants`: small mistakes are made in tenure-core, one at a time, and a test must notice each. What needs no
//! test is excluded in `.cargo/mutants.toml`, with the reason.

use crate::step::{Step, cargo};
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
pub(crate) fn steps(scope: Scope) -> Result<Vec<Step>, String> {
    let shop = workshop();
    let mut which = vec!["--output".to_owned(), shop.display().to_string()];
    if scope == Scope::Changed {
        let diff = changed()?;
        if diff.is_empty() {
            return Ok(vec![Step::check("nothing in crates/tenure-core differs from main", || Ok(()))]);
        }
        std::fs::create_dir_all(&shop).map_err(|error| format!("{}: {error}", shop.display()))?;
        let path = shop.join("changed.diff");
        std::fs::write(&path, diff).map_err(|error| format!("{}: {error}", path.display()))?;
        which.extend(["--in-diff".to_owned(), path.display().to_string()]);
    }
    let which: Vec<&str> = which.iter().map(String::as_str).collect();
    let core = ["mutants", "--package", "tenure-core", "--jobs", "1", "--no-shuffle"];
    // Unoptimised code is built sooner, and the core's own tests take no time.
    let own =
        ["--test-package", "tenure-core", "--cargo-arg=--config=profile.dev.package.tenure-core.opt-level=0"];
    let simulated = ["--iterate", "--test-package", "tenure-sim", "--timeout", "900"];
    Ok(vec![
        Step::check("cargo-mutants", have_tool),
        // What these tests miss is no failure yet.
        Step::cargo("mutants by the core's tests", &[&core[..], &which, &own].concat())
            .passes_with(&[MISSED, TIMEOUT])
            .within(LIMIT),
        Step::cargo("the rest by the simulator", &[&core[..], &which, &simulated].concat()).within(LIMIT),
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
    //! the simulator after that.
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
        assert_eq!(shown.len(), 3);
        assert!(
            shown[1].contains("--test-package tenure-core") && !shown[1].contains("--in-diff"),
            "{}",
            shown[1]
        );
        assert!(shown[2].contains("--iterate --test-package tenure-sim"), "{}", shown[2]);
    }
}
