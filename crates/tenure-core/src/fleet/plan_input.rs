//! What a plan is made of, as a fleet's records tell it: one reading of them, for the planner and for whoever looks on.

use super::about::About;
use super::plan::{Balance, Cause, Load, Loads, Plan, Room};
use super::unit::UnitSpec;
use crate::bugs::{Bug, Bugs};
use crate::values::key::HolderId;
use std::collections::{BTreeMap, BTreeSet};

/// A worker that takes part in a plan.
#[derive(Debug, Clone, Copy)]
pub struct PlanWorker<'a> {
    /// Who it is, by which units are pinned to it.
    pub holder: &'a HolderId,
    /// What it takes and declines.
    pub about: &'a About,
    /// Whether it has joined lately: within [`JOINING`](super::plan::JOINING) of its ttls.
    pub has_joined: bool,
}

/// Who has a unit, as far as planning goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlanOwner {
    /// Nobody: it is new, or was given up.
    Nobody,
    /// One that does not take part any more.
    Gone,
    /// The worker with this index.
    Worker(usize),
}

/// The workers of a plan, and the units that are open to it.
#[derive(Debug, Default)]
pub struct PlanInput<'a> {
    rooms: Vec<Room>,
    balance: Balance,
    has_joined: Vec<bool>,
    holders: BTreeMap<&'a HolderId, usize>,
    decliners: BTreeMap<&'a str, BTreeSet<usize>>,
    loads: Loads,
    /// For each unit, whether its owner is.
    gone: Vec<bool>,
    bugs: Bugs,
}

impl<'a> PlanInput<'a> {
    /// The workers that take part: those that live, and are of this layout, by the keys of their sessions. The first one says what is evened out.
    pub fn new(workers: impl IntoIterator<Item = PlanWorker<'a>>) -> PlanInput<'a> {
        let mut input = PlanInput::default();
        for (at, PlanWorker { holder, about, has_joined }) in workers.into_iter().enumerate() {
            if at == 0 {
                input.balance = about.balance;
            }
            input.rooms.push(about.room());
            input.has_joined.push(has_joined);
            input.holders.insert(holder, at);
            for unit in &about.declines {
                input.decliners.entry(unit).or_default().insert(at);
            }
        }
        input
    }

    /// With these bugs on purpose.
    pub(super) fn with_bugs(self, bugs: Bugs) -> PlanInput<'a> {
        PlanInput { bugs, ..self }
    }

    /// One more unit, after the others. They must come by name, and be open; and who has it must be known to be a worker, or nobody.
    pub fn add(&mut self, unit: &str, spec: &UnitSpec, owner: PlanOwner) {
        let pin = spec.pin.as_ref().filter(|_| !self.bugs.has(Bug::PinIgnored));
        self.loads.add(&Load {
            weight: if self.bugs.has(Bug::WeightIgnored) { 1 } else { spec.weight },
            needs: spec.needs.clone(),
            owner: if let PlanOwner::Worker(at) = owner { Some(at) } else { None },
            pin: pin.and_then(|pin| self.holders.get(pin)).copied(),
            stays: spec.fails(),
            settled: spec.retry.is_some(),
            declined_by: self.decliners.get(unit).cloned().unwrap_or_default(),
        });
        self.gone.push(owner == PlanOwner::Gone);
    }

    /// The plan of these units, in their order.
    #[must_use]
    pub fn plan(&self) -> Plan {
        self.loads.plan(&self.rooms, self.balance)
    }

    /// For each unit that goes to a worker by this plan, why it does.
    pub fn causes(&self, plan: &Plan) -> impl Iterator<Item = Option<Cause>> {
        let is_gone = |unit: usize| self.gone.get(unit) == Some(&true);
        let has_joined = |worker: usize| self.has_joined.get(worker) == Some(&true);
        self.loads.causes(&self.rooms, plan, is_gone, has_joined)
    }
}

#[cfg(test)]
mod tests {
    //! Plan: a record's words come to the plan, each by a move that only it makes; who declines, and whom a unit is pinned to, are known by name.
    use super::*;

    #[test]
    fn what_records_say_is_planned_for() {
        let holders = ["a", "b"].map(|name| HolderId::new(name).unwrap());
        let some = |unit: &str| BTreeSet::from([unit.to_owned()]);
        let (mut first, second) = (About::default(), About { labels: some("gpu"), ..About::default() });
        first.declines = some("declined");
        let workers = || {
            let both = [(&holders[0], &first, false), (&holders[1], &second, true)];
            both.map(|(holder, about, has_joined)| PlanWorker { holder, about, has_joined })
        };
        let plain = UnitSpec::default;
        let pinned = UnitSpec { pin: Some(holders[1].clone()), ..plain() };
        let labelled = UnitSpec { needs: some("gpu"), ..plain() };
        for (unit, spec, owner, target, cause) in [
            ("u", plain(), PlanOwner::Nobody, 0, Some(Cause::Vacant)),
            ("u", plain(), PlanOwner::Gone, 0, Some(Cause::Gone)),
            ("u", plain(), PlanOwner::Worker(1), 1, None),
            ("u", pinned, PlanOwner::Worker(0), 1, Some(Cause::Pin)),
            ("u", labelled, PlanOwner::Worker(0), 1, Some(Cause::Labels)),
            ("declined", plain(), PlanOwner::Worker(0), 1, Some(Cause::Declined)),
        ] {
            let mut input = PlanInput::new(workers());
            input.add(unit, &spec, owner);
            let plan = input.plan();
            assert_eq!(plan, [Ok(target)], "{unit} {spec:?} {owner:?}");
            assert_eq!(input.causes(&plan).collect::<Vec<_>>(), [cause], "{unit} {spec:?} {owner:?}");
        }
        let mut two = PlanInput::new(workers());
        two.add("u1", &plain(), PlanOwner::Worker(0));
        two.add("u2", &plain(), PlanOwner::Worker(0));
        let plan = two.plan();
        assert_eq!(two.causes(&plan).flatten().collect::<Vec<_>>(), [Cause::Join], "one has joined");
    }

    #[test]
    fn the_first_worker_says_what_is_evened_out() {
        let holders = ["a", "b"].map(|name| HolderId::new(name).unwrap());
        let by = |balance| About { balance, ..About::default() };
        for (abouts, on_first) in
            [([by(Balance::Count), by(Balance::Weight)], 2), ([by(Balance::Weight), by(Balance::Count)], 1)]
        {
            let workers = holders.iter().zip(&abouts);
            let mut input = PlanInput::new(workers.map(|(holder, about)| PlanWorker {
                holder,
                about,
                has_joined: false,
            }));
            let heavy = UnitSpec { weight: 3, ..UnitSpec::default() };
            for (unit, spec) in [("u1", &heavy), ("u2", &UnitSpec::default()), ("u3", &UnitSpec::default())] {
                input.add(unit, spec, PlanOwner::Nobody);
            }
            let with = |heavy| input.plan().iter().filter(|owner| **owner == input.plan()[heavy]).count();
            assert_eq!(with(0), on_first, "{:?}", input.plan());
        }
    }
}
