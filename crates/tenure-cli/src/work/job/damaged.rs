//! A unit whose record this version does not read as a unit's.

use super::unit::Unit;
use crate::keys::JobName;
use crate::output::problem::RecordProblem;
use crate::stores::pages::PAGE;
use crate::text::escaped;
use crate::work::units::{hex_of, text_of};
use serde_json::json;
use std::collections::BTreeMap;
use tenure::store::Freshness;
use tenure::{Key, Store, StoreError};

/// Such a unit, and why.
#[derive(Debug)]
pub(crate) struct DamagedUnit {
    key: Key,
    /// What it is called, as far as that is known.
    unit: Vec<u8>,
    /// None where the store has not told.
    problem: Option<RecordProblem>,
    /// Whether the record has a holder, as far as that is known.
    is_held: bool,
    /// Whether a newer version may read it, by what was seen before, where the store has not told.
    was_newer: bool,
}

impl DamagedUnit {
    pub(crate) fn of(key: Key, unit: Option<Vec<u8>>, problem: Option<RecordProblem>) -> DamagedUnit {
        let of_key = || JobName::of_key(&key).map_or_else(Vec::new, |(_, unit)| unit.as_bytes().to_vec());
        DamagedUnit { unit: unit.unwrap_or_else(of_key), key, problem, is_held: false, was_newer: false }
    }

    /// The same, where it is known whether the record has a holder.
    pub(crate) fn held(self, is_held: bool) -> DamagedUnit {
        DamagedUnit { is_held, ..self }
    }

    /// Whether the record has a holder, who may understand it: `rm --damaged` leaves it then.
    pub(crate) fn is_held(&self) -> bool {
        self.is_held
    }

    /// Whether a newer version may read it.
    pub(crate) fn is_newer(&self) -> bool {
        self.problem.as_ref().map_or(self.was_newer, RecordProblem::is_newer)
    }

    /// The same, where it was seen before whether a newer version may read it.
    pub(crate) fn seen(self, was_newer: bool) -> DamagedUnit {
        DamagedUnit { was_newer, ..self }
    }

    /// What keeps those of `keys` from being read, as the store has them now.
    pub(crate) async fn read(
        store: &impl Store,
        keys: &[Key],
    ) -> Result<BTreeMap<Key, RecordProblem>, StoreError> {
        let mut all = BTreeMap::new();
        for keys in keys.chunks(PAGE) {
            let read = store.read_many(keys, Freshness::Latest).await?;
            all.extend(read.into_iter().filter_map(|listed| {
                let problem = match &listed.stored {
                    Ok(stored) => Unit::problem(&listed.key, &stored.record.metadata),
                    Err(error) => Some(RecordProblem::of(&listed.key, error)),
                };
                Some((listed.key, problem?))
            }));
        }
        Ok(all)
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        let DamagedUnit { key, unit, problem, .. } = self;
        json!({
            "unit": text_of(unit), "unit_hex": hex_of(unit), "key": key.as_str(),
            "problem": problem.as_ref().map(RecordProblem::to_string), "newer": self.is_newer(),
        })
    }

    /// What it is called, for people.
    pub(crate) fn shown(&self) -> String {
        escaped(&text_of(&self.unit))
    }

    /// Its key, by which it can be removed, and why it is not read.
    pub(crate) fn line(&self) -> String {
        let problem = self.problem.as_ref().map_or_else(String::new, RecordProblem::to_string);
        format!("  {}: {}\n", escaped(self.key.as_str()), escaped(&problem))
    }
}
