//! `tenure range`: one command for those keys of a range that nobody else works on.

use crate::config;
use crate::exit::{self, Failure};
use crate::output::section::SectionLeases;
use crate::output::{self, Lost};
use crate::stores::Url;
use crate::supervise::command::{CommandEnd, CommandInput, attend};
use crate::supervise::held;
use crate::supervise::lease::{ExclusiveLease, Lease, ReleaseEnd};
use crate::supervise::opened::OpenedStore;
use crate::supervise::outage::Outage;
use crate::supervise::process;
use crate::supervise::run::Policy;
use crate::supervise::signals::Signals;
use crate::supervise::watchdog::LeadTime;
use crate::supervise::will::Will;
use crate::text::brief;
use crate::verbs::waiting::{CurrentHolder, told_as};
use std::io::{PipeReader, Write};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use tenure::range::{Entry, KeyRange, RangeGuard, Section};
use tenure::{AcquireError, AnyStore, Clock, Fence, Key, Store};

/// The longest list of ranges that is put into the environment; Linux takes 128 KiB for a variable.
const MOST_IN_ENVIRONMENT: usize = 100_000;

/// How long to wait for a store that does not answer what is given back to it.
const PATIENCE: Duration = Duration::from_secs(1);

pub(crate) async fn range(url: &Url, mut plan: config::RangeConfig) -> Result<u8, Failure> {
    plan.command = process::found(plan.command)?;
    url.check_duration(plan.duration)?;
    let mut signals = Signals::listen()?;
    let opened = OpenedStore::open(url, plan.await_store, Outage::new(true));
    let OpenedStore { store, clock, outage, .. } = signals.unless(opened).await??;
    let section = Section::builder(store.clone(), &plan.section).clock(Arc::clone(&clock)).start()?;
    let policy = Policy::new(section.holder().as_str(), plan.duration, plan.grace)?;
    // Before there is anything to give back: who is killed as it gets something leaves nothing.
    policy.watchdogs.bequeath(Will::of_section(url, &section));
    let acquired = signals.unless(acquire(&section, &store, &clock, &plan)).await;
    let (result, was_had) = match acquired
        .and_then(|acquired| acquired.map_err(|error| not_had(&section, error, &plan)))
        .and_then(|guard| leased(&section, guard, &plan, policy.watchdogs.lead(), &outage))
    {
        Ok((leased, command)) => {
            (attend(leased, command, CommandInput::Piped, &policy, &mut signals).await, true)
        }
        Err(failure) => (Err(failure), false),
    };
    let result = result.and_then(CommandEnd::status);
    // Whatever is still on its way, such as a claim that nobody waits for any more, is given back.
    let is_settled = signals.farewell(&result, plan.duration.min(PATIENCE), section.stop()).await;
    match (was_had, is_settled) {
        // Whether anything of the command is left, and who looks after that, was seen to at its end.
        (true, _) => {}
        (false, true) => policy.watchdogs.dismiss(),
        (false, false) => {
            let (key, most) = (section.key(), brief(plan.duration));
            output::note(format!(
                "{key}: a claim may have been written, which lasts for {most}; the watchdogs take it out if the store answers within a minute; `tenure show {key}` tells"
            ));
        }
    }
    result
}

async fn acquire(
    section: &Section,
    store: &AnyStore,
    clock: &Arc<dyn Clock>,
    plan: &config::RangeConfig,
) -> Result<RangeGuard, AcquireError> {
    let what = if plan.all { "all" } else { "some" };
    let lock = section.lock(plan.range.clone(), plan.duration);
    let lock = if plan.all { lock.all() } else { lock };
    let wanted = lock.acquire_within(plan.wait);
    if plan.wait.is_zero() {
        return wanted.await;
    }
    let (key, wait) = (section.key(), brief(plan.wait));
    let words = |key: &Key, whom: Option<&str>| {
        let wanted = format!("waiting for {what} of {} in {key}", plan.range);
        Some(match whom {
            Some(whom) => format!("{wanted}, held by {whom}, for {wait} at most"),
            None => format!("{wanted}, for {wait} at most; `tenure show {key}` tells who holds it"),
        })
    };
    let look = async |key: &Key| {
        // A store that fails is told of by whoever waits for it.
        let stored = store.read(key).await.ok()??;
        let leases = SectionLeases::of(&stored, clock.now().wall)?.ok()?;
        in_the_way(&leases, &plan.range, plan.all, |fence| held::is_ours(key, fence))
    };
    told_as(words, look, &[key], wanted).await
}

