//! Who may take what: the peers' own rule, without I/O and without a clock.
//!
//! A row is free when nobody has it, or when its counter has not changed for a full failover time that this worker itself has
//! watched. Each worker wants its even share, of what is free first; only if nothing is free does it steal from the worker that
//! has most. What stays free although each worker had the time to take its share is free because others may take no more: whoever
//! may takes it, beyond its share. What may have been stolen from one who does not know yet can be taken at once, and is believed in later. A shard that was
//! read to its end, or whose parents were not, is no work.

use super::row::Row;
use super::shards::OpenShards;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tenure_core::Tick;
use tenure_store::parts::SplitMix64;

/// After so many failover times what is free is anybody's, whatever its share. So it is for the KCL's workers. Theirs look each two.
const LEFT_OVER_AFTER: u32 = 3;

/// Since when each row has been as it is, as far as this worker has seen.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct RowWatch {
    seen: BTreeMap<String, SeenRow>,
    /// Rows that were deleted, or made anew, after somebody had had them: when that was seen. Whoever had such a row believes in
    /// it until its next renewal, and the new row doesn't tell.
    remade: BTreeMap<String, Tick>,
}

#[derive(Debug, Clone, PartialEq)]
struct SeenRow {
    row: Row,
    /// No earlier than the end of the read that first showed it so, on the waiter's time line.
    since: Tick,
}

impl RowWatch {
    /// Notes what a read that has ended by `now` has shown. Whose leases were renewed since the last one.
    pub(crate) fn look(&mut self, now: Tick, rows: &[Row]) -> BTreeSet<String> {
        let (mut earlier, mut alive) = (std::mem::take(&mut self.seen), BTreeSet::new());
        for row in rows {
            let since = match earlier.remove(row.key()) {
                // An eviction by a8m/lease leaves the counter alone; but then nobody has the row.
                Some(seen) if seen.row.is_same(row) => seen.since,
                Some(seen) => {
                    alive.extend(row.holder().filter(|by| seen.row.holder() == Some(by)).map(str::to_owned));
                    self.doubt(now, &seen.row, Some(row));
                    now
                }
                None => now,
            };
            self.seen.insert(row.key().to_owned(), SeenRow { row: row.clone(), since });
        }
        for gone in earlier.into_values() {
            self.doubt(now, &gone.row, None);
        }
        alive
    }

    /// Notes whether what stood there was deleted after somebody had had it.
    fn doubt(&mut self, now: Tick, before: &Row, row: Option<&Row>) {
        if !before.was_never_taken() && row.is_none_or(Row::was_never_taken) {
            self.remade.insert(before.key().to_owned(), now);
        }
    }

    /// Forgets what nobody can believe in any more.
    pub(crate) fn forget(&mut self, now: Tick, failover: Duration) {
        self.remade.retain(|_, since| now < since.after(failover));
    }

    /// Whether somebody may still believe in an earlier row of that name.
    fn is_doubtful(&self, now: Tick, key: &str, failover: Duration) -> bool {
        self.remade.get(key).is_some_and(|since| now < since.after(failover))
    }

    /// Whether nobody has the row, nor can believe to, as far as the row and what was seen of it tell.
    pub(crate) fn is_surely_free(&self, now: Tick, row: &Row, failover: Duration) -> bool {
        row.is_surely_free() && !self.is_doubtful(now, row.key(), failover)
    }

    /// Notes what a read of one row that has ended by `now` has shown.
    pub(crate) fn see(&mut self, now: Tick, row: &Row) {
        let earlier = self.seen.get(row.key()).cloned();
        let since = match &earlier {
            Some(seen) if seen.row.is_same(row) => seen.since,
            _ => now,
        };
        if let Some(seen) = earlier {
            self.doubt(now, &seen.row, Some(row));
        }
        self.seen.insert(row.key().to_owned(), SeenRow { row: row.clone(), since });
    }

    #[cfg(test)]
    pub(crate) fn has_seen_held(&self, key: &str) -> bool {
        self.seen.get(key).is_some_and(|seen| seen.row.holder().is_some())
    }

    /// When `row` will have been silent for that long.
    pub(crate) fn silent_at(&self, row: &Row, failover: Duration) -> Option<Tick> {
        let seen = self.seen.get(row.key()).filter(|seen| seen.row.is_same(row))?;
        Some(seen.since.after(failover))
    }

    /// When the next of the rows that others have will have been silent for that long, if nothing happens.
    pub(crate) fn next_silence(
        &self,
        now: Tick,
        failover: Duration,
        held: &BTreeSet<String>,
    ) -> Option<Tick> {
        let theirs = self.seen.values().filter(|seen| seen.row.holder().is_some());
        let theirs = theirs.filter(|seen| !held.contains(seen.row.key()));
        theirs.map(|seen| seen.since.after(failover)).filter(|at| *at > now).min()
    }
}

/// Why a row may be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TakeReason {
    /// Nobody has it, nor can believe to.
    Free,
    /// Nobody has it. Somebody from whom it was stolen before, or whose row was deleted, may not know yet.
    Evicted,
    /// Whoever has it was silent for too long.
    Expired,
    /// Whoever has it has too many.
    Stolen,
}

