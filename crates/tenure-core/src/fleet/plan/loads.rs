//! Many units, as the plan goes through them: what few of them have is kept once for all that have the same.

use super::Load;
use std::cmp::Ordering;
use std::collections::BTreeSet;

/// Units in their order.
#[derive(Debug, Default)]
pub(in crate::fleet) struct Loads {
    units: Vec<Packed>,
    /// In the order in which they came.
    kinds: Vec<Kind>,
    /// The same by what they say.
    sorted: Vec<u32>,
    /// How many sets of workers these may go to.
    sets: usize,
}

#[derive(Debug)]
struct Packed {
    weight: u64,
    kind: u32,
    owner: Index,
    pin: Index,
}

/// What many units have in common.
#[derive(Debug)]
pub(super) struct Kind {
    pub(super) needs: BTreeSet<String>,
    pub(super) declined_by: BTreeSet<usize>,
    pub(super) stays: bool,
    pub(super) settled: bool,
    /// Kinds that differ in nothing that bars workers have the same.
    pub(super) set: usize,
}

impl Kind {
    fn cmp(&self, load: &Load) -> Ordering {
        let rest = (self.stays, self.settled).cmp(&(load.stays, load.settled));
        self.cmp_set(load).then(rest)
    }

    fn cmp_set(&self, load: &Load) -> Ordering {
        (&self.needs, &self.declined_by).cmp(&(&load.needs, &load.declined_by))
    }
}

/// The index of a worker, if there is one.
#[derive(Debug, Clone, Copy)]
struct Index(u32);

impl From<Option<usize>> for Index {
    fn from(index: Option<usize>) -> Index {
        Index(index.and_then(|index| u32::try_from(index).ok()).unwrap_or(u32::MAX))
    }
}

impl From<Index> for Option<usize> {
    fn from(index: Index) -> Option<usize> {
        (index.0 != u32::MAX).then_some(index.0 as usize)
    }
}

impl Loads {
    /// One more, after the others.
    pub(in crate::fleet) fn add(&mut self, load: &Load) {
        let kind = |at: &u32| &self.kinds[*at as usize];
        let kind = match self.sorted.binary_search_by(|at| kind(at).cmp(load)) {
            Ok(at) => self.sorted[at],
            Err(at) => {
                let same = [at.checked_sub(1), Some(at)].into_iter().flatten();
                let same = same.filter_map(|at| self.sorted.get(at)).map(kind);
                let same = same.filter(|kind| kind.cmp_set(load).is_eq()).map(|kind| kind.set).next();
                let set = same.unwrap_or(self.sets);
                self.sets = self.sets.max(set + 1);
                let number = self.kinds.len() as u32;
                let (needs, declined_by) = (load.needs.clone(), load.declined_by.clone());
                let (stays, settled) = (load.stays, load.settled);
                self.kinds.push(Kind { needs, declined_by, stays, settled, set });
                self.sorted.insert(at, number);
                number
            }
        };
        let (owner, pin) = (load.owner.into(), load.pin.into());
        self.units.push(Packed { weight: load.weight, kind, owner, pin });
    }

    pub(super) fn len(&self) -> usize {
        self.units.len()
    }

    pub(super) fn weight(&self, unit: usize) -> u64 {
        self.units[unit].weight.max(1)
    }

    pub(super) fn owner(&self, unit: usize) -> Option<usize> {
        self.units[unit].owner.into()
    }

    pub(super) fn pin(&self, unit: usize) -> Option<usize> {
        self.units[unit].pin.into()
    }

    pub(super) fn kind(&self, unit: usize) -> &Kind {
        &self.kinds[self.units[unit].kind as usize]
    }

    /// For each set of workers, the first kind that may go to these alone.
    pub(super) fn sets(&self) -> impl Iterator<Item = &Kind> {
        let mut next = 0;
        self.kinds.iter().filter(move |kind| {
            let is_first = kind.set == next;
            next += usize::from(is_first);
            is_first
        })
    }
}

impl<'a> FromIterator<&'a Load> for Loads {
    fn from_iter<I: IntoIterator<Item = &'a Load>>(units: I) -> Loads {
        let mut loads = Loads::default();
        units.into_iter().for_each(|unit| loads.add(unit));
        loads
    }
}

#[cfg(test)]
mod tests {
    //! Plan: what each unit says is there, and what says the same is there once; sets are numbered as they come.
    use super::*;

    #[test]
    fn what_units_have_in_common_is_kept_once() {
        let plain = |owner| Load {
            weight: 0,
            needs: BTreeSet::new(),
            owner,
            pin: None,
            stays: false,
            settled: false,
            declined_by: BTreeSet::new(),
        };
        let gpu = || BTreeSet::from(["gpu".to_owned()]);
        let units = [
            Load { needs: gpu(), pin: Some(4), weight: 7, ..plain(None) },
            plain(Some(0)),
            Load { settled: true, ..plain(Some(1)) },
            Load { needs: gpu(), stays: true, ..plain(None) },
            Load { declined_by: [2].into(), ..plain(None) },
            plain(Some(2)),
        ];
        let loads: Loads = units.iter().collect();
        assert_eq!((loads.len(), loads.kinds.len(), loads.sets), (6, 5, 3));
        let all =
            |what: fn(&Loads, usize) -> Option<usize>| (0..6).map(|at| what(&loads, at)).collect::<Vec<_>>();
        assert_eq!(all(Loads::owner), [None, Some(0), Some(1), None, None, Some(2)]);
        assert_eq!(all(Loads::pin), [Some(4), None, None, None, None, None]);
        assert_eq!(all(|loads, at| Some(loads.kind(at).set)), [0, 1, 1, 0, 2, 1].map(Some));
        assert_eq!((loads.weight(0), loads.weight(1)), (7, 1));
        for (at, unit) in units.iter().enumerate() {
            assert!(loads.kind(at).cmp(unit).is_eq());
        }
        let sets: Vec<usize> = loads.sets().map(|kind| kind.set).collect();
        assert_eq!(sets, [0, 1, 2]);
    }
}
