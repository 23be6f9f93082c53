//! What is written in YAML: manifests, and workflows.

use std::path::{Path, PathBuf};
use yaml_rust2::{Yaml, YamlLoader};

/// Of the whole project.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub fn files(directory: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(root().join(directory)).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    files
}

/// The one document of a file. Keys that are there twice are refused by who reads it.
pub fn document(path: &Path) -> Yaml {
    let mut documents = YamlLoader::load_from_str(&std::fs::read_to_string(path).unwrap())
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert_eq!(documents.len(), 1, "{}", path.display());
    documents.remove(0)
}

#[track_caller]
pub fn text(node: &Yaml) -> &str {
    node.as_str().unwrap_or_else(|| panic!("{node:?} is no text"))
}

/// None where there is no such list.
pub fn list(node: &Yaml) -> &[Yaml] {
    node.as_vec().map_or(&[], Vec::as_slice)
}

pub fn words(node: &Yaml) -> Vec<String> {
    list(node).iter().map(|word| text(word).to_owned()).collect()
}

/// Of a workload the part that describes its pods.
pub fn pod(manifest: &Yaml) -> &Yaml {
    let spec = &manifest["spec"];
    let template = if text(&manifest["kind"]) == "CronJob" { &spec["jobTemplate"]["spec"] } else { spec };
    &template["template"]
}

pub fn containers(pod: &Yaml) -> impl Iterator<Item = &Yaml> {
    list(&pod["spec"]["initContainers"]).iter().chain(list(&pod["spec"]["containers"]))
}
