//! The units that this process was given: their names, and where it matters their places.

use crate::work::job::board::Local;
use crate::work::units::{Named, text_of};
use std::collections::BTreeMap;
use tenure::Key;

/// The units of arguments and lists. Those of the job that others were given are not among them.
pub(super) struct GivenUnits {
    has_places: bool,
    /// By their places, from 0, if these matter; and the places.
    keys: Vec<Key>,
    places: BTreeMap<Key, usize>,
    /// The names of those whose keys don't tell them.
    names: BTreeMap<Key, String>,
}

impl GivenUnits {
    /// None yet.
    pub(super) fn new(has_places: bool) -> GivenUnits {
        GivenUnits { has_places, keys: Vec::new(), places: BTreeMap::new(), names: BTreeMap::new() }
    }

    /// These came after all others.
    pub(super) fn add<'a>(&mut self, units: impl Iterator<Item = &'a Named> + Clone) {
        if self.has_places {
            let first = self.keys.len();
            self.places.extend(units.clone().enumerate().map(|(n, unit)| (unit.key.clone(), first + n)));
            self.keys.extend(units.clone().map(|unit| unit.key.clone()));
        }
        self.names.extend(units.filter_map(|unit| Some((unit.key.clone(), text_of(unit.name.as_ref()?)))));
    }

    /// How many have places.
    pub(super) fn placed(&self) -> usize {
        self.keys.len()
    }

    /// The place of a unit.
    pub(super) fn place(&self, key: &Key) -> Option<usize> {
        self.places.get(key).copied()
    }

    /// Whether nothing more comes of the unit in this place, by what is known of units here: of one that is being registered, nothing yet.
    pub(super) fn is_over(&self, place: usize, local: impl Fn(&Key) -> Option<Local>) -> bool {
        !matches!(self.keys.get(place).and_then(local), None | Some(Local::Open | Local::Ours))
    }

    pub(super) fn names(&self) -> &BTreeMap<Key, String> {
        &self.names
    }
}

#[cfg(test)]
mod tests {
    //! Plan: which places are over, by what the board knows of their units.
    use super::*;

    #[test]
    fn a_unit_that_is_being_registered_is_not_over() {
        let mut given = GivenUnits::new(true);
        let key = |unit: &str| Key::new(format!("work/j/{unit}")).unwrap();
        given.add(["a", "b"].map(|unit| Named { key: key(unit), name: None }).iter());
        let known = |local| move |asked: &Key| (*asked == key("a")).then_some(local);
        let is_over = |place, local| given.is_over(place, known(local));
        assert!(is_over(0, Local::Done) && is_over(0, Local::Failed) && is_over(0, Local::Gone));
        assert!(!is_over(0, Local::Open) && !is_over(0, Local::Ours) && !is_over(1, Local::Done));
    }
}
