//! Turns: tasks begin in the order in which their units were claimed, though several claims are under way and are answered in any
//! order.

use std::collections::BTreeMap;
use std::time::Duration;

/// A claim that takes longer than this is not waited for: nothing else might run meanwhile.
const PATIENCE: Duration = Duration::from_secs(1);

/// The place of a claim among all of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Turn(u64);

/// What was won, and waits for its turn.
#[derive(Debug)]
pub(crate) struct ClaimQueue<T> {
    next: u64,
    /// Claims that are not answered yet, and since when.
    asked: BTreeMap<Turn, Duration>,
    won: BTreeMap<Turn, T>,
}

impl<T> Default for ClaimQueue<T> {
    fn default() -> ClaimQueue<T> {
        ClaimQueue { next: 0, asked: BTreeMap::new(), won: BTreeMap::new() }
    }
}

impl<T> ClaimQueue<T> {
    /// The turn after all that were given before.
    pub(crate) fn last(&mut self) -> Turn {
        self.next += 1;
        Turn(self.next)
    }

    /// The same, for a claim that is made now: later ones wait until it is answered.
    pub(crate) fn ask(&mut self, now: Duration) -> Turn {
        let turn = self.last();
        self.asked.insert(turn, now);
        turn
    }

    /// The claim is answered: what it has won, if anything, is here next.
    pub(crate) fn answered(&mut self, turn: Turn) {
        self.asked.remove(&turn);
    }

    pub(crate) fn won(&mut self, turn: Turn, what: T) {
        self.won.insert(turn, what);
    }

    pub(crate) fn len(&self) -> usize {
        self.won.len()
    }

    /// Whether something may begin.
    pub(crate) fn is_due(&self, now: Duration) -> bool {
        let first = self.asked.iter().find(|(_, since)| now < **since + PATIENCE).map(|(turn, _)| turn);
        self.won.first_key_value().is_some_and(|(turn, _)| first.is_none_or(|first| turn < first))
    }

    /// What begins next, if it may begin.
    pub(crate) fn pop(&mut self, now: Duration) -> Option<T> {
        if self.is_due(now) { self.won.pop_first().map(|(_, what)| what) } else { None }
    }

    /// All that has not begun, but the first of it, so many.
    pub(crate) fn drain_after(&mut self, first: usize) -> Vec<T> {
        let from = self.won.keys().nth(first).copied();
        from.map(|from| self.won.split_off(&from).into_values().collect()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    //! Plan: answers in any order are used in the order of the claims; a claim that won nothing, or takes too long, holds up none.
    use super::*;

    const NOW: Duration = Duration::from_secs(60);

    fn due(turns: &mut ClaimQueue<char>, now: Duration) -> String {
        std::iter::from_fn(|| turns.pop(now)).collect()
    }

    fn win(turns: &mut ClaimQueue<char>, turn: Turn, what: char) {
        turns.answered(turn);
        turns.won(turn, what);
    }

    #[test]
    fn what_is_won_early_waits_for_the_claims_before_it() {
        let mut turns = ClaimQueue::default();
        let [a, b, c, d] = [(); 4].map(|()| turns.ask(NOW));
        win(&mut turns, c, 'c');
        win(&mut turns, b, 'b');
        assert_eq!((due(&mut turns, NOW).as_str(), turns.len()), ("", 2));
        win(&mut turns, a, 'a');
        assert_eq!(due(&mut turns, NOW), "abc");
        let e = turns.ask(NOW);
        win(&mut turns, e, 'e');
        assert!(!turns.is_due(NOW));
        turns.answered(d);
        assert_eq!(due(&mut turns, NOW), "e", "the one before it was not to be had");
    }

    #[test]
    fn a_slow_claim_is_not_waited_for() {
        let mut turns = ClaimQueue::default();
        let a = turns.ask(NOW);
        let b = turns.ask(NOW + PATIENCE / 2);
        let late = turns.last();
        turns.won(late, 'x');
        win(&mut turns, b, 'b');
        assert_eq!(due(&mut turns, NOW + PATIENCE - Duration::from_millis(1)), "");
        assert_eq!(due(&mut turns, NOW + PATIENCE), "bx");
        win(&mut turns, a, 'a');
        assert_eq!(due(&mut turns, NOW + PATIENCE), "a");
    }

    #[test]
    fn what_is_not_to_begin_is_had_in_order() {
        let mut turns = ClaimQueue::default();
        let [a, b, _c] = [(); 3].map(|()| turns.ask(NOW));
        win(&mut turns, b, 'b');
        win(&mut turns, a, 'a');
        assert_eq!((turns.drain_after(2), turns.len()), (vec![], 2));
        assert_eq!((turns.drain_after(1), turns.len()), (vec!['b'], 1));
        assert_eq!((turns.drain_after(0), turns.len()), (vec!['a'], 0));
    }
}
