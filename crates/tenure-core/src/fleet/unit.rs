//! The facts about a unit in its record, beside the users' fields.

use crate::values::error::{InvalidInput, StoreError};
use crate::values::key::HolderId;
use crate::values::metadata::{Metadata, RESERVED, Value};
use crate::values::time::{Wall, millis};
use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

/// The name of [`UnitSpec::retry`] in the reserved field. Versions that don't know it keep it, and try again at once.
const RETRY: &str = "retry";

/// All names in the reserved field that this version writes, and may take away.
const KNOWN: [&str; 5] = ["weight", "needs", "status", "pin", RETRY];

/// Whether there is work to do on a unit.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Status {
    /// There is: some worker should hold it.
    #[default]
    Open,
    /// It was finished. It stays, and is given to nobody.
    Done,
    /// It was deleted. Whoever holds it lets go of it; its record stays, for its fence, until `gc` removes it.
    Deleted,
}

/// What is known of a unit whose worker gave it up without success, as by [`FleetCommand::Decline`](super::FleetCommand::Decline).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Retry {
    /// How often that was so in a row; 0 once it has been worked on for a while.
    pub failures: u32,
    /// The wall clock when it was so last.
    pub since: Wall,
    /// For how long it is left alone from then on.
    pub rest: Duration,
}

impl Retry {
    /// How long it is still left alone; where two machines' clocks disagree, from now on at the most.
    #[must_use]
    pub fn left(&self, now: Wall) -> Duration {
        self.rest.saturating_sub(now.since(self.since))
    }

    fn compose(self) -> Value {
        let number = |n: u64| Value::from(i64::try_from(n).unwrap_or(i64::MAX));
        let rest = millis(self.rest);
        let fields = [
            ("failures", number(self.failures.into())),
            ("since", number(self.since.0)),
            ("rest", number(rest)),
        ];
        Value::Map(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    fn parse(value: &Value) -> Option<Retry> {
        let Value::Map(fields) = value else { return None };
        let number = |name: &str| fields.get(name)?.as_i64().and_then(|n| u64::try_from(n).ok());
        let failures = u32::try_from(number("failures")?).unwrap_or(u32::MAX);
        Some(Retry { failures, since: Wall(number("since")?), rest: Duration::from_millis(number("rest")?) })
    }
}

/// What the plan needs to know of a unit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct UnitSpec {
    /// What it weighs in a plan by weight; 1 by default.
    pub weight: u64,
    /// The labels that its worker must have.
    pub needs: BTreeSet<String>,
    /// Whether there is work to do.
    pub status: Status,
    /// The worker that is to have it as long as that lives and may, whatever evenness says.
    pub pin: Option<HolderId>,
    /// How it failed last. While it fails, evenness does not count it where it is, nor does it move it; and once it does not fail any
    /// more, others are moved before it, as who had it before could not do it.
    pub retry: Option<Retry>,
}

impl Default for UnitSpec {
    fn default() -> Self {
        UnitSpec { weight: 1, needs: BTreeSet::new(), status: Status::Open, pin: None, retry: None }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Status::Open => "open",
            Status::Done => "done",
            Status::Deleted => "deleted",
        })
    }
}

impl UnitSpec {
    /// The same with another weight.
    #[must_use]
    pub fn weight(mut self, weight: u64) -> Self {
        self.weight = weight;
        self
    }

    /// The same with one label more that its worker must have.
    #[must_use]
    pub fn needs(mut self, label: impl Into<String>) -> Self {
        self.needs.insert(label.into());
        self
    }

    /// The same with another status.
    #[must_use]
    pub fn status(mut self, status: Status) -> Self {
        self.status = status;
        self
    }

