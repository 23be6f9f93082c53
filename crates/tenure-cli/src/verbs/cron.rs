//! `tenure cron`: one command at each tick of a schedule, once over all hosts.

mod left_out;
mod tick;

use crate::config::cron::CronConfig;
use crate::exit::{self, Failure};
use crate::output::{self, Lost};
use crate::stores::Url;
use crate::supervise::command::{CommandEnd, CommandInput, attend};
use crate::supervise::lease::{ExclusiveLease, Lease, ReleaseEnd, known};
use crate::supervise::opened::OpenedStore;
use crate::supervise::outage::Outage;
use crate::supervise::process::{self, shell_status};
use crate::supervise::run::Policy;
use crate::supervise::signals::Signals;
use crate::supervise::stopping::Why;
use crate::supervise::will::Will;
use crate::verbs::run::holder;
use crate::verbs::waiting::about_occupant;
use left_out::LeftOut;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tenure::once::TickGuard;
use tenure::store::reserved;
use tenure::{Key, Leases, Occupant, Wall};
use tick::{TickStart, begun, is_wanted};

/// Between two looks at the clock, which may be set meanwhile.
const NAP: Duration = Duration::from_secs(10);
/// A clock that was set back by so much has been wrong. Less is a correction, for which the next tick can wait.
const SET_BACK: Duration = Duration::from_secs(1);

pub(crate) async fn cron(url: &Url, mut plan: CronConfig) -> Result<u8, Failure> {
    plan.command = process::found(plan.command)?;
    url.check_ttl(plan.ttl)?;
    let mut signals = Signals::listen()?;
    let opened = OpenedStore::open(url, plan.await_store, Outage::new(true));
    let opened = signals.unless(opened).await??;
    let leases = opened.leases().store_patience(Duration::MAX).start()?;
    let mut left_out = LeftOut::of(&plan.key);
    let host = CronHost { url, opened: &opened, leases: &leases, plan: &plan };
    let result = host.ticks(&mut left_out, &mut signals).await;
    left_out.end();
    signals.farewell(&result, plan.ttl, leases.stop()).await;
    result
}

/// One of those that run the same schedule.
struct CronHost<'c> {
    url: &'c Url,
    opened: &'c OpenedStore,
    leases: &'c Leases,
    plan: &'c CronConfig,
}

impl CronHost<'_> {
    /// Tick after tick, for as long as is asked for.
    async fn ticks(&self, left_out: &mut LeftOut<'_>, signals: &mut Signals) -> Result<u8, Failure> {
        let CronHost { opened, leases, plan, .. } = self;
        let now = || leases.clock().now().wall;
        let mut left = plan.ticks;
        let mut seen = now();
        // The last one may have been missed before this process began.
        let mut next = plan.schedule.last(seen).filter(|tick| is_wanted(*tick, seen, plan.missed));
        if next.is_none()
            && let Some(first) = plan.schedule.after(seen)
        {
            // Whoever meant the host's own time sees it before the first night.
            output::tell(format!("{}: the next tick is {first}", plan.key));
        }
        // Whoever runs nothing, and never will, is better started anew. Ticks may come more often than that takes to show.
        let gone = opened.file.gone(plan.ttl);
        tokio::pin!(gone);
        while left != Some(0) {
            if next.is_none() {
                tokio::select! {
                    biased;
                    due = signals.unless(until_after(plan, leases, seen)) => due??,
                    failure = &mut gone => return Err(failure),
                }
            }
            seen = now();
            let Some(tick) = next.take().or_else(|| plan.schedule.last(seen)) else { continue };
            let start = tokio::select! {
                biased;
                start = begun(tick, leases, plan, &opened.outage, signals) => start?,
                failure = &mut gone => return Err(failure),
            };
            match start {
                TickStart::NotYet => continue,
                TickStart::Busy(by) => {
                    let about = match &by {
                        Some(by) if left_out.tells_next() => self.about(by).await,
                        _ => None,
                    };
                    left_out.add(tick, &holder(by, about));
                }
                TickStart::NotHere => left_out.end(),
                TickStart::Here(guard) => {
                    left_out.end();
                    self.run(*guard, tick, signals).await?;
                    tell_of_passed(tick, now(), plan);
                }
            }
            left = left.map(|left| left - 1);
        }
        Ok(exit::OK)
    }

    /// What is told of whoever runs an earlier tick.
    async fn about(&self, by: &Occupant) -> Option<String> {
        let key = Key::new(format!("{}{}", reserved::ONCE, self.plan.key)).ok()?;
        about_occupant(self.leases, &[&key], by).await
    }

    /// One tick, which is run here.
    async fn run(&self, guard: TickGuard, tick: Wall, signals: &mut Signals) -> Result<(), Failure> {
        let CronHost { url, opened, leases, plan } = self;
        let policy = match Policy::new(leases.holder().as_str(), plan.ttl, plan.grace) {
            Ok(policy) => policy.at_most(plan.at_most),
            Err(failure) => {
                guard.release().await;
                return Err(failure);
            }
        };
        policy.watchdogs.bequeath(Will::of(url, leases, [guard.lease().key().as_str()].into_iter()));
        let mut command = plan.command.command();
        command.env("TENURE_TICK", tick.0.to_string()).stdin(Stdio::null());
        let outage = &opened.outage;
        let ticking = Ticking { guard, outage, ttl: plan.ttl, at_least_once: plan.at_least_once, end: None };
        match attend(ticking, command, CommandInput::Piped, &policy, signals).await {
            // Later ticks may find it again, as after a deployment.
            Err(failure) if matches!(failure.code, exit::CANNOT_EXECUTE | exit::NOT_FOUND) => {
                output::note(format!("{}: the tick {tick} did not run: {failure}", plan.key));
            }
            Err(failure) => return Err(failure),
            Ok(end) => note(end, tick, plan),
        }
        Ok(())
    }
}

