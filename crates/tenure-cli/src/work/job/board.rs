//! The board: this process's snapshot of all units of the job. It may be out of date; only a claim tells for certain.

mod known;
mod local;
mod resting;

use super::unit::{Status, Unit};
use known::KnownUnit;
pub(crate) use local::Local;
pub(crate) use resting::RestingUnits;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tenure::store::{Attachment, Listed, Stored};
use tenure::{Fence, Key, Metadata};

/// A unit that may be had.
#[derive(Debug)]
pub(crate) struct Candidate {
    pub(crate) key: Key,
    pub(crate) seen: Box<Stored>,
    /// Someone holds it, who may be dead: the attempt is a probe.
    pub(crate) probe: bool,
}

/// How many units are where.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnitCounts {
    pub(crate) open: usize,
    pub(crate) ours: usize,
    pub(crate) done: usize,
    pub(crate) failed: usize,
    /// With those that a newer version may read.
    pub(crate) damaged: usize,
    pub(crate) gone: usize,
}

impl UnitCounts {
    pub(crate) fn total(self) -> usize {
        self.open + self.ours + self.done + self.failed + self.damaged
    }

    /// Units that need nothing more.
    pub(crate) fn settled(self) -> usize {
        self.done + self.failed + self.damaged
    }

    fn of(&mut self, local: Local) -> &mut usize {
        match local {
            Local::Open => &mut self.open,
            Local::Ours => &mut self.ours,
            Local::Done => &mut self.done,
            Local::Failed => &mut self.failed,
            Local::Damaged | Local::Newer => &mut self.damaged,
            Local::Gone => &mut self.gone,
        }
    }
}

/// All units, in the order of their keys.
#[derive(Debug, Default)]
pub(crate) struct Board {
    units: Vec<KnownUnit>,
    counts: UnitCounts,
    /// Those that wait for their next attempt, as this round shows them.
    resting: RestingUnits,
    /// The same of the last whole round.
    rested: RestingUnits,
    /// Units that one page holds.
    page: usize,
    /// Pages to look at in this round.
    todo: VecDeque<usize>,
    /// The page that is asked for: after which key, and how many records. None once units were added since.
    asked: Option<(Option<Key>, usize)>,
    pub(crate) candidates: VecDeque<Candidate>,
    /// One unit for each session that holds others: who holds one of a dead session's units can have them all.
    probes: BTreeMap<Key, Candidate>,
    /// Sessions that a probe has found to be dead, by their fence: what is attached to them is free.
    dead: BTreeMap<Key, Fence>,
    /// Units seen on the store that were not known before.
    news: Vec<(Key, Local)>,
    /// Units that failed, or were damaged, before this process came, and which it was not given.
    bygone: BTreeSet<Key>,
}

/// What is known beside a record about whether to take it now.
pub(crate) struct ClaimTerms<'a> {
    /// Unix milliseconds.
    pub(crate) now: u64,
    /// A unit that failed here waits half as long again, so that another process may try it first.
    pub(crate) worker: &'a str,
}

impl ClaimTerms<'_> {
    /// When a unit's next attempt is due, which is not before its time; none if that has come. `stamp`: when its record was written, for
    /// one that does not tell when it was run.
    fn due(&self, unit: &Unit, metadata: &Metadata, stamp: u64) -> Option<u64> {
        let failed_here = unit.worker.as_deref() == Some(self.worker);
        let recorded = Some(Unit::finished(metadata)).filter(|at| *at > 0).unwrap_or(stamp);
        let wait = unit.not_before.saturating_sub(recorded);
        let due = unit.not_before.saturating_add(if failed_here { wait / 2 } else { 0 });
        // No clock decides for ever: who waits for longer than was asked for has a clock that is off.
        (due > self.now && due - self.now <= wait.saturating_mul(2)).then_some(due)
    }

    /// Where a unit stands that this process has claimed, by its record as it was then. What was seen of it before may be out of date.
    pub(crate) fn claimed(&self, key: &Key, metadata: &Metadata) -> Local {
        match Unit::of(metadata) {
            Some(unit) if unit.status == Status::Done => Local::Done,
            Some(unit) if unit.status != Status::Pending => Local::Failed,
            // Its record was made anew by somebody who did not know.
            Some(_) if Unit::name(key, metadata).is_none() => Local::Damaged,
            // It has failed meanwhile.
            Some(unit) if self.due(&unit, metadata, self.now).is_some() => Local::Open,
            Some(_) => Local::Ours,
            None => Local::of_odd(key, metadata),
        }
    }
}

