//! `cargo xtask test`: everything that must hold before a change goes in.

use crate::api;
use crate::cited;
use crate::clients;
use crate::command::succeeds;
use crate::dist;
use crate::faults;
use crate::features::{BUGS, UNIFY, UNIFY_DIRECT, needs, with_all_stores, words};
use crate::hidden;
use crate::program::SLOW;
use crate::services::{self, RunningServers};
use crate::shipped;
use crate::simulator;
use crate::step::{CheckStep, cargo};
use crate::suite::{self, Beside, Cores, Suite};
use crate::workspace::{ALL_STORES, Target, TargetKind, WorkspacePackage, packages};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

/// An example shows something to a person, who would not wait longer either.
pub(crate) const EXAMPLE_LIMIT: Duration = Duration::from_secs(5 * 60);

/// Some tests of the client for Python wait for a minute, and pages fetch what is built with them; the faults take as long, or twice that on a busy machine.
const LIMIT_TOGETHER: Duration = Duration::from_secs(15 * 60);

/// All that is run at once.
const ALL: &str = "tests, clients, faults and examples";

/// What the simulator does in some seconds, each scenario in turn.
const QUICK_HOURS: &str = "50";

/// The same, of the build that is optimised.
const HOURS: &str = "100";

/// Where the scripts are, from the workspace's root.
const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples");

/// The steps, the quick ones first.
pub(crate) fn steps(servers: &Rc<RunningServers>) -> Result<Vec<CheckStep>, String> {
    let packages = packages()?;
    let (fetching_begins, fetching_ends) = services::fetch_beside();
    let (building_begins, building_ends) = simulator::build_beside();
    let mut steps = vec![CheckStep::check("tools", have_tools), fetching_begins, building_begins];
    steps.extend([
        CheckStep::cargo("format", &["fmt", "--all", "--check"]),
        CheckStep::check("no bugs shipped", shipped::no_bugs),
        CheckStep::check("small by default", shipped::small_by_default),
        CheckStep::check("no hidden tests", hidden::check),
        CheckStep::check("cited files", cited_files),
        CheckStep::check("public items", public_items),
        lints(&packages),
    ]);
    // What is run by and by is built at once.
    let suite = Rc::new(Suite::with_a_second_run());
    steps.push(build(&suite, &packages));
    steps.push(building_ends);
    steps.extend(simulator::builds(&suite));
    steps.push(simulator::is_the_same_without_bugs());
    steps.push(fetching_ends);
    steps.extend(servers.start());
    steps.extend(clients::lay_outs());
    let beside = Beside { chores: chores(&packages, servers)?, ..beside(&packages, servers)? };
    // A run is long: it is to tell of every test that fails, not of the first only.
    steps.push(suite.run(ALL, servers.environment()?, Cores::All, beside));
    steps.extend(dist::checks(&suite::program("tenure"), &first_example(), EXAMPLE_LIMIT)?);
    steps.push(suite.unsteady());
    Ok(steps)
}

/// What is run in one with the tests: clients, examples and scripts, and the share of the faults.
fn beside(packages: &[WorkspacePackage], servers: &Rc<RunningServers>) -> Result<Beside, String> {
    // What takes longest begins first.
    let mut filling = clients::checks(&suite::program("tenure"))?;
    filling.extend(examples(packages).map(|name| example(name, &suite::example(name))));
    let mut simulator = Command::new(simulator::program());
    simulator.args(["--hours", HOURS]);
    filling.push(CheckStep::command(format!("example {}", simulator::EXAMPLE), simulator));
    filling.extend(scripts()?.iter().map(|path| script(path)));
    let in_time = |step: CheckStep| step.within(LIMIT_TOGETHER);
    Ok(Beside {
        filling: filling.into_iter().map(in_time).collect(),
        together: vec![in_time(faults::share(servers)?)],
        servers: Some(Rc::clone(servers)),
        ..Beside::default()
    })
}

/// What README has one run first.
pub(crate) fn first_example() -> PathBuf {
    Path::new(EXAMPLES).join("word-counts.sh")
}

/// What the compiler does while tests wait.
fn chores(packages: &[WorkspacePackage], servers: &Rc<RunningServers>) -> Result<Vec<CheckStep>, String> {
    let documented = ["test", "--workspace", "--doc", "--no-fail-fast"];
    let mut chores = vec![
        servers.known_to(with_all_stores("tests in documentation", &documented, packages))?,
        documentation(packages).env("RUSTDOCFLAGS", "-D warnings"),
    ];
    chores.extend(packages.iter().filter(|package| package.is_published).flat_map(alone));
    Ok(chores)
}