/// Waits until a tick is due that is later.
async fn until_after(plan: &CronConfig, leases: &Leases, mut seen: Wall) -> Result<(), Failure> {
    loop {
        let now = leases.clock().now().wall;
        // A clock that was ahead has shown what is still to come. What ran by it is in the record, which refuses all ticks before that.
        if seen.since(now) >= SET_BACK {
            seen = now;
        }
        let Some(due) = plan.schedule.after(seen) else {
            let text = format!("{}: the schedule has no further tick", plan.key);
            return Err(Failure::new(exit::INTERNAL, text));
        };
        let left = due.since(now);
        if left.is_zero() {
            return Ok(());
        }
        tokio::time::sleep(left.min(NAP)).await;
    }
}

/// Says what was due while this one ran, but for the last, which is due still.
fn tell_of_passed(tick: Wall, now: Wall, plan: &CronConfig) {
    let (next, last) = (plan.schedule.after(tick), plan.schedule.last(now));
    if let (Some(next), Some(last)) = (next, last)
        && next < last
    {
        output::note(format!(
            "{}: the ticks from {next} to the one before {last} are left out here, while that of {tick} waited or ran",
            plan.key
        ));
    }
}

/// Says how a tick ended, if it was not well.
fn note(end: CommandEnd, tick: Wall, plan: &CronConfig) {
    match end {
        CommandEnd::Done(0) => {}
        CommandEnd::Done(status) => {
            output::note(format!("{}: the tick {tick} ended with status {status}", plan.key))
        }
        CommandEnd::Lost(text)
        | CommandEnd::Released(text)
        | CommandEnd::Withdrawn(text)
        | CommandEnd::Failed(text)
        | CommandEnd::FoundLost(text) => output::note(format!("{text} (the tick {tick})")),
    }
}

/// A tick that runs here.
struct Ticking<'l> {
    guard: TickGuard,
    outage: &'l Outage,
    ttl: Duration,
    at_least_once: bool,
    /// How it ended; none if somebody is to run it again.
    end: Option<(bool, String)>,
}

impl ExclusiveLease for Ticking<'_> {
    fn lease(&self) -> &impl Lease {
        self.guard.lease()
    }

    async fn loss(&self) -> Option<Lost> {
        let lease = self.guard.lease();
        if lease.is_held() || lease.is_revoked() {
            return None;
        }
        known(lease.lost(), || lease.is_held()).await.as_ref().map(Lost::of)
    }

    fn trouble(&self) -> Option<String> {
        self.outage.within(self.ttl)
    }

    fn tell_losing(&self) {
        self.guard.lease().tell_losing();
    }

    fn not_started(&mut self, why: &str) {
        // One that is to run at least once is left to another host.
        self.end = (!self.at_least_once).then(|| (false, why.to_owned()));
    }

    fn ended(&mut self, status: Option<ExitStatus>, stopped: Option<Why>) {
        self.end = match (stopped, status) {
            (None, Some(status)) => Some((status.success(), format!("status {}", shell_status(status)))),
            (Some(Why::Overran), _) => Some((false, "it ran for too long".to_owned())),
            _ if self.at_least_once => None,
            _ => Some((false, "it was stopped".to_owned())),
        };
    }

    async fn release(self) -> ReleaseEnd {
        let Ticking { guard, outage, end, .. } = self;
        let left = guard.lease().remaining();
        let release = async {
            match end {
                // Words that are too long are no loss.
                Some((is_well, says)) => guard.end(is_well, says).await.unwrap_or(true),
                None => guard.release().await,
            }
        };
        ReleaseEnd::of(release, outage, left).await
    }

    async fn lapse(self) {
        self.guard.lapse().await;
    }
}
