//! `tenure elect`: one command, run by whoever leads.

pub(crate) mod hook;
#[cfg(feature = "less")]
mod less;
pub(crate) mod watch;

use crate::config::{self, WaitLimit};
use crate::exit::{self, Failure};
use crate::output::{self, RepeatedNote};
use crate::stores::Url;
use crate::supervise::command::{CommandEnd, CommandInput, attend};
use crate::supervise::lease::{ExclusiveLease, LeastTime, NativeLease};
use crate::supervise::opened::OpenedStore;
use crate::supervise::outage::Outage;
use crate::supervise::process;
use crate::supervise::run::Policy;
use crate::supervise::signals::Signals;
use crate::supervise::will::Will;
use crate::telemetry::leaderships;
use crate::verbs::waiting::told;
use hook::{Hook, LeaderInfo};
use std::time::Duration;
use tenure::{AcquireError, Key};
use watch::LeaderWatch;

pub(crate) async fn elect(url: &Url, mut plan: config::ElectConfig) -> Result<u8, Failure> {
    plan.term.command = process::found(plan.term.command)?;
    #[cfg(feature = "less")]
    if let Some(place) = url.of_less()? {
        return less::elect(&place, plan).await;
    }
    let on_change = plan.on_change.take();
    let term = &plan.term;
    url.check_ttl(term.ttl)?;
    let mut signals = Signals::listen()?;
    let opened = OpenedStore::open(url, term.await_store, Outage::new(true));
    let opened = signals.unless(opened).await??;
    // A fifth of the ttl is how often candidates look, unless the store tells of changes.
    let leases = opened.leases().session_ttl(term.ttl).poll(term.ttl / 5);
    let leases = leases.store_patience(Duration::MAX).start()?;
    let following = match on_change {
        Some(command) => {
            let watch = LeaderWatch::start(&leases, &term.key, &opened.outage, term.ttl)?;
            let hook = Hook::start(command, term.key.clone(), leases.holder().as_str().to_owned())?;
            let (ours, key) = (leases.clone(), term.key.clone());
            Some(hook.follow(watch, move |seen| LeaderInfo::of(&ours, &key, seen.as_ref())))
        }
        None => None,
    };
    let elected = async || {
        let acquired = outlasting_refusals(&term.key, &opened.outage, term.ttl / 5, async || {
            let lock = leases.lock(term.key.as_str()).ttl(term.ttl).metadata(term.about.metadata());
            lock.acquire().await
        });
        let keys = [&term.key];
        // Whoever holds nothing, and never will, is better started anew.
        let acquired = told(&leases, &keys, WaitLimit::Forever, acquired);
        let guard = opened.file.unless_gone(term.ttl, acquired).await??;
        Ok(NativeLease { guard, outage: &opened.outage, ttl: term.ttl, kept: LeastTime::default() })
    };
    let will = || Will::of(url, &leases, [term.key.as_str()].into_iter());
    let result = terms(elected, leases.holder().as_str(), will, &plan, &mut signals).await;
    // Whatever is still on its way, such as a claim that nobody waits for any more, is given back.
    signals.farewell(&result, term.ttl, leases.stop()).await;
    if let Some(following) = following {
        following.end().await;
    }
    result
}

/// What comes of `acquire`. A refusal that may pass is said, and outlasted: else a password that is changed would end all who stand by.
async fn outlasting_refusals<T>(
    key: &Key,
    outage: &Outage,
    pause: Duration,
    mut acquire: impl AsyncFnMut() -> Result<T, AcquireError>,
) -> Result<T, Failure> {
    let mut refusal = RepeatedNote::default();
    loop {
        let error = match acquire().await {
            Ok(acquired) => return Ok(acquired),
            Err(AcquireError::Store(error)) if outage.may_pass(&error) => error,
            Err(AcquireError::Store(error)) => return Err(Failure::about(key, error)),
            Err(error) => return Err(error.into()),
        };
        refusal.say(format!("{key}: {error}; trying on"));
        tokio::time::sleep(pause).await;
    }
}

