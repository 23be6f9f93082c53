//! `tenure run`: one command under one lease.

use crate::config::{self, HoldKind, WaitLimit};
use crate::exit::Failure;
use crate::stores::Url;
use crate::supervise::command::{CommandInput, attend};
use crate::supervise::lease::{ExclusiveLease, LeastTime, NativeAll, NativeLease};
use crate::supervise::opened::OpenedStore;
use crate::supervise::outage::Outage;
use crate::supervise::process;
use crate::supervise::run::Policy;
use crate::supervise::signals::Signals;
use crate::supervise::will::Will;
use crate::text::date;
use crate::verbs::waiting::{about_occupant, told};
use std::pin::pin;
use std::time::Duration;
use tenure::store::reserved;
use tenure::{AcquireError, Guard, HolderId, Leases, Metadata, Occupant};

pub(crate) async fn run(url: &Url, mut plan: config::RunConfig) -> Result<u8, Failure> {
    let found = process::find(&plan.command.program)?;
    plan.command = plan.command.at(found);
    #[cfg(feature = "dynamodb")]
    if let Some(rest) = url.of_dialect(tenure::dynamodb::Dialect::TableTheory)? {
        return crate::verbs::tabletheory::run(rest, plan).await;
    }
    url.check_ttl(plan.ttl)?;
    if plan.hold == HoldKind::Lease {
        reserved::check(&plan.key)?;
    }
    let mut signals = Signals::listen()?;
    // Who only tries is told with the refusal.
    let outage = Outage::new(plan.patience != WaitLimit::Try);
    // While the store is opened, who we are is looked up, and the first watchdog starts, which is a process: it would take the processor from that.
    let holder = HolderId::new(tenure::clock::holder_name())?;
    let (opened, (policy, about)) = tokio::join!(
        biased;
        signals.unless(OpenedStore::open(url, plan.await_store, outage)),
        async {
            let about = plan.about.metadata();
            (Policy::with_one_watchdog(holder.as_str(), plan.ttl, plan.grace), about)
        }
    );
    let policy = policy?.at_most(plan.at_most).hooks(plan.hooks.clone());
    let opened = opened.flatten().inspect_err(|_| policy.watchdogs.dismiss())?;
    let leases = opened
        .leases()
        .holder(holder)
        .session_ttl(plan.ttl)
        // Permits are attached to the session, which tells of their holder.
        .metadata(if plan.hold == HoldKind::Lease { Metadata::new() } else { about.clone() })
        .store_patience(Duration::MAX)
        .start();
    let leases = leases.inspect_err(|_| policy.watchdogs.dismiss())?;
    // What is kept for a least time is kept for it whatever becomes of this process.
    if plan.at_least.is_zero() {
        let semaphore =
            (plan.hold != HoldKind::Lease).then(|| tenure::permits::key(plan.key.as_str()).ok()).flatten();
        let keys = [&plan.key].into_iter().chain(&plan.more).filter(|_| plan.hold == HoldKind::Lease);
        let keys = keys.chain(&semaphore).map(tenure::Key::as_str);
        policy.watchdogs.bequeath(Will::of(url, &leases, keys));
    }
    let result = under_lease(&leases, &plan, about, &opened, &policy, &mut signals).await;
    // Whatever is still on its way, such as a claim that nobody waits for any more, is given back.
    signals.farewell(&result, plan.ttl, leases.stop()).await;
    result
}

/// What comes of asking for a lease; a failure where nobody waits for that any more.
type Attempt<T> = Result<Result<T, AcquireError>, Failure>;

async fn under_lease(
    leases: &Leases,
    plan: &config::RunConfig,
    about: Metadata,
    opened: &OpenedStore,
    policy: &Policy,
    signals: &mut Signals,
) -> Result<u8, Failure> {
    if !plan.more.is_empty() {
        let keys: Vec<&tenure::Key> = [&plan.key].into_iter().chain(&plan.more).collect();
        let all = leases.lock_all(keys.iter().map(|key| key.as_str())).metadata(about);
        let all = all.ttl(plan.ttl).at_least_for(plan.at_least);
        let acquired = async {
            match plan.patience {
                WaitLimit::Try => all.try_acquire().await,
                WaitLimit::Within(wait) => all.acquire_within(wait).await,
                WaitLimit::Forever => all.acquire().await,
            }
        };
        let acquired = told(leases, &keys, plan.patience, acquired);
        let acquired = signals.unless(beside_a_watchdog(plan, acquired, opened, policy)).await.flatten();
        let guards = had(leases, plan, &keys, policy, acquired).await?;
        let kept = LeastTime::from_now(plan.at_least);
        return run_under(plan, NativeAll::new(guards, &opened.outage, plan.ttl, kept), policy, signals)
            .await;
    }
    let acquired = async {
        let HoldKind::Lease = plan.hold else { return acquire_permits(leases, plan).await };
        let lock = leases.lock(plan.key.as_str()).ttl(plan.ttl).at_least_for(plan.at_least);
        let lock = lock.metadata(about);
        let wanted = async {
            match plan.patience {
                WaitLimit::Try => lock.try_acquire().await,
                WaitLimit::Within(wait) => lock.acquire_within(wait).await,
                WaitLimit::Forever => lock.acquire().await,
            }
        };
        told(leases, &[&plan.key], plan.patience, wanted).await
    };
    let semaphore =
        if plan.hold == HoldKind::Lease { None } else { tenure::permits::key(plan.key.as_str()).ok() };
    let keys = [semaphore.as_ref().unwrap_or(&plan.key)];
    let acquired = signals.unless(beside_a_watchdog(plan, acquired, opened, policy)).await.flatten();
    let guard = had(leases, plan, &keys, policy, acquired).await?;
    let kept = LeastTime::from_now(plan.at_least);
    run_under(plan, NativeLease { guard, outage: &opened.outage, ttl: plan.ttl, kept }, policy, signals).await
}

