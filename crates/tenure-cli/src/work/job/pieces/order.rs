//! `--keep-order`: pieces are held back until those of all earlier units are out.

use std::collections::BTreeMap;

/// What is held back.
#[derive(Debug)]
pub(super) struct Order<T> {
    /// The number of the first unit that is not over.
    next: usize,
    held: BTreeMap<usize, Held<T>>,
}

/// What is held back of one unit.
#[derive(Debug)]
struct Held<T> {
    pieces: Vec<T>,
    /// The unit waits for nothing but its turn.
    is_over: bool,
}

impl<T> Default for Held<T> {
    fn default() -> Held<T> {
        Held { pieces: Vec::new(), is_over: false }
    }
}

impl<T> Default for Order<T> {
    fn default() -> Order<T> {
        Order { next: 0, held: BTreeMap::new() }
    }
}

impl<T> Order<T> {
    /// One more of that unit.
    pub(super) fn hold(&mut self, number: usize, piece: T) {
        self.held.entry(number).or_default().pieces.push(piece);
    }

    /// No more comes of that unit: its turn ends once all that is held of it is out.
    pub(super) fn end(&mut self, number: usize) {
        self.held.entry(number).or_default().is_over = true;
    }

    /// The last one of that unit, which is not over after all.
    pub(super) fn take_back(&mut self, number: usize) -> Option<T> {
        let held = self.held.get_mut(&number)?;
        held.is_over = false;
        held.pieces.pop()
    }

    /// The number of the unit that is waited for, if something is held back.
    pub(super) fn awaited(&self) -> Option<usize> {
        (!self.held.is_empty()).then_some(self.next)
    }

    /// What may be written now: of all units that are over, up to the first that is not; of so many at the most, if no unit has several.
    pub(super) fn due(&mut self, total: usize, most: usize, is_over: impl Fn(usize) -> bool) -> Vec<T> {
        let has_ended = |next: &usize| self.held.get(next).is_some_and(|held| held.is_over);
        while self.next < total && (has_ended(&self.next) || is_over(self.next)) {
            self.next += 1;
        }
        let mut due = Vec::new();
        while due.len() < most
            && let Some(first) = self.held.first_entry().filter(|first| *first.key() < self.next)
        {
            due.extend(first.remove().pieces);
        }
        due
    }

    /// The rest, in order.
    pub(super) fn rest(&mut self) -> Vec<T> {
        std::mem::take(&mut self.held).into_values().flat_map(|held| held.pieces).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: usize = usize::MAX;

    #[test]
    fn what_comes_early_waits_for_its_turn() {
        let mut order = Order::default();
        order.hold(2, "c");
        order.hold(1, "b1");
        assert_eq!(order.due(4, ALL, |n| n == 1), [""; 0]);
        order.hold(1, "b2");
        assert_eq!(order.due(4, ALL, |n| n < 2), ["b1", "b2"]);
        order.hold(3, "d");
        assert_eq!(order.due(4, ALL, |n| n != 3), ["c"]);
        order.hold(0, "late");
        assert_eq!(order.due(4, ALL, |_| false), ["late"], "it was taken for over: another attempt");
        assert_eq!(order.rest(), ["d"]);
    }

    #[test]
    fn who_waits_for_its_turn_alone_holds_back_no_other() {
        let mut order = Order::default();
        for (number, piece) in [(1, "b"), (2, "c"), (0, "a")] {
            order.hold(number, piece);
        }
        order.end(1);
        order.end(2);
        assert_eq!((order.due(3, ALL, |_| false), order.awaited()), (vec![], Some(0)), "it is tried again");
        assert_eq!(order.take_back(2), Some("c"));
        order.hold(0, "a again");
        order.end(0);
        assert_eq!(order.due(3, 1, |_| false), ["a", "a again"], "no unit is divided");
        assert_eq!((order.due(3, 1, |_| false), order.awaited()), (vec!["b"], Some(2)));
    }
}
