//! For how long records were silent, by this host's own clock: what decides where the store tells no ages. Two hosts' wall clocks would take
//! the holder for dead whose clock is behind, and a dead one for alive.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tenure::store::Nonce;
use tenure::{Clock, Key};
use tenure_core::Tick;

/// How much of somebody's time is left.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TimeLeft {
    pub(crate) left: Duration,
    /// By two wall clocks none is left. Whether that is so shows once the record was watched for that long.
    pub(crate) is_doubtful: bool,
}

impl TimeLeft {
    pub(crate) const NONE: TimeLeft = TimeLeft { left: Duration::ZERO, is_doubtful: false };

    /// As somebody tells who knows: the store, or whoever has to be content with wall clocks.
    pub(crate) fn told(left: Duration) -> TimeLeft {
        TimeLeft { left, is_doubtful: false }
    }
}

/// Greater is what lasts longer, and what is sure lasts longer than what is doubtful.
impl Ord for TimeLeft {
    fn cmp(&self, other: &TimeLeft) -> Ordering {
        let order = |it: &TimeLeft| (!it.is_doubtful && !it.left.is_zero(), it.left, it.is_doubtful);
        order(self).cmp(&order(other))
    }
}

impl PartialOrd for TimeLeft {
    fn partial_cmp(&self, other: &TimeLeft) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// What was seen, and since when it is as it is.
pub(crate) struct Silences {
    clock: Arc<dyn Clock>,
    /// When the look began that goes on now.
    asked: Tick,
    records: BTreeMap<Key, SeenRecord>,
    /// The leases of sections, which nothing renews.
    entries: BTreeMap<Nonce, SeenEntry>,
}

impl fmt::Debug for Silences {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Silences").field("records", &self.records).finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Copy)]
struct SeenEntry {
    since: Tick,
    /// When the last look began that has seen it.
    asked: Tick,
}

#[derive(Debug, Clone, Copy)]
struct SeenRecord {
    /// Of the last renewal: letters and marks, which others write, leave it as it is.
    heartbeat: Nonce,
    /// It has changed since it was seen first.
    is_renewed: bool,
    seen: SeenEntry,
}

impl Silences {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Silences {
        let asked = clock.now().waited;
        Silences { clock, asked, records: BTreeMap::new(), entries: BTreeMap::new() }
    }

    /// What is read from now on is as it was now, or later. What the last look has not seen is forgotten.
    pub(crate) fn look_again(&mut self) {
        let last = self.asked;
        let is_seen = |seen: &SeenEntry| seen.asked == last;
        // A look that failed has seen nothing.
        if self.records.values().any(|record| is_seen(&record.seen)) || self.entries.values().any(is_seen) {
            self.records.retain(|_, record| is_seen(&record.seen));
            self.entries.retain(|_, entry| is_seen(entry));
        }
        self.asked = self.clock.now().waited;
    }

    /// What is left of a `ttl` to whoever last renewed a record, of which wall clocks say how much is left.
    pub(crate) fn left_of_record(
        &mut self,
        key: &Key,
        heartbeat: Nonce,
        ttl: Duration,
        by_wall: Duration,
    ) -> TimeLeft {
        let (asked, since) = (self.asked, self.clock.now().waited);
        let seen = SeenEntry { since, asked };
        let record =
            self.records.entry(key.clone()).or_insert(SeenRecord { heartbeat, is_renewed: false, seen });
        if record.heartbeat != heartbeat {
            *record = SeenRecord { heartbeat, is_renewed: true, seen };
        }
        record.seen.asked = asked;
        let is_doubtful = by_wall.is_zero() && !record.is_renewed;
        left(ttl, asked.since(record.seen.since), is_doubtful)
    }

