//! The keys of a fleet's records, from its name and back.

use crate::values::error::InvalidInput;
use crate::values::key::{HolderId, Key};
use crate::values::reserved::FLEET;
use std::fmt;

const BOARD: &str = "board";
const UNIT: &str = "unit";
const WORKER: &str = "worker";
const PLAN: &str = "plan";

/// The name of a fleet: all workers and units of one name belong together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FleetName(String);

impl FleetName {
    /// The longest name, in bytes.
    pub const MAX_BYTES: usize = 128;

    /// Checks and takes a name.
    ///
    /// # Errors
    /// When it is empty, longer than 128 bytes, or has a `/` in it.
    pub fn new(name: impl Into<String>) -> Result<FleetName, InvalidInput> {
        let name = name.into();
        if name.is_empty() || name.len() > Self::MAX_BYTES || name.contains('/') {
            let shown: String = name.chars().take(40).collect();
            return Err(InvalidInput::new(format!(
                "a fleet can't be named {shown:?}; a name has 1 to {} bytes and no '/'",
                Self::MAX_BYTES
            )));
        }
        Ok(FleetName(name))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What the keys of all of this fleet's records begin with.
    #[must_use]
    pub fn prefix(&self) -> String {
        format!("{FLEET}{}/", self.0)
    }

    /// What the keys of its units begin with.
    #[must_use]
    pub fn unit_prefix(&self) -> String {
        self.prefix_of(UNIT)
    }

    /// What the keys of its workers' sessions begin with.
    #[must_use]
    pub fn worker_prefix(&self) -> String {
        self.prefix_of(WORKER)
    }

    /// What the keys of its workers' parts of the plan begin with.
    #[must_use]
    pub fn plan_prefix(&self) -> String {
        self.prefix_of(PLAN)
    }

    fn prefix_of(&self, kind: &str) -> String {
        format!("{FLEET}{}/{kind}/", self.0)
    }

    /// The key of a worker's part of the plan.
    ///
    /// # Errors
    /// When the worker's id is too long for a key.
    pub fn part(&self, holder: &HolderId) -> Result<Key, InvalidInput> {
        Key::new(self.plan_prefix() + holder.as_str())
    }

    /// The key of its board.
    ///
    /// # Errors
    /// Never for a name that was checked.
    pub fn board(&self) -> Result<Key, InvalidInput> {
        Key::new(self.prefix() + BOARD)
    }

    /// The key of a unit.
    ///
    /// # Errors
    /// When the unit's name is empty or too long.
    pub fn unit(&self, unit: &str) -> Result<Key, InvalidInput> {
        if unit.is_empty() {
            return Err(InvalidInput::new("a unit's name can't be empty"));
        }
        Key::new(self.unit_prefix() + unit)
    }

    /// The key of a worker's session.
    ///
    /// # Errors
    /// When the worker's id is too long for a key.
    pub fn worker(&self, holder: &HolderId) -> Result<Key, InvalidInput> {
        Key::new(self.worker_prefix() + holder.as_str())
    }

    /// The unit's name that a key stands for, if it is one of this fleet's.
    #[must_use]
    pub fn unit_of<'a>(&self, key: &'a Key) -> Option<&'a str> {
        match FleetKey::of(key)? {
            (fleet, FleetKey::Unit(unit)) if fleet == self.0 => Some(unit),
            _ => None,
        }
    }
}

/// What a key of a fleet stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum FleetKey<'a> {
    /// The board.
    Board,
    /// The unit of this name.
    Unit(&'a str),
    /// The session of this worker.
    Worker(&'a str),
    /// The part of the plan that was told to this worker.
    Plan(&'a str),
    /// A record of a newer version, or one that somebody has made by hand.
    Other,
}

impl<'a> FleetKey<'a> {
    /// The name of the fleet that a key belongs to, and what the key stands for there; none if it is no fleet's.
    #[must_use]
    pub fn of(key: &'a Key) -> Option<(&'a str, FleetKey<'a>)> {
        let (fleet, rest) = key.as_str().strip_prefix(FLEET)?.split_once('/')?;
        let stands_for = match rest.split_once('/') {
            None if rest == BOARD => FleetKey::Board,
            Some((UNIT, unit)) => FleetKey::Unit(unit),
            Some((WORKER, worker)) => FleetKey::Worker(worker),
            Some((PLAN, worker)) => FleetKey::Plan(worker),
            _ => FleetKey::Other,
        };
        Some((fleet, stands_for))
    }
}

impl fmt::Display for FleetName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_debug())
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for FleetName {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// Checked as by `new`.
#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for FleetName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<FleetName, D::Error> {
        FleetName::new(String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    //! Plan: the keys are what they are in every version, and each tells what it stands for; what can't be a name is refused.
    use super::*;

    #[test]
    fn the_keys_of_a_fleets_records() {
        let (fleet, other) = (FleetName::new("f").unwrap(), FleetName::new("g").unwrap());
        assert_eq!((fleet.as_str(), fleet.prefix().as_str()), ("f", "fleet/f/"));
        assert_eq!(fleet.board().unwrap().as_str(), "fleet/f/board");
        let worker = fleet.worker(&HolderId::new("w").unwrap()).unwrap();
        assert_eq!(worker.as_str(), "fleet/f/worker/w");
        assert_eq!(worker.as_str().strip_prefix(&fleet.worker_prefix()), Some("w"));
        let part = fleet.part(&HolderId::new("w").unwrap()).unwrap();
        assert_eq!(part.as_str(), "fleet/f/plan/w");
        let unit = fleet.unit("a/b").unwrap();
        assert_eq!(unit.as_str(), "fleet/f/unit/a/b");
        assert_eq!(unit.as_str().strip_prefix(&fleet.unit_prefix()), Some("a/b"));
        assert_eq!(fleet.unit_of(&unit), Some("a/b"));
        assert_eq!((fleet.unit_of(&worker), other.unit_of(&unit)), (None, None));
        let named = [&fleet.board().unwrap(), &worker, &part, &unit];
        let stand_for = [FleetKey::Board, FleetKey::Worker("w"), FleetKey::Plan("w"), FleetKey::Unit("a/b")];
        assert_eq!(named.map(FleetKey::of), stand_for.map(|it| Some(("f", it))));
    }

    #[test]
    fn what_no_fleets_name_makes_is_of_another_kind() {
        for key in ["fleet/f/boards", "fleet/f/board/x", "fleet/f/unit", "fleet/f/newer/w", "fleet/f/"] {
            assert_eq!(FleetKey::of(&Key::new(key).unwrap()), Some(("f", FleetKey::Other)), "{key}");
        }
        for key in ["fleet/f", "fleets/f/board", "work/f/board"] {
            assert_eq!(FleetKey::of(&Key::new(key).unwrap()), None, "{key}");
        }
    }

    #[test]
    fn what_cant_be_a_name_is_refused() {
        let longest = "x".repeat(FleetName::MAX_BYTES);
        assert!(FleetName::new(longest.clone()).is_ok());
        for name in ["", "a/b", &(longest + "x")] {
            assert!(FleetName::new(name).unwrap_err().to_string().contains("can't be named"), "{name}");
        }
        assert!(FleetName::new("f").unwrap().unit("").is_err());
    }
}
