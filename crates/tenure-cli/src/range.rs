//! `tenure range`: one command for those keys of a range that nobody else works on.

use crate::config;
use crate::exit::{self, Failure};
use crate::stores::{Missing, Url};
use crate::supervise::client::{Watchdogs, asked_now};
use crate::supervise::command::{Given, Over, Supervised, Why};
use crate::supervise::health::health_by_time;
use crate::supervise::outage::Outage;
use crate::supervise::process::{self, shell_status};
use crate::supervise::signals::Signals;
use crate::supervise::watchdog::Lead;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tenure::Clock;
use tenure::range::{KeyRange, RangeGuard, Section};

/// The longest list of ranges that is put into the environment; Linux takes 128 KiB for a variable.
const MOST_IN_ENVIRONMENT: usize = 100_000;

/// How long to wait for a store that does not answer what is given back to it.
const PATIENCE: Duration = Duration::from_secs(1);

pub(crate) async fn range(url: &Url, plan: config::Range) -> Result<u8, Failure> {
    process::find(&plan.command.program)?;
    let mut signals = Signals::listen().map_err(|error| Failure::new(exit::INTERNAL, error.to_string()))?;
    let clock: Arc<dyn Clock> = tenure::clock::system();
    let store = url.open(Missing::Create, Arc::clone(&clock)).await?;
    let store = Outage::new(true).watch(store);
    let lead = Lead::new(plan.duration, plan.grace);
    let section = Section::builder(store, &plan.section).clock(clock).start()?;
    let watchdogs = Watchdogs::start(section.holder().as_str(), lead)?;
    let acquired = tokio::select! {
        acquired = section.acquire(plan.range.clone(), plan.duration) => acquired.map_err(Failure::from),
        signal = signals.next() => Err(Failure::by_signal(signal)),
    };
    let result = match acquired {
        Ok(guard) => attend(&section, guard, &plan, &watchdogs, &mut signals).await,
        Err(failure) => {
            watchdogs.dismiss();
            Err(failure)
        }
    };
    if !matches!(result, Ok(Ending { at_once: true, .. })) {
        // Whatever is still on its way, such as a claim that nobody waits for any more, is given back.
        tokio::select! {
            () = section.stop() => {}
            () = tokio::time::sleep(plan.duration.min(PATIENCE)) => {}
            _ = signals.next() => {}
        }
    }
    result.and_then(|ending| ending.status)
}

struct Ending {
    status: Result<u8, Failure>,
    /// The user does not want to wait for anything.
    at_once: bool,
}

/// Runs the command, and gives the ranges up once it is known to be over.
async fn attend(
    section: &Section,
    guard: RangeGuard,
    plan: &config::Range,
    watchdogs: &Arc<Watchdogs>,
    signals: &mut Signals,
) -> Result<Ending, Failure> {
    let key = section.key();
    if guard.fence().is_none() {
        watchdogs.dismiss();
        return Err(Failure::new(exit::HELD, format!("{key}: all of {} is held by others", plan.range)));
    }
    let supervised = match start(section, &guard, plan, watchdogs) {
        Ok(supervised) => supervised,
        Err(failure) => {
            watchdogs.dismiss();
            guard.release().await;
            return Err(failure);
        }
    };
    let lead = watchdogs.lead();
    let standing = || (guard.remaining(), health_by_time(guard.remaining(), lead));
    match supervised.see(standing, plan.duration, plan.grace, watchdogs, signals).await {
        Over::Ended(status, why) => {
            watchdogs.dismiss();
            // Its outcome changes nothing any more: the command is over, and ranges that have expired are given up as well. A store
            // that does not answer holds nobody up: the ranges end by themselves.
            let _known = tokio::time::timeout(plan.duration.min(PATIENCE), guard.release()).await;
            match why {
                Some(Why::Asked(by)) => Err(Failure::asked(by)),
                Some(Why::Revoked | Why::Losing) => {
                    let text = format!("{key}: the time was over; the command was stopped");
                    Err(Failure::new(exit::LOST, text))
                }
                None => {
                    let status = status.map_err(|error| Failure::new(exit::INTERNAL, error.to_string()))?;
                    Ok(Ending { status: Ok(shell_status(status)), at_once: false })
                }
            }
        }
        // Nothing is known of the command, which may still be at work: the watchdog stays, and the ranges must expire.
        Over::AtOnce(by) => {
            guard.lapse().await;
            Ok(Ending { status: Err(Failure::asked(by)), at_once: true })
        }
        Over::Stuck => {
            guard.lapse().await;
            let text = format!("{key}: the command can't be killed; its ranges are left to expire");
            Err(Failure::new(exit::LOST, text))
        }
    }
}

fn start(
    section: &Section,
    guard: &RangeGuard,
    plan: &config::Range,
    watchdogs: &Arc<Watchdogs>,
) -> Result<Supervised, Failure> {
    let asked_at = asked_now();
    let left = guard.remaining();
    watchdogs.prolong(asked_at, left);
    let lines: Vec<String> = guard.parts().iter().map(KeyRange::to_string).collect();
    let mut command = Command::new(&plan.command.program);
    command.args(&plan.command.arguments).stdin(Stdio::piped());
    command.env("TENURE_KEY", section.key().as_str());
    command.env("TENURE_FENCE", guard.fence().unwrap_or_default().to_string());
    // When the command is told to stop.
    let until = left.saturating_sub(watchdogs.lead().total());
    let deadline = u128::from(section.clock().now().wall.0) + until.as_millis();
    command.env("TENURE_DEADLINE", deadline.to_string());
    let ranges = lines.join(" ");
    if ranges.len() <= MOST_IN_ENVIRONMENT {
        command.env("TENURE_RANGES", ranges);
    } else {
        command.env_remove("TENURE_RANGES");
    }
    let supervised = Supervised::start(command, Given::Lines(lines), watchdogs, plan.grace)?;
    if !guard.is_held() {
        supervised.kill();
    }
    Ok(supervised)
}
