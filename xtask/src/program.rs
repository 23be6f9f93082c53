//! What cargo has built: programs of tests, and examples.

use crate::workspace::{object, strings};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use tinyjson::JsonValue;

/// The main file of a program that has the tests of many files.
pub(crate) const MANY: &str = "tests/main.rs";

/// The packages whose tests do no I/O, and whose time is simulated: they only compute, and do the same on each machine.
const ON_SIMULATED_TIME: [&str; 3] = ["tenure-core", "tenure-sim", "tenure-store"];

/// The tests of the core that take seconds without optimisation.
pub(crate) const SLOW: &[&str] = &[
    "fleet::a_worker_that_gets_hundreds_of_units_is_told_of_them_all",
    "fleet::all_ten_restart_one_after_the_other_and_no_unit_lies_idle",
    "fleet::l2_a_worker_that_joins_gets_its_share_and_no_more_is_moved",
    "fleet::l3_what_dead_workers_had_is_held_again_in_time",
    "fleet::with_nothing_changing_nothing_moves_and_little_is_asked",
    "fleet_dead::l1_a_third_to_a_half_of_the_fleet_that_dies_at_once_is_noticed_in_time",
    "fleet_dead::l1_goes_by_the_ttl_of_the_one_that_dies",
    "fleet_dead::l2_workers_with_different_ttls_get_their_shares_in_time",
    "fleet_dead::l3_more_units_than_fit_behind_one_missing_session_are_held_again_in_time",
    "fleet_dead::l3_those_who_were_there_share_what_is_behind_a_missing_session",
    "fleet_retry::a_unit_that_a_worker_can_do_after_a_long_time_gets_there_in_bounded_time",
    "fleet_retry::a_unit_that_fails_always_costs_four_calls_a_retry_and_nobody_lists_for_it",
    "fleet_service::l4_workers_that_start_at_once_on_a_service_that_refuses_what_is_too_much_get_all_and_are_even",
    "fleet_trouble::a_false_alarm_of_long_ago_delays_no_takeover",
];

/// A program of tests, or a file of its tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Program {
    /// Its package, and what of it: `tenure-cli::watchdog`.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    /// Its package's folder, in which it runs.
    pub(crate) folder: PathBuf,
    /// Whether it has the tests of many files.
    pub(crate) many: bool,
    /// The names of the tests that are run, if not all are.
    pub(crate) only: Vec<String>,
}

impl Program {
    /// A program of many files as one for each of them. It is asked for what it has.
    pub(crate) fn files(self) -> Result<Vec<Program>, String> {
        if !self.many {
            return Ok(vec![self]);
        }
        let error = |error: String| format!("{} --list: {error}", self.path.display());
        let listed = Command::new(&self.path).args(["--list", "--format", "terse"]).output();
        let listed = listed.map_err(|e| error(e.to_string()))?;
        if !listed.status.success() {
            return Err(error(listed.status.to_string()));
        }
        let files = by_file(&String::from_utf8_lossy(&listed.stdout));
        if files.is_empty() {
            return Err(error("it has no tests".into()));
        }
        let file = |(file, only)| Program {
            name: format!("{}::{file}", self.name),
            many: false,
            only,
            ..self.clone()
        };
        Ok(files.into_iter().map(file).collect())
    }

    /// The same without these tests; none if nothing is left. A program that has all of its tests keeps them.
    pub(crate) fn without(mut self, left_out: &[&str]) -> Option<Program> {
        let has_all = self.only.is_empty();
        self.only.retain(|test| !left_out.contains(&test.as_str()));
        (has_all || !self.only.is_empty()).then_some(self)
    }

    pub(crate) fn is_on_simulated_time(&self) -> bool {
        let package = self.name.split("::").next().unwrap_or(&self.name);
        ON_SIMULATED_TIME.contains(&package)
    }
}

/// The tests of a list by the first parts of their names, which are their files.
fn by_file(listed: &str) -> BTreeMap<String, Vec<String>> {
    let mut files: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for test in listed.lines().filter_map(|line| line.strip_suffix(": test")) {
        let file = test.split_once("::").map_or(test, |(file, _)| file);
        files.entry(file.to_owned()).or_default().push(test.to_owned());
    }
    files
}

