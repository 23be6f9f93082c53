//! No page has a command that no test runs.
//!
//! Plan: each page of the repository, and each crate's documentation, that has a block of commands for a shell is named here, with the file that
//! runs them; that file names the page.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A page or a folder of pages; what runs its commands; what that calls it.
const RUN_BY: &[(&str, &str, &str)] = &[
    ("README.md", "crates/tenure-cli/tests/examples.rs", "../../../README.md"),
    ("clients/python/README.md", "clients/python/tests/test_client.py", "README.md"),
    ("crates/tenure-cli/README.md", "crates/tenure-cli/tests/examples.rs", "../README.md"),
    ("docs/clients", "xtask/src/clients.rs", "/../docs/clients"),
    ("docs/operate.md", "crates/tenure-cli/tests/serve.rs", "docs/operate.md"),
    ("docs/parallel.md", "crates/tenure-cli/tests/examples.rs", "docs/parallel.md"),
    ("peers/kcl/docs/kcl.md", "crates/tenure-cli/tests/pages.rs", "commands(\"kcl\")"),
    ("peers/less/docs/less.md", "crates/tenure-cli/tests/less.rs", "less/docs/less.md"),
    (
        "peers/tabletheory/docs/tabletheory.md",
        "crates/tenure-cli/tests/pages.rs",
        "commands(\"tabletheory\")",
    ),
    ("stores/etcd/src/lib.rs", "stores/etcd/tests/opening.rs", "\"role add tenure\""),
    ("stores/sqlite/README.md", "crates/tenure-cli/tests/examples.rs", "stores/sqlite/README.md"),
    ("stores", "crates/tenure-cli/tests/common/readme.rs", "stores/{store}/README.md"),
];

/// The files below a folder that have commands for a shell, but for what is built or fetched.
fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && !path.is_symlink() {
            let is_ours =
                !name.starts_with(['.', '_']) && !name.starts_with("target") && name != "node_modules";
            if is_ours {
                pages(&path, found);
            }
            continue;
        }
        // Tests have blocks that are no page.
        let is_page = name.ends_with(".md")
            || name.ends_with(".rs") && path.components().any(|it| it.as_os_str() == "src");
        if !is_page {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let mut lines = text.lines().map(|line| {
            let line = line.trim_start();
            line.strip_prefix("//!").or_else(|| line.strip_prefix("///")).unwrap_or(line).trim()
        });
        if lines.any(|line| ["```sh", "```bash", "```shell", "```console"].contains(&line)) {
            found.push(path);
        }
    }
}

#[test]
fn each_page_with_commands_is_run_by_a_test_that_names_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let mut found = Vec::new();
    pages(&root, &mut found);
    let mut uses: BTreeMap<&str, usize> = RUN_BY.iter().map(|(page, ..)| (*page, 0)).collect();
    for path in found {
        let page = path.strip_prefix(&root).unwrap();
        // The nearest that is named.
        let named = page.ancestors().find(|place| uses.contains_key(place.to_str().unwrap()));
        let named =
            named.unwrap_or_else(|| panic!("{}: no test is known to run its commands", page.display()));
        *uses.get_mut(named.to_str().unwrap()).unwrap() += 1;
    }
    assert!(uses.values().all(|count| *count > 0), "what is named has commands: {uses:?}");
    for (page, test, name) in RUN_BY {
        let text = std::fs::read_to_string(root.join(test)).unwrap();
        assert!(text.contains(name), "{test} does not run {page}");
    }
}
