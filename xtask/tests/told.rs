//! Events are told by `tell!`, which keeps a subscriber that panics from ending the task that renews leases: one that is told otherwise costs leases.
//!
//! What counts is the sources of the library and of the peers, each of which renews in a task.
#![allow(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::fs;
use std::path::{Path, PathBuf};

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn where_leases_are_renewed_each_event_is_told_quietly() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for package in ["crates/tenure", "peers/kcl", "peers/less", "peers/tabletheory"] {
        sources(&root.join(package).join("src"), &mut files);
    }
    assert!(files.len() > 80, "not all sources were found: {files:?}");
    let levels = ["trace", "debug", "info", "warn", "error", "event"];
    let mut told = Vec::new();
    let mut quiet = 0;
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        quiet += text.matches("tell!(").count();
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
        let bare = lines
            .filter(|(_, line)| levels.iter().any(|level| line.contains(&format!("tracing::{level}!("))));
        told.extend(bare.map(|(at, line)| format!("{}:{}: {}", file.display(), at + 1, line.trim())));
    }
    assert!(quiet > 50, "the macro has another name: {quiet}");
    assert!(told.is_empty(), "use tenure_store::tell!:\n{}", told.join("\n"));
}
