//! The next write of a section: how it changes the record.

use super::{SectionInFlight, SectionMachine, SeenSection};
use crate::LeaseId;
use crate::bugs::Bug;
use crate::op::{Expect, Op, OpId, Write};
use crate::range::{KeyRange, RangeSet};
use crate::section::job::{Asker, SectionJob, Try};
use crate::section::ledger::{Entry, SectionLedger};
use crate::section::since::Since;
use crate::section::watch::RecordLook;
use crate::section::{Portion, SectionNotice};
use crate::values::error::StoreError;
use crate::values::fence::{Fence, Nonce, Nonces, Version};
use crate::values::record::Record;
use crate::values::time::{Now, Ttl};

/// A ledger to be written, and what that is good for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct LedgerPlan {
    pub(super) ledger: SectionLedger,
    pub(super) fence: Fence,
    /// Entries that are new.
    pub(super) granted: Vec<(LeaseId, Nonce)>,
    /// Entries of ours that are gone.
    pub(super) released: Vec<LeaseId>,
    pub(super) collected: usize,
    /// What was known of the store's clock.
    pub(super) look: RecordLook,
}

/// A lease that is wanted.
struct RangeWish {
    lease: LeaseId,
    desired: RangeSet,
    duration: Ttl,
    portion: Portion,
    is_fresh: bool,
}

impl SectionMachine {
    /// Does the next thing, if there is something to do and nothing under way.
    pub(super) fn go_on(&mut self, now: Now) {
        // Nobody waits for what was refused before.
        if self.is_awaited() {
            self.backoff.try_again();
        }
        if self.flight.is_some() || self.backoff.holds(now) {
            return;
        }
        self.settle(now);
        if !self.has_work() {
            return;
        }
        let Some(seen) = self.seen.take() else { return self.read(now) };
        self.plan(now, seen);
    }

    /// Finishes what the record as last seen decides by itself.
    fn settle(&mut self, now: Now) {
        let Some(seen) = self.seen.take() else { return };
        let leases: Vec<LeaseId> =
            self.jobs.iter().filter(|(_, job)| job.is_work()).map(|(lease, _)| *lease).collect();
        for lease in leases {
            let Some(job) = self.jobs.remove(&lease) else { continue };
            match job {
                SectionJob::Wanted(mut wanted) => {
                    let landed = wanted.tries.iter().find(|attempt| seen.ledger.has(attempt.id)).cloned();
                    if let Some(attempt) = landed {
                        self.landed(now, lease, &wanted, &attempt, &seen.ledger, Some(&seen.look));
                        continue;
                    }
                    wanted.tries.retain(|attempt| attempt.over == seen.version);
                    match wanted.asker {
                        Asker::Gave if wanted.tries.is_empty() => {
                            self.tell(SectionNotice::Released(lease, false))
                        }
                        Asker::Gone if wanted.tries.is_empty() => {}
                        _ => drop(self.jobs.insert(lease, SectionJob::Wanted(wanted))),
                    }
                }
                SectionJob::Giving { id, tried, told, .. }
                    if !seen.ledger.has(id) && !self.has(Bug::ReleaseOfAnother) =>
                {
                    if !told {
                        self.tell(SectionNotice::Released(lease, tried));
                    }
                }
                SectionJob::Listing { born, .. } if seen.op > born => {
                    self.tell(SectionNotice::Listed(lease, seen.ledger.entries.clone()));
                }
                job => drop(self.jobs.insert(lease, job)),
            }
        }
        self.seen = Some(seen);
    }

