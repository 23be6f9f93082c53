//! The units that this process was given: their names, and where it matters their places.

use crate::work::job::board::Local;
use crate::work::units::Named;
use std::collections::BTreeMap;
use tenure::Key;

/// The units of arguments and lists. Those of the job that others were given have a place once they are started here, and no name.
pub(super) struct GivenUnits {
    has_places: bool,
    /// By their places, from 0, if these matter; and the places.
    keys: Vec<Key>,
    places: BTreeMap<Key, usize>,
    /// The names of those whose keys don't tell them.
    names: BTreeMap<Key, Vec<u8>>,
}

impl GivenUnits {
    /// None yet.
    pub(super) fn new(has_places: bool) -> GivenUnits {
        GivenUnits { has_places, keys: Vec::new(), places: BTreeMap::new(), names: BTreeMap::new() }
    }

    /// These came after all others. One that has a place keeps it.
    pub(super) fn add<'a>(&mut self, units: impl Iterator<Item = &'a Named> + Clone) {
        if self.has_places {
            for unit in units.clone() {
                self.place_at_start(&unit.key);
            }
        }
        self.names.extend(units.filter_map(|unit| Some((unit.key.clone(), unit.name.clone()?))));
    }

    /// How many have places.
    pub(super) fn placed(&self) -> usize {
        self.keys.len()
    }

    /// The place of a unit that is to be started. One that was not given here, or not yet, has the next one: no two units have one number.
    pub(super) fn place_at_start(&mut self, key: &Key) -> Option<usize> {
        if self.has_places && !self.places.contains_key(key) {
            self.places.insert(key.clone(), self.keys.len());
            self.keys.push(key.clone());
        }
        self.place(key)
    }

    /// The place of a unit.
    pub(super) fn place(&self, key: &Key) -> Option<usize> {
        self.places.get(key).copied()
    }

    /// The unit in that place.
    pub(super) fn key(&self, place: usize) -> Option<&Key> {
        self.keys.get(place)
    }

    /// Whether nothing more comes of the unit in this place, by what is known of units here: of one that is being registered, nothing yet.
    pub(super) fn is_over(&self, place: usize, local: impl Fn(&Key) -> Option<Local>) -> bool {
        !matches!(self.keys.get(place).and_then(local), None | Some(Local::Open | Local::Ours))
    }

    pub(super) fn names(&self) -> &BTreeMap<Key, Vec<u8>> {
        &self.names
    }
}

#[cfg(test)]
mod tests {
    //! Plan: which places are over, by what the board knows of their units; places of units that are given late, or never.
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

    #[test]
    fn a_unit_that_is_started_before_it_is_given_has_the_next_place_and_keeps_it() {
        let key = |unit: &str| Key::new(format!("work/j/{unit}")).unwrap();
        let named = |units: &[&str]| -> Vec<Named> {
            units.iter().map(|unit| Named { key: key(unit), name: None }).collect()
        };
        let mut given = GivenUnits::new(true);
        given.add(named(&["a"]).iter());
        assert_eq!(given.place_at_start(&key("others")), Some(1));
        given.add(named(&["a", "b", "others", "c"]).iter());
        let places = ["a", "others", "b", "c", "unknown"].map(|unit| given.place(&key(unit)));
        assert_eq!(places, [Some(0), Some(1), Some(2), Some(3), None]);
        assert_eq!(given.placed(), 4);
        assert_eq!(GivenUnits::new(false).place_at_start(&key("a")), None);
    }
}
