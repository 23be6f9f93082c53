//! A peer: it takes, renews and evicts under its own conditions, which are the row's counter or less.

use super::time::FAILOVER;
use crate::format::{Format, Unowned};
use crate::row::Row;
use std::collections::BTreeMap;
use tenure_dynamodb::service::text;
use tenure_store::parts::SplitMix64;

/// A worker of the KCL's or a8m's, which also does what its operators do.
pub(super) struct PeerWorker {
    id: String,
    /// What it holds, and by which counter.
    held: BTreeMap<String, u64>,
}

impl PeerWorker {
    pub(super) fn new(id: String) -> PeerWorker {
        PeerWorker { id, held: BTreeMap::new() }
    }

    /// Does something, and tells when it does the next thing.
    pub(super) fn acts(
        &mut self,
        now: u64,
        format: Format,
        rows: &mut BTreeMap<String, Row>,
        rng: &mut SplitMix64,
    ) -> u64 {
        for (key, row) in rows.iter_mut() {
            let renews = self.held.get(key) == Some(&row.counter);
            if renews {
                row.counter += 1;
                self.held.insert(key.clone(), row.counter);
            } else {
                self.held.remove(key);
            }
            match rng.below(8) {
                // Whoever has it.
                0 => {
                    row.counter += 1;
                    row.owner = Some(text(&self.id));
                    self.held.insert(key.clone(), row.counter);
                }
                1 if renews || rng.one_in(4) => {
                    row.counter += u64::from(format.is_kcl());
                    row.owner = (format.unowned == Unowned::Null).then(|| text("NULL"));
                    self.held.remove(key);
                }
                _ => {}
            }
        }
        let usual = FAILOVER / 3;
        now + if rng.one_in(10) { FAILOVER * 2 } else { 1 + rng.below(usual) }
    }
}