/// Whoever has some of this range, for a while yet: the first of them, and how many more.
fn in_the_way(
    leases: &SectionLeases,
    range: &KeyRange,
    all: bool,
    is_ours: impl Fn(Fence) -> bool,
) -> Option<CurrentHolder> {
    let part = |entry: &Entry| entry.parts.ranges().iter().find(|part| part.overlaps(range)).cloned();
    let others: Vec<(&Entry, KeyRange)> =
        leases.held().filter_map(|(entry, _)| Some((entry, part(entry)?))).collect();
    let (first, part) = others.first()?;
    let more = match others.len() - 1 {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    // Who wants all of it waits for each of them; else what any of them gives back is enough.
    let mut fences = others.iter().map(|(entry, _)| entry.fence);
    let is_around_us = if all { fences.any(is_ours) } else { fences.all(is_ours) };
    Some(CurrentHolder::since(&first.holder, first.stamp, &format!(" ({part}){more}"), is_around_us))
}

/// Ranges that a command has for a fixed time.
struct RangeCommandLease<'l> {
    key: String,
    guard: RangeGuard,
    lead: LeadTime,
    outage: &'l Outage,
}

impl Lease for RangeCommandLease<'_> {
    fn key(&self) -> &str {
        &self.key
    }

    fn fence(&self) -> Option<Fence> {
        Some(self.guard.fence())
    }

    fn remaining(&self) -> Duration {
        self.guard.remaining()
    }

    /// Until it is told to stop: that is never put off.
    fn promised(&self) -> Duration {
        self.remaining().saturating_sub(self.lead.total())
    }
}

impl ExclusiveLease for RangeCommandLease<'_> {
    const WHAT: &'static str = "its ranges are";
    const TOO_LATE: &'static str = "the time was over";
    const REMEDY: &'static str = "--for TIME leases them for longer";

    fn lease(&self) -> &impl Lease {
        self
    }

    async fn loss(&self) -> Option<Lost> {
        None
    }

    fn trouble(&self) -> Option<String> {
        None
    }

    /// A store that does not answer holds nobody up: the ranges end by themselves.
    async fn release(self) -> ReleaseEnd {
        let left = self.guard.remaining();
        let release = ReleaseEnd::of(self.guard.release(), self.outage, left);
        let released = tokio::time::timeout(PATIENCE, release).await;
        released.unwrap_or_else(|_| {
            let (key, left) = (&self.key, brief(left.saturating_sub(PATIENCE)));
            output::note(format!(
                "{key}: the store does not answer, so the ranges could not be given back; others wait for up to {left}"
            ));
            ReleaseEnd::Given
        })
    }

    async fn lapse(self) {
        self.guard.lapse().await;
    }
}

/// Why there is nothing to run the command under.
fn not_had(section: &Section, error: AcquireError, plan: &config::RangeConfig) -> Failure {
    let AcquireError::Held(_) = error else { return error.into() };
    let (held, key, range) = (if plan.all { "some" } else { "all" }, section.key(), &plan.range);
    let remedy = if plan.wait.is_zero() { "--wait TIME" } else { "a longer --wait TIME" };
    let text = format!(
        "{key}: {held} of {range} is held by others; `tenure show {key}` tells who they are, and {remedy} waits for them"
    );
    Failure::new(exit::HELD, text)
}

