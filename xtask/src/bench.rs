//! `cargo xtask bench`: the figures. Every bench target of the workspace is a program that prints its own table, with
//! what it is measured against in the same run, so that the ratios hold on any machine.

use crate::services::{self, RunningServers};
use crate::step::CheckStep;
use crate::workspace::{Target, TargetKind, packages};
use std::rc::Rc;

/// The machine, then every bench program whose name contains one of `names`, or all.
pub(crate) fn steps(names: &[String], servers: &Rc<RunningServers>) -> Result<Vec<CheckStep>, String> {
    let targets: Vec<Target> = packages()?.into_iter().flat_map(|package| package.targets).collect();
    let benches = choose(&targets, names)?;
    println!("{}", machine());
    // Only what is measured on a server needs one.
    let needs_server = |bench: &Target| {
        bench
            .needs
            .iter()
            .any(|feature| ["dynamodb", "etcd", "postgres", "redis"].contains(&feature.as_str()))
    };
    let mut steps = Vec::new();
    if benches.iter().any(|bench| needs_server(bench)) {
        steps.extend(services::fetch());
        steps.extend(services::fetch_for_benches());
        steps.extend(servers.start());
    }
    if benches.iter().any(|bench| bench.name == "work") {
        steps.push(services::fetch_for_work());
    }
    for bench in benches {
        let step = step(bench);
        steps.push(if needs_server(bench) { servers.known_to(step)? } else { step });
    }
    Ok(steps)
}

fn choose<'a>(targets: &'a [Target], names: &[String]) -> Result<Vec<&'a Target>, String> {
    let benches: Vec<&Target> = targets.iter().filter(|target| target.kind == TargetKind::Bench).collect();
    if let Some(name) = names.iter().find(|name| !benches.iter().any(|bench| bench.name.contains(*name))) {
        let all: Vec<&str> = benches.iter().map(|bench| bench.name.as_str()).collect();
        return Err(format!("no bench has {name:?} in its name; there are: {}", all.join(", ")));
    }
    let is_chosen = |bench: &&Target| names.is_empty() || names.iter().any(|name| bench.name.contains(name));
    Ok(benches.into_iter().filter(is_chosen).collect())
}

/// All is optimised, but not at link time: a release build takes many times as long, and the figures are within the noise of each other.
const OPTIMISED: [&str; 6] = [
    "--profile",
    "dev",
    "--config",
    "profile.dev.opt-level=2",
    "--config",
    "profile.dev.debug-assertions=false",
];

fn step(bench: &Target) -> CheckStep {
    let needs = bench.needs.join(",");
    let mut args = vec!["bench", "--quiet"];
    args.extend(OPTIMISED);
    args.extend(["--package", &bench.package, "--bench", &bench.name]);
    if !needs.is_empty() {
        args.extend(["--features", &needs]);
    }
    CheckStep::cargo(&bench.name, &args)
}

/// Figures without the machine that they were taken on say little.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or("?".into(), |cores| cores.to_string());
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ").map(|(_, name)| name));
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("machine: {cores} cores, {}, Linux {}", model.unwrap_or("unknown processor"), kernel.trim())
}

#[cfg(test)]
mod tests {
    //! Plan: all benches without names, those that match with names, a name that matches none is an error that lists what
    //! there is; the command line of one; the machine's line has its core count.
    use super::*;

    fn targets() -> Vec<Target> {
        let target = |name: &str, kind| Target {
            package: "p".into(),
            name: name.into(),
            kind,
            needs: vec![],
            path: "/b.rs".into(),
        };
        vec![
            target("pairs", TargetKind::Bench),
            target("pairs_test", TargetKind::Test),
            target("work", TargetKind::Bench),
        ]
    }

    fn chosen(names: &[&str]) -> Result<Vec<String>, String> {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        choose(&targets(), &names).map(|benches| benches.iter().map(|bench| bench.name.clone()).collect())
    }

    #[test]
    fn benches_are_chosen_by_part_of_their_names() {
        assert_eq!(chosen(&[]), Ok(vec!["pairs".into(), "work".into()]));
        assert_eq!(chosen(&["wor"]), Ok(vec!["work".into()]));
        assert_eq!(
            chosen(&["pears"]).unwrap_err(),
            "no bench has \"pears\" in its name; there are: pairs, work"
        );
    }

    #[test]
    fn a_bench_is_one_command() {
        let command = format!("cargo bench --quiet {} --package p --bench pairs", OPTIMISED.join(" "));
        assert_eq!(step(&targets()[0]).to_string(), format!("pairs: {command}"));
    }

    #[test]
    fn the_machine_is_told() {
        let cores = std::thread::available_parallelism().unwrap();
        assert!(machine().starts_with(&format!("machine: {cores} cores, ")), "{}", machine());
    }
}
