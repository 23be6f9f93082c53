//! What has happened in worlds, so that nobody takes empty ones for sound ones.

/// How often each has happened.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ManagersCounts {
    pub(super) acquired: usize,
    pub(super) refreshed: usize,
    pub(super) released: usize,
    pub(super) taken_up: usize,
    pub(super) moved: usize,
    pub(super) found_out: usize,
    pub(super) by_peers: usize,
    pub(super) swept: usize,
    pub(super) handed_over: usize,
    pub(super) undone: usize,
    pub(super) steps: usize,
}

impl ManagersCounts {
    pub(super) fn add(&mut self, other: &ManagersCounts) {
        self.acquired += other.acquired;
        self.refreshed += other.refreshed;
        self.released += other.released;
        self.taken_up += other.taken_up;
        self.moved += other.moved;
        self.found_out += other.found_out;
        self.by_peers += other.by_peers;
        self.swept += other.swept;
        self.handed_over += other.handed_over;
        self.undone += other.undone;
        self.steps += other.steps;
    }

    pub(super) fn are_enough(&self) -> bool {
        let ManagersCounts { taken_up, moved, found_out, by_peers, swept, handed_over, undone, .. } = self;
        [taken_up, moved, found_out, by_peers, swept, handed_over, undone]
            .into_iter()
            .all(|count| *count > 20)
            && self.acquired.min(self.refreshed).min(self.released) > 1000
    }
}
