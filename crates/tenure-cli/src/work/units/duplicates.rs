//! What was given more than once: counted, with its first examples.

use crate::text::count;

/// What was given more than once.
#[derive(Debug, Default)]
pub(in crate::work) struct Duplicates {
    count: usize,
    /// The first ones, in words.
    examples: Vec<String>,
}

impl Duplicates {
    const SHOWN: usize = 5;

    pub(super) fn add(&mut self, example: impl FnOnce() -> String) {
        self.count += 1;
        if self.examples.len() < Self::SHOWN {
            self.examples.push(example());
        }
    }

    pub(in crate::work) fn extend(&mut self, later: Duplicates) {
        self.count += later.count;
        self.examples.extend(later.examples);
        self.examples.truncate(Self::SHOWN);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn note(&self, of: &str) -> Option<String> {
        let more = if self.count > self.examples.len() { ", …" } else { "" };
        let duplicates = count(self.count, "duplicate");
        (self.count > 0).then(|| format!("{duplicates}{of}, run once: {}{more}", self.examples.join(", ")))
    }
}