/// The steps of all tests as often as this, whatever it is that fails, with all that `test` runs beside them but what the compiler does: tests in documentation
/// are built anew each time that they are run. Nor is the package made and installed, which takes longer than it says.
pub(crate) fn soak(times: u32, on: Cores, servers: &Rc<RunningServers>) -> Result<Vec<CheckStep>, String> {
    let packages = packages()?;
    let suite = Rc::new(Suite::default());
    let mut steps: Vec<CheckStep> = services::fetch();
    steps.push(build(&suite, &packages));
    steps.extend(simulator::builds(&suite));
    steps.extend(servers.start());
    steps.extend(clients::lay_outs());
    for n in 1..=times {
        let beside = beside(&packages, servers)?;
        steps.push(
            suite.run(format!("{ALL}, {n} of {times}"), servers.environment()?, on, beside).and_go_on(),
        );
    }
    Ok(steps)
}

/// All tests but the simulator's, and what is run besides them.
fn build(suite: &Rc<Suite>, packages: &[WorkspacePackage]) -> CheckStep {
    let made: Vec<&str> = examples(packages).collect();
    suite.build("build of the tests", &words(packages, &["test", "--workspace"]), &made)
}

/// Those that run as the workspace's build has them.
fn examples(packages: &[WorkspacePackage]) -> impl Iterator<Item = &str> {
    let examples = targets(packages, TargetKind::Example);
    examples.filter(|example| example.package != simulator::PACKAGE).map(|example| example.name.as_str())
}

/// What a person runs before each commit: a share of those steps, each as it is there, so that nothing is built twice. No server is asked.
pub(crate) fn quick() -> Result<Vec<CheckStep>, String> {
    let packages = packages()?;
    let suite = Rc::new(Suite::without(SLOW));
    let which = ["test", "--workspace", "--test", "core"];
    // `cargo test --example` would make a test of it. To optimise it would take longer than to run it as it is.
    let program = words(&packages, &["build", "--workspace", "--example", simulator::EXAMPLE]);
    let mut simulator = Command::new(suite::example(simulator::EXAMPLE));
    simulator.args(["--hours", QUICK_HOURS]);
    Ok(vec![
        CheckStep::cargo("format", &["fmt", "--all", "--check"]),
        CheckStep::check("no hidden tests", hidden::check),
        CheckStep::check("cited files", cited_files),
        CheckStep::check("public items", public_items),
        // Only what has changed is linted again.
        lints(&packages),
        suite.build("build of the tests of the core", &words(&packages, &which), &[]),
        suite.run("tests of the core", vec![], Cores::All, Beside::default()),
        CheckStep::cargo("build of the simulator", &program),
        CheckStep::command("simulator", simulator).within(EXAMPLE_LIMIT),
    ])
}

/// The repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn cited_files() -> Result<(), String> {
    cited::check(&root())
}

fn public_items() -> Result<(), String> {
    api::check(&root())
}

fn targets(packages: &[WorkspacePackage], kind: TargetKind) -> impl Iterator<Item = &Target> {
    packages.iter().flat_map(|package| &package.targets).filter(move |target| target.kind == kind)
}

/// With an example, whichever it is: so dependencies have the features that they have for lints, and are not looked at once more.
fn documentation(packages: &[WorkspacePackage]) -> CheckStep {
    let example = examples(packages).next().map(|name| ["--example", name]);
    let args = [&["doc", "--workspace", "--no-deps", "--lib"], example.as_slice().as_flattened()].concat();
    with_all_stores("documentation", &args, packages)
}

/// Of everything, benches too, and tests that want the deliberate bugs. What ships, without bugs, is linted crate by crate.
fn lints(packages: &[WorkspacePackage]) -> CheckStep {
    let mut needs = needs(packages, &[TargetKind::Test, TargetKind::Example, TargetKind::Bench]);
    let tests = targets(packages, TargetKind::Test);
    let with_bugs = tests.filter(|test| test.needs.iter().any(|need| need == BUGS));
    needs.extend(with_bugs.map(|test| format!("{}/{BUGS}", test.package)));
    needs.insert(UNIFY_DIRECT.to_owned());
    let needs = needs.into_iter().collect::<Vec<_>>().join(",");
    let args = ["clippy", "--workspace", "--all-targets", "--features", &needs, "--", "-D", "warnings"];
    CheckStep::cargo("lints", &args)
}