/// What was leased, and the command for it.
fn leased<'l>(
    section: &Section,
    guard: RangeGuard,
    plan: &config::RangeConfig,
    lead: LeadTime,
    outage: &'l Outage,
) -> Result<(RangeCommandLease<'l>, Command), Failure> {
    let key = section.key().as_str().to_owned();
    let ranges: Vec<String> = guard.parts().iter().map(KeyRange::to_string).collect();
    let mut command = plan.command.command();
    command.stdin(lines(ranges.clone()).map_err(|error| Failure::new(exit::INTERNAL, error.to_string()))?);
    let ranges = ranges.join(" ");
    if ranges.len() <= MOST_IN_ENVIRONMENT {
        command.env("TENURE_RANGES", ranges);
    } else {
        command.env_remove("TENURE_RANGES");
    }
    Ok((RangeCommandLease { key, guard, lead, outage }, command))
}

/// A pipe with these lines in it.
fn lines(lines: Vec<String>) -> std::io::Result<PipeReader> {
    let (reader, mut writer) = std::io::pipe()?;
    // A command that doesn't read them has them in its environment.
    let write = move || drop(lines.iter().try_for_each(|line| writeln!(writer, "{line}")));
    std::thread::Builder::new().name("input".to_owned()).spawn(write)?;
    Ok(reader)
}

#[cfg(test)]
mod tests {
    //! Plan: whoever has some of a range is told, but nobody whose time is over; of all of them, some or each may have started this process.
    use super::*;
    use tenure::range::SectionLedger;
    use tenure::store::{Nonce, Record, Stored};
    use tenure::{HolderId, Ttl, Wall};

    const MINUTE: u64 = 60_000;

    /// At minute 100, these leases of ten minutes, by their holders, from these minutes on. Their fences are 1, 2, 3 and so on.
    fn section(entries: &[(&str, u64, &str)]) -> SectionLeases {
        let entry = |(fence, (holder, began, part)): (u64, &(&str, u64, &str))| {
            let (holder, part) = (HolderId::new(*holder).unwrap(), part.parse::<KeyRange>().unwrap());
            let (id, began) = (Nonce(fence.into()), Wall(began * MINUTE));
            let duration = Ttl::clamped(10 * MINUTE);
            Entry::new(id, holder, Fence(fence), began, duration, std::iter::once(part).collect())
        };
        let metadata = SectionLedger::new((1..).zip(entries).map(entry).collect()).into_metadata();
        let (stamp, nonce) = (Wall(99 * MINUTE), Nonce(9));
        let record = Record { fence: Fence(9), nonce, stamp, tenure: None, metadata };
        SectionLeases::of(&Stored::new(record), Wall(100 * MINUTE)).unwrap().unwrap()
    }

    #[test]
    fn whoever_has_some_of_it_is_told_and_nobody_whose_time_is_over() {
        let told = |range: &str| {
            let leases = section(&[("dead", 50, "10_12"), ("other", 95, "14_18"), ("third", 96, "1a_20")]);
            in_the_way(&leases, &range.parse().unwrap(), true, |_| false).map(|found| found.whom)
        };
        assert_eq!(told("10_16").unwrap(), "other since 1970-01-01T01:35:00Z (14_18)");
        assert!(told("10_20").unwrap().ends_with(" (14_18), and 1 more"));
        assert_eq!((told("10_14"), told("20_30")), (None, None));
    }

    #[test]
    fn who_wants_all_of_it_waits_for_each_of_them() {
        let leases = section(&[("other", 95, "10_12"), ("around", 95, "14_18")]);
        let is_around_us = |range: &str, all| {
            in_the_way(&leases, &range.parse().unwrap(), all, |fence| fence == Fence(2)).unwrap().is_around_us
        };
        assert_eq!([is_around_us("10_20", true), is_around_us("10_20", false)], [true, false]);
        assert_eq!([is_around_us("13_20", false), is_around_us("10_13", true)], [true, false]);
    }
}
