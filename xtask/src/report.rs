//! What a run of programs says: what became of each, and the tests that failed.

use crate::lanes::{FinishedJob, Placement, TestCount};
use crate::step;
use std::time::Duration;

/// How many of the slowest are shown.
const SLOWEST: usize = 15;

/// Why a program has failed, if it has. One of tests that ends well without a word of them has not run them; and a name that is no test is none that passed.
pub(crate) fn result(done: &FinishedJob) -> Result<(), String> {
    done.result.clone()?;
    let Some(wanted) = done.tests else { return Ok(()) };
    let passed = passed(&done.output).ok_or("it told of no result")?;
    match wanted {
        TestCount::Some if passed == 0 => Err("it ran no test".into()),
        TestCount::Exactly(tests) if passed != tests => {
            Err(format!("{passed} tests passed, and {tests} were wanted"))
        }
        _ => Ok(()),
    }
}

/// How many tests passed, as the last of its results says: one that it printed of another program came before.
fn passed(output: &str) -> Option<usize> {
    let mut results = output.lines().filter_map(|line| line.strip_prefix("test result: ok. "));
    results.next_back()?.split_once(" passed")?.0.parse().ok()
}

pub(crate) fn told(done: &FinishedJob) -> String {
    let result = result(done).err().map_or("passed".to_owned(), |error| format!("FAILED: {error}"));
    format!("\n--> {}: {result} in {:.1} s\n{}", done.name, done.took.as_secs_f64(), done.output.trim_start())
}

/// A table of what is no test, of the programs of tests that took longest, and of what all of them and the `servers` took.
pub(crate) fn slowest(done: &[FinishedJob], servers: Option<Duration>) -> String {
    let line = |name: &str, took: Duration, processor: Option<Duration>| {
        format!("{}  {name}\n", step::columns(took, processor))
    };
    let mut sorted: Vec<&FinishedJob> = done.iter().collect();
    sorted.sort_by_key(|done| std::cmp::Reverse(done.took));
    let is_chore = |place| matches!(place, Placement::Beside | Placement::Together | Placement::Filling);
    let (chores, tests): (Vec<&FinishedJob>, Vec<&FinishedJob>) =
        sorted.into_iter().partition(|done| is_chore(done.place));
    let rows = chores.into_iter().chain(tests.into_iter().take(SLOWEST));
    let rows = rows.map(|done| line(&done.name, done.took, done.processor));
    let took = done.iter().map(|done| done.took).sum();
    let processor = done.iter().map(|done| done.processor).sum();
    let servers = servers.map(|time| format!("{:>10} {:>8.1} s  servers\n", "", time.as_secs_f64()));
    format!(
        "      took  processor  (with children, where these were waited for)\n{}{}{}",
        rows.collect::<String>(),
        servers.unwrap_or_default(),
        line(&format!("all {} programs", done.len()), took, processor)
    )
}

/// Names every program that failed, with its tests.
pub(crate) fn failures(done: &[FinishedJob]) -> Result<(), String> {
    let failed: Vec<String> = done
        .iter()
        .filter_map(|done| {
            let error = result(done).err()?;
            let tests: String = failed_tests(&done.output).map(|test| format!("\n    {test}")).collect();
            Some(format!("{}: {error}{tests}", done.name))
        })
        .collect();
    if failed.is_empty() { Ok(()) } else { Err(format!("{} failed\n{}", failed.len(), failed.join("\n"))) }
}

/// What all that failed said: somewhere in the middle of a long output it is hard to find.
pub(crate) fn reasons(done: &[FinishedJob]) -> String {
    let failed = done.iter().filter(|done| result(done).is_err());
    failed.map(|done| format!("\n==> {} said:\n{}\n", done.name, said(&done.output))).collect()
}

