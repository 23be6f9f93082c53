//! What a service like DynamoDB charges for each request, and how much of what one of its partition keys can do is asked for in a second.

use super::Harness;
use fnv::FnvHasher;
use std::collections::BTreeMap;
use std::hash::Hasher as _;
use tenure_core::op::{Freshness, Listed, Op};
use tenure_core::{Key, Record, StoreError};

/// What a unit is good for, in bytes.
const READ: u64 = 4096;
const WRITE: u64 = 1024;

/// The weight of an item, in bytes.
pub type Weigh = fn(&Key, &Record) -> u64;

/// Halves of read units, and write units.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Units {
    pub half_reads: u64,
    pub writes: u64,
}

impl Units {
    pub fn reads(self) -> f64 {
        self.half_reads as f64 / 2.0
    }

    fn add(&mut self, more: Units) {
        self.half_reads += more.half_reads;
        self.writes += more.writes;
    }
}

pub struct Bill {
    weigh: Weigh,
    shards: u64,
    /// All together.
    pub sum: Units,
    /// By second and shard.
    seconds: BTreeMap<(u64, u64), Units>,
}

impl Bill {
    pub fn new(weigh: Weigh, shards: u64) -> Bill {
        Bill { weigh, shards, sum: Units::default(), seconds: BTreeMap::new() }
    }

    /// The most that one shard was asked for in a second.
    pub fn peak(&self) -> Units {
        let mut peak = Units::default();
        for units in self.seconds.values() {
            peak.half_reads = peak.half_reads.max(units.half_reads);
            peak.writes = peak.writes.max(units.writes);
        }
        peak
    }

    fn charge(&mut self, second: u64, shard: u64, units: Units) {
        self.sum.add(units);
        self.seconds.entry((second, shard)).or_default().add(units);
    }

    /// As the store has it.
    fn shard(&self, key: &Key) -> u64 {
        let mut hasher = FnvHasher::default();
        hasher.write(key.as_str().as_bytes());
        hasher.finish() % self.shards
    }
}

impl Harness {
    /// Counts anew from here on.
    pub fn bill(&mut self, weigh: Weigh, shards: u64) {
        self.bill = Some(Bill::new(weigh, shards));
    }

    fn weight(&self, weigh: Weigh, key: &Key) -> u64 {
        self.records.get(key).map_or(0, |(record, _)| weigh(key, record))
    }

    /// Before it is performed. An error if the service does not do that much for a shard.
    pub(super) fn charge(&mut self, op: &Op) -> Result<(), StoreError> {
        let Some(bill) = &self.bill else { return Ok(()) };
        let reads =
            |weight: u64, halves| Units { half_reads: weight.div_ceil(READ).max(1) * halves, writes: 0 };
        let asked = match op {
            Op::Read(key) => vec![(bill.shard(key), reads(self.weight(bill.weigh, key), 2))],
            Op::ReadMany(keys, freshness) => {
                let halves = if *freshness == Freshness::Latest { 2 } else { 1 };
                let read = |key: &Key| (bill.shard(key), reads(self.weight(bill.weigh, key), halves));
                keys.iter().map(read).collect()
            }
            Op::Write(write) => {
                let weight = self.weight(bill.weigh, &write.key).max((bill.weigh)(&write.key, &write.record));
                vec![(bill.shard(&write.key), Units { half_reads: 0, writes: weight.div_ceil(WRITE) })]
            }
            // Once its page is known.
            Op::List { .. } => Vec::new(),
        };
        self.settle(&asked)
    }

    fn settle(&mut self, asked: &[(u64, Units)]) -> Result<(), StoreError> {
        if self.service.as_mut().is_some_and(|service| !service.admits(self.t, asked)) {
            return Err(StoreError::unavailable("throttled"));
        }
        let second = self.t.0 / 1_000_000_000;
        if let Some(bill) = &mut self.bill {
            asked.iter().for_each(|(shard, units)| bill.charge(second, *shard, *units));
        }
        Ok(())
    }

    /// A page asks each shard, for all that it has of it.
    pub(super) fn charge_page(&mut self, page: &[Listed]) -> Result<(), StoreError> {
        let Some(bill) = &self.bill else { return Ok(()) };
        let mut weights = vec![0; bill.shards as usize];
        for listed in page {
            weights[bill.shard(&listed.key) as usize] += self.weight(bill.weigh, &listed.key);
        }
        let units = |weight: u64| Units { half_reads: weight.div_ceil(READ).max(1) * 2, writes: 0 };
        let asked: Vec<(u64, Units)> =
            (0..).zip(weights).map(|(shard, weight)| (shard, units(weight))).collect();
        self.settle(&asked)
    }
}