    /// Writes what can be written, or looks again if what was seen may be out of date.
    fn plan(&mut self, now: Now, seen: SeenSection) {
        let SeenSection { ledger, fence, version, look, is_set_back, op } = seen;
        let waited = look.waited(now);
        let mut plan = LedgerPlan {
            ledger: SectionLedger::default(),
            fence,
            granted: Vec::new(),
            released: Vec::new(),
            collected: 0,
            look: look.moved_to(now),
        };
        let giving = self.giving(&ledger);
        // Should nothing come of it, all is as it was.
        let mut dropped = Vec::new();
        for (place, mut entry) in ledger.entries.into_iter().enumerate() {
            let is_over = self.watch.is_over(now, &look, &entry, &self.setup.rules);
            entry.since = entry.since.after(waited);
            if let Some((lease, _)) = giving.iter().find(|(_, id)| *id == entry.id) {
                plan.released.push(*lease);
                dropped.push((place, entry));
            } else if is_over {
                plan.collected += 1;
                dropped.push((place, entry));
            } else {
                plan.ledger.entries.push(entry);
            }
        }
        let (reclaims, mut needs_look) = self.reclaims(op, plan.collected);
        for wish in self.wishes(op) {
            needs_look |= self.grant(now, wish, &mut plan);
        }
        // A claim that may still land is made impossible by writing anything at all.
        let haunted = |job: &SectionJob| matches!(job, SectionJob::Wanted(wanted) if wanted.asker != Asker::Waits && !wanted.tries.is_empty());
        let has_ghosts = self.jobs.values().any(haunted);
        let is_worth_it =
            !plan.granted.is_empty() || !plan.released.is_empty() || reclaims || has_ghosts || is_set_back;
        if is_worth_it {
            return self.write(now, plan, version);
        }
        for (place, entry) in dropped {
            plan.ledger.entries.insert(place.min(plan.ledger.entries.len()), entry);
        }
        self.seen =
            Some(SeenSection { ledger: plan.ledger, fence, version, look: plan.look, is_set_back, op });
        if needs_look || self.jobs.values().any(|job| matches!(job, SectionJob::Listing { .. })) {
            self.read(now);
        }
    }

    /// Our entries that are to go.
    fn giving(&self, ledger: &SectionLedger) -> Vec<(LeaseId, Nonce)> {
        let giving = self.jobs.iter().filter_map(|(lease, job)| match job {
            SectionJob::Giving { id, .. } if self.has(Bug::ReleaseOfAnother) => {
                let own = ledger.has(*id).then_some(*id);
                let first = || ledger.entries.first().map(|other| other.id);
                Some((*lease, own.or_else(first).unwrap_or(*id)))
            }
            SectionJob::Giving { id, .. } => Some((*lease, *id)),
            _ => None,
        });
        giving.collect()
    }

    /// Whether someone wants what is over collected, and whether a look is needed for that. Answers those for whom there is
    /// nothing to collect.
    fn reclaims(&mut self, op: OpId, collected: usize) -> (bool, bool) {
        let mut needs_look = false;
        let mut nothing = Vec::new();
        for (lease, job) in &self.jobs {
            if let SectionJob::Reclaiming { born, .. } = job {
                needs_look |= op <= *born;
                if op > *born && collected == 0 {
                    nothing.push(*lease);
                }
            }
        }
        for lease in nothing {
            self.jobs.remove(&lease);
            self.tell(SectionNotice::Reclaimed(lease, 0));
        }
        let reclaims = self.jobs.values().any(|job| matches!(job, SectionJob::Reclaiming { .. }));
        (reclaims && collected > 0, needs_look)
    }

    fn wishes(&self, op: OpId) -> Vec<RangeWish> {
        let wishes = self.jobs.iter().filter_map(|(lease, job)| match job {
            SectionJob::Wanted(wanted) if wanted.asker == Asker::Waits => Some(RangeWish {
                lease: *lease,
                desired: wanted.desired.clone(),
                duration: wanted.duration,
                portion: wanted.portion,
                is_fresh: op > wanted.born,
            }),
            _ => None,
        });
        wishes.collect()
    }

