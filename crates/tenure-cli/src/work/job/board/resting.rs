//! Units that wait for their next attempt.

/// How many there are, as far as a round through the open units has shown.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RestingUnits {
    pub(crate) count: usize,
    /// When the first of them is due, in Unix milliseconds.
    pub(crate) due: Option<u64>,
}

impl RestingUnits {
    /// One more, which is due then.
    pub(super) fn add(&mut self, due: u64) {
        self.count += 1;
        self.due = Some(self.due.map_or(due, |other| other.min(due)));
    }
}
