//! Who believed in which lease when, and whether two did: of ours at all, and otherwise for longer than the peers' rule allows.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

/// One line of what a process says, with the time of CLOCK_MONOTONIC in ns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessReport {
    /// It works from now on.
    Ready,
    /// `worker` has the lease `key` from now on.
    Taken {
        /// Who.
        worker: String,
        /// Which lease.
        key: String,
        /// The lease's counter, or its fence.
        counter: u64,
        /// When.
        at: u64,
    },
    /// `worker` no longer has the lease `key`.
    Lost {
        /// Who.
        worker: String,
        /// Which lease.
        key: String,
        /// When.
        at: u64,
    },
}

impl ProcessReport {
    /// None for what the test harness says, and other noise.
    #[must_use]
    pub fn parse(line: &str) -> Option<ProcessReport> {
        // The harness may have begun a line of its own before ours.
        let start = ["ready ", "taken ", "lost "].iter().filter_map(|word| line.find(word)).min()?;
        let words: Vec<&str> = line[start..].split_whitespace().collect();
        match words.as_slice() {
            ["ready", _] => Some(ProcessReport::Ready),
            ["taken", worker, key, counter, at] => Some(ProcessReport::Taken {
                worker: (*worker).into(),
                key: (*key).into(),
                counter: counter.parse().ok()?,
                at: at.parse().ok()?,
            }),
            ["lost", worker, key, at] => Some(ProcessReport::Lost {
                worker: (*worker).into(),
                key: (*key).into(),
                at: at.parse().ok()?,
            }),
            _ => None,
        }
    }
}

/// A span in which one worker believed in one lease.
#[derive(Debug, Clone)]
struct BelievedSpan {
    worker: String,
    /// The lease's counter when it was taken, which is what this dialect has for a fence.
    counter: u64,
    from: u64,
    to: u64,
}

impl BelievedSpan {
    fn is_ours(&self) -> bool {
        self.worker.starts_with("ours")
    }
}

/// All spans of belief, by key.
#[derive(Debug, Default)]
pub struct Beliefs(BTreeMap<String, Vec<BelievedSpan>>);

impl Beliefs {
    /// Adds what one process said until `end`, when it was killed, or has ended, or the test.
    pub fn add(&mut self, said: &[ProcessReport], end: u64) {
        for line in said {
            match line {
                ProcessReport::Ready => {}
                ProcessReport::Taken { worker, key, counter, at } => self
                    .0
                    .entry(key.clone())
                    .or_default()
                    .push(BelievedSpan { worker: worker.clone(), counter: *counter, from: *at, to: end }),
                ProcessReport::Lost { worker, key, at } => {
                    let tenures = self.0.entry(key.clone()).or_default();
                    let tenure = tenures.iter_mut().rev().find(|tenure| tenure.worker == *worker);
                    tenure.expect("only what was taken is lost").to = *at;
                }
            }
        }
    }

    /// How many spans there were.
    #[must_use]
    pub fn tenures(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }

    /// The longest time for which two believed in the same lease.
    #[must_use]
    pub fn longest_overlap(&self) -> Duration {
        let all = self.0.values().flat_map(|tenures| overlaps(tenures));
        all.map(|(_, _, span)| span).max().unwrap_or_default()
    }

    /// What the rule forbids: two of ours at once; two, of whom one is a peer, for longer than `allowed`; and a counter that did
    /// not grow from one holder to the next. Of two that overlap, either may be the first to say so.
    #[must_use]
    pub fn violations(&self, allowed: Duration) -> String {
        let mut text = String::new();
        for (key, tenures) in &self.0 {
            let too_long = |one: &BelievedSpan, other: &BelievedSpan, span: Duration| {
                span > if one.is_ours() && other.is_ours() { Duration::ZERO } else { allowed }
            };
            for (one, other, span) in overlaps(tenures).filter(|(a, b, span)| too_long(a, b, *span)) {
                writeln!(text, "{key}: {span:?} of two: {one:?}, {other:?}").unwrap();
            }
            let mut by_time: Vec<&BelievedSpan> = tenures.iter().collect();
            by_time.sort_by_key(|tenure| tenure.from);
            let shrank = |one: &BelievedSpan, next: &BelievedSpan| {
                one.counter == next.counter || (one.counter > next.counter && one.to <= next.from)
            };
            for pair in by_time.windows(2).filter(|pair| shrank(pair[0], pair[1])) {
                writeln!(text, "{key}: the counter did not grow: {pair:?}").unwrap();
            }
        }
        text
    }
}

/// The pairs of spans that have some time in common, and how much.
fn overlaps(tenures: &[BelievedSpan]) -> impl Iterator<Item = (&BelievedSpan, &BelievedSpan, Duration)> {
    let pairs = tenures.iter().enumerate().flat_map(|(n, one)| {
        tenures[n + 1..].iter().filter(|other| other.worker != one.worker).map(move |other| (one, other))
    });
    pairs.filter_map(|(one, other)| {
        let span = one.to.min(other.to).checked_sub(one.from.max(other.from))?;
        Some((one, other, Duration::from_nanos(span)))
    })
}

#[test]
fn what_the_rule_forbids_is_noticed() {
    let said =
        |lines: &[&str]| lines.iter().map(|line| ProcessReport::parse(line).unwrap()).collect::<Vec<_>>();
    let end = 10_000_000_000;
    let beliefs = |first: &[&str], later: &[&str]| {
        let mut beliefs = Beliefs::default();
        beliefs.add(&said(first), end);
        beliefs.add(&said(later), end);
        beliefs
    };
    let fine = beliefs(
        &["ready 1", "taken a k 5 1000000000", "lost a k 3000000000"],
        &["test x ... taken b k 9 2500000000"],
    );
    assert_eq!((fine.tenures(), fine.longest_overlap()), (2, Duration::from_millis(500)));
    assert_eq!(fine.violations(Duration::from_millis(500)), "");
    assert!(fine.violations(Duration::from_millis(499)).contains("k: 500ms of two"));
    let endless = beliefs(&["taken a k 5 1000000000"], &["taken b k 9 2500000000"]);
    assert!(endless.violations(Duration::from_secs(7)).contains("7.5s of two"));
    let same = beliefs(&["taken a k 9 1000000000", "lost a k 2000000000"], &["taken b k 9 2500000000"]);
    assert!(same.violations(Duration::ZERO).contains("k: the counter did not grow"));
    let backwards = beliefs(&["taken a k 9 1000000000", "lost a k 2000000000"], &["taken b k 5 2500000000"]);
    assert!(backwards.violations(Duration::ZERO).contains("k: the counter did not grow"));
    let ours = ["taken ours-1 k 5 1000000000", "lost ours-1 k 3000000000"];
    let both = beliefs(&ours, &["taken ours-2 k 9 2999999999"]);
    assert!(both.violations(Duration::from_secs(9)).contains("k: 1ns of two"));
    assert_eq!(beliefs(&ours, &["taken ours-2 k 9 3000000000"]).violations(Duration::ZERO), "");
    let later_told = beliefs(
        &["taken kcl-0 k 9 1000000000"],
        &["taken ours-1 k 5 1500000000", "lost ours-1 k 1600000000"],
    );
    assert_eq!(later_told.violations(Duration::from_millis(100)), "", "the peer said it first");
    assert_eq!(ProcessReport::parse("test result: ok"), None);
}
