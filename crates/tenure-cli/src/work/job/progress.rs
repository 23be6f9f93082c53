//! How far the job is: a bar on a terminal, and elsewhere a line now and then.

use super::board::{RestingUnits, UnitCounts};
use crate::output::{self, BarFrame};
use crate::text::{brief, per_time};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;

/// What is shown.
#[derive(Debug)]
enum Shown {
    /// A thread draws it: a terminal may stand still.
    Bar,
    /// The next line is due then, and the one after it so much later.
    Lines {
        due: Duration,
        gap: Duration,
    },
    Nothing,
}

#[derive(Debug)]
pub(crate) struct Progress {
    shown: Shown,
    began: Duration,
    /// Units that were settled before.
    before: Option<usize>,
}

/// What is known of a job while it is worked on.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct JobState {
    pub(crate) counts: UnitCounts,
    /// Commands that run here.
    pub(crate) running: usize,
    /// Units that others have, while nothing is done here.
    pub(crate) elsewhere: usize,
    pub(crate) resting: RestingUnits,
    /// In Unix milliseconds.
    pub(crate) wall: u64,
}

impl Progress {
    /// `is_wanted`: not with `--quiet`, nor with `--progress never`. Where commands write to the same terminal at will, a bar would
    /// be torn to pieces: then there is none.
    pub(crate) fn new(is_wanted: bool, passes_through: bool, now: Duration) -> Progress {
        const FIRST: Duration = Duration::from_secs(10);
        let shown = match (is_wanted, std::io::stderr().is_terminal()) {
            (false, _) => Shown::Nothing,
            (true, false) => Shown::Lines { due: now + FIRST, gap: FIRST },
            (true, true) if passes_through => Shown::Nothing,
            (true, true) => Shown::Bar,
        };
        if matches!(shown, Shown::Bar) {
            output::begin_bar(bar());
        }
        Progress { shown, began: now, before: None }
    }

    /// Whether what others do is to be known as well: for a bar all the time, and for a line shortly before it is told.
    pub(crate) fn wants_counts(&self, now: Duration) -> bool {
        const AHEAD: Duration = Duration::from_secs(2);
        match self.shown {
            Shown::Bar => true,
            Shown::Lines { due, .. } => now + AHEAD >= due,
            Shown::Nothing => false,
        }
    }

    pub(crate) fn show(&mut self, state: JobState, now: Duration) {
        if matches!(self.shown, Shown::Bar) {
            let counts = state.counts;
            let before = *self.before.get_or_insert(counts.settled());
            let message = told(state, before, now.saturating_sub(self.began));
            let (length, position) = (counts.total() as u64, counts.settled() as u64);
            output::show_bar(BarFrame { length, position, message });
        } else if let Some(line) = self.line(state, now) {
            output::tell(line);
        }
    }

    /// What is told off a terminal, when it is time for it.
    fn line(&mut self, state: JobState, now: Duration) -> Option<String> {
        const LONGEST: Duration = Duration::from_secs(300);
        let counts = state.counts;
        let before = *self.before.get_or_insert(counts.settled());
        let Shown::Lines { due, gap } = &mut self.shown else { return None };
        if now < *due {
            return None;
        }
        *gap = (*gap * 2).min(LONGEST);
        *due = now + *gap;
        let told = told(state, before, now.saturating_sub(self.began));
        Some(format!("{} of {} settled, {told}", counts.settled(), counts.total()))
    }

    pub(crate) fn end(&mut self) {
        if let Shown::Bar = std::mem::replace(&mut self.shown, Shown::Nothing) {
            output::end_bar();
        }
    }
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr_with_hz(10));
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let bars = if plain { "{bar:20}" } else { "{bar:20.green}" };
    if let Ok(style) = ProgressStyle::with_template(&format!("{bars} {{pos}}/{{len}} settled, {{wide_msg}}"))
    {
        bar.set_style(style);
    }
    bar
}