    /// Puts into the plan what `wish` can have. True if there is nothing, but what was seen may be out of date.
    fn grant(&mut self, now: Now, wish: RangeWish, plan: &mut LedgerPlan) -> bool {
        let RangeWish { lease, desired, duration, portion, is_fresh } = wish;
        let needs_all = portion == Portion::All && !self.has(Bug::AllTakesPart);
        let free =
            if self.has(Bug::SectionOverlaps) { desired.clone() } else { free(&desired, &plan.ledger) };
        if free.is_empty() || needs_all && free != desired {
            if is_fresh {
                let (parts, until) = (RangeSet::new(), self.until(now.held, duration));
                self.jobs.remove(&lease);
                self.tell(SectionNotice::Obtained { lease, parts, fence: None, until });
            }
            return !is_fresh;
        }
        let (held, most) = (plan.ledger.parts(), self.setup.most_parts);
        let room = most.saturating_sub(held);
        if free.len() > room && !is_fresh {
            return true;
        }
        if room == 0 || needs_all && free.len() > room {
            let wanted = if needs_all { format!(", {} more are wanted", free.len()) } else { String::new() };
            self.refuse(lease, &format!("is full: it holds {held} ranges{wanted}, and its limit is {most}"));
            return false;
        }
        let fence = match plan.fence.next(Fence::floor(now.wall)) {
            _ if self.has(Bug::FenceNotRaised) => plan.fence,
            _ if self.has(Bug::FenceForgetsClock) => Fence(plan.fence.0 + 1),
            Ok(fence) => fence,
            Err(error) => {
                self.jobs.remove(&lease);
                self.tell(SectionNotice::Failed(lease, error));
                return false;
            }
        };
        let reused = || Nonces::new(self.setup.instance).draw();
        let id = if self.has(Bug::EntryIdReused) { reused() } else { self.nonces.draw() };
        let holder = self.setup.holder.clone();
        let oldest = plan.ledger.entries.first().filter(|_| self.has(Bug::EntryBornEarly));
        let since = oldest.map_or(Since::NEW, |oldest| oldest.since);
        let entry = Entry { id, holder, fence, stamp: now.wall, duration, since, parts: free };
        let size = if needs_all {
            plan.ledger.entries.push(entry);
            plan.ledger.to_metadata().1
        } else {
            self.put(entry, room, plan)
        };
        if size > self.setup.most_bytes {
            plan.ledger.entries.pop();
            if is_fresh {
                self.refuse_size(lease, size);
            }
            return !is_fresh;
        }
        plan.fence = fence;
        plan.granted.push((lease, id));
        false
    }

    /// Where not all of an entry's parts fit, those are held that do, the lowest keys first, and one at the least. The size
    /// that this makes.
    fn put(&self, mut entry: Entry, room: usize, plan: &mut LedgerPlan) -> usize {
        let first = |parts: RangeSet, most: usize| -> RangeSet {
            if parts.len() <= most { parts } else { parts.into_ranges().into_iter().take(most).collect() }
        };
        let mut most = room;
        loop {
            entry.parts = first(entry.parts, most);
            plan.ledger.entries.push(entry);
            let size = plan.ledger.to_metadata().1;
            if most <= 1 || size <= self.setup.most_bytes {
                return size;
            }
            let Some(again) = plan.ledger.entries.pop() else { return size };
            most = (again.parts.len() / 2).max(1);
            entry = again;
        }
    }

    fn refuse(&mut self, lease: LeaseId, why: &str) {
        let key = &self.setup.key;
        let text =
            format!("{key} {why}; lease less at a time, or shard: divide the keys among several sections");
        self.jobs.remove(&lease);
        self.tell(SectionNotice::Failed(lease, StoreError::invalid(text)));
    }

    fn refuse_size(&mut self, lease: LeaseId, size: usize) {
        let most = self.setup.most_bytes;
        self.refuse(lease, &format!("would take {size} bytes, which is over the store's limit of {most}"));
    }

    fn write(&mut self, now: Now, plan: LedgerPlan, over: Option<Version>) {
        let (metadata, _) = plan.ledger.to_metadata();
        let nonce = self.nonces.draw();
        let expect = match over {
            _ if self.has(Bug::SectionUnconditional) => Expect::Vacant,
            Some(version) => Expect::Unchanged(version),
            None => Expect::Absent,
        };
        let record = Record { fence: plan.fence, nonce, stamp: now.wall, tenure: None, metadata };
        let op = self.send(now, Op::Write(Box::new(Write { key: self.setup.key.clone(), expect, record })));
        for (lease, id) in &plan.granted {
            if let Some(SectionJob::Wanted(wanted)) = self.jobs.get_mut(lease) {
                wanted.tries.push(Try { op, id: *id, sent: now.held, over });
            }
        }
        for lease in &plan.released {
            if let Some(SectionJob::Giving { tried, .. }) = self.jobs.get_mut(lease) {
                *tried = true;
            }
        }
        self.flight = Some(SectionInFlight::Writing { op, nonce, sent: now.held, plan: Box::new(plan) });
    }
}

/// What of `desired` nobody holds.
fn free(desired: &RangeSet, ledger: &SectionLedger) -> RangeSet {
    let Some((first, last)) = desired.ranges().first().zip(desired.ranges().last()) else {
        return RangeSet::new();
    };
    let near = |part: &&KeyRange| part.high() > first.low() && part.low() < last.high();
    let held = ledger.entries.iter().flat_map(|entry| entry.parts.ranges()).filter(near);
    desired.minus(&held.cloned().collect())
}
