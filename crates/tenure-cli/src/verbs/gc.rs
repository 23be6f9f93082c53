//! `gc`: removes what nobody has held, or touched, for a long time.
//!
//! The store is listed twice, page by page: once for what has to be known of all of it, once to judge each record by that. So what
//! is kept in memory grows with the processes, jobs and fleets of a store, and not with its records. Only where the store tells no ages, 16 bytes
//! of each record are kept while all are watched.

mod survey;
mod sweep;
#[cfg(test)]
mod tests;
mod watch;

use crate::args;
use crate::config;
use crate::exit::{self, Failure};
use crate::nonces::nonces;
use crate::output;
use crate::stores::Url;
use crate::text::{brief, count};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use tenure::store::{Record, Stored};
use tenure::{AnyStore, Clock, Fence, Key, Leases, Wall};
use tenure_core::Nonces;

/// How a store is gone through.
struct Collection {
    store: AnyStore,
    clock: Arc<dyn Clock>,
    nonces: Nonces,
    /// When it began to judge.
    wall: Wall,
    prefix: String,
    older_than: Duration,
    /// What sweeps have covered goes as well.
    sweeps: bool,
    /// It is done, and not only looked at.
    acts: bool,
    /// Where the store tells no ages: what was seen before.
    watched: Option<watch::WatchedRecords>,
}

impl Collection {
    fn new(leases: &Leases, prefix: String, typed: &args::GcArgs) -> Collection {
        Collection {
            store: leases.store().clone(),
            clock: Arc::clone(leases.clock()),
            nonces: nonces(leases),
            wall: leases.clock().now().wall,
            prefix,
            older_than: typed.older_than,
            sweeps: typed.sweeps,
            acts: false,
            watched: None,
        }
    }

    /// What is found and, if it `acts`, done. `removable` is told what goes, or would.
    async fn run(
        &mut self,
        acts: bool,
        removable: impl FnMut(&Key) -> Result<(), Failure>,
    ) -> Result<GcTally, Failure> {
        self.acts = acts;
        let known = self.survey().await?;
        self.sweep(&known, removable).await
    }

    fn now(&self) -> Wall {
        self.clock.now().wall
    }

    fn vacant(&mut self, seen: &Stored, fence: Fence) -> Record {
        let (nonce, stamp) = (self.nonces.draw(), self.now());
        Record { fence, nonce, stamp, tenure: None, metadata: seen.record.metadata.clone() }
    }
}

/// What there is.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct GcTally {
    /// Of no use to anybody, and old by both clocks.
    removable: usize,
    removed: usize,
    /// Sessions of processes that died long ago, ended now and removed by a later run.
    sessions: usize,
    /// Leases of dead processes: vacated now and removed by a later run.
    vacated: usize,
    /// Old, but their fences lie beyond one of the clocks: they would begin lower.
    ahead: usize,
    /// Vacant and old, but they say what ran at ticks that some host may still come with.
    ticks: usize,
    /// Vacant and old, but units of a job that isn't finished.
    unfinished: usize,
    /// Sections in which ranges are held, or may be.
    sections: usize,
    /// Semaphores that somebody holds or waits for.
    semaphores: usize,
    /// What sweeps have covered.
    sweeps: usize,
    /// Vacant and old, but open units of a fleet, or what a fleet needs.
    in_fleets: usize,
    /// Those that can't be read.
    damaged: usize,
    /// Those of them that a newer version can read.
    newer: usize,
}

impl GcTally {
    fn add_unread(&mut self, is_newer: bool) {
        self.damaged += 1;
        self.newer += usize::from(is_newer);
    }
}

/// Where a record goes, the next fence is its acquirer's wall clock: that must not be behind by the age at which records go.
fn check_margin(url: &Url, typed: &args::GcArgs) -> Result<(), Failure> {
    const LEAST: Duration = Duration::from_secs(1);
    if typed.dry_run || typed.older_than >= LEAST || !url.is_of_hosts() {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "--older-than {}: a host whose clock is behind by more than that would have lower fences than before; write {} or more",
        brief(typed.older_than),
        brief(LEAST)
    )))
}

pub(crate) async fn gc(url: &Url, typed: &args::GcArgs) -> Result<u8, Failure> {
    let prefix = config::prefix(&typed.prefix)?;
    check_margin(url, typed)?;
    let leases = if typed.dry_run { super::open_to_look(url).await? } else { super::open(url).await? };
    let mut collection = Collection::new(&leases, prefix, typed);
    if collection.has_to_watch() && !typed.dry_run && !typed.yes {
        // Whoever can't answer would be told so only after that.
        output::check_asked("Watch all records, and remove what is of no use to anybody?")?;
    }
    collection.watch().await?;
    let mut names = Vec::new();
    let mut name = |key: &Key| match (typed.json, typed.dry_run) {
        (true, _) => {
            names.push(key.as_str().to_owned());
            Ok(())
        }
        (false, true) => output::print(&format!("{key}\n")),
        (false, false) => Ok(()),
    };
    let tally = if typed.dry_run || typed.yes {
        let tally = collection.run(!typed.dry_run, name).await?;
        tell(&tally, typed);
        tally
    } else {
        let found = collection.run(false, |_| Ok(())).await?;
        tell(&found, typed);
        if found.removable + found.sessions + found.vacated == 0 {
            found
        } else {
            output::confirm(false, &format!("Remove {} for good?", count(found.removable, "record")))?;
            collection.run(true, &mut name).await?
        }
    };
    if typed.json {
        let done = |n: usize| if typed.dry_run { 0 } else { n };
        output::json(&json!({
            "dry_run": typed.dry_run,
            "removable": names,
            "removed": tally.removed,
            "sessions_ended": done(tally.sessions),
            "leases_vacated": done(tally.vacated),
            "kept_for_fences": tally.ahead,
            "kept_for_ticks": tally.ticks,
            "kept_for_unfinished_jobs": tally.unfinished,
            "kept_sections": tally.sections,
            "kept_semaphores": tally.semaphores,
            "kept_sweeps": tally.sweeps,
            "kept_for_fleets": tally.in_fleets,
            "damaged": tally.damaged,
            "newer": tally.newer,
        }))?;
    } else if !typed.dry_run {
        output::note(format!("{} removed", count(tally.removed, "record")));
    }
    Ok(exit::OK)
}

fn tell(tally: &GcTally, typed: &args::GcArgs) {
    if typed.json {
        return;
    }
    let (n, age) = (count(tally.removable, "record"), brief(typed.older_than));
    let sessions = count(tally.sessions, "session");
    output::note(format!("{n} vacant for more than {age}; {sessions} of dead processes"));
    let kept = [
        (tally.vacated, "lease", "of dead processes: anyone may have them"),
        (tally.ahead, "record", "kept: their fences are ahead of a clock, and would begin lower"),
        (tally.ticks, "record", "kept: they say what ran at ticks with which some host may still come"),
        (tally.unfinished, "unit", "kept: their jobs are not finished"),
        (tally.sections, "section", "kept: ranges in them may be held"),
        (tally.semaphores, "semaphore", "kept: permits of them are held, or waited for"),
        (tally.sweeps, "record", "kept: they say what sweeps have covered; --sweeps removes them, too"),
        (tally.in_fleets, "record", "kept: fleets need them"),
        (
            tally.damaged - tally.newer,
            "damaged record",
            "left as they are; see `tenure ls`, and `tenure show` for what helps",
        ),
        (tally.newer, "record", "kept: a newer version has written them"),
    ];
    for (n, what, why) in kept.into_iter().filter(|(n, ..)| *n > 0) {
        output::note(format!("{} {why}", count(n, what)));
    }
}
