//! No page has a command that no test runs.
//!
//! Plan: each page of the repository, and each crate's documentation, that has a block of commands for a shell is named here, with the file that
//! runs them; that file names the page. What stands within sentences and tables is not run, but its verbs and options are those that there are. Each variable
//! that a verb's help names is on a page, too.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::Bench;
use crate::parallel_page::options;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A page or a folder of pages; what runs its commands; what that calls it.
const RUN_BY: &[(&str, &str, &str)] = &[
    ("README.md", "crates/tenure-cli/tests/examples.rs", "../../../README.md"),
    ("clients/python/README.md", "clients/python/tests/test_client.py", "README.md"),
    ("crates/tenure-cli/README.md", "crates/tenure-cli/tests/examples.rs", "../README.md"),
    ("docs/clients", "xtask/src/clients.rs", "/../docs/clients"),
    ("docs/command-line.md", "crates/tenure-cli/tests/examples.rs", "docs/command-line.md"),
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

/// The commands of tenure's that a page names within sentences and tables, each up to the command that it runs itself.
fn inline(page: &str) -> Vec<String> {
    // By turns what stands outside of blocks, and blocks.
    let prose = page.split("```").step_by(2);
    // What is typed wrongly there is run by `parallel_page.rs`.
    let prose = prose.map(|text| text.split("\n## What is tried first\n").next().unwrap());
    let spans = prose.flat_map(|text| text.split('`').skip(1).step_by(2)).map(|span| span.replace('\n', " "));
    let ends = [" -- ", " > ", " | ", "…"];
    let cut = |span: String| ends.iter().fold(span, |span, end| span.split(end).next().unwrap().to_owned());
    spans.filter(|span| span.starts_with("tenure ")).map(cut).collect()
}

fn markdown(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir()
            && !path.is_symlink()
            && !name.starts_with('.')
            && !name.starts_with("target")
            && name != "node_modules"
        {
            markdown(&path, found);
        } else if name.ends_with(".md") && name != "CHANGELOG.md" {
            found.push(path);
        }
    }
}

#[test]
fn each_command_within_a_sentence_or_a_table_names_verbs_and_options_that_there_are() {
    let bench = Bench::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let mut found = Vec::new();
    markdown(&root, &mut found);
    let mut known = BTreeMap::<Vec<String>, Option<BTreeSet<String>>>::new();
    // The options of a verb; none if there is no such verb.
    let mut help = |path: &[String]| {
        let of = |path: &[String]| {
            let words = [&["help"], &path.iter().map(String::as_str).collect::<Vec<_>>()[..]].concat();
            let ran = bench.run(&words);
            (ran.code == 0).then(|| ran.out.lines().flat_map(options).collect())
        };
        known.entry(path.to_vec()).or_insert_with(|| of(path)).clone()
    };
    let mut count = 0;
    for page in found {
        for command in inline(&std::fs::read_to_string(&page).unwrap()) {
            count += 1;
            let words: Vec<String> = command.split_whitespace().skip(1).map(str::to_owned).collect();
            let is_verb = |word: &&String| word.starts_with(|c: char| c.is_ascii_lowercase());
            let verb: Vec<String> = words.iter().take(1).filter(is_verb).cloned().collect();
            let longer: Vec<String> = words.iter().take(2).take_while(is_verb).cloned().collect();
            let of_longer = if ["work", "fleet"].contains(&verb.first().map_or("", String::as_str)) {
                help(&longer)
            } else {
                None
            };
            let there = of_longer.or_else(|| help(&verb));
            let there = there.unwrap_or_else(|| panic!("{}: there is no `{command}`", page.display()));
            // Of all verbs.
            let is_there = |word: &str| ["--help", "--version"].contains(&word) || there.contains(word);
            let typed =
                words.iter().filter(|word| word.starts_with('-')).map(|word| word.split('=').next().unwrap());
            let unknown: Vec<&str> = typed.filter(|word| !is_there(word)).collect();
            assert!(unknown.is_empty(), "{}: `{command}` has {unknown:?}", page.display());
        }
    }
    assert!(count > 100, "{count}");
}

#[test]
fn each_variable_that_a_verb_s_help_names_is_on_a_page() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["man", "--install", "man"]).code, 0);
    let mut named = BTreeSet::new();
    for page in std::fs::read_dir(bench.path("man/man1")).unwrap() {
        let text = std::fs::read_to_string(page.unwrap().path()).unwrap();
        let is_part = |c: &char| c.is_ascii_uppercase() || *c == '_';
        let variables = text.match_indices("TENURE_").map(|(at, _)| &text[at..]);
        named.extend(variables.map(|text| text.chars().take_while(is_part).collect::<String>()));
    }
    assert!(named.len() > 15, "{named:?}");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |page: &str| std::fs::read_to_string(root.join(page)).unwrap();
    let pages = read("docs/configuration.md") + &read("docs/command-line.md");
    named.retain(|variable| !pages.contains(&format!("`{variable}`")));
    assert!(named.is_empty(), "neither docs/configuration.md nor docs/command-line.md has {named:?}");
}
