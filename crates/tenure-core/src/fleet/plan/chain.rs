//! Chains: moves that no single move can replace. One worker passes a unit to a second, which passes another to a third. There are also
//! swaps of a heavy unit for a lighter one.
//!
//! Without limits of weight, chains find free capacity if there is any, and even counts out as far as labels allow. They
//! are augmenting paths, shortest first. A plan that no chain improves is as good as can be.

use super::{Class, Planner};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// For each worker, if a search has come to it: who passes a unit of which class to it. At the beginning nobody does.
type Trail = Vec<Option<(Option<usize>, Class)>>;

/// Searches for room that failed: nothing that needs these labels and weighs as much finds room either.
#[derive(Debug, Default)]
pub(super) struct Failed(BTreeMap<usize, u64>);

impl Planner<'_> {
    /// Makes room for one more unit of `class` at a worker that may have it, though all such are full.
    pub(super) fn make_room(&mut self, class: Class, failed: &mut Failed) -> Option<usize> {
        let weight = if self.is_weight_limited() { class.weight } else { 0 };
        if failed.0.get(&class.needs).is_some_and(|least| weight >= *least) {
            return None;
        }
        let allowed = &self.allowed[class.needs];
        let starts: Vec<usize> = self.ranks.iter().map(|(_, at)| *at).filter(|at| allowed[*at]).collect();
        let mut trail: Trail = allowed.iter().map(|may| may.then_some((None, class))).collect();
        let found = self.search(starts.into(), &mut trail, |_| true);
        if found.is_none() {
            failed.0.insert(class.needs, weight);
        }
        found.map(|end| self.follow(&trail, end))
    }

    /// One unit more for a worker that has two less than another at least.
    pub(super) fn even_by_chain(&mut self) -> bool {
        let least = self.ranks.first().map_or(0, |(cost, _)| *cost);
        let fullest: Vec<(u64, usize)> = self.ranks.iter().rev().copied().collect();
        // Whoever could be reached from a fuller one, without any gain, gains nothing from a less full one.
        let mut trail: Trail = vec![None; self.workers.len()];
        for (full, from) in fullest {
            let will_do = |cost: u64| cost + 2 <= full;
            if !will_do(least) {
                // Or each worker of an even fleet would look at each other, for nothing.
                break;
            }
            if trail[from].is_some() {
                continue;
            }
            let nothing = Class { needs: 0, cost: 0, weight: 0, settled: false };
            trail[from] = Some((None, nothing));
            if let Some(end) = self.search([from].into(), &mut trail, will_do) {
                self.follow(&trail, end);
                return true;
            }
        }
        false
    }

    /// The end of the shortest chain: a worker with room, of a cost that will do.
    fn search(
        &self,
        mut queue: VecDeque<usize>,
        trail: &mut Trail,
        will_do: impl Fn(u64) -> bool,
    ) -> Option<usize> {
        while let Some(from) = queue.pop_front() {
            let entering = trail[from]?.1.weight;
            let mut seen = BTreeSet::new();
            for &class in self.seats[from].has.keys() {
                let room = self.workers[from].weight.saturating_add(class.weight);
                let fits = self.seats[from].weight.saturating_add(entering) <= room;
                // One of them comes to all who may have any of them.
                if !fits || !seen.insert(class.needs) {
                    continue;
                }
                for &(cost, to) in &self.ranks {
                    if trail[to].is_some() || !self.allowed[class.needs][to] {
                        continue;
                    }
                    trail[to] = Some((Some(from), class));
                    if will_do(cost) && self.has_room(to, class) {
                        return Some(to);
                    }
                    queue.push_back(to);
                }
            }
        }
        None
    }

    /// Does the moves of a chain, and returns where it began.
    fn follow(&mut self, trail: &Trail, end: usize) -> usize {
        let mut at = end;
        while let Some((Some(from), class)) = trail[at] {
            if let Some(unit) = self.take(from, class) {
                self.give(unit, at);
            }
            at = from;
        }
        at
    }

    /// A heavy unit for a lighter one, where workers are more than a twentieth of a fair share apart: less is not worth two
    /// moves.
    pub(super) fn even_by_swap(&mut self) -> bool {
        let Some((from, heavy, to, light)) = self.best_swap() else { return false };
        if let (Some(one), Some(other)) = (self.take(from, heavy), self.take(to, light)) {
            self.give(one, to);
            self.give(other, from);
        }
        true
    }

    fn best_swap(&self) -> Option<(usize, Class, usize, Class)> {
        let (&least, &most) = (self.ranks.first()?, self.ranks.last()?);
        let fair = self.ranks.iter().map(|(cost, _)| cost / self.ranks.len() as u64).sum::<u64>();
        let from_most = self.ranks.iter().map(|to| (most, *to));
        let to_least = self.ranks.iter().rev().map(|from| (*from, least));
        for ((full, from), (empty, to)) in from_most.chain(to_least) {
            let gap = full.saturating_sub(empty);
            if gap.saturating_mul(20) <= fair {
                continue;
            }
            let pairs = self.seats[from]
                .has
                .keys()
                .flat_map(|heavy| self.seats[to].has.keys().map(move |light| (*heavy, *light)));
            let best = pairs
                .filter(|(heavy, light)| self.may_swap(from, *heavy, to, *light, gap))
                .min_by_key(|(heavy, light)| {
                    (gap.abs_diff((heavy.cost - light.cost).saturating_mul(2)), *heavy, *light)
                });
            if let Some((heavy, light)) = best {
                return Some((from, heavy, to, light));
            }
        }
        None
    }

    fn may_swap(&self, from: usize, heavy: Class, to: usize, light: Class, gap: u64) -> bool {
        let fits = |at: usize, comes: Class, goes: Class| {
            let (seat, room) = (&self.seats[at], &self.workers[at]);
            self.allowed[comes.needs][at]
                && seat.weight.saturating_add(comes.weight) <= room.weight.saturating_add(goes.weight)
        };
        heavy.cost > light.cost
            && heavy.cost - light.cost < gap
            && fits(to, heavy, light)
            && fits(from, light, heavy)
    }

    fn is_weight_limited(&self) -> bool {
        self.workers.iter().any(|room| room.weight < u64::MAX)
    }
}
