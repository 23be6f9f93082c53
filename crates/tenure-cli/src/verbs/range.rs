//! `tenure range`: one command for those keys of a range that nobody else works on.

use crate::config;
use crate::exit::{self, Failure};
use crate::output::{self, Lost};
use crate::stores::Url;
use crate::supervise::command::{CommandEnd, CommandInput, attend};
use crate::supervise::lease::{ExclusiveLease, Lease, ReleaseEnd};
use crate::supervise::opened::OpenedStore;
use crate::supervise::outage::Outage;
use crate::supervise::process;
use crate::supervise::run::Policy;
use crate::supervise::signals::Signals;
use crate::supervise::watchdog::LeadTime;
use crate::supervise::will::Will;
use crate::text::brief;
use crate::verbs::waiting::said;
use std::io::{PipeReader, Write};
use std::process::Command;
use std::time::Duration;
use tenure::range::{KeyRange, RangeGuard, Section};
use tenure::{AcquireError, Fence};

/// The longest list of ranges that is put into the environment; Linux takes 128 KiB for a variable.
const MOST_IN_ENVIRONMENT: usize = 100_000;

/// How long to wait for a store that does not answer what is given back to it.
const PATIENCE: Duration = Duration::from_secs(1);

pub(crate) async fn range(url: &Url, mut plan: config::RangeConfig) -> Result<u8, Failure> {
    plan.command = process::found(plan.command)?;
    let mut signals = Signals::listen()?;
    let opened = OpenedStore::open(url, plan.await_store, Outage::new(true));
    let OpenedStore { store, clock, outage, .. } = signals.unless(opened).await??;
    let section = Section::builder(store, &plan.section).clock(clock).start()?;
    let policy = Policy::new(section.holder().as_str(), plan.duration, plan.grace)?;
    // Before there is anything to give back: who is killed as it gets something leaves nothing.
    policy.watchdogs.bequeath(Will::of_section(url, &section));
    let acquired = signals.unless(acquire(&section, &plan)).await;
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

async fn acquire(section: &Section, plan: &config::RangeConfig) -> Result<RangeGuard, AcquireError> {
    let what = if plan.all { "all" } else { "some" };
    let lock = section.lock(plan.range.clone(), plan.duration);
    let lock = if plan.all { lock.all() } else { lock };
    let wanted = lock.acquire_within(plan.wait);
    if plan.wait.is_zero() {
        return wanted.await;
    }
    let (key, wait) = (section.key(), brief(plan.wait));
    said(
        format!(
            "waiting for {what} of {} in {key}, for {wait} at most; `tenure show {key}` tells who holds it",
            plan.range
        ),
        wanted,
    )
    .await
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
    let held = if plan.all { "some" } else { "all" };
    Failure::new(exit::HELD, format!("{}: {held} of {} is held by others", section.key(), plan.range))
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
