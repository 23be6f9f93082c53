//! `tenure run`: one command under one lease.

use crate::config::{self, WaitPolicy};
use crate::exit::{self, Failure};
use crate::stores::{Missing, Url};
use crate::supervise::client::{Watchdogs, asked_now};
use crate::supervise::command::{Given, Over, Supervised, Why};
use crate::supervise::health::UnknownSince;
use crate::supervise::outage::Outage;
use crate::supervise::process::{self, shell_status};
use crate::supervise::signals::{Asked, Signals};
use crate::supervise::tenancy::{Native, Tenancy};
use crate::supervise::watchdog::Lead;
use crate::text::date;
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use tenure::{AcquireError, Clock, ErrorKind, Leases, StoreError, reserved};

pub(crate) async fn run(url: &Url, plan: config::Run) -> Result<u8, Failure> {
    process::find(&plan.command.program)?;
    #[cfg(feature = "dynamodb")]
    if let Some(rest) = url.of_dialect(tenure::dynamodb::Dialect::TableTheory)? {
        return crate::tabletheory::run(rest, plan).await;
    }
    reserved::check(&plan.key)?;
    let mut signals = Signals::listen().map_err(|error| Failure::new(exit::INTERNAL, error.to_string()))?;
    let clock: Arc<dyn Clock> = tenure::clock::system();
    let store = url.open(Missing::Create, Arc::clone(&clock)).await?;
    // Who only tries is told with the refusal.
    let outage = Outage::new(plan.patience != WaitPolicy::Try);
    let store = outage.watch(store);
    let leases = Leases::builder(store).clock(clock).store_patience(std::time::Duration::MAX).start()?;
    let lead = Lead::new(plan.ttl, plan.grace);
    let watchdogs = Watchdogs::start(leases.holder().as_str(), lead)?;
    let result = under_lease(&leases, &plan, &outage, &watchdogs, &mut signals).await;
    // Whatever is still on its way, such as a claim that nobody waits for any more, is given back.
    let farewell = async {
        tokio::select! {
            () = leases.stop() => {}
            () = tokio::time::sleep(plan.ttl) => {}
            _ = signals.next() => {}
        }
    };
    match &result {
        Ok(Ending { at_once: true, .. }) => {}
        _ => farewell.await,
    }
    result.and_then(|ending| ending.status)
}

/// How a verb ends.
pub(crate) struct Ending {
    pub(crate) status: Result<u8, Failure>,
    /// The user does not want to wait for anything.
    at_once: bool,
}

async fn under_lease(
    leases: &Leases,
    plan: &config::Run,
    outage: &Outage,
    watchdogs: &Arc<Watchdogs>,
    signals: &mut Signals,
) -> Result<Ending, Failure> {
    let lock = leases.lock(plan.key.as_str()).ttl(plan.ttl);
    let acquired = async {
        match plan.patience {
            WaitPolicy::Try => lock.try_acquire().await,
            WaitPolicy::Within(wait) => lock.acquire_within(wait).await,
            WaitPolicy::Forever => lock.acquire().await,
        }
    };
    let acquired = tokio::select! {
        acquired = acquired => acquired,
        signal = signals.next() => {
            watchdogs.dismiss();
            return Err(Failure::by_signal(signal));
        }
    };
    let guard = match acquired {
        Ok(guard) => guard,
        Err(error) => {
            watchdogs.dismiss();
            return Err(refusal(plan, error));
        }
    };
    attend(Native { leases, guard, outage, ttl: plan.ttl }, plan, watchdogs, signals).await?.ending(&plan.key)
}

/// How a command under a lease came to its end.
#[derive(Debug)]
pub(crate) enum Ended {
    /// By itself, with this status.
    Done(u8),
    /// The user has stopped it.
    Asked(Asked),
    /// The user has stopped it and does not want to wait for anything.
    AtOnce(Asked),
    /// It was stopped because the lease was lost, or about to be.
    Lost(String),
    /// It was stopped because the lease was withdrawn.
    Withdrawn,
    /// It can't be stopped: the lease was left to expire.
    Stuck,
}

impl Ended {
    /// How the verb ends then, when nothing more is to be tried.
    pub(crate) fn ending(self, key: &tenure::Key) -> Result<Ending, Failure> {
        match self {
            Ended::Done(status) => Ok(Ending { status: Ok(status), at_once: false }),
            Ended::AtOnce(by) => Ok(Ending { status: Err(Failure::asked(by)), at_once: true }),
            Ended::Asked(by) => Err(Failure::asked(by)),
            ended => Err(Failure::new(exit::LOST, ended.lost(key))),
        }
    }

