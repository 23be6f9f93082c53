//! Names that stand in more than one group of a job (`-n N`). Groups are known as a whole, so that such a name is run with each of them.

use crate::output;
use crate::text::{count, escaped};
use crate::work::units::{Named, text_of};
use std::collections::BTreeSet;

/// The names in the groups that this process was given, and those of them that stand in other groups of the job, too.
pub(super) struct GroupedNames<'a> {
    prefix: &'a str,
    given: BTreeSet<&'a [u8]>,
    elsewhere: BTreeSet<Vec<u8>>,
    /// Of these, those in groups that are new.
    shared: BTreeSet<&'a [u8]>,
}

impl<'a> GroupedNames<'a> {
    /// None where each unit has one name.
    pub(super) fn of(units: &'a [Named], prefix: &'a str, max_args: usize) -> Option<GroupedNames<'a>> {
        let is_grouped = max_args > 1 && !units.is_empty();
        is_grouped.then(|| GroupedNames {
            prefix,
            given: units.iter().flat_map(|unit| names(name(unit, prefix))).collect(),
            elsewhere: BTreeSet::new(),
            shared: BTreeSet::new(),
        })
    }

    /// A group that is new in the job. All others are seen by then.
    pub(super) fn add(&mut self, unit: &'a Named) {
        self.shared.extend(names(name(unit, self.prefix)).filter(|name| self.elsewhere.contains(*name)));
    }

    /// Another unit of the job, which was not given here.
    pub(super) fn see(&mut self, unit: &[u8]) {
        let shared = names(unit).filter(|name| self.given.contains(name));
        self.elsewhere.extend(shared.map(<[u8]>::to_vec));
    }

    /// What is wrong, if anything is.
    fn note(&self) -> Option<String> {
        let first = self.shared.first()?;
        let (names, first) = (count(self.shared.len(), "name"), escaped(&text_of(first)));
        Some(format!(
            "{names} in other groups of this job, too, such as \"{first}\": each group is run by itself. With -n, give the same list in the same \
             order, and let it grow at its end, by whole groups"
        ))
    }

    pub(super) fn tell(&self) {
        self.note().iter().for_each(output::note);
    }
}

fn name<'a>(unit: &'a Named, prefix: &str) -> &'a [u8] {
    let key = || unit.key.as_str().strip_prefix(prefix).unwrap_or_default().as_bytes();
    unit.name.as_deref().unwrap_or_else(key)
}

fn names(unit: &[u8]) -> impl Iterator<Item = &[u8]> {
    unit.split(|byte| *byte == b'\n')
}
