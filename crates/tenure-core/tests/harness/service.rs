//! A service that does only so much for one partition key in a second, as DynamoDB does, and refuses the rest; and how production's driver
//! goes about that: a worker asks for less at a time once it was refused, and a refused call keeps its place for a while.

use super::bill::{Units, Weigh};
use super::{Happens, Harness};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use tenure_core::concurrency::{Completion, ConcurrencyLimit, Launch};
use tenure_core::op::{Answer, Op, OpId, Request};
use tenure_core::{StoreError, Tick};

/// A failed call keeps its place for so much of the time that it had.
const REST: u32 = 16;

/// What is done for a shard in a second.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub reads: u64,
    pub writes: u64,
    /// So many seconds' worth is kept of what was not used.
    pub kept: u64,
}

impl Limits {
    /// Those of one of DynamoDB's partition keys, with the credit that is not promised: 300 seconds; or without it.
    pub fn of_dynamodb(credit: bool) -> Limits {
        Limits { reads: 3_000, writes: 1_000, kept: if credit { 300 } else { 1 } }
    }
}

/// What is left for a shard, in millionths of halves of read units and of write units. A call that begins while something is left is done.
#[derive(Debug, Clone, Copy)]
struct Left {
    half_reads: i128,
    writes: i128,
    at: Tick,
}

#[derive(Default)]
struct Flights {
    limit: ConcurrencyLimit,
    /// How many of those under way had to wait for their turn.
    ordinary: usize,
    waiting: VecDeque<Request>,
    under_way: BTreeMap<OpId, Flight>,
}

struct Flight {
    launch: Launch,
    waits: bool,
    sent: Tick,
    timeout: Duration,
}

pub struct Service {
    limits: Limits,
    left: BTreeMap<u64, Left>,
    flights: BTreeMap<usize, Flights>,
    /// How many calls were refused.
    pub refused: u64,
}

impl Service {
    fn new(limits: Limits) -> Service {
        Service { limits, left: BTreeMap::new(), flights: BTreeMap::new(), refused: 0 }
    }

    /// Whether all of these shards have something left; then it is taken.
    pub(super) fn admits(&mut self, now: Tick, asked: &[(u64, Units)]) -> bool {
        const MILLION: i128 = 1_000_000;
        let Limits { reads, writes, kept } = self.limits;
        let most = |a_second: u64| i128::from(a_second * kept) * MILLION;
        for (shard, _) in asked {
            let full = Left { half_reads: most(2 * reads), writes: most(writes), at: now };
            let left = self.left.entry(*shard).or_insert(full);
            let micros = now.since(left.at).as_micros() as i128;
            left.half_reads = (left.half_reads + micros * i128::from(2 * reads)).min(full.half_reads);
            left.writes = (left.writes + micros * i128::from(writes)).min(full.writes);
            left.at = now;
        }
        let has = |(shard, units): &(u64, Units)| {
            let left = self.left[shard];
            (units.half_reads == 0 || left.half_reads > 0) && (units.writes == 0 || left.writes > 0)
        };
        let admitted = asked.iter().all(has);
        for (shard, units) in asked.iter().filter(|_| admitted) {
            if let Some(left) = self.left.get_mut(shard) {
                left.half_reads -= i128::from(units.half_reads) * MILLION;
                left.writes -= i128::from(units.writes) * MILLION;
            }
        }
        self.refused += u64::from(!admitted);
        admitted
    }
}

impl Harness {
    /// From here on, all is counted, and what is too much is refused.
    pub fn limit(&mut self, weigh: Weigh, shards: u64, limits: Limits) {
        self.bill(weigh, shards);
        self.service = Some(Service::new(limits));
    }

    fn flights(&mut self, index: usize) -> Option<&mut Flights> {
        Some(self.service.as_mut()?.flights.entry(index).or_default())
    }

    /// Whether a request may set out at once; then it does.
    pub(super) fn has_place(&mut self, index: usize, request: &Request) -> bool {
        let now = self.t;
        let Some(flights) = self.flights(index) else { return true };
        let waits = !request.urgent && !matches!(request.op, Op::List { .. });
        if waits && !flights.limit.has_room(flights.ordinary) {
            return false;
        }
        let launch = flights.limit.launch(flights.ordinary);
        flights.ordinary += usize::from(waits);
        flights.under_way.insert(request.id, Flight { launch, waits, sent: now, timeout: request.timeout });
        true
    }

    pub(super) fn wait_for_place(&mut self, index: usize, request: Request) {
        if let Some(flights) = self.flights(index) {
            flights.waiting.push_back(request);
        }
    }

    /// An answer has come.
    pub(super) fn land(&mut self, index: usize, id: OpId, result: &Result<Answer, StoreError>) {
        let now = self.t;
        let Some(flights) = self.flights(index) else { return };
        let Some(Flight { launch, waits, sent, timeout }) = flights.under_way.remove(&id) else { return };
        let took = now.since(sent);
        match result {
            Err(error) if error.is_passing() => {
                flights.limit.landed(launch, Completion::Failed);
                if waits {
                    let rest = (timeout / REST).saturating_sub(took);
                    return self.at(now.after(rest), Happens::PlaceFree(index));
                }
            }
            _ if !waits => flights.limit.saw(took),
            _ => flights.limit.landed(launch, Completion::Answered { took, of: timeout }),
        }
        flights.ordinary -= usize::from(waits);
    }

    pub(super) fn free_place(&mut self, index: usize) {
        if let Some(flights) = self.flights(index) {
            flights.ordinary -= 1;
        }
        self.launch_waiting(index);
    }

    pub(super) fn launch_waiting(&mut self, index: usize) {
        while let Some(flights) = self.flights(index)
            && flights.limit.has_room(flights.ordinary)
            && let Some(request) = flights.waiting.pop_front()
        {
            self.ask(index, request);
        }
    }
}
