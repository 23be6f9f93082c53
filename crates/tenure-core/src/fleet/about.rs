//! The facts about a worker in its session's record.

use super::plan::{Balance, Room};
use crate::values::metadata::{Metadata, RESERVED, Value};
use std::collections::BTreeSet;

/// Says in the reserved field that letters are understood which pass a unit on ([`crate::Ask::Take`]).
const LETTERS: &str = "letters";

/// What a worker tells the others about itself, in its session's record.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct About {
    /// The most units that it takes; `u64::MAX` for any number.
    pub units: u64,
    /// The most weight that it takes; `u64::MAX` for any.
    pub weight: u64,
    /// What it offers to units with needs.
    pub labels: BTreeSet<String>,
    /// What it wants evened out. Where workers differ, what the first of them by name wants holds.
    pub balance: Balance,
    /// Units, by name, that it does not want for now: workers of older versions say so. Newer ones note in the unit's record how it
    /// failed.
    pub declines: BTreeSet<String>,
    /// Whether it is about to go.
    pub leaving: bool,
}

impl Default for About {
    fn default() -> Self {
        About {
            units: u64::MAX,
            weight: u64::MAX,
            labels: BTreeSet::new(),
            balance: Balance::Count,
            declines: BTreeSet::new(),
            leaving: false,
        }
    }
}

impl About {
    /// The same with room for so many units.
    #[must_use]
    pub fn units(mut self, most: u64) -> Self {
        self.units = most;
        self
    }

    /// The same with room for units that weigh so much together.
    #[must_use]
    pub fn weight(mut self, most: u64) -> Self {
        self.weight = most;
        self
    }

    /// The same with one label more.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.labels.insert(label.into());
        self
    }

    /// The same with another balance.
    #[must_use]
    pub fn balance(mut self, balance: Balance) -> Self {
        self.balance = balance;
        self
    }

    /// What the session's record carries: `fields`, for people, and this.
    #[must_use]
    pub fn compose(&self, mut fields: Metadata) -> Metadata {
        let number = |n: u64| Value::from(i64::try_from(n).unwrap_or(i64::MAX));
        let mut own = Metadata::from([(LETTERS.to_owned(), true.into())]);
        if self.units != u64::MAX {
            own.insert("units".into(), number(self.units));
        }
        if self.weight != u64::MAX {
            own.insert("weight".into(), number(self.weight));
        }
        if !self.labels.is_empty() {
            own.insert("labels".into(), Value::TextSet(self.labels.clone()));
        }
        if self.balance == Balance::Weight {
            own.insert("balance".into(), "weight".into());
        }
        if !self.declines.is_empty() {
            own.insert("declines".into(), Value::TextSet(self.declines.clone()));
        }
        if self.leaving {
            own.insert("leaving".into(), true.into());
        }
        super::layout::compose(&mut own);
        fields.insert(RESERVED.to_owned(), Value::Map(own));
        fields
    }

    /// What a session's record says. None where it says nothing of the kind: it isn't a worker's.
    #[must_use]
    pub fn parse(metadata: &Metadata) -> Option<About> {
        let Some(Value::Map(own)) = metadata.get(RESERVED) else { return None };
        let number = |name: &str| match own.get(name) {
            None => Some(u64::MAX),
            Some(value) => value.as_i64().and_then(|n| u64::try_from(n).ok()),
        };
        let set = |name: &str| match own.get(name) {
            None => Some(BTreeSet::new()),
            Some(Value::TextSet(set)) => Some(set.clone()),
            Some(_) => None,
        };
        let (labels, declines) = (set("labels")?, set("declines")?);
        let balance = match own.get("balance").and_then(Value::as_text) {
            Some("weight") => Balance::Weight,
            _ => Balance::Count,
        };
        let leaving = own.get("leaving") == Some(&Value::Bool(true));
        Some(About { units: number("units")?, weight: number("weight")?, labels, balance, declines, leaving })
    }

    /// This and the most that may come to be said beside it: what has to fit into a session's record.
    #[must_use]
    pub fn at_most(&self) -> About {
        About { leaving: true, ..self.clone() }
    }

    /// Whether a session's record says that its worker understands letters which pass a unit on.
    pub(super) fn hears_letters(metadata: &Metadata) -> bool {
        matches!(metadata.get(RESERVED), Some(Value::Map(own)) if own.get(LETTERS) == Some(&Value::Bool(true)))
    }

    pub(crate) fn room(&self) -> Room {
        Room { units: self.units, weight: self.weight, labels: self.labels.clone(), leaving: self.leaving }
    }
}

#[cfg(test)]
mod tests {
    //! Plan: whatever a worker offers is read as it was written, each part by itself; what is not said is unlimited; what is said
    //! of another type is no worker's; the fields for people stay.
    use super::*;

    #[test]
    fn what_is_offered_is_read_as_it_was_written() {
        let names = |name: &str| BTreeSet::from([name.to_owned()]);
        let all = About::default;
        for (about, says) in [
            (all(), vec![]),
            (About { units: 7, ..all() }, vec!["units"]),
            (About { weight: 9, ..all() }, vec!["weight"]),
            (About { labels: names("gpu"), ..all() }, vec!["labels"]),
            (About { balance: Balance::Weight, ..all() }, vec!["balance"]),
            (About { declines: names("u1"), ..all() }, vec!["declines"]),
            (About { leaving: true, ..all() }, vec!["leaving"]),
        ] {
            let fields = Metadata::from([("host".to_owned(), Value::from("a"))]);
            let written = about.compose(fields);
            let Some(Value::Map(own)) = written.get(RESERVED) else { panic!("{written:?}") };
            let own: BTreeSet<&str> = own.keys().map(String::as_str).collect();
            assert_eq!(own, says.into_iter().chain(["layout", "letters"]).collect());
            assert!(super::super::is_of_this_layout(&written));
            assert!(About::hears_letters(&written) && !About::hears_letters(&Metadata::new()));
            assert_eq!(written.get("host"), Some(&Value::from("a")));
            assert_eq!(About::parse(&written), Some(about));
        }
    }

    #[test]
    fn what_says_nothing_of_the_kind_is_no_workers() {
        assert_eq!(About::parse(&Metadata::new()), None);
        for (name, value) in [
            ("units", Value::from("many")),
            ("weight", Value::from(-1)),
            ("labels", Value::from("gpu")),
            ("declines", Value::Bool(true)),
        ] {
            let own = Metadata::from([(name.to_owned(), value)]);
            assert_eq!(
                About::parse(&Metadata::from([(RESERVED.to_owned(), Value::Map(own))])),
                None,
                "{name}"
            );
        }
    }
}