    /// What a unit's record carries: the users' fields and this.
    ///
    /// # Errors
    /// When the users' fields have one named `tenure`, which is this, or the weight is 0 or over 2^53.
    pub fn compose(&self, mut fields: Metadata) -> Result<Metadata, InvalidInput> {
        if fields.contains_key(RESERVED) {
            return Err(InvalidInput::new(format!(
                "the field {RESERVED:?} is kept for tenure; choose another name"
            )));
        }
        if self.weight == 0 || self.weight > 1 << 53 {
            return Err(InvalidInput::new(format!("a unit can't weigh {}; choose 1 to 2^53", self.weight)));
        }
        let own = self.fields();
        if !own.is_empty() {
            fields.insert(RESERVED.to_owned(), Value::Map(own));
        }
        Ok(fields)
    }

    /// As [`UnitSpec::compose`], for a record that carries `standing` until then: what only a newer version knows of the unit stays.
    ///
    /// # Errors
    /// As [`UnitSpec::compose`].
    pub fn compose_over(&self, fields: Metadata, standing: &Metadata) -> Result<Metadata, InvalidInput> {
        let mut metadata = self.compose(fields)?;
        let Some(Value::Map(standing)) = standing.get(RESERVED) else { return Ok(metadata) };
        let newer = standing.iter().filter(|(name, _)| !KNOWN.contains(&name.as_str()));
        let newer = newer.map(|(name, value)| (name.clone(), value.clone()));
        let own: Metadata = newer.chain(self.fields()).collect();
        if !own.is_empty() {
            metadata.insert(RESERVED.to_owned(), Value::Map(own));
        }
        Ok(metadata)
    }

    /// Whether it failed last, and has not been worked on for a while since.
    #[must_use]
    pub fn fails(&self) -> bool {
        self.retry.is_some_and(|retry| retry.failures > 0)
    }

    /// Whether it is left alone for now, since it has failed.
    pub(super) fn rests(&self, now: Wall) -> bool {
        self.status == Status::Open && self.retry.is_some_and(|retry| !retry.left(now).is_zero())
    }

    /// The reserved name that says how it failed last.
    pub(super) fn retry_field(retry: Retry) -> Metadata {
        Metadata::from([(RETRY.to_owned(), retry.compose())])
    }

    /// Only what differs from the default is written, so that a plain unit costs nothing.
    fn fields(&self) -> Metadata {
        let mut own = Metadata::new();
        if self.weight != 1 {
            own.insert("weight".into(), Value::from(i64::try_from(self.weight).unwrap_or(i64::MAX)));
        }
        if !self.needs.is_empty() {
            own.insert("needs".into(), Value::TextSet(self.needs.clone()));
        }
        match self.status {
            Status::Open => {}
            Status::Done => drop(own.insert("status".into(), "done".into())),
            Status::Deleted => drop(own.insert("status".into(), "deleted".into())),
        }
        if let Some(pin) = &self.pin {
            own.insert("pin".into(), pin.as_str().into());
        }
        if let Some(retry) = self.retry {
            own.insert(RETRY.into(), retry.compose());
        }
        own
    }

    /// Splits what a record carries into this and the users' fields.
    ///
    /// # Errors
    /// `Foreign` when the record doesn't say what a unit's does: it is left alone. [`StoreError::is_newer`] tells whether a newer version's does.
    pub fn parse(mut metadata: Metadata) -> Result<(UnitSpec, Metadata), StoreError> {
        let spec = match metadata.remove(RESERVED) {
            None => UnitSpec::default(),
            Some(Value::Map(own)) => UnitSpec::of(own)?,
            Some(other) => return Err(damaged("a map", &other)),
        };
        Ok((spec, metadata))
    }

