//! The first pass: what has to be known of the whole store before anything is removed from it. It grows with the processes, jobs
//! and fleets of a store, and not with its records.

use super::Collection;
use crate::keys::JobName;
use crate::output::view::is_session;
use crate::stores::pages::{PAGE, Pages};
use crate::verbs::fleet::upkeep::Upkeep;
use crate::work::job::presence::job_of;
use crate::work::job::unit::{Status, Unit};
use std::collections::BTreeSet;
use tenure::store::{Expect, Freshness, Listed, Outcome, StoreExt, Stored, Write};
use tenure::{Fence, Key, Store, StoreError};
use tenure_core::Bugs;
use tenure_core::gc::{Collector, Survey, is_older};

/// What the first pass has found.
pub(super) struct Surveyed {
    pub(super) collector: Collector,
    pub(super) fleets: Upkeep,
    /// Jobs that have a unit which is to be run, or which someone holds, or at which a process is: more units may come to it.
    pub(super) unfinished: BTreeSet<String>,
    /// Sessions of processes that died long ago, if they are not ended by this pass.
    pub(super) dying: BTreeSet<Key>,
    /// How many of them there are, or were ended.
    pub(super) sessions: usize,
}

impl Collection {
    /// Lists everything once. Where this is not only a look, the sessions of dead processes are ended.
    pub(super) async fn survey(&mut self) -> Result<Surveyed, StoreError> {
        let (mut survey, mut fleets) = (Survey::default(), Upkeep::default());
        let (mut unfinished, mut dying, mut sessions) = (BTreeSet::new(), BTreeSet::new(), 0);
        let mut pages = Pages::default();
        // Whether a job is finished, and whether anything is attached to a session, can't be told from a part.
        let mut asked = self.waited();
        while let Some(page) = pages.next(&self.store, "").await? {
            let page = self.aged(asked, page);
            asked = self.waited();
            survey.see(&page);
            fleets.see(&page);
            see_jobs(&page, &mut unfinished);
            let lives = |listed: &&Listed| {
                let stored = listed.stored.as_ref();
                stored.is_ok_and(|stored| stored.record.tenure.is_some() && !self.is_silent(stored))
            };
            let sessions_seen = page.iter().filter(|listed| is_session(&listed.key)).filter(lives);
            unfinished.extend(sessions_seen.filter_map(job_of).map(str::to_owned));
            let dead = page.into_iter().filter_map(|Listed { key, stored }| {
                let stored = stored.ok().filter(|stored| self.is_dead(&key, stored))?;
                Some((key, stored))
            });
            let dead: Vec<(Key, Stored)> = dead.collect();
            if self.acts {
                sessions += self.bury(&dead).await?;
            } else {
                sessions += dead.len();
                dying.extend(dead.into_iter().map(|(key, _)| key));
            }
        }
        let named: Vec<Key> = survey.named().cloned().collect();
        let mut attached_to = Vec::with_capacity(named.len());
        for some in named.chunks(PAGE) {
            let read = self.store.read_many(some, Freshness::Latest).await?;
            // Only whose they are matters.
            attached_to.extend(read.into_iter().map(|mut listed| {
                listed.stored.iter_mut().for_each(|stored| stored.record.metadata.clear());
                listed
            }));
        }
        let collector = survey.collector(self.wall, self.older_than, &attached_to, Bugs::NONE);
        Ok(Surveyed { collector, fleets, unfinished, dying, sessions })
    }

    fn is_dead(&self, key: &Key, stored: &Stored) -> bool {
        is_session(key) && key.as_str().starts_with(&self.prefix) && self.is_silent(stored)
    }

    /// Whether nobody has renewed a tenure that renews itself for so long that its holder can't believe in it any more.
    pub(super) fn is_silent(&self, stored: &Stored) -> bool {
        let tenure = stored.record.tenure.as_ref().filter(|tenure| tenure.attachment.is_none());
        tenure
            .is_some_and(|tenure| is_older(self.wall, stored, self.older_than.max(tenure.ttl.duration() * 2)))
    }

    /// Ends sessions with a higher fence, as a contender does it: the old process can never renew, and what was attached to it is free.
    async fn bury(&mut self, dead: &[(Key, Stored)]) -> Result<usize, StoreError> {
        let mut ends = Vec::new();
        for (key, seen) in dead {
            let Ok(fence) = seen.record.fence.next(Fence::floor(self.now())) else { continue };
            let (expect, record) = (Expect::Unchanged(seen.version), self.vacant(seen, fence));
            ends.push(Write { key: key.clone(), expect, record });
        }
        // One that some other process has ended or renewed meanwhile is a later run's.
        let outcomes = self.store.write_all(ends).await?;
        Ok(outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Won { .. })).count())
    }
}

fn see_jobs(page: &[Listed], unfinished: &mut BTreeSet<String>) {
    for listed in page {
        let Some((job, _)) = JobName::of_key(&listed.key) else { continue };
        let is_settled = listed.stored.as_ref().is_ok_and(|stored| {
            let metadata = &stored.record.metadata;
            let is_done = match Unit::of(metadata) {
                Some(unit) => unit.status != Status::Pending,
                // What a newer version makes of it is not known here: it may be about to be run.
                None => Unit::problem(&listed.key, metadata).is_none_or(|problem| !problem.is_newer()),
            };
            stored.record.tenure.is_none() && is_done
        });
        if !is_settled && !unfinished.contains(job) {
            unfinished.insert(job.to_owned());
        }
    }
}
