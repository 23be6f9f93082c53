//! How near a namespace of a DynamoDB table is to what its shards can do, by what its records tell: each shard is one partition key, and keys
//! are spread evenly over them. `docs/design/dynamodb.md` has the formula.

use super::findings::{Findings, Grade};
use crate::text::{brief, count, escaped};
use std::collections::BTreeMap;
use std::time::Duration;
use tenure::Key;
use tenure::fleet::FleetKey;
use tenure::store::Stored;

/// What one partition key does in a second, in the service's units.
const READS: f64 = 3000.0;
const WRITES: f64 = 1000.0;
/// What a unit is good for, in bytes.
const READ: u64 = 4096;
const WRITE: u64 = 1024;
/// The planner of a fleet and its two standbys watch all sessions.
const WATCHERS: f64 = 3.0;
/// In a fleet of more workers than this, that many look in each interval, and the watchers read sessions by pages.
const LARGE: usize = 32;
/// From this share on there is little room for whatever changes.
const NEAR: f64 = 0.5;
/// What an item has besides its key and its record: the names of its attributes, and numbers.
const BESIDE: u64 = 100;

/// What a namespace asks of its shards.
#[derive(Debug)]
pub(super) struct NamespaceLoad {
    shards: u16,
    /// Units a second, of all that renews itself.
    writes: f64,
    renewed: usize,
    fleets: BTreeMap<String, FleetLoad>,
}

#[derive(Debug, Default)]
struct FleetLoad {
    workers: usize,
    /// The shortest ttl among them.
    ttl: Option<Duration>,
    units: usize,
    bytes: u64,
    /// Those of its live workers' sessions.
    sessions: u64,
}

impl NamespaceLoad {
    pub(super) fn new(shards: u16) -> NamespaceLoad {
        NamespaceLoad { shards, writes: 0.0, renewed: 0, fleets: BTreeMap::new() }
    }

    /// Takes a record in; `is_held`: its holder lives.
    pub(super) fn see(&mut self, key: &Key, stored: &Stored, is_held: bool) {
        let record = tenure_store::codec::encode(&stored.record).map_or(WRITE, |record| record.len() as u64);
        let bytes = key.as_str().len() as u64 + record + BESIDE;
        let renews = stored.record.tenure.as_ref().filter(|tenure| is_held && tenure.attachment.is_none());
        let ttl = renews.map(|tenure| tenure.ttl.duration());
        if let Some(ttl) = ttl {
            self.renewed += 1;
            self.writes += bytes.div_ceil(WRITE) as f64 / interval(ttl);
        }
        let Some((name, part)) = FleetKey::of(key) else { return };
        let fleet = self.fleets.entry(name.to_owned()).or_default();
        fleet.bytes += bytes;
        match (part, ttl) {
            (FleetKey::Unit(_), _) => fleet.units += 1,
            (FleetKey::Worker(_), Some(ttl)) => {
                fleet.workers += 1;
                fleet.sessions += bytes;
                fleet.ttl = Some(fleet.ttl.map_or(ttl, |least| least.min(ttl)));
            }
            _ => {}
        }
    }

    /// Says what that comes to.
    pub(super) fn tell(&self, findings: &mut Findings) {
        let reads: f64 = self.fleets.values().map(|fleet| fleet.reads(self.shards)).sum();
        // The sum of nothing is -0, which would be shown.
        let (writes, reads) = (self.writes.round(), reads.round() + 0.0);
        let shards = f64::from(self.shards);
        let (most_writes, most_reads) = (WRITES * shards, READS * shards);
        let share = (writes / most_writes).max(reads / most_reads);
        let at_rest = format!(
            "about {writes} of {most_writes} write units and {reads} of {most_reads} read units a second at rest, for {} that renew themselves",
            count(self.renewed, "record")
        );
        let (grade, remedy) = if share >= NEAR {
            (
                Grade::Warn,
                ": near the limit, beyond which calls are refused and leases lost; take longer ttls, or a new &namespace= with more &shards=",
            )
        } else {
            (Grade::Ok, "")
        };
        findings.add(grade, "partition", format!("{at_rest}{remedy}"));
        for (name, fleet) in &self.fleets {
            let Some(ttl) = fleet.ttl else { continue };
            let listing = fleet.listing() / shards;
            if listing <= interval(ttl) {
                continue;
            }
            let took = brief(Duration::from_secs_f64(listing));
            let (workers, units) = (count(fleet.workers, "worker"), count(fleet.units, "unit"));
            let text = format!(
                "fleet {}: to list its {workers} and {units} takes {took} of all that can be read, and a third of its ttl has {}: \
                 each change takes so long to be planned; take a longer ttl, or a new &namespace= with more &shards=",
                escaped(name),
                brief(ttl / 3)
            );
            findings.add(Grade::Warn, "partition", text);
        }
    }
}

impl FleetLoad {
    /// Read units a second at rest. Each worker that looks reads the board and the planner's session, at half the price. The watchers read all
    /// sessions: one by one at that price, or by pages at the full price of what these weigh, which each shard rounds up.
    fn reads(&self, shards: u16) -> f64 {
        let sessions = if self.workers > LARGE {
            self.sessions.div_ceil(READ).max(shards.into()) as f64
        } else {
            self.workers as f64 / 2.0
        };
        let reads = self.workers.min(LARGE) as f64 + WATCHERS * sessions;
        self.ttl.map_or(0.0, |ttl| reads / interval(ttl))
    }

