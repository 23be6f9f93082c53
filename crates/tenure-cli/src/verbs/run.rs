//! `tenure run`: one command under one lease.

use crate::config::{self, WaitPolicy};
use crate::exit::{self, Failure};
use crate::stores::{Missing, Url};
use crate::supervise::command::{Input, attend};
use crate::supervise::lease::Native;
use crate::supervise::outage::Outage;
use crate::supervise::process;
use crate::supervise::run::Policy;
use crate::supervise::signals::Signals;
use crate::text::date;
use std::time::Duration;
use tenure::{AcquireError, ErrorKind, Leases, StoreError, reserved};

pub(crate) async fn run(url: &Url, plan: config::Run) -> Result<u8, Failure> {
    process::find(&plan.command.program)?;
    #[cfg(feature = "dynamodb")]
    if let Some(rest) = url.of_dialect(tenure::dynamodb::Dialect::TableTheory)? {
        return crate::verbs::tabletheory::run(rest, plan).await;
    }
    reserved::check(&plan.key)?;
    let mut signals = Signals::listen()?;
    let clock = tenure::clock::system();
    let store = url.open(Missing::Create, clock.clone()).await?;
    // Who only tries is told with the refusal.
    let outage = Outage::new(plan.patience != WaitPolicy::Try);
    let store = outage.watch(store);
    let leases = Leases::builder(store).clock(clock).store_patience(Duration::MAX).start()?;
    let policy = Policy::new(leases.holder().as_str(), plan.ttl, plan.grace)?.at_most(plan.at_most);
    let result = under_lease(&leases, &plan, &outage, &policy, &mut signals).await;
    // Whatever is still on its way, such as a claim that nobody waits for any more, is given back.
    signals.farewell(&result, plan.ttl, leases.stop()).await;
    result
}

async fn under_lease(
    leases: &Leases,
    plan: &config::Run,
    outage: &Outage,
    policy: &Policy,
    signals: &mut Signals,
) -> Result<u8, Failure> {
    let lock = leases.lock(plan.key.as_str()).ttl(plan.ttl).at_least_for(plan.at_least);
    let acquired = async {
        match plan.patience {
            WaitPolicy::Try => lock.try_acquire().await,
            WaitPolicy::Within(wait) => lock.acquire_within(wait).await,
            WaitPolicy::Forever => lock.acquire().await,
        }
    };
    let acquired = signals.unless(acquired).await;
    let guard = match acquired.and_then(|acquired| acquired.map_err(|error| refusal(plan, error))) {
        Ok(guard) => guard,
        Err(failure) => {
            policy.watchdogs.dismiss();
            return Err(failure);
        }
    };
    let tenancy = Native { guard, outage, ttl: plan.ttl };
    attend(tenancy, plan.command.command(), Input::Ours, policy, signals).await?.status()
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
