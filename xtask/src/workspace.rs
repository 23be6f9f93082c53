//! What the workspace has: its packages, their features and targets, as `cargo metadata` tells.

use crate::step::cargo;
use std::path::PathBuf;
use std::process::Command;
use tinyjson::JsonValue;

/// The feature that is on in what is built of the whole workspace, so that tests of every store are among it.
pub(crate) const ALL_STORES: &str = "all-stores";

/// What a target is for. Others than these need no step of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TargetKind {
    Example,
    Bench,
    Test,
}

/// Something of a package that can be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) package: String,
    pub(crate) name: String,
    pub(crate) kind: TargetKind,
    /// Features without which cargo leaves it out, also from `--workspace`, without a word.
    pub(crate) needs: Vec<String>,
    /// Its main file.
    pub(crate) path: PathBuf,
}

/// A package of the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WorkspacePackage {
    pub(crate) name: String,
    /// Without `default`.
    pub(crate) features: Vec<String>,
    /// Those of them that switch on features of packages below and nothing else.
    pub(crate) passed_on: Vec<String>,
    /// What `default` switches on.
    pub(crate) defaults: Vec<String>,
    /// What its feature `all-stores` switches on, and that feature itself; nothing where it has none.
    pub(crate) stores: Vec<String>,
    pub(crate) is_published: bool,
    pub(crate) targets: Vec<Target>,
}

/// Where cargo puts what it builds.
pub(crate) fn built() -> PathBuf {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

/// All packages, by name.
pub(crate) fn packages() -> Result<Vec<WorkspacePackage>, String> {
    let output = Command::new(cargo())
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .output()
        .map_err(|error| format!("cargo did not start: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr)));
    }
    parse(&String::from_utf8_lossy(&output.stdout)).ok_or_else(|| "cargo metadata can't be understood".into())
}

fn parse(metadata: &str) -> Option<Vec<WorkspacePackage>> {
    let metadata: JsonValue = metadata.parse().ok()?;
    let packages: &Vec<JsonValue> = object(&metadata)?.get("packages")?.get()?;
    let mut packages: Vec<WorkspacePackage> = packages.iter().map(package).collect::<Option<_>>()?;
    packages.sort_by(|a, b| a.name.cmp(&b.name));
    Some(packages)
}

fn package(json: &JsonValue) -> Option<WorkspacePackage> {
    let json = object(json)?;
    let name: &String = json.get("name")?.get()?;
    let all_features = object(json.get("features")?)?;
    let mut stores = all_features.get(ALL_STORES).map_or(Some(Vec::new()), strings)?;
    let defaults = all_features.get("default").map_or(Some(Vec::new()), strings)?;
    let mut features: Vec<String> = all_features.keys().cloned().collect();
    stores.extend(features.iter().filter(|feature| *feature == ALL_STORES).cloned());
    features.retain(|feature| feature != "default");
    features.sort();
    let is_passed_on = |feature: &&String| {
        let on = all_features.get(*feature).and_then(strings).unwrap_or_default();
        !on.is_empty() && on.iter().all(|on| on.contains('/'))
    };
    let passed_on = features.iter().filter(is_passed_on).cloned().collect();
    let targets: &Vec<JsonValue> = json.get("targets")?.get()?;
    let mut targets: Vec<Target> = targets
        .iter()
        .map(|json| target(name, json))
        .collect::<Option<Vec<_>>>()?
        .into_iter()
        .flatten()
        .collect();
    targets.sort_by(|a, b| a.name.cmp(&b.name));
    // `publish = false` is told as an empty list of registries, and its absence as null.
    let is_published = json.get("publish").is_none_or(JsonValue::is_null);
    Some(WorkspacePackage {
        name: name.clone(),
        features,
        passed_on,
        defaults,
        stores,
        is_published,
        targets,
    })
}

fn target(package: &str, json: &JsonValue) -> Option<Option<Target>> {
    let json = object(json)?;
    let kinds = strings(json.get("kind")?)?;
    let kind = match kinds.first()?.as_str() {
        "example" => TargetKind::Example,
        "bench" => TargetKind::Bench,
        "test" => TargetKind::Test,
        _ => return Some(None),
    };
    let needs = json.get("required-features").map_or(Some(Vec::new()), strings)?;
    let (name, path): (&String, &String) = (json.get("name")?.get()?, json.get("src_path")?.get()?);
    Some(Some(Target { package: package.into(), name: name.clone(), kind, needs, path: path.into() }))
}

/// What an object has, by name.
#[allow(clippy::disallowed_types, reason = "the JSON reader's own type; what is read from it is sorted")]
pub(crate) fn object(json: &JsonValue) -> Option<&std::collections::HashMap<String, JsonValue>> {
    json.get()
}

/// A list of texts, and of nothing else.
pub(crate) fn strings(json: &JsonValue) -> Option<Vec<String>> {
    let list: &Vec<JsonValue> = json.get()?;
    list.iter().map(|item| item.get::<String>().cloned()).collect()
}

#[cfg(test)]
mod tests {
    //! Plan: the parts that chores use are found, in order, in metadata like cargo's; damaged metadata is not half read;
    //! cargo's own answer for this workspace is understood.
    use super::*;

    const METADATA: &str = r#"{"packages":[
        {"name":"b","publish":[],"features":{},"targets":[{"kind":["bin"],"name":"b"}]},
        {"name":"a","publish":null,"features":{"x":[],"default":[],"bugs":["c/bugs","d?/bugs"],"all-stores":["x"]},"targets":[
            {"kind":["lib"],"name":"a"},
            {"kind":["test"],"name":"t","src_path":"/t.rs","required-features":["bugs"]},
            {"kind":["bench"],"name":"pairs","src_path":"/pairs.rs"},
            {"kind":["example"],"name":"first","src_path":"/first.rs"}]}]}"#;

    #[test]
    fn what_chores_use_is_found() {
        let target = |name: &str, kind, needs: &[&str]| Target {
            package: "a".into(),
            name: name.into(),
            kind,
            needs: needs.iter().map(ToString::to_string).collect(),
            path: format!("/{name}.rs").into(),
        };
        let a = WorkspacePackage {
            name: "a".into(),
            features: vec!["all-stores".into(), "bugs".into(), "x".into()],
            passed_on: vec!["bugs".into()],
            defaults: vec![],
            stores: vec!["x".into(), "all-stores".into()],
            is_published: true,
            targets: vec![
                target("first", TargetKind::Example, &[]),
                target("pairs", TargetKind::Bench, &[]),
                target("t", TargetKind::Test, &["bugs"]),
            ],
        };
        let b = WorkspacePackage {
            name: "b".into(),
            features: vec![],
            passed_on: vec![],
            defaults: vec![],
            stores: vec![],
            is_published: false,
            targets: vec![],
        };
        assert_eq!(parse(METADATA), Some(vec![a, b]));
    }

    #[test]
    fn damaged_metadata_is_not_half_read() {
        assert_eq!(parse("{"), None);
        assert_eq!(parse(&METADATA.replace(r#""name":"pairs""#, r#""name":7"#)), None);
    }

    #[test]
    fn this_workspace_is_understood() {
        let packages = packages().unwrap();
        let find = |name: &str| packages.iter().find(|package| package.name == name).unwrap();
        assert!(find("tenure-core").is_published && find("tenure-core").features.contains(&"bugs".into()));
        assert!(!find("xtask").is_published);
    }
}