/// Users compile a crate without the rest of the workspace, which may lend it features that it forgot to ask for.
fn alone(package: &WorkspacePackage) -> Vec<CheckStep> {
    let lint = |name: String, more: &[&str]| {
        let args = ["clippy", "--package", &package.name, "--package", UNIFY];
        CheckStep::cargo(name, &[&args, more, &["--", "-D", "warnings"]].concat())
    };
    let bare: &[&str] = if package.features.is_empty() { &[] } else { &["--no-default-features"] };
    let mut steps = vec![lint(format!("{} alone", package.name), bare)];
    // A store's crate is looked at alone; other features may want something of what they bring in.
    let is_store = |feature: &String| package.stores.contains(feature) || package.passed_on.contains(feature);
    let lint = |name: String, more: &[&str], own: &[String]| {
        let direct = own.iter().all(is_store).then(|| UNIFY_DIRECT.to_owned());
        let own = own.iter().map(|feature| format!("{}/{feature}", package.name));
        let features: Vec<String> = own.chain(direct).collect();
        lint(name, &[more, &["--features", &features.join(",")]].concat())
    };
    // All stores at once are linted with the workspace. What a feature is passed on to has it by itself.
    let (passed_on, own): (Vec<&String>, Vec<&String>) = package
        .features
        .iter()
        .filter(|feature| *feature != ALL_STORES)
        .partition(|feature| package.passed_on.contains(feature));
    let own = own.into_iter().map(|feature| vec![feature.clone()]);
    let passed_on: Vec<String> = passed_on.into_iter().cloned().collect();
    steps.extend(own.chain([passed_on]).filter(|features| !features.is_empty()).map(|features| {
        lint(format!("{} with {}", package.name, features.join(",")), &["--no-default-features"], &features)
    }));
    // A reader runs an example with the features that are on by default.
    let mut examples = package.targets.iter().filter(|target| target.kind == TargetKind::Example);
    if examples.any(|example| example.needs.is_empty()) {
        steps.push(lint(format!("examples of {}", package.name), &["--examples"], &[]));
    }
    steps
}

/// It has been built with the tests.
fn example(name: &str, path: &Path) -> CheckStep {
    CheckStep::command(format!("example {name}"), Command::new(path))
}

/// The examples that are a script over the command line and are run by themselves: those that may be executed. Others want something of whoever runs them, as tests do.
fn scripts() -> Result<Vec<PathBuf>, String> {
    let error = |error| format!("{EXAMPLES}: {error}");
    let entries =
        std::fs::read_dir(EXAMPLES).map_err(error)?.collect::<Result<Vec<_>, _>>().map_err(error)?;
    let mut scripts: Vec<PathBuf> = entries.into_iter().map(|entry| entry.path()).collect();
    let runs = |path: &PathBuf| path.metadata().is_ok_and(|file| file.permissions().mode() & 0o111 != 0);
    scripts.retain(|path| path.extension().is_some_and(|extension| extension == "sh") && runs(path));
    scripts.sort();
    Ok(scripts)
}

fn script(path: &Path) -> CheckStep {
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let step = CheckStep::command(format!("example {name}"), Command::new(path));
    // It would build this itself, for those who run it alone.
    step.env("TENURE_PROGRAM", &suite::program("tenure").display().to_string())
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
    services::need_tools()?;
    if succeeds("cc", &["--version"]) {
        Ok(())
    } else {
        Err("there is no C compiler `cc`, which SQLite needs: apt-get install gcc libc6-dev".into())
    }
}

#[cfg(test)]
mod tests {
    //! Plan: the commands for a crate by itself, for the whole workspace, and for tests with bugs; examples and
    //! scripts; what the suite names is there.
    use super::*;
    use crate::program;

    fn target(kind: TargetKind, needs: &[&str]) -> Target {
        let needs = needs.iter().map(ToString::to_string).collect();
        Target { package: "p".into(), name: "t".into(), kind, needs, path: "/t.rs".into() }
    }

    fn shown(steps: impl IntoIterator<Item = CheckStep>) -> Vec<String> {
        steps.into_iter().map(|step| step.to_string()).collect()
    }

    #[test]
    fn a_crate_is_linted_alone_and_with_each_feature() {
        let mut package = WorkspacePackage {
            name: "p".into(),
            features: vec![],
            passed_on: vec![],
            defaults: vec![],
            stores: vec![],
            is_published: true,
            targets: vec![],
        };
        let both = "cargo clippy --package p --package tenure-unify";
        assert_eq!(shown(alone(&package)), [format!("p alone: {both} -- -D warnings")]);
        package.features = vec!["all-stores".into(), "bugs".into()];
        assert_eq!(
            shown(alone(&package)),
            [
                format!("p alone: {both} --no-default-features -- -D warnings"),
                format!("p with bugs: {both} --no-default-features --features p/bugs -- -D warnings"),
            ]
        );
        package.features = ["bugs", "dynamodb", "etcd"].map(str::to_owned).into();
        package.passed_on = ["bugs", "etcd"].map(str::to_owned).into();
        assert_eq!(
            shown(alone(&package))[1..],
            [("dynamodb", "p/dynamodb"), ("bugs,etcd", "p/bugs,p/etcd,tenure-unify/direct")].map(
                |(name, features)| {
                    format!(
                        "p with {name}: {both} --no-default-features --features {features} -- -D warnings"
                    )
                }
            )
        );
    }

