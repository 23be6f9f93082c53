//! Who has found nobody to give a unit to. Where labels divide a large fleet, that is half of it, and each move would ask all of them again.

use std::collections::BTreeMap;

/// The workers whom nobody can relieve, while units move from one to another.
#[derive(Debug, Default)]
pub(super) struct WithoutTaker {
    /// With how many moves had been done by then.
    found: BTreeMap<usize, usize>,
    /// Who gave a unit away, move by move: nobody else can take more than before.
    givers: Vec<usize>,
}

impl WithoutTaker {
    /// Nobody takes anything from this one.
    pub(super) fn add(&mut self, from: usize) {
        self.found.insert(from, self.givers.len());
    }

    /// A unit has moved.
    pub(super) fn moved(&mut self, from: usize, to: usize) {
        self.found.remove(&from);
        self.found.remove(&to);
        self.givers.push(from);
    }

    /// Whether nobody takes anything from this one still: `takes` says so of one of the others.
    pub(super) fn stays(&mut self, from: usize, takes: impl Fn(usize) -> bool) -> bool {
        let Some(moves) = self.found.get_mut(&from) else { return false };
        if self.givers[*moves..].iter().any(|giver| takes(*giver)) {
            self.found.remove(&from);
            return false;
        }
        *moves = self.givers.len();
        true
    }
}

#[cfg(test)]
mod tests {
    //! Plan: who has found nobody asks those alone who have given something away since, each once; who has given or got a unit asks all again.
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn only_those_who_have_given_something_away_since_are_asked_again_and_once() {
        let asked = RefCell::new(Vec::new());
        let takes = |takes: bool| {
            let asked = &asked;
            move |at| {
                asked.borrow_mut().push(at);
                takes
            }
        };
        let mut without = WithoutTaker::default();
        assert!(!without.stays(9, takes(false)), "it has not looked yet");
        without.add(9);
        assert!(without.stays(9, takes(false)));
        without.moved(3, 4);
        without.moved(5, 4);
        assert!(without.stays(9, takes(false)) && without.stays(9, takes(true)));
        assert_eq!(asked.take(), [3, 5]);
        without.moved(6, 4);
        assert!(!without.stays(9, takes(true)), "somebody takes");
        assert!(!without.stays(9, takes(false)), "it looks at all");
        assert_eq!(asked.take(), [6]);
    }

    #[test]
    fn whoever_has_given_or_got_a_unit_asks_all_again() {
        let mut without = WithoutTaker::default();
        for at in [1, 2, 3] {
            without.add(at);
        }
        without.moved(1, 2);
        let stays = [1, 2, 3].map(|at| without.stays(at, |_| false));
        assert_eq!(stays, [false, false, true]);
    }
}
