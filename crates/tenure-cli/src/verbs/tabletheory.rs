//! `tenure run` on TableTheory's leases: the same watchdog and the same end in time, and no fence.

use crate::config::{self, WaitLimit};
use crate::exit::{self, Failure};
use crate::output::{self, Lost};
use crate::stores::away::opened;
use crate::supervise;
use crate::supervise::command::{CommandInput, attend};
use crate::supervise::lease::{ExclusiveLease, ReleaseEnd};
use crate::supervise::run::Policy;
use crate::supervise::signals::Signals;
use crate::supervise::watchdog::LeadTime;
use crate::text::{brief, date};
use crate::verbs::waiting::{CurrentHolder, told_by};
use std::pin::pin;
use std::time::Duration;
use tenure::clock::{boottime, uuid};
use tenure::{Key, Wall};
use tenure_tabletheory::{ClockGap, HeldLease, Hold, LeaseError, Manager, TableTheoryOptions};
use tokio::sync::watch;

/// A lease that is refreshed in the background.
struct Rented {
    hold: Hold,
    key: String,
}

impl supervise::lease::Lease for Rented {
    fn key(&self) -> &str {
        &self.key
    }

    fn remaining(&self) -> Duration {
        self.hold.remaining()
    }
}

impl ExclusiveLease for Rented {
    fn lease(&self) -> &impl supervise::lease::Lease {
        self
    }

    async fn loss(&self) -> Option<Lost> {
        if self.hold.is_held() {
            return None;
        }
        let why = match self.hold.trouble() {
            Some(LeaseError::NotOwned { .. }) => {
                "the lease was taken over, or its item was removed".to_owned()
            }
            Some(error) => format!("the lease has expired: {error}"),
            None => "the lease has expired".to_owned(),
        };
        Some(Lost { why, remedy: Some(Self::REMEDY) })
    }

    fn trouble(&self) -> Option<String> {
        self.hold.trouble().map(|error| error.to_string())
    }

    /// Whether the item was still its own is not told.
    async fn release(self) -> ReleaseEnd {
        if let Err(error) = self.hold.release().await {
            output::note(format!("the lease could not be given back, and is left to expire: {error}"));
        }
        ReleaseEnd::Given
    }

    async fn lapse(self) {}
}

/// Runs the command under the lease whose partition key is the plan's key. `rest` is what follows `dynamodb:` in the URL.
pub(crate) async fn run(rest: &str, plan: config::RunConfig) -> Result<u8, Failure> {
    if plan.hold != config::HoldKind::Lease || !plan.more.is_empty() {
        return Err(Failure::usage(
            "TableTheory's leases have one key and one holder: neither several KEYs nor permits",
        ));
    }
    if !plan.at_least.is_zero() {
        return Err(Failure::usage("TableTheory's leases have no least time; leave --min out"));
    }
    if plan.about.has_note() {
        return Err(Failure::usage("TableTheory's leases have no room for a note; leave --note out"));
    }
    let options = TableTheoryOptions::from_url(rest)?;
    let (lead, margin) = (LeadTime::new(plan.ttl, plan.grace), options.margin());
    check_ttl(plan.ttl, options.margin(), lead)?;
    let mut signals = Signals::listen()?;
    let manager = opened(plan.await_store, async || {
        Ok(Manager::open(options.clone(), tenure::clock::system(), uuid).await?)
    });
    let manager = signals.unless(manager).await??;
    check_clock(manager.coarse_clock_gap().await?, margin)?;
    let policy = Policy::new(&format!("tabletheory-{}", uuid()), plan.ttl, plan.grace)?.at_most(plan.at_most);
    let policy = policy.hooks(plan.hooks.clone());
    let (told, found) = watch::channel(None);
    // No read is needed: each attempt finds out.
    let look = async |_: &Key| found.clone().wait_for(Option::is_some).await.ok()?.clone();
    let wanted = acquired(&manager, &plan, &told, &mut signals);
    let lease = match told_by(look, &[&plan.key], plan.patience, wanted).await {
        Ok(lease) => lease,
        Err(failure) => {
            policy.watchdogs.dismiss();
            return Err(failure);
        }
    };
    let rented = Rented { hold: manager.hold(lease, plan.ttl), key: plan.key.as_str().to_owned() };
    attend(rented, plan.command.command(), CommandInput::Ours, &policy, &mut signals).await?.status()
}

/// A lease must be long enough to be refreshed at about a third of what is left of it, and to stop the command in the rest.
fn check_ttl(ttl: Duration, margin: Duration, lead: LeadTime) -> Result<(), Failure> {
    /// Expiries are cut to whole seconds.
    const CUT: Duration = Duration::from_secs(1);
    let least = ttl.saturating_sub(CUT + margin);
    if least * 2 / 3 < lead.total() * 2 {
        let (ttl, margin) = (brief(ttl), brief(margin));
        return Err(Failure::usage(format!(
            "--ttl {ttl} is too short for TableTheory's leases: they end at whole seconds, and {margin} sooner for their \
             holders (skew_ms); take 3s, or 10s"
        )));
    }
    Ok(())
}

/// Leases end by the wall clocks of those who use them, so a clock that is off takes what others hold, or loses what it holds.
fn check_clock(gap: ClockGap, margin: Duration) -> Result<(), Failure> {
    if gap.off() <= margin {
        return Ok(());
    }
    let side = if gap.ahead > gap.behind { "ahead of" } else { "behind" };
    let (off, margin) = (brief(gap.off()), brief(margin));
    Err(Failure::new(
        exit::UNAVAILABLE,
        format!(
            "this host's clock is {off} {side} the service's or more, where {margin} are allowed (skew_ms): two could hold a lease; \
             set the clock"
        ),
    ))
}

