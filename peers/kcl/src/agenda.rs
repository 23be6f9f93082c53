//! When each of many leases is due for something.

use std::collections::{BTreeMap, BTreeSet};
use tenure_core::Tick;

/// At most one time for each name.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    times: BTreeMap<String, Tick>,
    order: BTreeSet<(Tick, String)>,
}

impl Agenda {
    pub(crate) fn set(&mut self, name: &str, at: Tick) {
        self.remove(name);
        self.times.insert(name.to_owned(), at);
        self.order.insert((at, name.to_owned()));
    }

    pub(crate) fn remove(&mut self, name: &str) {
        if let Some(at) = self.times.remove(name) {
            self.order.remove(&(at, name.to_owned()));
        }
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.times.contains_key(name)
    }

    /// The earliest time of all.
    pub(crate) fn next(&self) -> Option<Tick> {
        self.order.first().map(|(at, _)| *at)
    }

    /// Takes the earliest name whose time has come.
    pub(crate) fn pop(&mut self, now: Tick) -> Option<String> {
        if self.next().is_none_or(|at| at > now) {
            return None;
        }
        let (_, name) = self.order.pop_first()?;
        self.times.remove(&name);
        Some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_up_at_their_last_time_and_once() {
        let mut agenda = Agenda::default();
        for (name, at) in [("a", 5), ("b", 3), ("a", 1), ("c", 2)] {
            agenda.set(name, Tick(at));
        }
        agenda.remove("c");
        assert_eq!((agenda.next(), agenda.pop(Tick(0))), (Some(Tick(1)), None));
        assert_eq!(agenda.pop(Tick(9)).as_deref(), Some("a"));
        assert_eq!(agenda.pop(Tick(3)).as_deref(), Some("b"));
        assert_eq!((agenda.pop(Tick(9)), agenda.next()), (None, None));
    }
}