    /// Why it was stopped, in words.
    pub(crate) fn lost(&self, key: &tenure::Key) -> String {
        let stopped = |why: &str| format!("{key}: {why}; the command was stopped");
        match self {
            Ended::Lost(why) => stopped(why),
            Ended::Withdrawn => stopped("the lease was withdrawn"),
            Ended::Stuck => format!("{key}: the command can't be killed; its lease is left to expire"),
            Ended::Done(_) | Ended::Asked(_) | Ended::AtOnce(_) => String::new(),
        }
    }
}

fn refusal(plan: &config::Run, error: AcquireError) -> Failure {
    match error {
        AcquireError::Held(by) => {
            let by = by.map_or_else(String::new, |by| {
                format!(" by {} since {} (fence {})", by.holder, date(by.since), by.fence)
            });
            Failure::new(exit::HELD, format!("{} is held{by}", plan.key))
        }
        AcquireError::Store(error) => about(&plan.key, error),
        error => error.into(),
    }
}

/// What the store says of `key`. What is wrong with the key itself names it already.
pub(crate) fn about(key: &tenure::Key, error: StoreError) -> Failure {
    let is_named = error.kind() == ErrorKind::Invalid;
    let failure = Failure::from(error);
    if is_named { failure } else { Failure::new(failure.code, format!("{key}: {}", failure.text)) }
}

/// Runs the command under a lease, sees to it that it is over before the lease is, and gives the lease up.
pub(crate) async fn attend(
    tenancy: impl Tenancy,
    plan: &config::Run,
    watchdogs: &Arc<Watchdogs>,
    signals: &mut Signals,
) -> Result<Ended, Failure> {
    let supervised = match start(&tenancy, plan, watchdogs) {
        Ok(supervised) => supervised,
        Err(failure) => {
            watchdogs.dismiss();
            tenancy.release().await;
            return Err(failure);
        }
    };
    let (lead, unknown_since) = (watchdogs.lead(), UnknownSince::default());
    let standing = || (tenancy.remaining(), tenancy.health(lead, &unknown_since));
    match supervised.see(standing, plan.ttl, plan.grace, watchdogs, signals).await {
        Over::Ended(status, why) => {
            watchdogs.dismiss();
            conclude(tenancy, plan, status, why).await
        }
        // Nothing is known of the command, which may still be at work: the lease must expire.
        Over::AtOnce(by) => {
            tenancy.lapse().await;
            Ok(Ended::AtOnce(by))
        }
        Over::Stuck => {
            tenancy.lapse().await;
            Ok(Ended::Stuck)
        }
    }
}

fn start(
    tenancy: &impl Tenancy,
    plan: &config::Run,
    watchdogs: &Arc<Watchdogs>,
) -> Result<Supervised, Failure> {
    let asked_at = asked_now();
    let left = tenancy.remaining();
    watchdogs.prolong(asked_at, left);
    let mut command = Command::new(&plan.command.program);
    command.args(&plan.command.arguments);
    command.env("TENURE_KEY", plan.key.as_str());
    match tenancy.fence() {
        Some(fence) => command.env("TENURE_FENCE", fence.to_string()),
        // That of a command around this one would be of another lease.
        None => command.env_remove("TENURE_FENCE"),
    };
    let deadline = u128::from(tenancy.wall().0) + left.as_millis();
    command.env("TENURE_DEADLINE", deadline.to_string());
    let supervised = Supervised::start(command, Given::Terminal, watchdogs, plan.grace)?;
    if !tenancy.is_held() {
        supervised.kill();
    }
    Ok(supervised)
}

async fn conclude(
    tenancy: impl Tenancy,
    plan: &config::Run,
    status: std::io::Result<ExitStatus>,
    why: Option<Why>,
) -> Result<Ended, Failure> {
    let (loss, trouble) = (tenancy.loss().await, tenancy.trouble());
    // The loss may name its cause already.
    let because = |text: String| match trouble {
        Some(trouble) if !text.contains(&trouble) => format!("{text}: {trouble}"),
        _ => text,
    };
    // Its outcome changes nothing any more: the command is over, and an expired lease is given up as well.
    let _known = tokio::time::timeout(plan.ttl, tenancy.release()).await;
    match (why, loss) {
        (Some(Why::Asked(by)), _) => Ok(Ended::Asked(by)),
        (Some(Why::Revoked), _) => Ok(Ended::Withdrawn),
        (_, Some(loss)) => Ok(Ended::Lost(because(loss))),
        (Some(Why::Losing), None) => {
            Ok(Ended::Lost(because("the lease could not be renewed in time".to_owned())))
        }
        (None, None) => {
            let status = status.map_err(|error| Failure::new(exit::INTERNAL, error.to_string()))?;
            Ok(Ended::Done(shell_status(status)))
        }
    }
}
