//! `cargo xtask test`: everything that must hold before a change goes in.

use crate::cited;
use crate::faults;
use crate::services::{self, Servers};
use crate::step::{Step, cargo};
use crate::workspace::{ALL_STORES, Kind, Package, Target, packages};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

/// An example shows something to a person, who would not wait longer either. It is built before, in a step of its own: how long that
/// takes is the machine's matter.
const EXAMPLE_LIMIT: Duration = Duration::from_secs(5 * 60);

/// Where the scripts are, from the workspace's root.
const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples");

/// What each must be without, because its users compile it: protocol bugs are for the simulator only.
const SHIPPED: &str = "tenure-cli";

/// The steps, the quick ones first.
pub(crate) fn steps(servers: &Rc<Servers>) -> Result<Vec<Step>, String> {
    let packages = packages()?;
    let mut steps = vec![Step::check("tools", have_tools)];
    steps.extend(services::fetch());
    steps.extend([
        Step::cargo("format", &["fmt", "--all", "--check"]),
        Step::check("no bugs shipped", no_bugs_shipped),
        Step::check("no hidden tests", no_hidden_tests),
        Step::check("cited files", || cited::check(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))),
        lints(&packages),
    ]);
    steps.extend(packages.iter().filter(|package| package.is_published).flat_map(alone));
    steps.extend(servers.start());
    // A run is long: it is to tell of every test that fails, not of the first only.
    steps.push(servers.known_to(tests(&packages))?);
    steps.extend(faults::share(servers)?);
    let targets = || packages.iter().flat_map(|package| &package.targets);
    steps.extend(packages.iter().flat_map(left_out).flat_map(needy_test));
    steps.extend(targets().filter(|t| t.kind == Kind::Example).flat_map(example));
    // The scripts build this themselves, for those who run them alone.
    let built = ["build", "--quiet", "--package", "tenure-cli"];
    steps.push(Step::cargo("build for the scripts", &built));
    steps.extend(scripts()?.iter().map(|path| script(path)));
    steps.push(documentation(&packages).env("RUSTDOCFLAGS", "-D warnings"));
    Ok(steps)
}

fn documentation(packages: &[Package]) -> Step {
    with_all_stores("documentation", &["doc", "--workspace", "--no-deps"], packages)
}

/// All of the workspace.
fn tests(packages: &[Package]) -> Step {
    with_all_stores("tests", &["test", "--workspace", "--no-fail-fast"], packages)
}

pub(crate) fn with_all_stores(name: &str, args: &[&str], packages: &[Package]) -> Step {
    let stores = all_stores(packages).collect::<Vec<_>>().join(",");
    let features: &[&str] = if stores.is_empty() { &[] } else { &["--features", &stores] };
    Step::cargo(name, &[args, features].concat())
}

/// The features that switch every store on, as cargo names them for a workspace.
fn all_stores(packages: &[Package]) -> impl Iterator<Item = String> {
    let packages = packages.iter().filter(|package| !package.stores.is_empty());
    packages.map(|package| format!("{}/{ALL_STORES}", package.name))
}

/// The tests of a package that `tests` leaves out without a word, since their features are off.
fn left_out(package: &Package) -> impl Iterator<Item = &Target> {
    let tests = package.targets.iter().filter(|target| target.kind == Kind::Test);
    tests.filter(|test| test.needs.iter().any(|need| !package.stores.contains(need)))
}

/// `--all-targets` leaves out, without a word, a bench whose features are off.
fn lints(packages: &[Package]) -> Step {
    let targets = packages.iter().flat_map(|package| &package.targets).filter(|t| t.kind == Kind::Bench);
    let needs = targets.flat_map(|t| t.needs.iter().map(|need| format!("{}/{need}", t.package)));
    let needs: BTreeSet<String> = all_stores(packages).chain(needs).collect();
    let mut args = vec!["clippy", "--workspace", "--all-targets"];
    let needs = needs.into_iter().collect::<Vec<_>>().join(",");
    if !needs.is_empty() {
        args.extend(["--features", &needs]);
    }
    args.extend(["--", "-D", "warnings"]);
    Step::cargo("lints", &args)
}

/// Users compile a crate without the rest of the workspace, which may lend it features that it forgot to ask for.
fn alone(package: &Package) -> Vec<Step> {
    let lint = |name: String, features: &[&str]| {
        let args = ["clippy", "--package", &package.name];
        Step::cargo(name, &[&args, features, &["--", "-D", "warnings"]].concat())
    };
    let bare: &[&str] = if package.features.is_empty() { &[] } else { &["--no-default-features"] };
    let mut steps = vec![lint(format!("{} alone", package.name), bare)];
    // All stores at once are linted with the workspace.
    steps.extend(package.features.iter().filter(|feature| *feature != ALL_STORES).map(|feature| {
        lint(format!("{} with {feature}", package.name), &["--no-default-features", "--features", feature])
    }));
    steps
}