/// The lease, as soon as it can be had, for as long as the plan has patience. Until then, `found` has what is known of its holder.
async fn acquired(
    manager: &Manager,
    plan: &config::RunConfig,
    found: &watch::Sender<Option<CurrentHolder>>,
    signals: &mut Signals,
) -> Result<HeldLease, Failure> {
    let end = match plan.patience {
        WaitLimit::Try => Some(Duration::ZERO),
        WaitLimit::Within(wait) => Some(boottime().saturating_add(wait)),
        WaitLimit::Forever => None,
    };
    let mut is_failing = false;
    loop {
        let error = match attempt(manager, plan, signals).await? {
            Ok(lease) => return Ok(lease),
            Err(error) => error,
        };
        let left = end.map_or(Duration::MAX, |end| end.saturating_sub(boottime()));
        if !error.is_passing() || left.is_zero() {
            return Err(refusal(plan, error));
        }
        let was_failing = std::mem::replace(&mut is_failing, matches!(error, LeaseError::Store(_)));
        match (&error, was_failing) {
            (LeaseError::Store(trouble), false) => {
                output::note(format!("the store fails: {trouble}; trying on"));
            }
            (LeaseError::Held { .. }, true) => output::note("the store answers again"),
            _ => {}
        }
        if let LeaseError::Held { until, .. } = &error {
            // The item names its holder by nothing but the token, which is what a lease is taken from its holder with.
            found.send_replace(Some(CurrentHolder {
                whom: "another".to_owned(),
                until: until.map(wall),
                is_around_us: false,
            }));
        }
        signals.unless(tokio::time::sleep(pause(manager, &error).min(left))).await?;
    }
}

/// Tries once. A signal meanwhile ends it, but what was won all the same is given back; a second one waits for nothing.
async fn attempt(
    manager: &Manager,
    plan: &config::RunConfig,
    signals: &mut Signals,
) -> Result<Result<HeldLease, LeaseError>, Failure> {
    let mut attempt = pin!(manager.acquire(plan.key.as_str(), plan.ttl));
    let signal = tokio::select! {
        told = &mut attempt => return Ok(told),
        signal = signals.next() => signal,
    };
    let give_back = async {
        if let Ok(mut lease) = attempt.await {
            let _left_to_expire_otherwise = manager.release(&mut lease).await;
        }
    };
    tokio::select! {
        () = give_back => {}
        _ = signals.next() => {}
    }
    Err(Failure::by_signal(signal))
}

/// Until the holder's time is over, but not for long: it may be given back any time, and nobody tells.
fn pause(manager: &Manager, error: &LeaseError) -> Duration {
    const LONGEST: Duration = Duration::from_secs(1);
    const SHORTEST: Duration = Duration::from_millis(50);
    let until = match error {
        LeaseError::Held { until: Some(until), .. } => wall(*until).since(manager.clock().now().wall),
        _ => LONGEST,
    };
    // Up to a fifth less, so that those who wait don't all ask at the same time.
    let random = uuid().bytes().map(u32::from).sum::<u32>() % 20;
    until.clamp(SHORTEST, LONGEST * (100 - random) / 100)
}

/// The time of so many Unix seconds.
fn wall(seconds: i64) -> Wall {
    Wall(u64::try_from(seconds).unwrap_or(0).saturating_mul(1000))
}

fn refusal(plan: &config::RunConfig, error: LeaseError) -> Failure {
    match error {
        LeaseError::Held { until, .. } => {
            let until =
                until.map_or_else(String::new, |until| format!(" until {} at least", date(wall(until))));
            Failure::new(plan.conflict, format!("{} is held by another{until}", plan.key))
        }
        LeaseError::Store(error) => Failure::about(&plan.key, error),
        LeaseError::Invalid(error) => error.into(),
        error => Failure::new(exit::LOST, error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ttl_must_leave_room_for_a_refresh_and_for_the_end() {
        let check = |ttl_ms, margin_ms| {
            let ttl = Duration::from_millis(ttl_ms);
            check_ttl(ttl, Duration::from_millis(margin_ms), LeadTime::new(ttl, Duration::from_secs(10)))
        };
        assert!(check(3000, 500).is_ok() && check(10_000, 500).is_ok() && check(10_000, 4000).is_ok());
        for (ttl, margin) in [(10, 0), (1000, 0), (2000, 500), (10_000, 9000), (10_000, 5000)] {
            let failure = check(ttl, margin).unwrap_err();
            assert!(failure.code == exit::USAGE && failure.text.contains("whole seconds"), "{failure}");
        }
    }
    #[test]
    fn a_clock_that_is_off_by_more_than_is_allowed_is_refused() {
        let check = |ahead, behind, margin| {
            let gap = ClockGap { ahead: Duration::from_millis(ahead), behind: Duration::from_millis(behind) };
            check_clock(gap, Duration::from_millis(margin))
        };
        assert!(check(0, 0, 0).is_ok() && check(500, 0, 500).is_ok() && check(0, 500, 500).is_ok());
        for (ahead, behind, says) in [(2_990, 0, "ahead of"), (0, 501, "behind")] {
            let failure = check(ahead, behind, 500).unwrap_err();
            assert!(failure.code == exit::UNAVAILABLE && failure.text.contains(says), "{failure}");
        }
    }
}