/// The test programs that cargo tells of, and the names of the examples.
pub(crate) fn artifacts(told: &str) -> Result<(Vec<Program>, Vec<String>), String> {
    let (mut programs, mut examples) = (Vec::new(), Vec::new());
    for line in told.lines().filter(|line| line.starts_with(r#"{"reason":"compiler-artifact""#)) {
        match artifact(line).ok_or_else(|| format!("cargo's word can't be understood: {line}"))? {
            Artifact::Program(program) => programs.push(program),
            Artifact::Example(name) => examples.push(name),
            Artifact::Other => {}
        }
    }
    Ok((programs, examples))
}

enum Artifact {
    Program(Program),
    Example(String),
    Other,
}

fn artifact(line: &str) -> Option<Artifact> {
    let json: JsonValue = line.parse().ok()?;
    let json = object(&json)?;
    let text = |name: &str| json.get(name)?.get::<String>();
    let Some(path) = text("executable") else { return Some(Artifact::Other) };
    let target = object(json.get("target")?)?;
    let name: &String = target.get("name")?.get()?;
    let kind = strings(target.get("kind")?)?.into_iter().next()?;
    if !*object(json.get("profile")?)?.get("test")?.get::<bool>()? {
        return Some(if kind == "example" { Artifact::Example(name.clone()) } else { Artifact::Other });
    }
    // It ends in `/NAME#VERSION`, or in `#NAME@VERSION` where the folder has another name.
    let (place, rest) = text("package_id")?.rsplit_once('#')?;
    let package = rest.split_once('@').map_or_else(|| place.rsplit('/').next(), |(name, _)| Some(name))?;
    let many = kind == "test" && target.get("src_path")?.get::<String>()?.ends_with(&format!("/{MANY}"));
    let name = match kind.as_str() {
        "lib" => package.to_owned(),
        _ if many => package.to_owned(),
        "test" => format!("{package}::{name}"),
        kind => format!("{package}::{kind}/{name}"),
    };
    let folder = Path::new(text("manifest_path")?).parent()?.to_owned();
    Some(Artifact::Program(Program { name, path: path.into(), folder, many, only: vec![] }))
}

#[cfg(test)]
mod tests {
    //! Plan: test programs and examples are found in what cargo tells, and damage is; the files of one program.
    use super::*;

    const TOLD: &str = r##"{"reason":"compiler-artifact","package_id":"path+file:///w/crates/tenure-cli#0.1.0","manifest_path":"/w/crates/tenure-cli/Cargo.toml","target":{"kind":["test"],"name":"run","src_path":"/w/crates/tenure-cli/tests/run.rs"},"profile":{"test":true},"executable":"/w/target/debug/deps/run-1"}
{"reason":"compiler-artifact","package_id":"path+file:///w/crates/tenure-cli#0.1.0","manifest_path":"/w/crates/tenure-cli/Cargo.toml","target":{"kind":["test"],"name":"cli","src_path":"/w/crates/tenure-cli/tests/main.rs"},"profile":{"test":true},"executable":"/w/target/debug/deps/cli-1"}
{"reason":"build-script-executed","package_id":"x"}
{"reason":"compiler-artifact","package_id":"path+file:///w/peers/less#tenure-less@0.1.0","manifest_path":"/w/peers/less/Cargo.toml","target":{"kind":["lib"],"name":"tenure_less"},"profile":{"test":true},"executable":"/w/target/debug/deps/tenure_less-2"}
{"reason":"compiler-artifact","package_id":"path+file:///w/crates/tenure-cli#0.1.0","manifest_path":"/w/crates/tenure-cli/Cargo.toml","target":{"kind":["bin"],"name":"tenure"},"profile":{"test":true},"executable":"/w/target/debug/deps/tenure-3"}
{"reason":"compiler-artifact","package_id":"path+file:///w/crates/tenure-cli#0.1.0","manifest_path":"/w/crates/tenure-cli/Cargo.toml","target":{"kind":["bin"],"name":"tenure"},"profile":{"test":false},"executable":"/w/target/debug/tenure"}
{"reason":"compiler-artifact","package_id":"path+file:///w/crates/tenure#0.1.0","manifest_path":"/w/crates/tenure/Cargo.toml","target":{"kind":["example"],"name":"sweep"},"profile":{"test":false},"executable":"/w/target/debug/examples/sweep"}
{"reason":"compiler-artifact","package_id":"registry+https://x#libc@0.2.1","manifest_path":"/l/Cargo.toml","target":{"kind":["lib"],"name":"libc"},"profile":{"test":false},"executable":null}
"##;

    #[test]
    fn programs_and_examples_are_found() {
        let (programs, examples) = artifacts(TOLD).unwrap();
        let names: Vec<(&str, bool)> =
            programs.iter().map(|program| (program.name.as_str(), program.many)).collect();
        let all = [("tenure-cli::run", false), ("tenure-cli", true), ("tenure-less", false)];
        assert_eq!(names, [&all[..], &[("tenure-cli::bin/tenure", false)]].concat());
        assert_eq!(programs[0].path, Path::new("/w/target/debug/deps/run-1"));
        assert_eq!(programs[0].folder, Path::new("/w/crates/tenure-cli"));
        assert_eq!(examples, ["sweep"]);
        let damaged = TOLD.replace(r#""profile":{"test":true},"#, "");
        assert!(artifacts(&damaged).unwrap_err().contains("can't be understood"));
    }

    #[test]
    fn the_tests_of_many_files_are_run_by_file() {
        let files = by_file("run::a: test\nrun::b::c: test\nfleet_run::a: test\nx: benchmark\n\n3 tests\n");
        let files: Vec<(&str, &[String])> =
            files.iter().map(|(file, tests)| (file.as_str(), &tests[..])).collect();
        assert_eq!(
            files,
            [
                ("fleet_run", &["fleet_run::a".to_owned()][..]),
                ("run", &["run::a".to_owned(), "run::b::c".to_owned()])
            ]
        );
        let run =
            Program { name: "run".into(), path: "/p".into(), folder: "/f".into(), many: false, only: vec![] };
        let two = Program { only: vec!["run::a".into(), "run::b".into()], ..run.clone() };
        assert_eq!(two.clone().without(&["run::a", "x"]).unwrap().only, ["run::b"]);
        assert_eq!(two.without(&["run::a", "run::b"]), None);
        assert_eq!(run.clone().without(&["run::a"]), Some(run));
        // This very program has the tests of its files.
        let name = "xtask".to_owned();
        let this = Program {
            name,
            path: std::env::current_exe().unwrap(),
            folder: "/f".into(),
            many: true,
            only: vec![],
        };
        let file = this.files().unwrap().into_iter().find(|file| file.name == "xtask::program").unwrap();
        assert!(file.only.iter().any(|test| test.ends_with("::the_tests_of_many_files_are_run_by_file")));
        let deaf = Program { path: "/bin/true".into(), many: true, ..file.clone() };
        assert!(deaf.files().unwrap_err().contains("no tests"));
    }
}
