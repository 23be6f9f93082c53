//! `--keep-order`: pieces are held back until those of all earlier units are out.

use std::collections::BTreeMap;

/// What is held back.
#[derive(Debug)]
pub(super) struct Order<T> {
    /// The number of the first unit that is not over.
    next: usize,
    held: BTreeMap<usize, Vec<T>>,
}

impl<T> Default for Order<T> {
    fn default() -> Order<T> {
        Order { next: 0, held: BTreeMap::new() }
    }
}

impl<T> Order<T> {
    /// One more of that unit.
    pub(super) fn hold(&mut self, number: usize, piece: T) {
        self.held.entry(number).or_default().push(piece);
    }

    /// What may be written now: of all units that are over, up to the first that is not.
    pub(super) fn due(&mut self, total: usize, is_over: impl Fn(usize) -> bool) -> Vec<T> {
        while self.next < total && is_over(self.next) {
            self.next += 1;
        }
        let later = self.held.split_off(&self.next);
        std::mem::replace(&mut self.held, later).into_values().flatten().collect()
    }

    /// The rest, in order.
    pub(super) fn rest(&mut self) -> Vec<T> {
        std::mem::take(&mut self.held).into_values().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_early_waits_for_its_turn() {
        let mut order = Order::default();
        order.hold(2, "c");
        order.hold(1, "b1");
        assert_eq!(order.due(4, |n| n == 1), [""; 0]);
        order.hold(1, "b2");
        assert_eq!(order.due(4, |n| n < 2), ["b1", "b2"]);
        order.hold(3, "d");
        assert_eq!(order.due(4, |n| n != 3), ["c"]);
        order.hold(0, "late");
        assert_eq!(order.due(4, |_| false), ["late"], "it was taken for over: another attempt");
        assert_eq!(order.rest(), ["d"]);
    }
}
