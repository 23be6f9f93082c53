//! A record of doctor's own, which nobody else writes, and the calls that are timed on it.

use crate::nonces::nonces;
use crate::verbs::spans::Spans;
use std::time::Duration;
use tenure::clock::boottime;
use tenure::store::{Changes, Expect, Hint, Outcome, Record, Version, Write};
use tenure::{Fence, Key, Leases, Metadata, Store, StoreError};
use tenure_core::Nonces;

/// So many calls of a kind are timed, as long as they take no longer than this together.
const CALLS: (usize, Duration) = (20, Duration::from_secs(2));

/// A record that nobody else writes.
pub(super) struct Probe<'a> {
    pub(super) leases: &'a Leases,
    pub(super) key: Key,
    pub(super) nonces: Nonces,
}

impl Probe<'_> {
    pub(super) fn new(leases: &Leases) -> Result<Probe<'_>, StoreError> {
        let key = Key::new(format!("doctor/{}", leases.holder().as_str()))?;
        Ok(Probe { leases, key, nonces: nonces(leases) })
    }

    /// A record without a tenure, as `gc` takes.
    pub(super) fn vacant(&mut self, fence: Fence) -> Record {
        let stamp = self.leases.clock().now().wall;
        Record { fence, nonce: self.nonces.draw(), stamp, tenure: None, metadata: Metadata::new() }
    }

    /// What fences begin with: a low one, so that a store may remove the record at once whatever this host's clock says. Stores raise it.
    pub(super) const FLOOR: Fence = Fence(1);

    pub(super) async fn begin(&mut self) -> Result<(Version, Record), StoreError> {
        let record = self.vacant(Self::FLOOR);
        let write = Write { key: self.key.clone(), expect: Expect::Absent, record: record.clone() };
        match self.leases.store().write(write).await? {
            Outcome::Won { version, .. } => Ok((version, record)),
            Outcome::Lost(_) => {
                Err(StoreError::foreign(format!("{}, a name made up for this, is taken", self.key)))
            }
        }
    }

    /// Some reads, each of which has to be `right`.
    pub(super) async fn time_reads(
        &self,
        right: impl Fn(Option<&tenure::store::Stored>) -> bool,
    ) -> Result<Spans, StoreError> {
        let (mut spans, start) = (Spans::default(), boottime());
        while spans.count() < CALLS.0 && boottime().saturating_sub(start) < CALLS.1 {
            let began = boottime();
            let read = self.leases.store().read(&self.key).await?;
            spans.add(boottime().saturating_sub(began));
            if !right(read.as_ref()) {
                return Err(StoreError::foreign("what was read back is not what was written"));
            }
        }
        Ok(spans)
    }

    pub(super) async fn time_writes(&mut self, mut version: Version) -> Result<(Spans, Version), StoreError> {
        let (mut spans, start) = (Spans::default(), boottime());
        while spans.count() < CALLS.0 && boottime().saturating_sub(start) < CALLS.1 {
            let began = boottime();
            version = self.rewrite(version).await?;
            spans.add(boottime().saturating_sub(began));
        }
        Ok((spans, version))
    }

    async fn rewrite(&mut self, version: Version) -> Result<Version, StoreError> {
        let record = self.vacant(Self::FLOOR);
        let write = Write { key: self.key.clone(), expect: Expect::Unchanged(version), record };
        match self.leases.store().write(write).await? {
            Outcome::Won { version, .. } => Ok(version),
            Outcome::Lost(_) => Err(StoreError::foreign(format!("{} has changed under our hands", self.key))),
        }
    }

    /// Writes until one of the writes is told of, and how long after it was sent. A subscription takes a moment to begin, and what it says then, of
    /// no key, is not about a write: where keys are not named, two in turn count.
    pub(super) async fn await_hint(
        &mut self,
        mut version: Version,
        changes: &mut Changes,
    ) -> Result<(Version, Option<Duration>), StoreError> {
        const PATIENCE: Duration = Duration::from_secs(3);
        const EACH: Duration = Duration::from_millis(250);
        let (start, mut was_unnamed) = (boottime(), false);
        while boottime().saturating_sub(start) < PATIENCE {
            while changes.try_recv().is_ok() {}
            let sent = boottime();
            version = self.rewrite(version).await?;
            let heard = async {
                while let Some(hint) = changes.recv().await {
                    if matches!(&hint, Hint::Any) || hint.key() == Some(&self.key) {
                        return Some(hint);
                    }
                }
                None
            };
            match tokio::time::timeout(EACH, heard).await {
                Ok(Some(Hint::Any)) if !was_unnamed => was_unnamed = true,
                Ok(Some(_)) => return Ok((version, Some(boottime().saturating_sub(sent)))),
                Ok(None) => break,
                Err(_) => was_unnamed = false,
            }
        }
        Ok((version, None))
    }
}
