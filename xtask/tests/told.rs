//! Events are told by `tell!`, and metrics by `quietly`: a subscriber or a recorder that panics must not end the task that renews leases, or the one that lets
//! the agent's clients in. What is told otherwise costs leases.
//!
//! What counts is the sources of the library and of the peers, each of which renews in a task, and of the agent.
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

/// The packages that tell of what they hold, with the lines of their sources that are no comments.
fn lines() -> Vec<(PathBuf, Vec<String>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for package in ["crates/tenure", "crates/tenure-agent", "peers/kcl", "peers/less", "peers/tabletheory"] {
        sources(&root.join(package).join("src"), &mut files);
    }
    assert!(files.len() > 120, "not all sources were found: {files:?}");
    let read = |file: PathBuf| {
        let text = fs::read_to_string(&file).unwrap();
        let code =
            |line: &str| if line.trim_start().starts_with("//") { String::new() } else { line.to_owned() };
        let lines: Vec<String> = text.lines().map(code).collect();
        (file, lines)
    };
    files.into_iter().map(read).collect()
}

/// The lines of which this is true, each as it is told to whoever broke the rule. It is asked of a line and those before it.
fn found(lines: &[(PathBuf, Vec<String>)], is: impl Fn(&str, &[String]) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for (file, lines) in lines {
        for (at, line) in lines.iter().enumerate() {
            if is(line, &lines[..at]) {
                found.push(format!("{}:{}: {}", file.display(), at + 1, line.trim()));
            }
        }
    }
    found
}

#[test]
fn where_leases_are_renewed_each_event_is_told_quietly() {
    let lines = lines();
    let quiet = found(&lines, |line, _| line.contains("tell!(")).len();
    assert!(quiet > 50, "the macro has another name: {quiet}");
    let levels = ["trace", "debug", "info", "warn", "error", "event"];
    let bare =
        |line: &str, _: &[String]| levels.iter().any(|level| line.contains(&format!("tracing::{level}!(")));
    let told = found(&lines, bare);
    assert!(told.is_empty(), "use tenure_store::tell!:\n{}", told.join("\n"));
}

#[test]
fn where_leases_are_renewed_each_metric_is_told_quietly() {
    let lines = lines();
    let is_metric = |line: &str| ["counter!(", "gauge!(", "histogram!("].iter().any(|it| line.contains(it));
    let quiet = found(&lines, |line, _| is_metric(line) && line.contains("quietly")).len();
    assert!(quiet > 12, "what tells a metric has another name: {quiet}");
    let bare = |line: &str, before: &[String]| {
        // What says of which unit a metric is has an `if` around it.
        let near = if line.contains("describe_") { 4 } else { 0 };
        is_metric(line)
            && !line.contains("quietly")
            && !before.iter().rev().take(near).any(|line| line.contains("quietly"))
    };
    let told = found(&lines, bare);
    assert!(told.is_empty(), "use tenure_store::parts::quietly, in the same line:\n{}", told.join("\n"));
}