    fn of(own: Metadata) -> Result<UnitSpec, StoreError> {
        let mut spec = UnitSpec::default();
        for (name, value) in own {
            match (name.as_str(), value) {
                ("weight", value) => {
                    let weight = value.as_i64().and_then(|weight| u64::try_from(weight).ok());
                    let weight = weight.filter(|weight| (1..=1 << 53).contains(weight));
                    spec.weight = weight.ok_or_else(|| damaged("a weight from 1 to 2^53", &value))?;
                }
                ("needs", Value::TextSet(needs)) => spec.needs = needs,
                ("status", Value::Text(status)) if status == "done" => spec.status = Status::Done,
                ("status", Value::Text(status)) if status == "deleted" => spec.status = Status::Deleted,
                ("pin", Value::Text(pin)) => spec.pin = HolderId::new(pin).ok(),
                (RETRY, value) => {
                    let retry = Retry::parse(&value);
                    spec.retry = Some(retry.ok_or_else(|| damaged("a count of failures", &value))?);
                }
                ("status", Value::Text(status)) => return Err(newer(&status)),
                ("needs" | "status" | "pin", value) => {
                    return Err(damaged("labels, a status or a worker", &value));
                }
                // Of a newer version: it may be added to, never misread.
                (_, _) => {}
            }
        }
        Ok(spec)
    }
}

fn damaged(wanted: &str, found: &Value) -> StoreError {
    let found: String = format!("{found:?}").chars().take(60).collect();
    StoreError::foreign(format!(
        "a unit's field {RESERVED:?} shows {found} in place of {wanted}; mend its record, or remove that (`tenure rm --damaged KEY`)"
    ))
}

/// Nothing has to be mended there, and nothing removed: what this version writes as a status, all later ones know. Only a person can tell that no
/// newer version has written this one.
fn newer(status: &str) -> StoreError {
    let status: String = status.chars().take(60).collect();
    StoreError::newer(format!(
        "a unit has the status {status:?}, which this program does not know; upgrade it, or, if nothing newer has written that, remove the \
         unit (`tenure fleet rm --unknown-status`)"
    ))
}

#[cfg(test)]
mod tests {
    //! Plan: whatever a unit's record says is read as it was written, each part by itself; weights from 1 to 2^53; what is said
    //! of another type, or means nothing, is named; the users' fields stay theirs, and what only a newer version knows stays; a status
    //! that only a newer version knows is no damage.
    use super::*;

    #[test]
    fn what_is_said_of_a_unit_is_read_as_it_was_written() {
        let all = UnitSpec::default;
        let retry = Retry { failures: 3, since: Wall(17), rest: Duration::from_millis(40_001) };
        for (spec, says) in [
            (all(), None),
            (UnitSpec { weight: 7, ..all() }, Some("weight")),
            (UnitSpec { weight: 1 << 53, ..all() }, Some("weight")),
            (UnitSpec { needs: BTreeSet::from(["gpu".to_owned()]), ..all() }, Some("needs")),
            (UnitSpec { status: Status::Done, ..all() }, Some("status")),
            (UnitSpec { status: Status::Deleted, ..all() }, Some("status")),
            (UnitSpec { pin: HolderId::new("w1").ok(), ..all() }, Some("pin")),
            (UnitSpec { retry: Some(retry), ..all() }, Some("retry")),
        ] {
            let fields = Metadata::from([("at".to_owned(), Value::from("page 3"))]);
            let written = spec.compose(fields.clone()).unwrap();
            let own = written.get(RESERVED).map(|own| match own {
                Value::Map(own) => own.keys().map(String::as_str).collect::<Vec<_>>(),
                other => panic!("{other:?}"),
            });
            assert_eq!(own, says.map(|name| vec![name]));
            assert_eq!(UnitSpec::parse(written).unwrap(), (spec, fields));
        }
    }