impl Board {
    /// Notes a unit that was not known; it is there once that is merged.
    pub(crate) fn note_new(&mut self, key: Key, local: Local) {
        self.news.push((key, local));
    }

    /// What failed before is not held against this process, but for what it was given.
    pub(crate) fn forgive(&mut self, is_given: impl Fn(&Key) -> bool) {
        let is_bad = |local| matches!(local, Local::Failed | Local::Damaged | Local::Newer);
        let bad = self.units.iter().filter(|unit| is_bad(unit.local));
        self.bygone = bad.map(|unit| unit.key.clone()).filter(|key| !is_given(key)).collect();
    }

    /// This process was given that one, too.
    pub(crate) fn is_given(&mut self, key: &Key) {
        self.bygone.remove(key);
    }

    /// Adds units, with what stands in their records.
    pub(crate) fn add(&mut self, units: impl Iterator<Item = (Key, Stored)>) {
        self.news.extend(units.map(|(key, stored)| {
            let local = Local::of(&key, &Ok(stored));
            (key, local)
        }));
        self.merge();
    }

    /// How many units have failed, are damaged, or were removed before they were settled, and were not forgiven.
    pub(crate) fn bad(&self) -> usize {
        self.counts.failed + self.counts.damaged + self.counts.gone - self.bygone.len()
    }

    /// How many were forgiven.
    pub(crate) fn bygone(&self) -> usize {
        self.bygone.len()
    }

    pub(crate) fn counts(&self) -> UnitCounts {
        self.counts
    }

    /// When the first of the units that wait for their next attempt is due, as far as this round has shown.
    pub(crate) fn next_due(&self) -> Option<u64> {
        self.resting.due
    }

    /// Those that wait for their next attempt.
    pub(crate) fn resting(&self) -> RestingUnits {
        // What has been settled since is none of them.
        RestingUnits { count: self.rested.count.min(self.counts.open), ..self.rested }
    }

    fn find(&self, key: &Key) -> Option<usize> {
        self.units.binary_search_by(|unit| unit.key.cmp(key)).ok()
    }

    /// Where that unit stands; none if nothing is known of it.
    pub(crate) fn local(&self, key: &Key) -> Option<Local> {
        self.find(key).and_then(|index| self.units.get(index)).map(|unit| unit.local)
    }

    /// What is known to be free, in the order in which it is to be tried before anything is looked at.
    pub(crate) fn try_first(&mut self, candidates: impl Iterator<Item = (Key, Stored)>) {
        let candidate = |(key, seen)| Candidate { key, seen: Box::new(seen), probe: false };
        self.candidates.extend(candidates.map(candidate));
    }

    pub(crate) fn keys(&self, of: Local) -> impl Iterator<Item = &Key> {
        self.units.iter().filter(move |unit| unit.local == of).map(|unit| &unit.key)
    }

    /// Those whose records are not read, and whether a newer version may read each.
    pub(crate) fn unread(&self) -> impl Iterator<Item = (&Key, bool)> {
        let unread = self.units.iter().filter(|unit| matches!(unit.local, Local::Damaged | Local::Newer));
        unread.map(|unit| (&unit.key, unit.local == Local::Newer))
    }

    pub(crate) fn set(&mut self, key: &Key, to: Local) {
        let index = self.find(key);
        if let Some(unit) = index.and_then(|index| self.units.get_mut(index)) {
            *self.counts.of(unit.local) -= 1;
            *self.counts.of(to) += 1;
            if unit.local != to {
                self.bygone.remove(key);
            }
            unit.local = to;
            unit.is_unshown = false;
            // A claim may be in vain.
            unit.is_others &= to == Local::Ours;
        }
    }

