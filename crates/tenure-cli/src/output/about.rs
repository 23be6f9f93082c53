//! What records tell of their holders: who, where, and what for. A lease with a record of its own says so there; what is attached to a session
//! says so in the session's record.

use crate::text::escaped;
use std::collections::BTreeMap;
use tenure::store::{Attachment, Freshness, Record};
use tenure::{Key, Metadata, Store, Value};

/// The fields that `run`, `elect`, `cron` and `hold` write into a record, and `work` and workers of fleets into that of their session.
pub(crate) const FIELDS: [&str; 5] = ["user", "host", "pid", "program", "note"];

/// For people, as in `root on vm, for sh: why`. None where the metadata tell nothing of that.
pub(crate) fn about(metadata: &Metadata) -> Option<String> {
    let mut parts: Vec<String> = by(metadata, false).into_iter().collect();
    parts.extend(text(metadata, "note"));
    (!parts.is_empty()).then(|| parts.join(": "))
}

/// The same in lines: by whom, and the note.
pub(crate) fn lines(metadata: &Metadata) -> Vec<(&'static str, String)> {
    let Some(by) = by(metadata, true) else { return Vec::new() };
    let note = text(metadata, "note").map(|note| ("note", note));
    [("by", by)].into_iter().chain(note).collect()
}

fn by(metadata: &Metadata, with_process: bool) -> Option<String> {
    let (user, host) = (text(metadata, "user")?, text(metadata, "host")?);
    let process = match metadata.get("pid") {
        Some(Value::Number(pid)) if with_process => format!(", process {}", pid.as_str()),
        _ => String::new(),
    };
    let program = text(metadata, "program").map_or_else(String::new, |program| format!(", for {program}"));
    Some(format!("{user} on {host}{process}{program}"))
}

fn text(metadata: &Metadata, name: &str) -> Option<String> {
    match metadata.get(name) {
        Some(Value::Text(text)) => Some(escaped(text)),
        _ => None,
    }
}

/// What the sessions say to which a record's leases are attached.
#[derive(Debug, Default)]
pub(crate) struct SessionAbouts(BTreeMap<Key, Record>);

impl SessionAbouts {
    /// Of those that `attachments` name. What can't be read tells nothing.
    pub(crate) async fn of<'a>(
        store: &impl Store,
        attachments: impl Iterator<Item = &'a Attachment>,
    ) -> SessionAbouts {
        /// More are not shown on one screen.
        const MOST: usize = 100;
        let mut keys: Vec<Key> = attachments.map(|to| to.session.clone()).collect();
        keys.sort_unstable();
        keys.dedup();
        keys.truncate(MOST);
        if keys.is_empty() {
            return SessionAbouts::default();
        }
        let read = store.read_many(&keys, Freshness::Recent).await.unwrap_or_default();
        let sound = read.into_iter().filter_map(|listed| Some((listed.key, listed.stored.ok()?.record)));
        SessionAbouts(sound.collect())
    }

    /// What the session says, if it is still the one that is meant.
    pub(crate) fn get(&self, attachment: &Attachment) -> Option<&Metadata> {
        let record = self.0.get(&attachment.session).filter(|record| record.fence == attachment.fence)?;
        Some(&record.metadata).filter(|metadata| FIELDS.iter().any(|name| metadata.contains_key(*name)))
    }

    /// What the session of a record's own lease says, if that is attached.
    pub(crate) fn of_tenure(&self, record: &Record) -> Option<&Metadata> {
        self.get(record.tenure.as_ref()?.attachment.as_ref()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_told_as_far_as_its_record_tells() {
        let all = Metadata::from([
            ("user".to_owned(), "ro\u{1b}ot".into()),
            ("host".to_owned(), "vm".into()),
            ("pid".to_owned(), 7.into()),
            ("program".to_owned(), "sh".into()),
            ("note".to_owned(), "why".into()),
        ]);
        assert_eq!(about(&all).as_deref(), Some("ro\\u{1b}ot on vm, for sh: why"));
        assert_eq!(
            lines(&all),
            [("by", "ro\\u{1b}ot on vm, process 7, for sh".to_owned()), ("note", "why".to_owned())]
        );
        let only = Metadata::from([("note".to_owned(), "why".into())]);
        assert_eq!((about(&only).as_deref(), about(&Metadata::new())), (Some("why"), None));
        assert!(lines(&only).is_empty());
    }
}
