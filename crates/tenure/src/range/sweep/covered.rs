//! What a sweep has covered: one record, which only grows.

use crate::range::Section;
use std::time::Duration;
use tenure_core::op::{Expect, Outcome, Write};
use tenure_core::range::RangeSet;
use tenure_core::section::{self, Entry, SectionLedger};
use tenure_core::{
    ErrorKind, Fence, InvalidInput, Key, Nonce, Nonces, Record, StoreError, Stored, Ttl, Wall,
};
use tenure_store::Store;

/// The record that tells what is covered.
pub(super) struct Covered {
    section: Section,
    key: Key,
    nonces: Nonces,
    seen: Option<Stored>,
    parts: RangeSet,
    /// Why the last call failed, if it did: also one whose caller was aborted while it waited for the next.
    trouble: Option<StoreError>,
}

/// Others are quicker now and then; more often than this in a row, something is wrong.
const TRIES: u32 = 1000;

impl Covered {
    pub(super) fn new(section: &Section, sweep: &str) -> Result<Covered, InvalidInput> {
        let key = section.key().as_str();
        let name = key.strip_prefix(section::PREFIX).unwrap_or(key);
        // Else two sweeps could have one record.
        if [format!("{name}/"), format!("/{sweep}")].iter().any(|name| name.contains("/covered/")) {
            return Err(InvalidInput::new(format!(
                "the sweep {sweep:?} in the section {name:?} could be taken for another one: choose names without \"covered\" between slashes"
            )));
        }
        let key = section::key(&format!("{name}/covered/{sweep}"))?;
        let nonces = Nonces::new(crate::clock::instance());
        let (section, parts) = (section.clone(), RangeSet::new());
        Ok(Covered { section, key, nonces, seen: None, parts, trouble: None })
    }

    /// What was covered when last looked at.
    pub(super) fn parts(&self) -> &RangeSet {
        &self.parts
    }

    /// Why it can't be looked at, or written down, at present.
    pub(super) fn trouble(&self) -> Option<&StoreError> {
        self.trouble.as_ref()
    }

    /// Whether that takes so many bytes that it should not be cut into more pieces.
    pub(super) fn is_fragmented(&self) -> bool {
        let parts = self.parts.clone();
        let (_, size) = self.ledger(parts, Nonce::default(), Fence::default(), Wall::default()).into_cover();
        size > self.section.store().capabilities().section_bytes() / 2
    }

    /// Looks at what is covered now.
    pub(super) async fn look(&mut self) -> Result<(), StoreError> {
        let mut failures = 0;
        loop {
            match self.section.inner.direct.read(&self.key).await {
                Ok(seen) => return self.see(seen),
                Err(error) => self.wait_out(error, &mut failures).await?,
            }
        }
    }

    fn see(&mut self, seen: Option<Stored>) -> Result<(), StoreError> {
        self.trouble = None;
        if let Some(seen) = &seen {
            self.parts = self.parts.union(&SectionLedger::covered(&seen.record)?);
        }
        self.seen = seen;
        Ok(())
    }

    /// Writes down that `more` is covered, too. Adding twice does no harm, so a lost answer is simply repeated. It counts as covered once it stands
    /// in the record: whoever is dropped before leaves it to be handled again.
    pub(super) async fn add(&mut self, more: &RangeSet) -> Result<(), StoreError> {
        let mut failures = 0;
        for _ in 0..TRIES {
            let (write, seen_before) = self.write(more);
            match self.section.inner.direct.write(write.clone()).await {
                Ok(Outcome::Won { version, fence }) => {
                    let record = Record { fence, ..write.record };
                    self.seen = Some(Stored::new(record).versioned(version));
                    self.parts = self.parts.union(more);
                    self.trouble = None;
                    return Ok(());
                }
                Ok(Outcome::Lost(seen)) => self.see(seen)?,
                Err(error) => {
                    self.wait_out(error, &mut failures).await?;
                    self.seen = seen_before;
                    self.look().await?;
                }
            }
        }
        Err(StoreError::unavailable(format!("{} is changed by others all the time", self.key)))
    }

    fn write(&mut self, more: &RangeSet) -> (Write, Option<Stored>) {
        let wall = self.section.clock().now().wall;
        let nonce = self.nonces.draw();
        let seen = self.seen.take();
        let fence = seen.as_ref().map_or(Fence::floor(wall), |seen| seen.record.fence);
        let expect = seen.as_ref().map_or(Expect::Absent, |seen| Expect::Unchanged(seen.version));
        let (metadata, _) = self.ledger(self.parts.union(more), nonce, fence, wall).into_cover();
        let record = Record { fence, nonce, stamp: wall, tenure: None, metadata };
        (Write { key: self.key.clone(), expect, record }, seen)
    }

    /// Waits a little before the next try, unless trying again can't help.
    async fn wait_out(&mut self, error: StoreError, failures: &mut u32) -> Result<(), StoreError> {
        const MOST: u32 = 10;
        *failures += 1;
        self.trouble = Some(error.clone());
        if !matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Unknown) || *failures > MOST {
            return Err(error);
        }
        tokio::time::sleep(Duration::from_millis(5 << (*failures).min(8))).await;
        Ok(())
    }

    /// One entry of these parts, as if this process held it.
    fn ledger(&self, parts: RangeSet, id: Nonce, fence: Fence, stamp: Wall) -> SectionLedger {
        let holder = self.section.holder().clone();
        let entry = Entry::new(id, holder, fence, stamp, Ttl::MIN, parts);
        SectionLedger::new(if entry.parts.is_empty() { vec![] } else { vec![entry] })
    }
}
