//! The store: records by key, and who is told of a change.

use super::{Happens, Harness, WAY};
use std::ops::Bound;
use std::time::Duration;
use tenure_core::op::{Answer, Expect, Hint, Listed, Op, Outcome, Write};
use tenure_core::{HolderId, Key, StoreError, Stored};

impl Harness {
    pub(super) fn stored(&self, key: &Key) -> Option<Stored> {
        let (record, written) = self.records.get(key)?;
        let age = self.store.age.then(|| Duration::from_millis(self.t.since(*written).as_millis() as u64));
        let mut record = record.clone();
        if let Some(tenure) = &mut record.tenure {
            tenure.holder = HolderId::new(&tenure.holder).unwrap();
            if let Some(attachment) = &mut tenure.attachment {
                attachment.session = off_the_wire(&attachment.session);
            }
        }
        Some(Stored::new(record).aged(age))
    }

    fn listed(&self, key: Key) -> Option<Listed> {
        let stored = self.stored(&key)?;
        let stored = if self.damaged.contains(&key) { Err(damaged()) } else { Ok(stored) };
        Some(Listed { key: off_the_wire(&key), stored })
    }

    pub(super) fn perform(&mut self, op: Op) -> Result<Answer, StoreError> {
        self.charge(&op)?;
        Ok(match op {
            Op::Read(key) => {
                self.calls.reads += 1;
                self.calls.extra += 1;
                if self.damaged.contains(&key) {
                    return Err(damaged());
                }
                Answer::Read(self.stored(&key))
            }
            Op::ReadMany(keys, _) => {
                self.calls.reads += 1;
                Answer::Listed(keys.into_iter().filter_map(|key| self.listed(key)).collect())
            }
            Op::List { prefix, after, limit } => {
                self.calls.lists += 1;
                let first = || Bound::Included(Key::new(&prefix).unwrap());
                let from = after.map_or_else(first, Bound::Excluded);
                let keys = self.records.range((from, Bound::Unbounded)).map(|(key, _)| key);
                let keys = keys.take_while(|key| key.as_str().starts_with(&prefix)).take(limit);
                let page: Vec<Listed> = keys.filter_map(|key| self.listed(key.clone())).collect();
                self.charge_page(&page)?;
                Answer::Listed(page)
            }
            Op::Write(write) => {
                self.calls.writes += 1;
                if self.damaged.contains(&write.key) {
                    return Err(damaged());
                }
                if self.forbidden.contains(&write.key) {
                    return Err(StoreError::invalid("access to this key is denied"));
                }
                let has_mail = write.record.tenure.as_ref().is_some_and(|tenure| !tenure.mail.is_empty());
                let is_unit = self.units.contains(&write.key);
                let outcome = self.write(*write);
                let is_lost = matches!(outcome, Outcome::Lost(_));
                self.calls.extra += u64::from(has_mail || is_unit || is_lost);
                Answer::Write(outcome)
            }
        })
    }

    pub(super) fn write(&mut self, write: Write) -> Outcome {
        let Write { key, expect, mut record } = write;
        let standing = self.records.get(&key).map(|(record, _)| record);
        let holds = match (expect, standing) {
            (Expect::Absent, standing) => standing.is_none(),
            (Expect::Vacant, standing) => standing.is_none_or(|record| record.tenure.is_none()),
            (Expect::Unchanged(version), standing) => {
                standing.is_some_and(|record| record.version() == version)
            }
        };
        if !holds {
            return Outcome::Lost(self.stored(&key));
        }
        if let (Expect::Vacant, Some(standing)) = (expect, standing) {
            record.fence = standing.fence.next(record.fence).unwrap();
        }
        self.vacated += usize::from(record.tenure.is_none() && self.units.contains(&key));
        let outcome = Outcome::Won { version: record.version(), fence: record.fence };
        self.records.insert(key.clone(), (record, self.t));
        if self.store.push {
            for index in 0..self.posts.len() {
                self.at(self.t.after(WAY), Happens::Hint(index, Hint::Key(key.clone())));
            }
        }
        outcome
    }
}

/// Names that come from a store share no memory with what anybody else knows.
fn off_the_wire(key: &Key) -> Key {
    Key::new(key).unwrap()
}

fn damaged() -> StoreError {
    StoreError::foreign("damaged")
}