    fn package(stores: &[&str], targets: Vec<Target>) -> WorkspacePackage {
        let stores = stores.iter().map(ToString::to_string).collect();
        WorkspacePackage {
            name: "p".into(),
            features: vec![],
            passed_on: vec![],
            defaults: vec![],
            stores,
            is_published: true,
            targets,
        }
    }

    #[test]
    fn examples_are_linted_with_the_features_that_are_on_by_default() {
        let mut package = package(&[], vec![target(TargetKind::Example, &["x"])]);
        let both = "cargo clippy --package p --package tenure-unify";
        assert_eq!(shown(alone(&package)), [format!("p alone: {both} -- -D warnings")]);
        package.targets.push(target(TargetKind::Example, &[]));
        let examples =
            format!("examples of p: {both} --examples --features tenure-unify/direct -- -D warnings");
        assert_eq!(shown(alone(&package))[1..], [examples]);
    }

    #[test]
    fn targets_with_features_are_built_and_linted_with_the_workspace() {
        let all = "lints: cargo clippy --workspace --all-targets --features";
        let direct = "tenure-unify/direct -- -D warnings";
        assert_eq!(lints(&[package(&[], vec![])]).to_string(), format!("{all} {direct}"));
        let needy = |kind| package(&[], vec![target(kind, &["x"]), target(kind, &["x", "y"])]);
        let lints = |kind| lints(&[needy(kind)]).to_string();
        for kind in [TargetKind::Bench, TargetKind::Test, TargetKind::Example] {
            assert_eq!(lints(kind), format!("{all} p/x,p/y,{direct}"));
        }
        // Nobody runs benches with the tests.
        assert_eq!(words(&[needy(TargetKind::Bench)], &["test"]), ["test"]);
        assert_eq!(words(&[needy(TargetKind::Test)], &["test"]), ["test", "--features", "p/x,p/y"]);
        assert_eq!(words(&[needy(TargetKind::Example)], &["test"]), ["test", "--features", "p/x,p/y"]);
    }

    #[test]
    fn tests_of_every_store_are_in_the_run_of_the_workspace_and_those_with_bugs_are_linted_only() {
        let targets = vec![
            target(TargetKind::Test, &["x"]),
            Target { name: "u".into(), ..target(TargetKind::Test, &["x", "bugs"]) },
        ];
        let package = package(&["x", "all-stores"], targets);
        assert_eq!(
            words(std::slice::from_ref(&package), &["test", "--workspace"]),
            ["test", "--workspace", "--features", "p/all-stores"]
        );
        let linted = lints(std::slice::from_ref(&package)).to_string();
        assert!(linted.contains(" --features p/all-stores,p/bugs,tenure-unify/direct -- "), "{linted}");
    }

    #[test]
    fn what_has_been_built_is_run() {
        assert!(
            example("sweep", Path::new("target/debug/examples/sweep"))
                .to_string()
                .ends_with("example sweep: sweep")
        );
        let names: Vec<String> = scripts().unwrap().iter().map(|path| script(path).to_string()).collect();
        assert_eq!(names.len(), 1);
        assert!(names[0].starts_with("example word-counts: TENURE_PROGRAM='/"), "{names:?}");
        assert!(names[0].ends_with("debug/tenure' word-counts.sh"), "{names:?}");
    }

    #[test]
    fn what_the_suite_names_is_there() {
        let packages = packages().unwrap();
        for (package, name) in suite::named() {
            let has_it = |target: &Target| {
                target.name == name
                    || target.path.ends_with(program::MANY)
                        && hidden::read(&target.path).unwrap().contains(&format!("\nmod {name};"))
            };
            let is_it = |target: &Target| target.package == package && has_it(target);
            assert!(targets(&packages, TargetKind::Test).any(is_it), "{package}::{name}");
        }
        for slow in SLOW {
            let (file, name) = slow.split_once("::").unwrap();
            let text = hidden::read(&root().join(format!("crates/tenure-core/tests/{file}.rs"))).unwrap();
            assert!(text.contains(&format!("fn {name}()")), "{slow}");
        }
    }
}