fn needy_test(test: &Target) -> [Step; 2] {
    let Target { package, name, needs, .. } = test;
    let needs = needs.join(",");
    let which = ["--package", package, "--test", name, "--features", &needs];
    let lint = [&["clippy"], &which[..], &["--", "-D", "warnings"]].concat();
    [
        Step::cargo(format!("lints of {name} with {needs}"), &lint),
        Step::cargo(format!("test {name} with {needs}"), &[&["test"], &which[..]].concat()),
    ]
}

fn example(example: &Target) -> [Step; 2] {
    let Target { package, name, needs, .. } = example;
    let needs = needs.join(",");
    let mut which = vec!["--quiet", "--package", package, "--example", name];
    if !needs.is_empty() {
        which.extend(["--features", &needs]);
    }
    [
        Step::cargo(format!("build of example {name}"), &[&["build"], &which[..]].concat()),
        Step::cargo(format!("example {name}"), &[&["run"], &which[..]].concat()).within(EXAMPLE_LIMIT),
    ]
}

/// The examples that are not a program of a crate but a script over the command line.
fn scripts() -> Result<Vec<PathBuf>, String> {
    let error = |error| format!("{EXAMPLES}: {error}");
    let entries =
        std::fs::read_dir(EXAMPLES).map_err(error)?.collect::<Result<Vec<_>, _>>().map_err(error)?;
    let mut scripts: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
    scripts.retain(|path| path.extension().is_some_and(|extension| extension == "sh"));
    scripts.sort();
    Ok(scripts)
}

fn script(path: &Path) -> Step {
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    Step::command(format!("example {name}"), Command::new(path)).within(EXAMPLE_LIMIT)
}

/// What the later steps call. The toolchain's own parts are installed where they are missing.
fn have_tools() -> Result<(), String> {
    for (tool, component) in [("fmt", "rustfmt"), ("clippy", "clippy")] {
        if succeeds(&cargo().to_string_lossy(), &[tool, "--version"]) {
            continue;
        }
        println!("cargo {tool} is missing: rustup component add {component}");
        if !succeeds("rustup", &["component", "add", component]) {
            return Err(format!(
                "cargo {tool} is missing and rustup can't add {component}; install it by hand"
            ));
        }
    }
    if succeeds("cc", &["--version"]) {
        Ok(())
    } else {
        Err("there is no C compiler `cc`, which SQLite needs: apt-get install gcc libc6-dev".into())
    }
}

fn succeeds(program: &str, args: &[&str]) -> bool {
    Command::new(program).args(args).output().is_ok_and(|output| output.status.success())
}

fn no_bugs_shipped() -> Result<(), String> {
    match bugs_in(&["--package", SHIPPED])? {
        None => Ok(()),
        Some(package) => Err(format!("{SHIPPED} would be built with the protocol bugs of {package}")),
    }
}