    #[test]
    fn what_only_a_newer_version_knows_of_a_unit_stays() {
        let retry = Retry { failures: 3, since: Wall(17), rest: Duration::from_secs(40) };
        let status = Status::Done;
        let (weight, needs, pin) = (7, BTreeSet::from(["gpu".to_owned()]), HolderId::new("w1").ok());
        let spec = UnitSpec { weight, needs, status, pin, retry: Some(retry) };
        let fields = Metadata::from([("at".to_owned(), Value::from("page 3"))]);
        let mut standing = spec.compose(fields.clone()).unwrap();
        assert_eq!(UnitSpec::default().compose_over(fields.clone(), &standing), Ok(fields.clone()));
        let Some(Value::Map(own)) = standing.get_mut(RESERVED) else { panic!() };
        assert!(own.keys().all(|name| KNOWN.contains(&name.as_str())), "{own:?}");
        let newer = Metadata::from([("colour".to_owned(), Value::from("red"))]);
        own.extend(newer.clone());
        assert_eq!(spec.compose_over(fields.clone(), &standing), Ok(standing.clone()));
        let plain = UnitSpec::default().compose_over(Metadata::new(), &standing);
        assert_eq!(plain, Ok(Metadata::from([(RESERVED.to_owned(), Value::Map(newer))])));
        assert!(UnitSpec::default().weight(0).compose_over(fields, &standing).is_err());
    }

    #[test]
    fn a_rest_ends_whatever_two_clocks_show() {
        let retry = Retry { failures: 1, since: Wall(1_000_000), rest: Duration::from_secs(40) };
        for (now, left) in [(1_000_000, 40), (1_010_000, 30), (1_040_000, 0), (9_000_000, 0), (0, 40)] {
            assert_eq!(retry.left(Wall(now)), Duration::from_secs(left), "{now}");
        }
    }

    #[test]
    fn what_cant_be_said_of_a_unit_is_refused() {
        for weight in [0, (1 << 53) + 1] {
            let spec = UnitSpec { weight, ..UnitSpec::default() };
            assert!(spec.compose(Metadata::new()).unwrap_err().to_string().contains("can't weigh"));
        }
        let reserved = Metadata::from([(RESERVED.to_owned(), Value::Bool(true))]);
        assert!(UnitSpec::default().compose(reserved.clone()).is_err());
        assert!(UnitSpec::parse(reserved).is_err());
    }

    #[test]
    fn a_status_of_a_newer_version_is_no_damage_that_is_to_be_removed() {
        let refused = |field: &str, value: Value| {
            let own = Metadata::from([(field.to_owned(), value)]);
            let record = Metadata::from([(RESERVED.to_owned(), Value::Map(own))]);
            UnitSpec::parse(record).unwrap_err()
        };
        let told = |status: Value| refused("status", status).to_string();
        assert!(refused("status", Value::from("asleep")).is_newer());
        // What a record says does not make it one.
        let field = refused("needs", Value::from("upgrade it"));
        assert!(!field.is_newer() && field.to_string().contains("upgrade it"), "{field}");
        let newer = told(Value::from("asleep"));
        assert!(newer.contains("\"asleep\"") && newer.contains("upgrade it"), "{newer}");
        assert!(!newer.contains("rm --damaged"), "{newer}");
        let damaged = told(Value::Bool(true));
        assert!(damaged.contains("rm --damaged") && !damaged.contains("upgrade it"), "{damaged}");
    }

    #[test]
    fn what_means_nothing_is_foreign() {
        for (name, value) in [
            ("weight", Value::from(0)),
            ("weight", Value::from((1_i64 << 53) + 1)),
            ("weight", Value::from("heavy")),
            ("needs", Value::from("gpu")),
            ("status", Value::from("asleep")),
            ("status", Value::Bool(true)),
            ("pin", Value::Bool(true)),
            ("retry", Value::from(3)),
            ("retry", Value::Map(Metadata::from([("failures".to_owned(), Value::from(3))]))),
        ] {
            let own = Metadata::from([(name.to_owned(), value)]);
            let error =
                UnitSpec::parse(Metadata::from([(RESERVED.to_owned(), Value::Map(own))])).unwrap_err();
            assert_eq!(error.kind(), crate::values::error::ErrorKind::Foreign, "{name}");
        }
        let newer = Metadata::from([("colour".to_owned(), Value::from("red"))]);
        let newer = Metadata::from([(RESERVED.to_owned(), Value::Map(newer))]);
        assert_eq!(UnitSpec::parse(newer).unwrap().0, UnitSpec::default());
    }
}
