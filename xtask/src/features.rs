//! The features with which cargo builds the workspace for its tests: every store, and what tests and examples need.

use crate::step::CheckStep;
use crate::workspace::{ALL_STORES, TargetKind, WorkspacePackage};
use std::collections::BTreeSet;

/// The feature with deliberate bugs, which is never on in what is built of the whole workspace. It is on in what is linted.
pub(crate) const BUGS: &str = "bugs";

/// The package that has dependencies have the same features in all checks.
pub(crate) const UNIFY: &str = "tenure-unify";

/// Its feature for what our crates depend on by themselves.
pub(crate) const UNIFY_DIRECT: &str = "tenure-unify/direct";

/// The step of cargo with these words and those features.
pub(crate) fn with_all_stores(name: &str, args: &[&str], packages: &[WorkspacePackage]) -> CheckStep {
    CheckStep::cargo(name, &words(packages, args))
}

/// The words with the features that switch every store on, and what tests and examples need besides, as cargo names them for a
/// workspace: it leaves out, without a word, a target whose features are off.
pub(crate) fn words(packages: &[WorkspacePackage], args: &[&str]) -> Vec<String> {
    let needs = needs(packages, &[TargetKind::Test, TargetKind::Example]);
    let mut words: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
    if !needs.is_empty() {
        words.extend(["--features".to_owned(), needs.into_iter().collect::<Vec<_>>().join(",")]);
    }
    words
}

/// The features that every store and targets of these kinds need.
pub(crate) fn needs(packages: &[WorkspacePackage], kinds: &[TargetKind]) -> BTreeSet<String> {
    let stores = packages.iter().filter(|package| !package.stores.is_empty());
    let stores = stores.map(|package| format!("{}/{ALL_STORES}", package.name));
    let is_switched =
        |package: &WorkspacePackage, need: &String| package.stores.contains(need) || need == BUGS;
    let others = packages.iter().flat_map(|package| {
        let targets = package.targets.iter().filter(|target| kinds.contains(&target.kind));
        let needs = targets.flat_map(|target| &target.needs).filter(move |need| !is_switched(package, need));
        needs.map(|need| format!("{}/{need}", package.name))
    });
    stores.chain(others).collect()
}
