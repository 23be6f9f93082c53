//! Who holds what several may hold, in few words.

use std::collections::BTreeSet;

/// Whose name one holder has, or how many there are of several.
pub(super) fn holders_shown<'a>(names: impl Iterator<Item = &'a str>) -> Option<String> {
    let names: BTreeSet<&str> = names.collect();
    match names.len() {
        0 | 1 => names.first().map(|name| (*name).to_owned()),
        n => Some(format!("{n} holders")),
    }
}