    /// What is left to the lease of a range.
    pub(crate) fn left_of_entry(&mut self, id: Nonce, duration: Duration, by_wall: Duration) -> TimeLeft {
        let (asked, since) = (self.asked, self.clock.now().waited);
        let entry = self.entries.entry(id).or_insert(SeenEntry { since, asked });
        entry.asked = asked;
        left(duration, asked.since(entry.since), by_wall.is_zero())
    }
}

fn left(of: Duration, silence: Duration, is_doubtful: bool) -> TimeLeft {
    let left = of.saturating_sub(silence);
    TimeLeft { left, is_doubtful: is_doubtful && !left.is_zero() }
}

#[cfg(test)]
mod tests {
    //! Plan: silence counts from the answer that has shown a record first to the question of a later look; a change begins it anew, and ends
    //! all doubt; what is seen no more is forgotten.
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};
    use tenure::Wall;
    use tenure_core::Now;

    const TTL: Duration = Duration::from_secs(10);

    struct Hand(AtomicU64);

    impl Clock for Hand {
        fn now(&self) -> Now {
            let tick = Tick(self.0.load(Ordering::SeqCst) * 1_000_000_000);
            Now { held: tick, waited: tick, wall: Wall(0) }
        }
    }

    fn silences() -> (Silences, impl Fn(u64)) {
        let clock = Arc::new(Hand(AtomicU64::new(100)));
        let pass = {
            let clock = Arc::clone(&clock);
            move |seconds| {
                clock.0.fetch_add(seconds, Ordering::SeqCst);
            }
        };
        (Silences::new(clock), pass)
    }

    fn doubtful(seconds: u64) -> TimeLeft {
        TimeLeft { left: Duration::from_secs(seconds), is_doubtful: true }
    }

    #[test]
    fn who_is_dead_by_wall_clocks_is_dead_once_it_was_silent_for_its_ttl() {
        let (mut silences, pass) = silences();
        let key = Key::new("k").unwrap();
        let of = |silences: &mut Silences, heartbeat| {
            silences.left_of_record(&key, Nonce(heartbeat), TTL, Duration::ZERO)
        };
        // The answer takes a second, and that of the next look as well.
        pass(1);
        assert_eq!(of(&mut silences, 1), doubtful(10));
        pass(4);
        silences.look_again();
        pass(1);
        assert_eq!(of(&mut silences, 1), doubtful(6));
        pass(6);
        silences.look_again();
        assert_eq!(of(&mut silences, 1), TimeLeft::NONE);
        // It was renewed after all.
        assert_eq!(of(&mut silences, 2), TimeLeft::told(TTL));
        pass(9);
        silences.look_again();
        assert_eq!(of(&mut silences, 2), TimeLeft::told(Duration::from_secs(1)));
        // A look that fails is none.
        silences.look_again();
        pass(1);
        silences.look_again();
        assert_eq!(of(&mut silences, 2), TimeLeft::NONE);
        pass(1);
        silences.look_again();
        let another = Key::new("another").unwrap();
        silences.left_of_record(&another, Nonce(1), TTL, TTL);
        pass(1);
        silences.look_again();
        assert_eq!(of(&mut silences, 2), doubtful(10), "it was forgotten meanwhile");
    }

    #[test]
    fn who_is_alive_by_wall_clocks_is_dead_once_it_was_silent_for_its_ttl() {
        let (mut silences, pass) = silences();
        let key = Key::new("k").unwrap();
        let of = |silences: &mut Silences| silences.left_of_record(&key, Nonce(1), TTL, TTL * 100);
        assert_eq!(of(&mut silences), TimeLeft::told(TTL));
        pass(10);
        silences.look_again();
        assert_eq!(of(&mut silences), TimeLeft::NONE);
    }

    #[test]
    fn the_lease_of_a_range_counts_from_when_it_was_seen_first_whoever_writes_the_section() {
        let (mut silences, pass) = silences();
        let of = |silences: &mut Silences| silences.left_of_entry(Nonce(1), TTL, Duration::ZERO);
        assert_eq!(of(&mut silences), doubtful(10));
        pass(9);
        silences.look_again();
        assert_eq!(of(&mut silences), doubtful(1));
        pass(1);
        silences.look_again();
        assert_eq!(of(&mut silences), TimeLeft::NONE);
    }
}