/// The first package with the feature `bugs` among what cargo would build.
fn bugs_in(which: &[&str]) -> Result<Option<String>, String> {
    let output = Command::new(cargo())
        .args(["tree", "--edges", "normal,build", "--prefix", "none", "--format", "{p}|{f}"])
        .args(which)
        .output()
        .map_err(|error| format!("cargo did not start: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo tree: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let tree = String::from_utf8_lossy(&output.stdout);
    // A package that was shown before has " (*)" after its features.
    let has_bugs = |features: &str| features.trim_end_matches(" (*)").split(',').any(|f| f == "bugs");
    let mut packages = tree.lines().filter_map(|line| line.split_once('|'));
    Ok(packages.find(|(_, features)| has_bugs(features)).map(|(package, _)| package.to_owned()))
}

/// A test behind `cfg(feature = …)` in a target that does not require the feature would never run, without a word.
fn no_hidden_tests() -> Result<(), String> {
    let packages = packages()?;
    let tests = packages.iter().flat_map(|package| &package.targets).filter(|t| t.kind == Kind::Test);
    for Target { package, name, needs, path, .. } in tests {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        if let Some(feature) = conditions(&text).find(|feature| !needs.iter().any(|need| need == feature)) {
            return Err(format!(
                "{package}'s test target {name} has tests behind the feature `{feature}`, which nothing runs; \
                 move them to a target with required-features = [\"{feature}\"]"
            ));
        }
    }
    Ok(())
}

/// The features that are asked for by `cfg`s in a source text.
fn conditions(text: &str) -> impl Iterator<Item = &str> {
    let cfgs = text.lines().filter(|line| {
        ["#[cfg", "#![cfg"].iter().any(|cfg| line.trim_start().starts_with(cfg)) || line.contains("cfg!(")
    });
    cfgs.flat_map(|line| line.split("feature = \"").skip(1).filter_map(|rest| rest.split('"').next()))
}

#[cfg(test)]
mod tests {
    //! Plan: the commands for a crate by itself, for a test that `--workspace` leaves out, and for an example; the
    //! scripts; protocol bugs are noticed where they are, and only there; so are tests behind features.
    use super::*;

    fn target(kind: Kind, needs: &[&str]) -> Target {
        let needs = needs.iter().map(ToString::to_string).collect();
        Target { package: "p".into(), name: "t".into(), kind, needs, path: "/t.rs".into() }
    }

    fn shown(steps: impl IntoIterator<Item = Step>) -> Vec<String> {
        steps.into_iter().map(|step| step.to_string()).collect()
    }

    #[test]
    fn a_crate_is_linted_alone_and_with_each_feature() {
        let mut package = Package {
            name: "p".into(),
            features: vec![],
            stores: vec![],
            is_published: true,
            targets: vec![],
        };
        assert_eq!(shown(alone(&package)), ["p alone: cargo clippy --package p -- -D warnings"]);
        package.features = vec!["all-stores".into(), "bugs".into()];
        assert_eq!(
            shown(alone(&package)),
            [
                "p alone: cargo clippy --package p --no-default-features -- -D warnings",
                "p with bugs: cargo clippy --package p --no-default-features --features bugs -- -D warnings",
            ]
        );
    }

    #[test]
    fn benches_with_features_are_linted_with_the_workspace() {
        let mut package = Package {
            name: "p".into(),
            features: vec![],
            stores: vec![],
            is_published: false,
            targets: vec![],
        };
        let all = "lints: cargo clippy --workspace --all-targets";
        assert_eq!(lints(&[package.clone()]).to_string(), format!("{all} -- -D warnings"));
        package.targets = vec![target(Kind::Bench, &["x"]), target(Kind::Bench, &["x"])];
        assert_eq!(lints(&[package]).to_string(), format!("{all} --features p/x -- -D warnings"));
    }

    #[test]
    fn a_test_with_features_is_linted_and_run_with_them() {
        assert_eq!(
            shown(needy_test(&target(Kind::Test, &["bugs"]))),
            [
                "lints of t with bugs: cargo clippy --package p --test t --features bugs -- -D warnings",
                "test t with bugs: cargo test --package p --test t --features bugs",
            ]
        );
    }

    #[test]
    fn tests_of_every_store_are_in_the_run_of_the_workspace_and_all_others_are_run_alone() {
        let stores = vec!["x".into(), "all-stores".into()];
        let targets =
            vec![target(Kind::Test, &["x"]), target(Kind::Test, &["x", "bugs"]), target(Kind::Test, &[])];
        let package = Package { name: "p".into(), features: vec![], stores, is_published: true, targets };
        assert_eq!(left_out(&package).collect::<Vec<_>>(), [&package.targets[1]]);
        let plain = "tests: cargo test --workspace --no-fail-fast";
        assert_eq!(
            tests(std::slice::from_ref(&package)).to_string(),
            format!("{plain} --features p/all-stores")
        );
        assert_eq!(
            lints(&[package]).to_string(),
            "lints: cargo clippy --workspace --all-targets --features p/all-stores -- -D warnings"
        );
        assert_eq!(tests(&[]).to_string(), plain);
    }

    #[test]
    fn an_example_is_run_with_what_it_needs() {
        let which = "--quiet --package p --example t";
        let both = |features: &str| {
            [
                format!("build of example t: cargo build {which}{features}"),
                format!("example t: cargo run {which}{features}"),
            ]
        };
        assert_eq!(shown(example(&target(Kind::Example, &[]))), both(""));
        assert_eq!(shown(example(&target(Kind::Example, &["x", "y"]))), both(" --features x,y"));
    }

    #[test]
    fn scripts_are_examples_too() {
        let names: Vec<String> = scripts().unwrap().iter().map(|path| script(path).to_string()).collect();
        assert_eq!(names, ["example word-counts: word-counts.sh"]);
    }

    #[test]
    fn tests_behind_features_are_noticed() {
        let text = "#![cfg(feature = \"w\")]\n#[cfg(feature = \"a\")]\n#[test]\nfn t() {}\n    #[cfg(all(test, feature = \"b\"))]\n// cfg(feature = \"c\")";
        assert_eq!(conditions(text).collect::<Vec<_>>(), ["w", "a", "b"]);
        assert_eq!(no_hidden_tests(), Ok(()));
    }

    #[test]
    fn bugs_are_noticed() {
        let found = bugs_in(&["--package", "tenure-core", "--features", "bugs"]).unwrap();
        assert!(found.as_deref().is_some_and(|package| package.starts_with("tenure-core ")), "{found:?}");
        assert_eq!(bugs_in(&["--package", "tenure-core"]), Ok(None));
    }
}