/// What the failed tests of a program said, without the way to there; or the end of all that a program said that lists no tests.
pub(crate) fn said(output: &str) -> String {
    const MOST: usize = 100;
    const LAST: usize = 40;
    let of_tests = output.split_once("\nfailures:\n").and_then(|(_, rest)| rest.rsplit_once("\nfailures:\n"));
    let is_frame = |line: &str| {
        let line = line.trim_start();
        let number = line.split_once(": ").map_or("", |(number, _)| number);
        line.starts_with("at ") || !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    let lines: Vec<&str> = match of_tests {
        Some((said, _)) => said.trim().lines().filter(|line| !is_frame(line)).take(MOST).collect(),
        None => {
            let all: Vec<&str> = output.lines().collect();
            all[all.len().saturating_sub(LAST)..].to_vec()
        }
    };
    lines.join("\n")
}

/// What the last list of failures has.
pub(crate) fn failed_tests(output: &str) -> impl Iterator<Item = &str> {
    let list = output.rsplit_once("\nfailures:\n").map_or("", |(_, list)| list);
    list.lines().take_while(|line| line.starts_with("    ")).map(str::trim)
}

#[cfg(test)]
mod tests {
    //! Plan: what passes, and what only seems to; the failed tests' names; the table.
    use super::*;

    fn done(name: &str, seconds: u64, output: &str, result: Result<(), String>) -> FinishedJob {
        let (took, processor) = (Duration::from_secs(seconds), Some(Duration::from_millis(1500)));
        FinishedJob {
            name: name.into(),
            place: Placement::Shared,
            took,
            processor,
            output: output.into(),
            result,
            tests: Some(TestCount::Some),
        }
    }

    #[test]
    fn every_failure_is_told_with_its_tests() {
        let passes = "test a ... ok\n\ntest result: ok. 1 passed\n";
        let list =
            "failures:\n\n---- b stdout ----\nno\n\nfailures:\n    b\n    c::d\n\ntest result: FAILED.\n";
        let all = [
            done("good", 1, passes, Ok(())),
            done("bad", 2, &format!("test b ... FAILED\n\n{list}"), Err("exit status: 101".into())),
            done("mute", 3, "", Ok(())),
        ];
        assert_eq!(
            failures(&all),
            Err("2 failed\nbad: exit status: 101\n    b\n    c::d\nmute: it told of no result".into())
        );
        assert_eq!(failures(&all[..1]), Ok(()));
        let told_at_the_end = reasons(&all);
        assert_eq!(told_at_the_end, "\n==> bad said:\n---- b stdout ----\nno\n\n==> mute said:\n\n");
        let backtrace = "x\nfailures:\n\n---- b stdout ----\nwaited\n   0: std::f\n      at ./a.rs:3\nscreen:\n$\n\nfailures:\n    b\n";
        assert_eq!(said(backtrace), "---- b stdout ----\nwaited\nscreen:\n$");
        let long: String = (0..99).map(|n| format!("{n}\n")).collect();
        assert_eq!(said(&long).lines().next(), Some("59"), "a chore's last lines");
        assert_eq!(told(&all[0]), format!("\n--> good: passed in 1.0 s\n{passes}"));
        assert!(told(&all[2]).starts_with("\n--> mute: FAILED: it told of no result in 3.0 s\n"));
        for place in [Placement::Beside, Placement::Together, Placement::Filling] {
            let chore = FinishedJob { place, tests: None, ..done("lints", 0, "", Ok(())) };
            assert_eq!(result(&chore), Ok(()));
            let many = (1..=SLOWEST as u64)
                .map(|n| done("test", n, passes, Ok(())))
                .chain([chore])
                .collect::<Vec<_>>();
            assert!(slowest(&many, None).contains("lints"), "chores are all there");
        }
        let table = slowest(&all, Some(Duration::from_millis(174_200)));
        let rows: Vec<&str> = table.lines().skip(1).map(str::trim).collect();
        assert_eq!(rows[0], "3.0 s      1.5 s  mute");
        assert_eq!(rows[3..], ["174.2 s  servers", "6.0 s      4.5 s  all 3 programs"]);
        assert_eq!(
            table.lines().nth(4).map(|line| line.find(" s  ")),
            table.lines().nth(1).map(|line| line.find(" s  m"))
        );
    }

    #[test]
    fn a_program_that_ran_no_test_or_not_all_that_were_asked_for_has_failed() {
        let ran = |wanted, output: &str| {
            result(&FinishedJob { tests: Some(wanted), ..done("p", 1, output, Ok(())) })
        };
        let some = "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 3 filtered out\n";
        let none = "test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 3 filtered out\n";
        assert_eq!((ran(TestCount::Some, some), ran(TestCount::Exactly(2), some)), (Ok(()), Ok(())));
        assert_eq!(ran(TestCount::Some, none), Err("it ran no test".into()));
        assert_eq!(ran(TestCount::Exactly(3), some), Err("2 tests passed, and 3 were wanted".into()));
        assert_eq!(ran(TestCount::Exactly(1), none), Err("0 tests passed, and 1 were wanted".into()));
        // What a test printed of a program that it ran.
        assert_eq!(ran(TestCount::Exactly(2), &format!("{none}{some}")), Ok(()));
    }
}