/// What is acquired. The second watchdog starts while the store is asked: it is there before the command is, as the first is before
/// anything is asked for, and both know what to give back.
async fn beside_a_watchdog<T>(
    plan: &config::RunConfig,
    acquired: impl Future<Output = Result<T, AcquireError>>,
    opened: &OpenedStore,
    policy: &Policy,
) -> Attempt<T> {
    if let WaitLimit::Within(_) = plan.patience {
        // The time that is waited for the lease is not spent on processes.
        policy.watchdogs.complete_pair()?;
    }
    let mut acquired = pin!(acquired);
    // To start a process blocks this thread, on which all is asked for that the store does on others.
    let early = tokio::select! {
        biased;
        acquired = &mut acquired => Some(acquired),
        () = opened.outage.asked() => None,
    };
    if !matches!(early, Some(Err(_))) {
        policy.watchdogs.complete_pair()?;
    }
    match early {
        Some(acquired) => Ok(acquired),
        // Whoever waits for what nobody else can see is better started anew.
        None => opened.file.unless_gone(plan.ttl, acquired).await,
    }
}

async fn run_under<T: ExclusiveLease>(
    plan: &config::RunConfig,
    held: T,
    policy: &Policy,
    signals: &mut Signals,
) -> Result<u8, Failure> {
    attend(held, plan.command.command(), CommandInput::Ours, policy, signals).await?.status()
}

/// What was acquired, unless it could not be had, or the user did not wait for it.
async fn had<T>(
    leases: &Leases,
    plan: &config::RunConfig,
    keys: &[&tenure::Key],
    policy: &Policy,
    attempt: Attempt<T>,
) -> Result<T, Failure> {
    let failure = match attempt {
        Ok(Ok(had)) => return Ok(had),
        Ok(Err(error)) => {
            let about = match &error {
                AcquireError::Held(Some(by)) => about_occupant(leases, keys, by).await,
                _ => None,
            };
            refusal(plan, error, about)
        }
        Err(failure) => failure,
    };
    policy.watchdogs.dismiss();
    Err(failure)
}

/// Permits are attached to the session, whose ttl is the one that was asked for.
async fn acquire_permits(leases: &Leases, plan: &config::RunConfig) -> Result<Guard, AcquireError> {
    let name = plan.key.as_str();
    let permits = match plan.hold {
        HoldKind::Permits { take, of } => leases.semaphore(name, of).take(take),
        HoldKind::Shared => leases.shared(name),
        HoldKind::Exclusive | HoldKind::Lease => leases.exclusive(name),
    };
    let permits = permits.at_least_for(plan.at_least);
    let record = tenure::permits::key(name).map_err(|error| AcquireError::Store(error.into()))?;
    let wanted = async {
        match plan.patience {
            WaitLimit::Try => permits.try_acquire().await,
            WaitLimit::Within(wait) => permits.acquire_within(wait).await,
            WaitLimit::Forever => permits.acquire().await,
        }
    };
    told(leases, &[&record], plan.patience, wanted).await
}

fn refusal(plan: &config::RunConfig, error: AcquireError, about: Option<String>) -> Failure {
    match error {
        AcquireError::Held(by) => {
            let by = holder(by, about);
            let what = if plan.more.is_empty() { "is" } else { "and others are, or one of them is," };
            Failure::new(plan.conflict, format!("{} {what} held{by}", plan.key))
        }
        AcquireError::Store(error) => Failure::about(&plan.key, error),
        error => error.into(),
    }
}

/// Who holds a key, in words, with what is told of that.
pub(crate) fn holder(by: Option<Occupant>, about: Option<String>) -> String {
    let about = about.map_or_else(String::new, |about| format!(" ({about})"));
    by.map_or_else(String::new, |by| {
        format!(" by {}{about} since {} (fence {})", by.holder, date(by.since), by.fence)
    })
}
