//! The plan: which worker should own which unit. One pure function, with the same answer on every worker.
//!
//! A worker keeps its units, unless they are too many or not allowed. A unit without an owner goes to the worker with least. Then
//! units move from the fullest worker to the emptiest, as long as that evens them out. Where no single move helps, a chain of moves
//! may. So moves are few, and an even fleet is left alone. The order in which planned moves are done does not matter:
//! a plan made half-way has the rest of the same moves, at least while all units are alike.

mod cause;
mod chain;
mod loads;
mod takers;

pub use cause::{Cause, JOINING, count};
pub(super) use loads::Loads;

use chain::Failed;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use takers::WithoutTaker;

/// What is evened out between workers.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Balance {
    /// How many units each has: within one of each other.
    #[default]
    Count,
    /// How much their units weigh together, as far as single weights allow.
    Weight,
}

impl Balance {
    /// In one word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Balance::Count => "count",
            Balance::Weight => "weight",
        }
    }
}

/// Its name.
impl fmt::Display for Balance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A unit, as far as planning goes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Load {
    /// What it weighs; 0 counts as 1.
    pub weight: u64,
    /// The labels that its worker must have.
    pub needs: BTreeSet<String>,
    /// The index of the worker that has it now.
    pub owner: Option<usize>,
    /// The index of the worker that is to have it if it may.
    pub pin: Option<usize>,
    /// It fails, and goes from worker to worker: it stays with its owner as long as that may have it, and evenness does not count it.
    pub stays: bool,
    /// Others that are alike move before it: it came to its owner because who had it before could not do it.
    pub settled: bool,
    /// The indices of workers that have declined it.
    pub declined_by: BTreeSet<usize>,
}

/// A worker, as far as planning goes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Room {
    /// The most units that it takes.
    pub units: u64,
    /// The most weight that it takes.
    pub weight: u64,
    /// What it offers.
    pub labels: BTreeSet<String>,
    /// Whether it is about to go: it keeps nothing.
    pub leaving: bool,
}

/// Why no worker is to own a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Uncovered {
    /// There is no worker, or all are leaving.
    NoWorker,
    /// No worker has the labels that it needs.
    NoLabels,
    /// All who could take it are full.
    NoRoom,
    /// All who could take it have declined it, and are asked again after a while.
    Declined,
    /// It is attached to a session whose record can't be read: that has to be mended or deleted, and the fleet told; or else it is found
    /// when the planner lists anew without cause, after ten ttls or more.
    Damaged,
    /// It is attached to a live session that is not a worker's: that has to end, or its record to be mended.
    Foreign,
}

impl fmt::Display for Uncovered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Uncovered::NoWorker => "no worker",
            Uncovered::NoLabels => "no worker has its labels",
            Uncovered::NoRoom => "all workers are full",
            Uncovered::Declined => "all who could take it have declined it",
            Uncovered::Damaged => "its worker's session can't be read; mend or delete that record",
            Uncovered::Foreign => "it is attached to a session that is not a worker's",
        })
    }
}

/// For each unit, in the order in which they were given, the index of its worker or the reason why there is none.
pub type Plan = Vec<Result<usize, Uncovered>>;

/// Plans who should own what. Workers must come in the same order everywhere, and so must units: by name.
///
/// 10,000 units over 100 workers take a few milliseconds.
#[must_use]
pub fn plan(units: &[Load], workers: &[Room], balance: Balance) -> Plan {
    units.iter().collect::<Loads>().plan(workers, balance)
}

impl Loads {
    /// The same as [`plan`].
    pub(super) fn plan(&self, workers: &[Room], balance: Balance) -> Plan {
        Planner::new(self, workers, balance).plan()
    }
}

/// Units that are the same to the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Class {
    needs: usize,
    cost: u64,
    weight: u64,
    settled: bool,
}

#[derive(Debug, Default)]
struct Seat {
    cost: u64,
    weight: u64,
    units: u64,
    /// How many of these fail.
    failing: u64,
    /// What it has, by class; each class in the order of units.
    has: BTreeMap<Class, BTreeSet<usize>>,
}

struct Planner<'a> {
    units: &'a Loads,
    workers: &'a [Room],
    balance: Balance,
    /// Whether weights tell units apart.
    weighs: bool,
    /// For each set of workers, whether each is in it.
    allowed: Vec<Vec<bool>>,
    seats: Vec<Seat>,
    /// Workers that keep something, by what they have.
    ranks: BTreeSet<(u64, usize)>,
    pool: Vec<usize>,
    pinned: BTreeSet<usize>,
    owners: Plan,
}

