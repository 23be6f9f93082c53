//! What a service like DynamoDB charges for each request, and how much of what one of its partition keys can do is asked for in a second.

use super::Harness;
use fnv::FnvHasher;
use std::collections::BTreeMap;
use std::hash::Hasher as _;
use tenure_core::op::{Freshness, Listed, Op};
use tenure_core::{Key, Record};

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

    /// Before it is performed.
    pub(super) fn charge(&mut self, op: &Op) {
        let Some(mut bill) = self.bill.take() else { return };
        let second = self.t.0 / 1_000_000_000;
        let reads =
            |weight: u64, halves| Units { half_reads: weight.div_ceil(READ).max(1) * halves, writes: 0 };
        match op {
            Op::Read(key) => {
                let units = reads(self.weight(bill.weigh, key), 2);
                bill.charge(second, bill.shard(key), units);
            }
            Op::ReadMany(keys, freshness) => {
                let halves = if *freshness == Freshness::Latest { 2 } else { 1 };
                for key in keys {
                    let units = reads(self.weight(bill.weigh, key), halves);
                    bill.charge(second, bill.shard(key), units);
                }
            }
            Op::Write(write) => {
                let weight = self.weight(bill.weigh, &write.key).max((bill.weigh)(&write.key, &write.record));
                let units = Units { half_reads: 0, writes: weight.div_ceil(WRITE) };
                bill.charge(second, bill.shard(&write.key), units);
            }
            // Once its page is known.
            Op::List { .. } => {}
        }
        self.bill = Some(bill);
    }

    /// A page asks each shard, for all that it has of it.
    pub(super) fn charge_page(&mut self, page: &[Listed]) {
        let Some(mut bill) = self.bill.take() else { return };
        let mut weights = vec![0; bill.shards as usize];
        for listed in page {
            weights[bill.shard(&listed.key) as usize] += self.weight(bill.weigh, &listed.key);
        }
        let second = self.t.0 / 1_000_000_000;
        for (shard, weight) in (0..).zip(weights) {
            bill.charge(second, shard, Units { half_reads: weight.div_ceil(READ).max(1) * 2, writes: 0 });
        }
        self.bill = Some(bill);
    }
}