/// An estimate is only made once there is something to make it from.
fn told(state: JobState, before: usize, took: Duration) -> String {
    const LEAST: Duration = Duration::from_secs(3);
    const FEW: usize = 3;
    let JobState { counts, running, elsewhere, resting, wall } = state;
    let mut text = format!("{running} running here");
    // Else it looks as if the job stood still. What was seen there a moment ago may be settled.
    let elsewhere = elsewhere.min(counts.open + counts.ours);
    if running == 0 && elsewhere > 0 {
        text.push_str(&format!(", {elsewhere} elsewhere"));
    }
    if counts.failed > 0 {
        text.push_str(&format!(", {} failed", counts.failed));
    }
    if let RestingUnits { count: n @ 1.., due: Some(due) } = resting {
        let (wait, first) = if n == 1 { ("waits", "") } else { ("wait", "the first ") };
        let left = brief(Duration::from_millis(due.saturating_sub(wall)));
        text.push_str(&format!(", {n} {wait} to be tried again, {first}in {left}"));
    }
    let settled = counts.settled().saturating_sub(before);
    if took >= LEAST && settled >= FEW {
        let rate = settled as f64 / took.as_secs_f64();
        text.push_str(&format!(", {}", per_time(rate)));
        let open = counts.open + counts.ours;
        if let (1.., Ok(left)) = (open, Duration::try_from_secs_f64(open as f64 / rate)) {
            text.push_str(&format!(", about {} left", brief(left)));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn off_a_terminal_a_line_is_told_ever_more_seldom() {
        let secs = Duration::from_secs;
        let shown = Shown::Lines { due: secs(10), gap: secs(10) };
        let mut progress = Progress { shown, began: secs(0), before: Some(0) };
        let counts = UnitCounts { done: 100, open: 900, ..UnitCounts::default() };
        let state = JobState { counts, running: 4, ..JobState::default() };
        let mut told = |at: u64| progress.line(state, secs(at));
        let due: Vec<u64> = (0..2000).filter(|at| told(*at).is_some()).collect();
        assert_eq!(due, [10, 30, 70, 150, 310, 610, 910, 1210, 1510, 1810]);
        assert_eq!(told(2500).unwrap(), "100 of 1000 settled, 4 running here, 2.4/m, about 6.2h left");
        // What others have done is asked for before it is told, and not all the time.
        progress.shown = Shown::Lines { due: secs(3000), gap: secs(300) };
        assert_eq!([2997, 2998, 3000].map(|at| progress.wants_counts(secs(at))), [false, true, true]);
        progress.shown = Shown::Nothing;
        assert_eq!(progress.line(state, secs(9000)), None);
        assert!(!progress.wants_counts(secs(9000)));
    }

    #[test]
    fn what_waits_to_be_tried_again_is_told_with_its_time() {
        let counts = UnitCounts { done: 1, open: 2, ..UnitCounts::default() };
        let resting = |count, due| RestingUnits { count, due: Some(due) };
        for (resting, shown) in [
            (RestingUnits::default(), "0 running here"),
            (resting(1, 29_000), "0 running here, 1 waits to be tried again, in 28s"),
            (resting(2, 1500), "0 running here, 2 wait to be tried again, the first in 500ms"),
            (resting(2, 500), "0 running here, 2 wait to be tried again, the first in 0ms"),
        ] {
            let state = JobState { counts, running: 0, elsewhere: 0, resting, wall: 1000 };
            assert_eq!(told(state, 0, Duration::ZERO), shown);
        }
    }

    #[test]
    fn nothing_is_estimated_before_there_is_something_to_do_it_from() {
        let counts = |done, open| UnitCounts { done, open, ..UnitCounts::default() };
        let secs = Duration::from_secs;
        let told = |counts, running, before, took| {
            told(JobState { counts, running, ..JobState::default() }, before, took)
        };
        assert_eq!(told(counts(50, 50), 4, 50, secs(60)), "4 running here", "those were done before");
        assert_eq!(told(counts(50, 50), 4, 0, secs(1)), "4 running here");
        assert_eq!(told(counts(30, 60), 4, 0, secs(10)), "4 running here, 3.0/s, about 20s left");
        let waits = JobState { counts: counts(7, 3), elsewhere: 3, ..JobState::default() };
        assert_eq!(super::told(waits, 7, secs(60)), "0 running here, 3 elsewhere", "it does not stand still");
        let over = UnitCounts { done: 8, failed: 2, ..UnitCounts::default() };
        assert_eq!(told(over, 0, 0, secs(10)), "0 running here, 2 failed, 1.0/s");
    }
}