impl<'a> Planner<'a> {
    fn new(units: &'a Loads, workers: &'a [Room], balance: Balance) -> Self {
        let allowed = units.sets().map(|kind| {
            let fits = |(at, worker): (usize, &Room)| {
                let wants = !worker.leaving && !kind.declined_by.contains(&at);
                wants && kind.needs.is_subset(&worker.labels)
            };
            workers.iter().enumerate().map(fits).collect()
        });
        Planner {
            units,
            workers,
            balance,
            // What makes no difference must not tell units apart: moves within a class may be done in any order.
            weighs: balance == Balance::Weight || workers.iter().any(|worker| worker.weight != u64::MAX),
            allowed: allowed.collect(),
            seats: workers.iter().map(|_| Seat::default()).collect(),
            ranks: (0..workers.len()).filter(|&at| !workers[at].leaving).map(|at| (0, at)).collect(),
            pool: Vec::new(),
            pinned: BTreeSet::new(),
            owners: vec![Err(Uncovered::NoWorker); units.len()],
        }
    }

    fn plan(mut self) -> Plan {
        self.settle_pinned();
        self.settle_owned();
        // What was placed, and evening out, may make room for what nobody could take before. Each round covers more or evens out
        // more, so this ends.
        loop {
            let has_placed = self.place_pool();
            let has_moved = self.even_out(self.balance);
            if self.pool.is_empty() || !has_placed && !has_moved {
                return self.finish();
            }
        }
    }

    fn class(&self, unit: usize) -> Class {
        let kind = self.units.kind(unit);
        let weight = if self.weighs { self.units.weight(unit) } else { 1 };
        let cost = match self.balance {
            _ if kind.stays => 0,
            Balance::Count => 1,
            Balance::Weight => weight,
        };
        Class { needs: kind.set, cost, weight, settled: kind.settled }
    }

    fn has_room(&self, worker: usize, class: Class) -> bool {
        let (seat, room) = (&self.seats[worker], &self.workers[worker]);
        seat.units < room.units && seat.weight.saturating_add(class.weight) <= room.weight
    }

    fn give(&mut self, unit: usize, worker: usize) {
        let class = self.class(unit);
        let seat = &mut self.seats[worker];
        self.ranks.remove(&(seat.cost, worker));
        seat.cost = seat.cost.saturating_add(class.cost);
        seat.weight = seat.weight.saturating_add(class.weight);
        seat.units += 1;
        let fails = self.units.kind(unit).stays;
        seat.failing += u64::from(fails);
        if !self.pinned.contains(&unit) && !fails {
            seat.has.entry(class).or_default().insert(unit);
        }
        self.ranks.insert((seat.cost, worker));
        self.owners[unit] = Ok(worker);
    }

    /// Takes from `worker` its first unit of `class`.
    fn take(&mut self, worker: usize, class: Class) -> Option<usize> {
        let seat = &mut self.seats[worker];
        let own = seat.has.get_mut(&class)?;
        let unit = own.pop_first()?;
        if own.is_empty() {
            seat.has.remove(&class);
        }
        self.ranks.remove(&(seat.cost, worker));
        seat.cost = seat.cost.saturating_sub(class.cost);
        seat.weight = seat.weight.saturating_sub(class.weight);
        seat.units -= 1;
        self.ranks.insert((seat.cost, worker));
        Some(unit)
    }

    /// What is pinned counts where it is, and is moved by nothing else.
    fn settle_pinned(&mut self) {
        for unit in 0..self.units.len() {
            let class = self.class(unit);
            let may = |&worker: &usize| self.allowed[class.needs].get(worker) == Some(&true);
            let stays = self.units.owner(unit).filter(|_| self.units.kind(unit).stays);
            if let Some(worker) = self.units.pin(unit).filter(may).or_else(|| stays.filter(may))
                && self.has_room(worker, class)
            {
                self.pinned.insert(unit);
                self.give(unit, worker);
            }
        }
    }

    /// What each has and may keep; the rest goes into the pool. What is kept where room is short are the last, since it
    /// is the first that move.
    fn settle_owned(&mut self) {
        for unit in (0..self.units.len()).rev() {
            if self.pinned.contains(&unit) {
                continue;
            }
            let class = self.class(unit);
            let may = |&owner: &usize| self.allowed[class.needs].get(owner) == Some(&true);
            match self.units.owner(unit).filter(may) {
                Some(owner) if self.has_room(owner, class) => self.give(unit, owner),
                _ => self.pool.push(unit),
            }
        }
    }

    /// The heaviest first, each to the emptiest that may have it; whether any found a place.
    fn place_pool(&mut self) -> bool {
        let mut pool = std::mem::take(&mut self.pool);
        pool.sort_unstable_by_key(|&unit| (std::cmp::Reverse(self.class(unit).cost), unit));
        let waiting = pool.len();
        let mut failed = Failed::default();
        for unit in pool {
            let class = self.class(unit);
            match self.emptiest(class).or_else(|| self.make_room(class, &mut failed)) {
                Some(worker) => self.give(unit, worker),
                None => {
                    self.owners[unit] = Err(self.why_not(unit));
                    self.pool.push(unit);
                }
            }
        }
        self.pool.len() < waiting
    }