    /// This process has it.
    pub(crate) fn won(&mut self, key: &Key) {
        self.set_others(key, false);
    }

    /// Somebody else has that one.
    pub(crate) fn leave_to_others(&mut self, key: &Key) {
        self.set(key, Local::Open);
        self.set_others(key, true);
    }

    fn set_others(&mut self, key: &Key, is_others: bool) {
        let index = self.find(key);
        if let Some(unit) = index.and_then(|index| self.units.get_mut(index)) {
            unit.is_others = is_others;
        }
    }

    /// Whether somebody else had that one when it was seen last.
    pub(crate) fn is_others(&self, key: &Key) -> bool {
        self.find(key).and_then(|index| self.units.get(index)).is_some_and(KnownUnit::is_with_others)
    }

    /// All of those.
    pub(crate) fn others(&self) -> impl Iterator<Item = &Key> {
        self.units.iter().filter(|unit| unit.is_with_others()).map(|unit| &unit.key)
    }

    /// Takes up units that were seen for the first time; false if there were none.
    pub(crate) fn merge(&mut self) -> bool {
        if self.news.is_empty() {
            return false;
        }
        let news = std::mem::take(&mut self.news).into_iter();
        self.units.extend(news.map(|(key, local)| KnownUnit {
            key,
            local,
            is_unshown: false,
            is_others: false,
        }));
        self.units.sort_by(|a, b| a.key.cmp(&b.key));
        self.units.dedup_by(|a, b| a.key == b.key);
        self.counts = UnitCounts::default();
        for unit in &self.units {
            *self.counts.of(unit.local) += 1;
        }
        self.asked = None;
        // Few enough pages to be cheap, enough of them for many processes to keep out of each other's way.
        self.page = (self.units.len() / 64).clamp(16, 256);
        true
    }

    /// Begins a round: every page with an open unit, in an order that differs between processes.
    pub(crate) fn begin_round(&mut self, mut seed: u64) {
        self.resting = RestingUnits::default();
        self.probes.clear();
        let mut pages: Vec<usize> = self
            .units
            .chunks(self.page.max(1))
            .enumerate()
            .filter(|(_, units)| units.iter().any(|unit| unit.local == Local::Open))
            .map(|(page, _)| page)
            .collect();
        for n in (1..pages.len()).rev() {
            // Knuth's linear congruential generator for 64 bits; only the spread matters.
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let other = usize::try_from((seed >> 33) % (n as u64 + 1)).unwrap_or(0);
            pages.swap(n, other);
        }
        self.todo = pages.into();
    }

    /// The next page of this round: after which key to list, and how many records.
    pub(crate) fn next_page(&mut self) -> Option<(Option<Key>, usize)> {
        let page = self.todo.pop_front()?;
        let after = (page * self.page)
            .checked_sub(1)
            .and_then(|before| self.units.get(before))
            .map(|unit| unit.key.clone());
        self.asked = Some((after.clone(), self.page));
        Some((after, self.page))
    }

    pub(crate) fn is_round_over(&self) -> bool {
        self.todo.is_empty()
    }

    /// The next unit that stands for those which one holder has.
    pub(crate) fn next_probe(&mut self) -> Option<Candidate> {
        self.probes.pop_first().map(|(_, candidate)| candidate)
    }

    /// A unit that was attached to `attachment` was had, so the session is dead.
    pub(crate) fn bury(&mut self, attachment: Attachment) {
        self.dead.insert(attachment.session, attachment.fence);
    }

    /// Takes in a page of records: what is free becomes a candidate. `spread` makes processes begin at different places. False if the
    /// page lacks a unit that was taken for an open one.
    pub(crate) fn take_in(&mut self, listing: Vec<Listed>, terms: &ClaimTerms<'_>, spread: u64) -> bool {
        let is_whole = !self.is_lacking(&listing);
        let before = self.candidates.len();
        for listed in listing {
            let open = self.note(&listed);
            if let (true, Ok(stored)) = (open, listed.stored) {
                self.sort(listed.key, stored, terms);
            }
        }
        if let Some(new) = self.candidates.make_contiguous().get_mut(before..) {
            new.rotate_left(usize::try_from(spread % (new.len() as u64).max(1)).unwrap_or(0));
        }
        if self.is_round_over() {
            self.rested = self.resting;
        }
        is_whole
    }