    /// How many seconds one listing of all takes at the least.
    fn listing(&self) -> f64 {
        self.bytes.div_ceil(READ) as f64 / READS
    }
}

/// A third of a ttl, in seconds.
fn interval(ttl: Duration) -> f64 {
    ttl.as_secs_f64() / 3.0
}

#[cfg(test)]
mod tests {
    //! Plan: what rests costs little; many sessions of a short ttl, and many units, are told, with what to do; what is attached, or dead, or no
    //! fleet's, counts for what it is.
    use super::*;
    use tenure::store::{Record, Tenure};
    use tenure::{Fence, HolderId, Metadata, Ttl, Wall};

    fn stored(ttl: Option<u64>, bytes: usize) -> Stored {
        let ttl = ttl.map(|secs| Ttl::new(Duration::from_secs(secs)).unwrap());
        let tenure =
            ttl.map(|ttl| Tenure::new(Default::default(), HolderId::new("h").unwrap(), ttl, Wall(0)));
        let metadata = Metadata::from([("field".to_owned(), "x".repeat(bytes).as_str().into())]);
        Stored::new(Record { fence: Fence(1), nonce: Default::default(), stamp: Wall(0), tenure, metadata })
    }

    /// Told of a fleet of so many workers with this ttl, and so many units.
    fn told(workers: usize, ttl: u64, units: usize) -> Vec<(Grade, String)> {
        told_of(1, workers, ttl, units)
    }

    fn told_of(shards: u16, workers: usize, ttl: u64, units: usize) -> Vec<(Grade, String)> {
        let (mut load, mut findings) = (NamespaceLoad::new(shards), Findings::default());
        let key = |part: &str, n: usize| Key::new(format!("fleet/f/{part}/{n:06}")).unwrap();
        let (worker, unit) = (stored(Some(ttl), 100), stored(None, 100));
        (0..workers).for_each(|n| load.see(&key("worker", n), &worker, true));
        (0..units).for_each(|n| load.see(&key("unit", n), &unit, false));
        load.see(&key("worker", 999_999), &worker, false);
        load.tell(&mut findings);
        findings.told()
    }

    #[test]
    fn what_a_partition_has_to_do_is_told_by_workers_units_and_ttl() {
        // In 10/3 s: one write unit for each session. Of 30 workers, 30 × (1 + 3/2) read units; of 1,000, 32 for looks, and 3 × 72 for pages.
        for (workers, writes, reads) in [(30, 9, 23), (1000, 300, 73)] {
            let calm = told(workers, 10, 1000);
            assert_eq!(calm.len(), 1);
            let text = format!(
                "about {writes} of 1000 write units and {reads} of 3000 read units a second at rest, for {workers} records that renew themselves"
            );
            assert_eq!(calm[0], (Grade::Ok, text));
        }
        let mut empty = Findings::default();
        NamespaceLoad::new(1).tell(&mut empty);
        let empty = &empty.told()[0].1;
        assert!(empty.starts_with("about 0 of 1000 write units and 0 of 3000 read units"), "{empty}");
        let busy = told(2000, 10, 0);
        assert!(busy[0].0 == Grade::Warn && busy[0].1.starts_with("about 600 of 1000 write"), "{busy:?}");
        assert!(busy[0].1.contains("longer ttls") && busy[0].1.contains("&shards="), "{busy:?}");
        assert_eq!(told(2000, 60, 0)[0].0, Grade::Ok, "with a longer ttl");
        let spread = &told_of(16, 2000, 10, 0)[0];
        assert!(spread.0 == Grade::Ok && spread.1.starts_with("about 600 of 16000 write"), "{spread:?}");
    }

    #[test]
    fn a_fleet_whose_listing_takes_longer_than_an_interval_is_told() {
        let many = told(10, 2, 50_000);
        assert_eq!(many.len(), 2, "{many:?}");
        assert!(
            many[1].0 == Grade::Warn
                && many[1].1.contains("fleet f: to list its 10 workers and 50000 units takes"),
            "{many:?}"
        );
        assert_eq!(told(10, 30, 50_000).len(), 1, "with a longer ttl");
        assert_eq!(told_of(16, 10, 2, 50_000).len(), 1, "with more shards");
        assert_eq!(told(0, 2, 50_000).len(), 1, "nobody works there");
    }

    #[test]
    fn large_records_cost_more_and_what_is_attached_or_dead_costs_nothing() {
        let mut load = NamespaceLoad::new(1);
        let key = Key::new("k").unwrap();
        load.see(&key, &stored(Some(3), 1000), true);
        assert!((load.writes - 2.0).abs() < 1e-9, "{}", load.writes);
        let mut attached = stored(Some(3), 10);
        let tenure = attached.record.tenure.as_mut().unwrap();
        tenure.attachment =
            Some(tenure::store::Attachment { session: Key::new("s").unwrap(), fence: Fence(1) });
        load.see(&key, &attached, true);
        load.see(&key, &stored(Some(3), 10), false);
        load.see(&key, &stored(None, 10), false);
        assert_eq!((load.renewed, load.writes.round()), (1, 2.0));
    }
}
