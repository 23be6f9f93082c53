//! Where the store tells no ages: what stays as it is while one watches was left alone for that long, whatever clocks show.

use super::Collection;
use crate::exit::Failure;
use crate::output;
use crate::stores::pages::Pages;
use crate::text::brief;
use std::collections::BTreeSet;
use std::time::Duration;
use tenure::store::{Expiry, Listed, Stored, Version};
use tenure::{Store, Wall};
use tenure_core::Tick;

/// What stood there when one began to watch.
#[derive(Debug)]
pub(super) struct WatchedRecords {
    /// A version names a write, so keys need not be kept.
    versions: BTreeSet<Version>,
    since: Tick,
}

impl Collection {
    /// Whether the store tells no ages.
    pub(super) fn has_to_watch(&self) -> bool {
        self.store.capabilities().expiry != Expiry::AttestedAge
    }

    /// Takes the time that a store does not tell: returns once what stays as it is was left alone for long enough.
    pub(super) async fn watch(&mut self) -> Result<(), Failure> {
        if !self.has_to_watch() {
            return Ok(());
        }
        let (mut versions, mut pages, mut longest) = (BTreeSet::new(), Pages::default(), self.older_than);
        while let Some(page) = pages.next(&self.store, "").await? {
            for stored in page.iter().filter_map(|listed| listed.stored.as_ref().ok()) {
                versions.insert(stored.version);
                longest = longest.max(death(stored, self.wall, self.older_than));
            }
        }
        let since = self.waited();
        self.watched = Some(WatchedRecords { versions, since });
        output::note(format!(
            "this store tells no ages, so its records are watched for {}: what changes meanwhile stays",
            brief(longest)
        ));
        while let Some(left) = longest.checked_sub(self.waited().since(since)).filter(|left| !left.is_zero())
        {
            tokio::time::sleep(left).await;
        }
        // What was vacated shortly before is as old by the wall clocks now.
        self.wall = self.now();
        Ok(())
    }

    /// A page for which one asked then, with the ages that were watched.
    pub(super) fn aged(&self, asked: Tick, mut page: Vec<Listed>) -> Vec<Listed> {
        let Some(watched) = &self.watched else { return page };
        for listed in &mut page {
            let Ok(stored) = &mut listed.stored else { continue };
            if stored.age().is_none() {
                let is_as_it_was = watched.versions.contains(&stored.version);
                let age = if is_as_it_was { asked.since(watched.since) } else { Duration::ZERO };
                *stored = stored.clone().aged(Some(age));
            }
        }
        page
    }

    /// Elapsed time, of which no more is counted than has passed.
    pub(super) fn waited(&self) -> Tick {
        self.clock.now().waited
    }
}

/// How long whoever seems dead is to be watched to be known as that: his clock counts as one of those that live until then.
fn death(stored: &Stored, wall: Wall, older_than: Duration) -> Duration {
    /// Nobody is watched for longer on that account.
    const LONG: Duration = Duration::from_secs(60);
    let tenure = stored.record.tenure.as_ref().filter(|tenure| tenure.attachment.is_none());
    let ttl = tenure.map_or(Duration::ZERO, |tenure| tenure.ttl.duration());
    let seems_dead = wall.since(stored.record.stamp) > ttl;
    if seems_dead && ttl * 2 <= older_than.max(LONG) { ttl * 2 } else { Duration::ZERO }
}
