//! A JSON object with a list that may be long: it is written piece by piece, before all else that the object says.

use crate::exit::Failure;
use crate::output::{self, json};
use serde_json::Value as Json;

/// The object, as far as it is written.
pub(crate) struct JsonList {
    name: &'static str,
    is_begun: bool,
}

impl JsonList {
    /// Of the list with this name.
    pub(crate) fn of(name: &'static str) -> JsonList {
        JsonList { name, is_begun: false }
    }

    /// More items.
    ///
    /// # Errors
    /// Standard output takes no more.
    pub(crate) fn show(&mut self, items: impl Iterator<Item = Json>) -> Result<(), Failure> {
        let mut text = String::new();
        for item in items {
            if std::mem::replace(&mut self.is_begun, true) {
                text.push(',');
            } else {
                text.push_str(&format!("{{\n  \"{}\": [", self.name));
            }
            text.push_str(&format!("\n    {}", json::indented(&item).replace('\n', "\n    ")));
        }
        if text.is_empty() { Ok(()) } else { output::print(&text) }
    }

    /// What else the object says: at least one thing.
    ///
    /// # Errors
    /// As [`JsonList::show`].
    pub(crate) fn end(self, rest: &Json) -> Result<(), Failure> {
        let rest = json::indented(rest);
        let rest = rest.strip_prefix("{\n").unwrap_or(&rest);
        let list = if self.is_begun { "\n  ]".to_owned() } else { format!("{{\n  \"{}\": []", self.name) };
        output::print(&format!("{list},\n{rest}\n"))
    }
}