    /// Whether an open unit is missing in the page that was asked for.
    fn is_lacking(&mut self, page: &[Listed]) -> bool {
        let Some((after, limit)) = self.asked.take() else { return false };
        let up_to = |key: &Key| self.units.partition_point(|unit| unit.key <= *key);
        let first = after.as_ref().map_or(0, up_to);
        // Fewer than were asked for are all that follow.
        let end =
            page.last().filter(|_| page.len() >= limit).map_or(self.units.len(), |last| up_to(&last.key));
        let is_shown = |key: &Key| page.binary_search_by(|listed| listed.key.cmp(key)).is_ok();
        let mut of_page = self.units.get(first..end).unwrap_or_default().iter();
        of_page.any(|unit| unit.local == Local::Open && !is_shown(&unit.key))
    }

    /// A listing of all units begins. It is to show those that are open now; of others that may come meanwhile it tells nothing.
    pub(crate) fn begin_listing(&mut self) {
        for unit in &mut self.units {
            unit.is_unshown = unit.local == Local::Open;
        }
    }

    /// The listing has come to its end: what it should have shown, and has not, was removed.
    pub(crate) fn end_listing(&mut self) {
        for unit in self.units.iter_mut().filter(|unit| unit.is_unshown) {
            unit.is_unshown = false;
            unit.local = Local::Gone;
            self.counts.open -= 1;
            self.counts.gone += 1;
        }
    }

    /// Takes in where units stand, and nothing more. True if there are some that were not known.
    pub(crate) fn refresh(&mut self, listing: &[Listed]) -> bool {
        for listed in listing {
            self.note(listed);
        }
        !self.news.is_empty()
    }

    /// True if the unit is open and not ours.
    fn note(&mut self, listed: &Listed) -> bool {
        let now_is = Local::of(&listed.key, &listed.stored);
        let Some(index) = self.find(&listed.key) else {
            self.news.push((listed.key.clone(), now_is));
            return false;
        };
        match self.units.get_mut(index) {
            Some(unit) if unit.local != Local::Ours => {
                *self.counts.of(unit.local) -= 1;
                *self.counts.of(now_is) += 1;
                if unit.local != now_is {
                    self.bygone.remove(&listed.key);
                }
                unit.local = now_is;
                unit.is_unshown = false;
                unit.is_others = listed.stored.as_ref().is_ok_and(|stored| stored.record.tenure.is_some());
                now_is == Local::Open
            }
            _ => false,
        }
    }

    fn sort(&mut self, key: Key, seen: Stored, terms: &ClaimTerms<'_>) {
        let Some(unit) = Unit::of(&seen.record.metadata) else { return };
        if let Some(due) = terms.due(&unit, &seen.record.metadata, seen.record.stamp.0) {
            self.resting.add(due);
            return;
        }
        let attachment = seen.record.tenure.as_ref().and_then(|tenure| tenure.attachment.as_ref());
        if attachment.is_some_and(|attachment| self.dead.get(&attachment.session) >= Some(&attachment.fence))
        {
            self.candidates.push_back(Candidate { key, probe: true, seen: Box::new(seen) });
            return;
        }
        let holder = seen.record.tenure.as_ref();
        let holder = holder.map(|tenure| {
            tenure.attachment.as_ref().map_or_else(|| key.clone(), |attachment| attachment.session.clone())
        });
        let candidate = Candidate { key, probe: holder.is_some(), seen: Box::new(seen) };
        match holder {
            None => self.candidates.push_back(candidate),
            Some(holder) => {
                self.probes.entry(holder).or_insert(candidate);
            }
        }
    }

    /// Forgets what is left of the present page: another process is at work there. It is looked at again in the next round.
    pub(crate) fn drop_page(&mut self) {
        self.candidates.clear();
    }

    /// Forgets everything that was found: it is found again in the next round.
    pub(crate) fn drop_candidates(&mut self) {
        self.candidates.clear();
        self.todo.clear();
    }
}

#[cfg(test)]
mod tests;