    /// Who has least, of those who may have one more unit of this class. A unit that fails makes nobody fuller, so by that all such units
    /// would come to one worker: it goes to whoever has fewest that fail. Of several who have least, the one with fewest of these gets
    /// what does not fail.
    fn emptiest(&self, class: Class) -> Option<usize> {
        let allowed = &self.allowed[class.needs];
        let fits = |at: &usize| allowed[*at] && self.has_room(*at, class);
        let by_failing = |at: &usize| self.seats[*at].failing;
        let mut open = self.ranks.iter().filter(|(_, at)| fits(at));
        if class.cost == 0 {
            return open.map(|(_, at)| *at).min_by_key(by_failing);
        }
        let (least, first) = open.next().copied()?;
        if by_failing(&first) == 0 {
            return Some(first);
        }
        let same = self.ranks.range((least, first)..=(least, usize::MAX)).map(|(_, at)| *at);
        same.filter(fits).min_by_key(by_failing)
    }

    fn why_not(&self, unit: usize) -> Uncovered {
        let declined = |at: &usize| {
            let room = self.workers.get(*at).filter(|room| !room.leaving);
            room.is_some_and(|room| self.units.kind(unit).needs.is_subset(&room.labels))
        };
        if self.ranks.is_empty() {
            Uncovered::NoWorker
        } else if self.allowed[self.class(unit).needs].contains(&true) {
            Uncovered::NoRoom
        } else if self.units.kind(unit).declined_by.iter().any(declined) {
            Uncovered::Declined
        } else {
            Uncovered::NoLabels
        }
    }

    /// Each move makes the sum of squares smaller, so this ends; and with nothing left to even out it does nothing.
    fn even_out(&mut self, balance: Balance) -> bool {
        let mut moved = false;
        loop {
            let mut without_taker = WithoutTaker::default();
            while let Some((from, to, class)) = self.best_move(&mut without_taker) {
                let Some(unit) = self.take(from, class) else { return moved };
                self.give(unit, to);
                without_taker.moved(from, to);
                moved = true;
            }
            let helped = match balance {
                Balance::Count => self.even_by_chain(),
                Balance::Weight => self.even_by_swap(),
            };
            if !helped {
                return moved;
            }
            moved = true;
        }
    }

    /// From the fullest that has something to give to the emptiest that may have it.
    fn best_move(&self, without_taker: &mut WithoutTaker) -> Option<(usize, usize, Class)> {
        for &(full, from) in self.ranks.iter().rev() {
            let takes_now = |to: usize| {
                let gap = full.saturating_sub(self.seats[to].cost);
                gap >= 2 && self.best_class(from, to, gap, &mut BTreeSet::new()).is_some()
            };
            if without_taker.stays(from, takes_now) {
                continue;
            }
            let mut seen = BTreeSet::new();
            for &(empty, to) in &self.ranks {
                let gap = full - empty;
                if gap < 2 {
                    break;
                }
                if let Some(class) = self.best_class(from, to, gap, &mut seen) {
                    return Some((from, to, class));
                }
            }
            without_taker.add(from);
        }
        None
    }

    /// The class whose cost comes closest to half the gap, so that few moves close it.
    fn best_class(&self, from: usize, to: usize, gap: u64, seen: &mut BTreeSet<usize>) -> Option<Class> {
        // Workers with the same permissions and unlimited room are the same to `from`: only the emptiest is worth a look.
        let unlimited = self.workers[to].units == u64::MAX && self.workers[to].weight == u64::MAX;
        let same = self.allowed.iter().all(|allowed| allowed[to]);
        if unlimited && same && !seen.insert(0) {
            return None;
        }
        let classes = self.seats[from].has.keys();
        let fits =
            |class: &&Class| class.cost < gap && self.allowed[class.needs][to] && self.has_room(to, **class);
        classes
            .filter(fits)
            .min_by_key(|class| (gap.abs_diff(class.cost.saturating_mul(2)), **class))
            .copied()
    }

    /// Who moves where is settled last, and by order alone: of the units of a class that leave their owners the first go to
    /// the first workers. So it does not matter which of several moves is done first.
    fn finish(mut self) -> Plan {
        let mut moves: BTreeMap<Class, (Vec<usize>, Vec<usize>)> = BTreeMap::new();
        for (unit, owner) in self.owners.iter().enumerate() {
            if let Ok(to) = *owner
                && self.units.owner(unit) != Some(to)
                && !self.pinned.contains(&unit)
            {
                let (who, whither) = moves.entry(self.class(unit)).or_default();
                who.push(unit);
                whither.push(to);
            }
        }
        for (who, mut whither) in moves.into_values() {
            whither.sort_unstable();
            for (unit, to) in who.into_iter().zip(whither) {
                self.owners[unit] = Ok(to);
            }
        }
        self.owners
    }
}
