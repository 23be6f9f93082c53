//! S2, fences grow: each tenure's fence is strictly greater than every earlier one of that key, through release, expiry,
//! deletion, garbage collection, and a store restored from an older copy where the acquirers' clocks are sane. And no write
//! lowers the fence that a record shows.
//!
//! Source: the promise S2; M. Kleppmann, "How to do distributed locking" (2016), on fencing tokens.

use std::collections::BTreeMap;
use tenure_core::{Fence, Key, Record};

#[derive(Debug)]
struct FenceHistory {
    highest: Fence,
    order: u64,
    /// Tenures that were made lately: fence and order.
    lately: Vec<(Fence, u64)>,
}

/// Which tenures there were.
#[derive(Debug, Default)]
pub(crate) struct TenureLog {
    histories: BTreeMap<Key, FenceHistory>,
    pub(crate) count: u64,
}

impl TenureLog {
    /// A write took effect. True if it began a tenure.
    pub(crate) fn landed(
        &mut self,
        key: &Key,
        before: Option<&Record>,
        after: &Record,
    ) -> Result<bool, String> {
        if let Some(before) = before
            && after.fence < before.fence
        {
            return Err(format!(
                "a write to {key} lowers the fence from {} to {}",
                before.fence, after.fence
            ));
        }
        // A renewal keeps its fence: whoever compares it would otherwise take the holder for another.
        let same =
            |record: &&Record| record.tenure.as_ref().map(|t| t.id) == after.tenure.as_ref().map(|t| t.id);
        if let Some(before) = before.filter(|_| after.tenure.is_some()).filter(same)
            && after.fence != before.fence
        {
            return Err(format!(
                "a renewal of {key} changes its fence from {} to {}",
                before.fence, after.fence
            ));
        }
        let Some(tenure) = after.tenure.as_ref().filter(|tenure| tenure.id == after.nonce) else {
            return Ok(false);
        };
        if let Some(standing) = before.and_then(|record| record.tenure.as_ref())
            && (standing.since, before.map(|record| record.fence)) == (tenure.since, Some(after.fence))
        {
            // Plain data became a lease again: the same tenure under another id.
            return Ok(false);
        }
        self.count += 1;
        let order = self.count;
        let Some(history) = self.histories.get_mut(key) else {
            let history = FenceHistory { highest: after.fence, order, lately: vec![(after.fence, order)] };
            self.histories.insert(key.clone(), history);
            return Ok(true);
        };
        let highest = history.highest;
        history.highest = highest.max(after.fence);
        history.order = order;
        if history.lately.len() >= 32 {
            history.lately.remove(0);
        }
        history.lately.push((after.fence, order));
        if after.fence <= highest {
            return Err(format!(
                "{} begins a tenure of {key} with fence {}, and there was one with {highest}",
                tenure.holder, after.fence
            ));
        }
        Ok(true)
    }

    /// The record was deleted by hand: nothing is promised about fences from before that.
    pub(crate) fn forget(&mut self, key: &Key) {
        self.histories.remove(key);
    }

    /// The record was put back by hand: later fences are higher than what it shows now.
    pub(crate) fn put_back(&mut self, key: &Key, fence: Fence) {
        if let Some(history) = self.histories.get_mut(key) {
            history.highest = fence;
        }
    }

    /// The place of the tenure of `key` with this fence among all tenures.
    pub(crate) fn order(&self, key: &Key, fence: Fence) -> u64 {
        let history = self.histories.get(key);
        let found =
            history.and_then(|history| history.lately.iter().rev().find(|(known, _)| *known == fence));
        found.map_or(0, |(_, order)| *order)
    }
}
