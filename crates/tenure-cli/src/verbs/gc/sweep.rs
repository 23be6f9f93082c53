//! The second pass: each record is judged by what the first one has found, and dealt with page by page.

use super::survey::Surveyed;
use super::{Collection, GcTally};
use crate::exit::Failure;
use crate::keys::JobName;
use crate::output::view::is_session;
use crate::stores::pages::Pages;
use crate::stores::side_by_side::count_side_by_side;
use crate::verbs::fleet::upkeep::UpkeepVerdict;
use tenure::range as section;
use tenure::store::{Expect, Listed, Outcome, StoreExt, Stored, Version, Write};
use tenure::{Key, Store, StoreError};
use tenure_core::semaphore;

/// What is to be done about a page.
#[derive(Debug, Default)]
struct PagePlan {
    /// Of no use to anybody, and old by both clocks.
    remove: Vec<(Key, Version)>,
    /// Leases of dead processes: vacated now and removed by a later run.
    vacate: Vec<(Key, Stored)>,
}

impl Collection {
    /// Lists what is to be looked at, and does what is to be done about it. `removable` is told what goes, or would.
    pub(super) async fn sweep(
        &mut self,
        known: &Surveyed,
        mut removable: impl FnMut(&Key) -> Result<(), Failure>,
    ) -> Result<GcTally, Failure> {
        let mut tally = GcTally { sessions: known.sessions, ..GcTally::default() };
        let mut pages = Pages::default();
        let mut asked = self.waited();
        while let Some(page) = pages.next(&self.store, &self.prefix).await? {
            let page = self.aged(asked, page);
            let mut plan = PagePlan::default();
            for listed in page {
                self.judge(listed, known, &mut plan, &mut tally);
            }
            plan.remove.iter().try_for_each(|(key, _)| removable(key))?;
            tally.removable += plan.remove.len();
            if self.acts {
                tally.vacated += self.vacate(known, plan.vacate).await?;
                tally.removed += self.remove(plan.remove).await?;
            } else {
                tally.vacated += plan.vacate.len();
            }
            asked = self.waited();
        }
        Ok(tally)
    }

    fn judge(
        &self,
        Listed { key, stored }: Listed,
        known: &Surveyed,
        plan: &mut PagePlan,
        tally: &mut GcTally,
    ) {
        let Surveyed { collector, fleets, unfinished, dying, .. } = known;
        let stored = match stored {
            Ok(stored) => stored,
            Err(error) => return tally.add_unread(error.is_newer()),
        };
        let is_vacant = stored.record.tenure.is_none();
        if !is_vacant && is_session(&key) || !collector.is_old(&stored) {
            return;
        }
        if semaphore::is_semaphore(&stored.record) && !semaphore::is_idle(&stored.record) {
            // What is held or waited for is not for gc to end, but for what the dead have left.
            match collector.without_ended(&stored) {
                Some(_) => plan.vacate.push((key, stored)),
                None => tally.semaphores += 1,
            }
            return;
        }
        let is_dying = session_of(&stored).is_some_and(|session| dying.contains(session));
        // No session is among them: those are not looked at here while they have a tenure.
        let is_orphan = is_dying || collector.ended_attachment(&stored).is_some() || self.is_silent(&stored);
        match fleets.judge(&key, &stored) {
            UpkeepVerdict::Remove if !collector.may_forget(&stored) => tally.ahead += 1,
            // Whoever finds a claim on a session that is gone can't tell since when.
            UpkeepVerdict::Remove if collector.is_ridden(&key) => {}
            UpkeepVerdict::Remove => plan.remove.push((key, stored.version)),
            UpkeepVerdict::Keep | UpkeepVerdict::Elsewhere if is_orphan => plan.vacate.push((key, stored)),
            UpkeepVerdict::Keep if is_vacant => tally.in_fleets += 1,
            UpkeepVerdict::Damaged => tally.add_unread(false),
            UpkeepVerdict::Newer => tally.add_unread(true),
            UpkeepVerdict::Elsewhere if !is_vacant => {}
            UpkeepVerdict::Elsewhere if collector.tells_of_ticks(&stored) => tally.ticks += 1,
            UpkeepVerdict::Elsewhere
                if JobName::of_key(&key).is_some_and(|(job, _)| unfinished.contains(job)) =>
            {
                tally.unfinished += 1
            }
            // Nothing in it is ever over, however long it was left alone: a sweep that has lost it would begin anew.
            UpkeepVerdict::Elsewhere if section::is_cover(&stored.record) && !self.sweeps => {
                tally.sweeps += 1
            }
            // A section has no tenure, but leases of ranges; and its fences must not begin lower when it is made anew.
            UpkeepVerdict::Elsewhere
                if key.as_str().starts_with(section::PREFIX)
                    && !section::is_cover(&stored.record)
                    && !section::is_over(&stored, self.wall) =>
            {
                tally.sections += 1
            }
            UpkeepVerdict::Elsewhere if !collector.may_forget(&stored) => tally.ahead += 1,
            UpkeepVerdict::Elsewhere if collector.is_ridden(&key) => {}
            UpkeepVerdict::Elsewhere => plan.remove.push((key, stored.version)),
            UpkeepVerdict::Keep => {}
        }
    }

    /// Vacates what dead processes had, each on condition that the record is still as it was seen.
    async fn vacate(&mut self, known: &Surveyed, attached: Vec<(Key, Stored)>) -> Result<usize, StoreError> {
        let mut writes = Vec::with_capacity(attached.len());
        for (key, seen) in attached {
            let (expect, mut record) =
                (Expect::Unchanged(seen.version), self.vacant(&seen, seen.record.fence));
            if let Some((metadata, fence)) = known.collector.without_ended(&seen) {
                (record.metadata, record.fence) = (metadata, fence);
            }
            writes.push(Write { key, expect, record });
        }
        let outcomes = self.store.write_all(writes).await?;
        Ok(outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Won { .. })).count())
    }

    /// Removes records, many side by side, each on condition that it is still as it was seen.
    async fn remove(&mut self, old: Vec<(Key, Version)>) -> Result<usize, StoreError> {
        let store = &self.store;
        count_side_by_side(old, |(key, version)| {
            let store = store.clone();
            async move { store.remove(&key, version).await }
        })
        .await
    }
}

fn session_of(stored: &Stored) -> Option<&Key> {
    Some(&stored.record.tenure.as_ref()?.attachment.as_ref()?.session)
}