impl TakeReason {
    /// Whether somebody who doesn't know yet may believe in it.
    pub(crate) fn may_be_believed(self) -> bool {
        matches!(self, TakeReason::Evicted | TakeReason::Stolen)
    }
}

/// What one worker knows when it chooses.
#[derive(Debug)]
pub(crate) struct TakerView<'v> {
    pub(crate) me: &'v str,
    /// What this worker holds, or is about to.
    pub(crate) held: &'v BTreeSet<String>,
    pub(crate) rows: &'v [Row],
    /// The names of rows that can't be read.
    pub(crate) unreadable: &'v [String],
    /// Rows whose takes the table has refused a while ago, in words that don't pass: they hold up nothing else.
    pub(crate) refused: &'v BTreeMap<String, Tick>,
    pub(crate) watch: &'v RowWatch,
    pub(crate) now: Tick,
    pub(crate) failover: Duration,
    pub(crate) most: usize,
    pub(crate) steal: usize,
    /// Rows may be shards of a stream.
    pub(crate) shards: bool,
}

impl TakerView<'_> {
    /// Why the row can be had without stealing it, if it can.
    fn availability(&self, row: &Row) -> Option<TakeReason> {
        if self.watch.is_surely_free(self.now, row, self.failover) {
            return Some(TakeReason::Free);
        }
        let is_silent = self.watch.silent_at(row, self.failover).is_some_and(|at| self.now >= at);
        match row.holder() {
            None => Some(if is_silent { TakeReason::Free } else { TakeReason::Evicted }),
            Some(_) => is_silent.then_some(TakeReason::Expired),
        }
    }

    /// Whether whoever takes its share had the time to take it, as far as this worker has seen.
    fn is_left_over(&self, row: &Row) -> bool {
        let at = self.watch.silent_at(row, self.failover.saturating_mul(LEFT_OVER_AFTER));
        at.is_some_and(|at| self.now >= at)
    }

    /// What to take now. `lots` decides among equals.
    pub(crate) fn choose(&self, lots: u64) -> Vec<(Row, TakeReason)> {
        let mut lots = SplitMix64::new(lots);
        let mut available = Vec::new();
        let mut of_others: BTreeMap<&str, Vec<&Row>> = BTreeMap::new();
        let (mut left, mut idle) = (0, 0);
        let open = self.shards.then(|| OpenShards::of(self.rows, self.unreadable));
        let gives_no_work = |row: &Row| open.as_ref().is_some_and(|open| open.gives_no_work(row));
        for row in self.rows.iter().filter(|row| !self.held.contains(row.key())) {
            match (self.availability(row), row.owner().or_else(|| row.holder())) {
                // Nobody's share: it is work for nobody.
                (Some(_), _) if gives_no_work(row) => idle += 1,
                (Some(_), _) if self.refused.contains_key(row.key()) => {}
                (Some(why), _) => available.push((row, why)),
                (None, Some(owner)) if owner != self.me => of_others.entry(owner).or_default().push(row),
                // An earlier start of the same name had it, or this one before it stood still: it isn't ours before it is silent,
                // but will be then.
                (None, _) => left += 1,
            }
        }
        let mine = self.held.len() + left;
        let workers = of_others.len() + 1;
        let target = (self.rows.len() - idle).div_ceil(workers).min(self.most);
        let needed = target.saturating_sub(mine);
        if !available.is_empty() || needed == 0 {
            lots.shuffle(&mut available);
            let (mut taken, others): (Vec<_>, Vec<_>) =
                available.into_iter().partition(|(row, _)| self.is_left_over(row));
            // The maximum bounds all that is taken, and the share what others may still take.
            taken.truncate(self.most.saturating_sub(mine));
            let wanting = needed.saturating_sub(taken.len());
            taken.extend(others.into_iter().take(wanting));
            return taken.into_iter().map(|(row, why)| (row.clone(), why)).collect();
        }
        // One that is being handed over goes its own way.
        let is_moved = |row: &&Row| {
            row.handing_over().is_none() && !gives_no_work(row) && !self.refused.contains_key(row.key())
        };
        of_others.retain(|_, rows| rows.iter().any(is_moved));
        let Some(most) = of_others.values().map(Vec::len).max() else { return Vec::new() };
        let mut victims: Vec<Vec<&Row>> = of_others.into_values().filter(|rows| rows.len() == most).collect();
        lots.shuffle(&mut victims);
        let victim = victims.into_iter().next().unwrap_or_default();
        let mut rows: Vec<&Row> = victim.into_iter().filter(is_moved).collect();
        lots.shuffle(&mut rows);
        let over = most.saturating_sub(target);
        // Where all others have their share exactly and two are wanting here, one of theirs is too much.
        let count = if over == 0 && most >= target && needed > 1 { 1 } else { needed.min(over) };
        rows.into_iter().take(count.min(self.steal)).map(|row| (row.clone(), TakeReason::Stolen)).collect()
    }
}

#[cfg(test)]
mod tests;
