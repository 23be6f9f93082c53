//! Times, as people are told them.
//!
//! Plan: what each verb tells of a time is one form of date.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{Bench, wait_until};

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
        let dates: Vec<&str> =
            told.split_whitespace().filter(is_day).map(|word| word.trim_matches(marks)).collect();
        assert!(!is_dated || !dates.is_empty(), "{words:?}: {told}");
        for date in dates {
            let is_one =
                chrono::DateTime::parse_from_rfc3339(date).is_ok() && date.len() == 20 && date.ends_with('Z');
            assert!(is_one, "{words:?}: {date:?} in {told}");
        }
    }
    drop(holding);
}
