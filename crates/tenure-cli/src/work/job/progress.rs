//! The progress bar, on a terminal only.

use super::board::Counts;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;

pub(crate) struct Progress(Option<ProgressBar>);

impl Progress {
    pub(crate) fn new() -> Progress {
        if !std::io::stderr().is_terminal() {
            return Progress(None);
        }
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr_with_hz(10));
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let bars = if plain { "{bar:20}" } else { "{bar:20.green}" };
        let template = format!("{bars} {{pos}}/{{len}} settled, {{per_sec}}, {{eta}} left, {{wide_msg}}");
        if let Ok(style) = ProgressStyle::with_template(&template) {
            bar.set_style(style);
        }
        Progress(Some(bar))
    }

    pub(crate) fn is_shown(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn show(&self, counts: Counts, running: usize) {
        if let Some(bar) = &self.0 {
            bar.set_length(counts.total() as u64);
            bar.set_position(counts.settled() as u64);
            bar.set_message(format!("{running} running here, {} failed", counts.failed));
        }
    }

    pub(crate) fn end(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
