//! Times, as people are told them.
//!
//! Plan: what each verb tells of a time is one form of date.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{Bench, wait_until};

/// The fields of a document that tell a time of this century by a number. Fences begin at such a time.
fn milliseconds(document: &serde_json::Value) -> Vec<String> {
    let is_time = |value: &serde_json::Value| value.as_u64().is_some_and(|n| n > 1_000_000_000_000);
    match document {
        serde_json::Value::Object(fields) => fields
            .iter()
            .filter(|(name, _)| *name != "fence")
            .flat_map(|(name, value)| if is_time(value) { vec![name.clone()] } else { milliseconds(value) })
            .collect(),
        serde_json::Value::Array(values) => values.iter().flat_map(milliseconds).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn times_are_told_in_one_form() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["work", "--name", "j", "--retries", "0", "u", "--", "false"]).code, 1);
    assert_eq!(bench.run(&["cron", "* * * * * *", "tick", "--ticks", "1", "--", "true"]).code, 0);
    let holding = bench.start(&["run", "k", "--", "sleep", "600"]);
    wait_until("the lease", || bench.run(&["show", "k", "--json"]).out.contains("\"held\""));
    for (words, is_dated) in [
        (&["show", "k"][..], true),
        (&["show", "once/tick"], true),
        (&["run", "--try", "k", "--", "true"], true),
        (&["work", "status", "j"], true),
        (&["work", "ls"], true),
        (&["work", "--name", "j", "u", "--", "false"], false),
        (&["leader", "k"], false),
        (&["doctor"], true),
        (&["ls", "--all"], false),
        (&["gc", "--dry-run"], false),
    ] {
        let ran = bench.run(words);
        let told = format!("{}{}", ran.out, ran.err);
        let is_day = |word: &&str| {
            let form = |c: char| if c.is_ascii_digit() { '0' } else { c };
            word.chars().map(form).collect::<String>().contains("0000-00-00")
        };
        let marks = |c: char| "()\",;".contains(c);
        // Of sentences, and of JSON.
        let parts = |c: char| c.is_whitespace() || "\"{},".contains(c);
        let dates: Vec<&str> =
            told.split(parts).filter(is_day).map(|word| word.trim_matches(marks)).collect();
        assert!(!is_dated || !dates.is_empty(), "{words:?}: {told}");
        for date in dates {
            let is_one =
                chrono::DateTime::parse_from_rfc3339(date).is_ok() && date.len() == 20 && date.ends_with('Z');
            assert!(is_one, "{words:?}: {date:?} in {told}");
        }
    }
    for key in ["k", "work/j/u", "once/tick"] {
        let shown = bench.show(key);
        assert_eq!(milliseconds(&shown), Vec::<String>::new(), "{shown}");
        let (told, fence) = (bench.run(&["show", key]).out, shown["fence"].to_string());
        let words = told.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
        let is_time = |word: &&str| word.len() == 13 && word.parse::<u64>().is_ok() && *word != fence;
        assert_eq!(words.filter(is_time).collect::<Vec<_>>(), Vec::<&str>::new(), "{told}");
    }
    drop(holding);
}