/// Term after term, until the command ends by itself or the user stops us. `elected` waits to be elected, through any trouble that
/// may pass. What can't be killed may still act, so nothing is started after it. `will`: what becomes of a term if this process is
/// killed. Whoever steps down stands back for its cooldown.
async fn terms<T: ExclusiveLease>(
    elected: impl AsyncFn() -> Result<T, Failure>,
    name: &str,
    will: impl Fn() -> Option<Will>,
    plan: &config::ElectConfig,
    signals: &mut Signals,
) -> Result<u8, Failure> {
    let config::ElectConfig { term, cooldown, .. } = plan;
    leaderships::start();
    loop {
        let held = signals.unless(elected()).await??;
        leaderships::begun();
        let policy = match Policy::new(name, term.ttl, term.grace) {
            Ok(policy) => {
                policy.at_most(term.at_most).hooks(term.hooks.clone()).checked_by(term.check.clone())
            }
            Err(failure) => {
                held.release().await;
                leaderships::ended("resigned");
                return Err(failure);
            }
        };
        policy.watchdogs.bequeath(will());
        let ended = attend(held, term.command.command(), CommandInput::Ours, &policy, signals).await;
        leaderships::ended(cause(&ended));
        match ended? {
            ended @ (CommandEnd::Done(_) | CommandEnd::FoundLost(_)) => return ended.status(),
            CommandEnd::Lost(text) | CommandEnd::Released(text) => {
                output::note(format!("{text}; standing by"));
            }
            CommandEnd::Withdrawn(text) | CommandEnd::Failed(text) => {
                output::note(format!("{text}; standing by"));
                // Whoever was told to stop lets the others go first.
                signals.unless(tokio::time::sleep(*cooldown)).await?;
            }
        }
    }
}

/// Why a term has ended, as metrics say it.
fn cause(ended: &Result<CommandEnd, Failure>) -> &'static str {
    match ended {
        Ok(CommandEnd::Done(_) | CommandEnd::Failed(_)) => "resigned",
        Ok(CommandEnd::Lost(_) | CommandEnd::FoundLost(_)) => "lost",
        Ok(CommandEnd::Released(_) | CommandEnd::Withdrawn(_)) => "asked",
        // What can't be killed leaves its lease to expire.
        Err(failure) if failure.code == exit::LOST => "lost",
        Err(failure) if failure.by.is_some() => "stopping",
        Err(_) => "resigned",
    }
}

#[cfg(test)]
mod tests {
    //! Plan: a refusal ends who stands by only where the store never let it write.
    use super::*;
    use tenure::{AnyStore, Leases, StoreError};

    fn refused() -> AcquireError {
        AcquireError::Store(StoreError::invalid("the password is wrong"))
    }

    #[tokio::test]
    async fn a_password_that_is_changed_ends_nobody_who_stands_by() {
        let (key, outage) = (Key::new("k").unwrap(), Outage::new(false));
        let mut tries = 0;
        let mut acquire = async || {
            tries += 1;
            if tries % 3 == 0 { Ok(tries) } else { Err(refused()) }
        };
        let pause = Duration::from_millis(1);
        let never = outlasting_refusals(&key, &outage, pause, &mut acquire).await;
        assert!(never.is_err_and(|failure| failure.code == exit::USAGE), "it never was let in");
        let leases = Leases::new(outage.watch(AnyStore::new(tenure::memory()))).unwrap();
        leases.acquire("other").await.unwrap().release().await;
        assert_eq!(outlasting_refusals(&key, &outage, pause, &mut acquire).await.unwrap(), 3);
        let unsupported = async || Err::<(), _>(AcquireError::Store(StoreError::unsupported("never")));
        assert!(outlasting_refusals(&key, &outage, pause, unsupported).await.is_err());
    }
}
