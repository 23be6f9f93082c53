//! A unit that has failed, as its record tells it.

use super::unit::{Status, Unit};
use crate::stores::pages::PAGE;
use crate::text::{count, date, escaped};
use crate::work::units::{hex_of, text_of};
use serde_json::json;
use std::collections::BTreeMap;
use tenure::store::Freshness;
use tenure::{Key, Metadata, Store, StoreError, Value, Wall};

/// A unit that has failed, for good or until it is tried again, and why.
#[derive(Debug, Default)]
pub(crate) struct Failed {
    unit: Vec<u8>,
    exit: Option<i64>,
    host: Option<String>,
    finished: Option<Wall>,
    attempts: Option<u32>,
    reason: Option<String>,
    output: Option<String>,
}

impl Failed {
    pub(crate) fn of(unit: &[u8], seen: &Unit, metadata: &Metadata) -> Failed {
        let text = |name: &str| metadata.get(name).and_then(Value::as_text).map(str::to_owned);
        let finished = Unit::finished(metadata);
        Failed {
            unit: unit.to_owned(),
            exit: metadata.get("exit").and_then(Value::as_i64),
            host: text("host"),
            finished: (finished > 0).then_some(Wall(finished)),
            attempts: Some(seen.attempts),
            reason: text("reason"),
            output: text("output"),
        }
    }

    /// One of which nothing else is known.
    pub(crate) fn named(unit: Vec<u8>) -> Failed {
        Failed { unit, ..Failed::default() }
    }

    /// Those of `keys` that have failed, as the store has them now.
    pub(crate) async fn read(store: &impl Store, keys: &[Key]) -> Result<BTreeMap<Key, Failed>, StoreError> {
        let mut all = BTreeMap::new();
        for keys in keys.chunks(PAGE) {
            let read = store.read_many(keys, Freshness::Latest).await?;
            all.extend(read.into_iter().filter_map(|listed| {
                let metadata = &listed.stored.as_ref().ok()?.record.metadata;
                let seen = Unit::of(metadata).filter(|unit| unit.status == Status::Failed)?;
                let name = Unit::name(&listed.key, metadata)?;
                let failed = Failed::of(&name, &seen, metadata);
                Some((listed.key, failed))
            }));
        }
        Ok(all)
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        let Failed { unit, exit, host, finished, attempts, reason, output } = self;
        json!({
            "unit": text_of(unit), "unit_hex": hex_of(unit), "exit": exit, "host": host, "finished": finished.map(date), "attempts": attempts,
            "reason": reason, "output": output,
        })
    }

    /// The unit and why it failed, in a few words.
    pub(crate) fn brief(&self) -> String {
        let exit = self.exit.map(|exit| format!("exit {exit}"));
        self.in_words(exit.into_iter().collect())
    }

    /// All that is known of it, in lines. `then`: what comes of it.
    pub(crate) fn lines(&self, then: Option<String>) -> String {
        let mut parts: Vec<String> = self.exit.map(|exit| format!("exit {exit}")).into_iter().collect();
        parts.extend(self.host.as_ref().map(|host| format!("on {}", escaped(host))));
        parts.extend(self.finished.map(|at| format!("at {}", date(at))));
        let then = then.map_or_else(String::new, |then| format!(", {then}"));
        let mut text = format!("  {}{then}\n", self.in_words(parts));
        for line in self.output.iter().flat_map(|output| output.lines()) {
            text.push_str(&format!("    | {}\n", escaped(line)));
        }
        text
    }

    fn in_words(&self, mut parts: Vec<String>) -> String {
        let times = |n| count(usize::try_from(n).unwrap_or(usize::MAX), "attempt");
        parts.extend(self.attempts.map(times));
        parts.extend(self.reason.as_ref().map(|reason| escaped(reason)));
        let unit = escaped(&text_of(&self.unit));
        if parts.is_empty() { unit } else { format!("{unit}: {}", parts.join(", ")) }
    }
}
