//! Why units move: a plan says where each unit goes, and this says what made it so.

use super::{Loads, Plan, Room};
use std::collections::BTreeMap;
use std::fmt;

/// Why a plan has a unit go to a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum Cause {
    /// Nobody holds it: it is new, or was given up.
    Vacant,
    /// Its worker has died, or has stopped without passing it on.
    Gone,
    /// Its worker is leaving.
    Leave,
    /// It is pinned to another worker.
    Pin,
    /// Its worker lacks labels that it needs.
    Labels,
    /// Its worker has declined it.
    Declined,
    /// Its worker has more than it takes.
    Full,
    /// A worker has joined, and gets its share.
    Join,
    /// It evens out what workers have.
    Evenness,
}

impl Cause {
    /// All that there are.
    pub const ALL: [Cause; 9] = [
        Cause::Vacant,
        Cause::Gone,
        Cause::Leave,
        Cause::Pin,
        Cause::Labels,
        Cause::Declined,
        Cause::Full,
        Cause::Join,
        Cause::Evenness,
    ];

    /// In one word, as in labels of metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Cause::Vacant => "vacant",
            Cause::Gone => "gone",
            Cause::Leave => "leave",
            Cause::Pin => "pin",
            Cause::Labels => "labels",
            Cause::Declined => "declined",
            Cause::Full => "full",
            Cause::Join => "join",
            Cause::Evenness => "evenness",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Cause::Vacant => "nobody holds it",
            Cause::Gone => "its worker is gone",
            Cause::Leave => "its worker is leaving",
            Cause::Pin => "it is pinned",
            Cause::Labels => "its worker lacks its labels",
            Cause::Declined => "its worker has declined it",
            Cause::Full => "its worker is full",
            Cause::Join => "a worker has joined",
            Cause::Evenness => "evenness",
        })
    }
}

/// A session younger than so many of its ttls is one of a worker that has joined: by then it has its share, unless drains take long.
pub const JOINING: u32 = 10;

impl Loads {
    /// For each unit that goes to a worker by `plan`, why it does. Besides what the plan is made from, this needs to know which units' workers are
    /// gone, and which workers have joined lately.
    pub(in crate::fleet) fn causes(
        &self,
        workers: &[Room],
        plan: &Plan,
        is_gone: impl Fn(usize) -> bool,
        has_joined: impl Fn(usize) -> bool,
    ) -> impl Iterator<Item = Option<Cause>> {
        let mut held: Vec<(u64, u64)> = vec![(0, 0); workers.len()];
        for unit in 0..self.len() {
            if let Some((count, weight)) = self.owner(unit).and_then(|owner| held.get_mut(owner)) {
                *count += 1;
                *weight = weight.saturating_add(self.weight(unit));
            }
        }
        let why = move |unit: usize, target: usize| {
            let owner = self.owner(unit).filter(|owner| *owner != target);
            let owner = owner.and_then(|at| Some((at, workers.get(at)?, held.get(at)?)));
            let kind = self.kind(unit);
            match owner {
                None if self.owner(unit) == Some(target) => None,
                None => Some(if is_gone(unit) { Cause::Gone } else { Cause::Vacant }),
                Some((at, room, (count, weight))) => Some(match () {
                    () if room.leaving => Cause::Leave,
                    () if self.pin(unit) == Some(target) => Cause::Pin,
                    () if !kind.needs.is_subset(&room.labels) => Cause::Labels,
                    () if kind.declined_by.contains(&at) => Cause::Declined,
                    () if *count > room.units || *weight > room.weight => Cause::Full,
                    () if has_joined(target) => Cause::Join,
                    () => Cause::Evenness,
                }),
            }
        };
        plan.iter().take(self.len()).enumerate().map(move |(at, target)| why(at, *target.as_ref().ok()?))
    }
}

/// How many units move for each cause.
#[must_use]
pub fn count(causes: impl IntoIterator<Item = Cause>) -> BTreeMap<Cause, usize> {
    let mut counts = BTreeMap::new();
    for cause in causes {
        *counts.entry(cause).or_default() += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    //! Plan: each cause by a fleet that has only that; what stays where it is, or can't be had, has none.
    use super::*;
    use crate::fleet::plan::{Balance, Load, Uncovered, plan};
    use std::collections::BTreeSet;

    fn unit(owner: Option<usize>) -> Load {
        let (needs, declined_by) = (BTreeSet::new(), BTreeSet::new());
        Load { weight: 1, needs, owner, pin: None, stays: false, settled: false, declined_by }
    }

    fn causes(
        units: &[Load],
        workers: &[Room],
        plan: &Plan,
        is_gone: impl Fn(usize) -> bool,
        has_joined: impl Fn(usize) -> bool,
    ) -> Vec<Option<Cause>> {
        units.iter().collect::<Loads>().causes(workers, plan, is_gone, has_joined).collect()
    }

    fn room() -> Room {
        Room { units: u64::MAX, weight: u64::MAX, labels: BTreeSet::new(), leaving: false }
    }

    #[test]
    fn each_move_has_its_cause() {
        let gpu = || BTreeSet::from(["gpu".to_owned()]);
        let labelled = || Room { labels: gpu(), ..room() };
        for (units, workers, joined, cause) in [
            (vec![unit(None)], vec![room()], false, Cause::Vacant),
            (vec![Load { weight: 7, ..unit(None) }], vec![room()], false, Cause::Gone),
            (vec![unit(Some(0))], vec![Room { leaving: true, ..room() }, room()], false, Cause::Leave),
            (vec![Load { pin: Some(1), ..unit(Some(0)) }], vec![room(), room()], true, Cause::Pin),
            (vec![Load { needs: gpu(), ..unit(Some(0)) }], vec![room(), labelled()], true, Cause::Labels),
            (
                vec![Load { declined_by: BTreeSet::from([0]), ..unit(Some(0)) }],
                vec![room(), room()],
                true,
                Cause::Declined,
            ),
            (
                vec![unit(Some(0)), unit(Some(0))],
                vec![Room { units: 1, ..room() }, room()],
                true,
                Cause::Full,
            ),
            (
                vec![unit(Some(0)), Load { weight: 3, ..unit(Some(0)) }],
                vec![Room { weight: 3, ..room() }, room()],
                true,
                Cause::Full,
            ),
            (vec![unit(Some(0)), unit(Some(0))], vec![room(), room()], true, Cause::Join),
            (vec![unit(Some(0)), unit(Some(0))], vec![room(), room()], false, Cause::Evenness),
        ] {
            let plan = plan(&units, &workers, Balance::Count);
            let found = causes(&units, &workers, &plan, |at| units[at].weight == 7, |_| joined);
            let found: Vec<Cause> = found.into_iter().flatten().collect();
            assert_eq!(found, [cause], "{units:?} {workers:?}");
            assert_eq!(count(found), BTreeMap::from([(cause, 1)]));
        }
    }

    #[test]
    fn what_stays_or_has_no_worker_has_no_cause() {
        let (units, workers) = ([unit(Some(0)), unit(None)], [room()]);
        let plan: Plan = vec![Ok(0), Err(Uncovered::NoRoom)];
        assert_eq!(causes(&units, &workers, &plan, |_| true, |_| true), [None, None]);
    }

    #[test]
    fn each_has_a_name_of_its_own() {
        let names: BTreeSet<&str> = Cause::ALL.into_iter().map(Cause::name).collect();
        assert_eq!(names.len(), Cause::ALL.len());
        let told: BTreeSet<String> = Cause::ALL.into_iter().map(|cause| cause.to_string()).collect();
        assert_eq!(told.len(), Cause::ALL.len());
    }
}
