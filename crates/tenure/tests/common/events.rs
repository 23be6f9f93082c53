//! Events and spans as subscribers get them, to be held beside the tables of the documentation.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use tracing::field::{Field, Visit};
use tracing::span;

/// An event, or a span when it began.
#[derive(Debug, Clone, Default)]
pub(crate) struct Told {
    pub(crate) name: String,
    pub(crate) target: String,
    pub(crate) level: String,
    pub(crate) message: String,
    /// But for the message.
    pub(crate) fields: BTreeMap<String, String>,
    pub(crate) is_span: bool,
}

impl Told {
    fn of(metadata: &tracing::Metadata<'_>) -> Told {
        Told {
            name: metadata.name().to_owned(),
            target: metadata.target().to_owned(),
            level: metadata.level().to_string().to_lowercase(),
            is_span: metadata.is_span(),
            ..Told::default()
        }
    }

    /// What a field says; nothing without it.
    pub(crate) fn says(&self, field: &str) -> &str {
        self.fields.get(field).map_or("", String::as_str)
    }
}

impl Visit for Told {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.message = format!("{value:?}");
        } else {
            self.fields.insert(field.name().to_owned(), format!("{value:?}"));
        }
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name().to_owned(), value.to_owned());
    }
}

/// Takes all of tenure's down.
#[derive(Clone, Default)]
pub(crate) struct EventLog(Arc<Mutex<Vec<Told>>>);

impl EventLog {
    /// What has been told so far with this target.
    pub(crate) fn of(&self, target: &str) -> Vec<Told> {
        self.0.lock().unwrap().iter().filter(|told| told.target == target).cloned().collect()
    }

    /// The events of this name.
    pub(crate) fn named(&self, name: &str) -> Vec<Told> {
        let all = self.0.lock().unwrap();
        all.iter().filter(|told| told.name == name && !told.is_span).cloned().collect()
    }
}

impl tracing::Subscriber for EventLog {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("tenure::")
    }
    fn new_span(&self, span: &span::Attributes<'_>) -> span::Id {
        let mut told = Told::of(span.metadata());
        span.record(&mut told);
        self.0.lock().unwrap().push(told);
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        let mut told = Told::of(event.metadata());
        event.record(&mut told);
        self.0.lock().unwrap().push(told);
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

/// Levels, messages and fields, by name.
pub(crate) type Table = BTreeMap<String, (String, String, BTreeSet<String>)>;

/// The rows of the tables on a page whose names begin so.
pub(crate) fn documented(page: &str, begins: &str) -> Table {
    let rows = page.lines().filter(|line| line.starts_with(&format!("//! | `{begins}")));
    let row = |line: &str| {
        let [_, name, level, message, fields, _] = line.split('|').map(str::trim).collect::<Vec<_>>()[..]
        else {
            panic!("a row of five cells: {line}")
        };
        // What stands in brackets says more of a field.
        let plain: String =
            fields.split('(').map(|part| part.split_once(')').map_or(part, |(_, after)| after)).collect();
        let fields = plain.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        (name.trim_matches('`').to_owned(), (level.to_owned(), message.to_owned(), fields))
    };
    rows.map(row).collect()
}

/// The same of events that were told. A field that is not always there counts.
pub(crate) fn table(told: &[Told]) -> Table {
    let mut table = Table::new();
    for event in told.iter().filter(|told| !told.is_span) {
        let row = (event.level.clone(), event.message.clone(), BTreeSet::new());
        let known = table.entry(event.name.clone()).or_insert(row);
        assert_eq!((&known.0, &known.1), (&event.level, &event.message), "one message for an event");
        known.2.extend(event.fields.keys().cloned());
    }
    table
}
