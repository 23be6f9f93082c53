//! `tenure elect`: one command, run by whoever leads.

pub(crate) mod hook;
#[cfg(feature = "less")]
mod less;

use crate::config;
use crate::exit::{self, Failure};
use crate::output;
use crate::run::{Ended, about, attend};
use crate::stores::{Missing, Url};
use crate::supervise::client::Watchdogs;
use crate::supervise::outage::Outage;
use crate::supervise::process;
use crate::supervise::signals::Signals;
use crate::supervise::tenancy::Native;
use crate::supervise::watchdog::Lead;
use hook::Hook;
use std::sync::Arc;
use std::time::Duration;
use tenure::{AcquireError, Candidate, Clock, Guard, Leases, Observer};

pub(crate) async fn elect(url: &Url, plan: config::Elect) -> Result<u8, Failure> {
    process::find(&plan.term.command.program)?;
    #[cfg(feature = "less")]
    if let Some(place) = url.of_less()? {
        return less::elect(&place, plan).await;
    }
    let mut signals = Signals::listen().map_err(|error| Failure::new(exit::INTERNAL, error.to_string()))?;
    let clock: Arc<dyn Clock> = tenure::clock::system();
    let store = url.open(Missing::Create, Arc::clone(&clock)).await?;
    let outage = Outage::new(true);
    let store = outage.watch(store);
    // A fifth of the ttl is how often candidates look, unless the store tells of changes.
    let leases = Leases::builder(store).clock(clock).session_ttl(plan.term.ttl).poll(plan.term.ttl / 5);
    let leases = leases.store_patience(Duration::MAX).start()?;
    let watch = match &plan.on_change {
        Some(command) => {
            let observer = Candidate::on(&leases).key(plan.term.key.as_str()).observe()?;
            let hook =
                Hook::start(command.clone(), plan.term.key.clone(), leases.holder().as_str().to_owned())?;
            Some((observer, hook))
        }
        None => None,
    };
    let watching = watch.map(|(observer, hook)| tokio::spawn(pass_on(observer, hook)));
    let result = terms(&leases, &plan.term, &outage, &mut signals).await;
    if !matches!(result, Ok(Last { at_once: true, .. })) {
        // Whatever is still on its way, such as a claim that nobody waits for any more, is given back.
        tokio::select! {
            () = leases.stop() => {}
            () = tokio::time::sleep(plan.term.ttl) => {}
            _ = signals.next() => {}
        }
    }
    if let Some(watching) = watching {
        watching.abort();
        // With the task the hook is over, and a command that it runs.
        let _aborted = watching.await;
    }
    result.and_then(|last| last.status)
}

/// How the last term ended.
struct Last {
    status: Result<u8, Failure>,
    at_once: bool,
}

/// Term after term, until the command ends by itself or the user stops us.
async fn terms(
    leases: &Leases,
    plan: &config::Run,
    outage: &Outage,
    signals: &mut Signals,
) -> Result<Last, Failure> {
    let lead = Lead::new(plan.ttl, plan.grace);
    loop {
        let guard = match stand_by(leases, plan, signals).await? {
            Ok(guard) => guard,
            Err(signal) => return Err(Failure::by_signal(signal)),
        };
        let watchdogs = match Watchdogs::start(leases.holder().as_str(), lead) {
            Ok(watchdogs) => watchdogs,
            Err(failure) => {
                guard.release().await;
                return Err(failure);
            }
        };
        let ended =
            attend(Native { leases, guard, outage, ttl: plan.ttl }, plan, &watchdogs, signals).await?;
        match &ended {
            Ended::Done(status) => return Ok(Last { status: Ok(*status), at_once: false }),
            Ended::Asked(by) => return Err(Failure::asked(*by)),
            Ended::AtOnce(by) => {
                return Ok(Last { status: Err(Failure::asked(*by)), at_once: true });
            }
            // What can't be killed may still act: to start another beside it would be worse than to end.
            Ended::Stuck => return Err(Failure::new(exit::LOST, ended.lost(&plan.key))),
            Ended::Lost(_) | Ended::Withdrawn => {
                output::note(format!("{}; standing by", ended.lost(&plan.key)));
            }
        }
        if matches!(ended, Ended::Withdrawn)
            && let Err(signal) = pause(cooldown(plan), signals).await
        {
            return Err(Failure::by_signal(signal));
        }
    }
}

/// Whoever was told to stop lets the others go first.
fn cooldown(plan: &config::Run) -> Duration {
    plan.ttl / 5 * 2
}

/// Waits; an error if the user has stopped us.
pub(crate) async fn pause(span: Duration, signals: &mut Signals) -> Result<(), i32> {
    tokio::select! {
        () = tokio::time::sleep(span) => Ok(()),
        signal = signals.next() => Err(signal),
    }
}

/// Waits to be elected, through any trouble that may pass. The inner error is a signal of the user's.
async fn stand_by(
    leases: &Leases,
    plan: &config::Run,
    signals: &mut Signals,
) -> Result<Result<Guard, i32>, Failure> {
    let elected = leases.lock(plan.key.as_str()).ttl(plan.ttl).acquire();
    tokio::select! {
        elected = elected => match elected {
            Ok(guard) => Ok(Ok(guard)),
            Err(AcquireError::Store(error)) => Err(about(&plan.key, error)),
            Err(error) => Err(error.into()),
        },
        signal = signals.next() => Ok(Err(signal)),
    }
}

/// Tells the hook of each leader.
async fn pass_on(observer: Observer, hook: Hook) {
    let mut changes = observer.changes();
    let mut last = None;
    loop {
        let leader = changes.borrow_and_update().leader.clone();
        if leader != last {
            hook.tell(
                leader.as_ref().map(|leader| hook::Leader {
                    id: leader.id.as_str().to_owned(),
                    fence: Some(leader.fence),
                }),
            );
            last = leader;
        }
        if changes.changed().await.is_err() {
            return;
        }
    }
}
