//! `tenure cron`: one command at each tick of a schedule, once over all hosts.

use crate::args::cron::Missed;
use crate::config;
use crate::exit::{self, Failure};
use crate::output::{self, Lost, RepeatedNote};
use crate::stores::away::opened;
use crate::stores::{Missing, Url};
use crate::supervise::command::{CommandEnd, CommandInput, attend};
use crate::supervise::lease::{ExclusiveLease, Lease, ReleaseEnd, known};
use crate::supervise::outage::Outage;
use crate::supervise::process::{self, shell_status};
use crate::supervise::run::Policy;
use crate::supervise::signals::Signals;
use crate::supervise::stopping::Why;
use crate::supervise::will::Will;
use crate::text::brief;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tenure::once::{OnceError, TickGuard, Ticked};
use tenure::{AcquireError, Leases, Wall};

/// What is less late is run in any case.
const LATE: Duration = Duration::from_secs(60);
/// For how long what ran is kept from gc when the next tick is due.
const KEEP: Duration = Duration::from_secs(40 * 86_400);
/// Between two looks at the clock, which may be set meanwhile.
const NAP: Duration = Duration::from_secs(10);
/// A clock that was set back by so much has been wrong. Less is a correction, for which the next tick can wait.
const SET_BACK: Duration = Duration::from_secs(1);
/// Before a tick is tried again that the store kept from beginning.
const AGAIN: Duration = Duration::from_secs(1);

pub(crate) async fn cron(url: &Url, mut plan: config::cron::CronConfig) -> Result<u8, Failure> {
    let found = process::find(&plan.command.program)?;
    plan.command = plan.command.looked_for(found);
    let mut signals = Signals::listen()?;
    let clock = tenure::clock::system();
    let store = opened(plan.await_store, async || url.open(Missing::Create, clock.clone()).await);
    let store = signals.unless(store).await??;
    let outage = Outage::new(true);
    let leases = Leases::builder(outage.watch(store)).clock(clock).store_patience(Duration::MAX).start()?;
    let result = ticks(url, &leases, &plan, &outage, &mut signals).await;
    signals.farewell(&result, plan.ttl, leases.stop()).await;
    result
}

/// Tick after tick, for as long as is asked for.
async fn ticks(
    url: &Url,
    leases: &Leases,
    plan: &config::cron::CronConfig,
    outage: &Outage,
    signals: &mut Signals,
) -> Result<u8, Failure> {
    let now = || leases.clock().now().wall;
    let mut left = plan.ticks;
    let mut seen = now();
    // The last one may have been missed before this process began.
    let mut next = plan.schedule.last(seen).filter(|tick| is_wanted(*tick, seen, plan.missed));
    while left != Some(0) {
        if next.is_none() {
            signals.unless(until_after(plan, leases, seen)).await??;
        }
        seen = now();
        let Some(tick) = next.take().or_else(|| plan.schedule.last(seen)) else { continue };
        if at(tick, url, leases, plan, outage, signals).await? {
            left = left.map(|left| left - 1);
        }
    }
    Ok(exit::OK)
}

fn is_wanted(tick: Wall, now: Wall, missed: Missed) -> bool {
    missed == Missed::Run || now.since(tick) < LATE
}

/// Waits until a tick is due that is later.
async fn until_after(
    plan: &config::cron::CronConfig,
    leases: &Leases,
    mut seen: Wall,
) -> Result<(), Failure> {
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

/// One tick: it is run here, or somewhere else. False if it comes again, as the clock was set back.
async fn at(
    tick: Wall,
    url: &Url,
    leases: &Leases,
    plan: &config::cron::CronConfig,
    outage: &Outage,
    signals: &mut Signals,
) -> Result<bool, Failure> {
    let guard = match begun(tick, leases, plan, outage, signals).await? {
        TickStart::Here(guard) => *guard,
        TickStart::NotHere => return Ok(true),
        TickStart::NotYet => return Ok(false),
    };
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
    let ticking = Ticking { guard, outage, ttl: plan.ttl, at_least_once: plan.at_least_once, end: None };
    match attend(ticking, command, CommandInput::Piped, &policy, signals).await {
        // Later ticks may find it again, as after a deployment.
        Err(failure) if matches!(failure.code, exit::CANNOT_EXECUTE | exit::NOT_FOUND) => {
            output::note(format!("{}: the tick {tick} did not run: {failure}", plan.key));
        }
        Err(failure) => return Err(failure),
        Ok(end) => note(end, tick, plan),
    }
    Ok(true)
}

/// Says how a tick ended, if it was not well.
fn note(end: CommandEnd, tick: Wall, plan: &config::cron::CronConfig) {
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

/// What becomes of a tick that was due.
enum TickStart {
    /// With its lease, once that it begins is written.
    Here(Box<TickGuard>),
    /// It ran, runs elsewhere, or is left out.
    NotHere,
    /// The clock was set back, and it lies ahead again.
    NotYet,
}

/// Begins the tick, if it is to be run here. Trouble with the store is waited out, for as long as the
/// tick is not too late.
async fn begun(
    tick: Wall,
    leases: &Leases,
    plan: &config::cron::CronConfig,
    outage: &Outage,
    signals: &mut Signals,
) -> Result<TickStart, Failure> {
    // A missed tick may be run until the next one is due.
    let next = plan.schedule.after(tick).unwrap_or(tick);
    let mut once = leases.once_per(&plan.key, tick).ttl(plan.ttl).keep(next.since(tick) + KEEP);
    if plan.at_least_once {
        once = once.at_least_once();
    }
    let key = &plan.key;
    let is_left_out = || {
        let now = leases.clock().now().wall;
        if is_wanted(tick, now, plan.missed) {
            return false;
        }
        let late = brief(now.since(tick));
        output::note(format!("{key}: the tick {tick} was missed by {late}, and is left out"));
        true
    };
    if is_left_out() {
        return Ok(TickStart::NotHere);
    }
    let mut trouble = RepeatedNote::default();
    loop {
        let early = tick.since(leases.clock().now().wall);
        if early >= SET_BACK {
            return Ok(TickStart::NotYet);
        }
        // The clock was set back by a little, and the tick lies ahead again.
        signals.unless(tokio::time::sleep(early)).await?;
        match signals.unless(once.begin()).await? {
            Ok(Ticked::Here(guard)) => return Ok(TickStart::Here(Box::new(guard))),
            Ok(_) => return Ok(TickStart::NotHere),
            Err(OnceError::Ahead(run)) => {
                let ahead = run.tick;
                output::note(format!(
                    "{key}: its record says that the tick {ahead} has run; one of the hosts' clocks is wrong"
                ));
                return Ok(TickStart::NotHere);
            }
            Err(error) => {
                let may_pass = matches!(&error, OnceError::Acquire(AcquireError::Store(error)) if outage.may_pass(error));
                let failure = Failure::from(error);
                if !may_pass && failure.code != exit::UNAVAILABLE {
                    return Err(failure);
                }
                trouble.say(format!("{key}: the tick {tick} has not begun ({failure}); trying on"));
            }
        }
        signals.unless(tokio::time::sleep(AGAIN)).await?;
        // One that has begun elsewhere may be left undone there, and is run again however late, if that is asked for.
        if !plan.at_least_once && is_left_out() {
            return Ok(TickStart::NotHere);
        }
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

#[cfg(test)]
mod tests {
    //! Plan: a tick that the store keeps from beginning is left out once it is late, unless missed ticks are to be run, or each at least once;
    //! a clock that is set back; a refusal that passes.
    use super::*;
    use crate::stepped_clock::SteppedClock;
    use clap::Parser;
    use tenure::AnyStore;
    use tenure_store::{Fault, FaultyStore};

    #[derive(Parser)]
    struct Typed {
        #[command(flatten)]
        cron: crate::args::cron::CronArgs,
    }

    /// Whether a tick that is soon too late begins on a store that refuses its calls, all of them or the first ones.
    async fn begins(store: FaultyStore<AnyStore>, options: &[&str]) -> bool {
        let leases = Leases::new(store).unwrap();
        let words = ["cron", "* * * * *", "k"].iter().chain(options).chain(&["--", "true"]);
        let plan = Typed::try_parse_from(words).unwrap().cron.validated().unwrap();
        let soon = LATE.saturating_sub(Duration::from_millis(50));
        let tick = Wall(leases.clock().now().wall.0 - soon.as_millis() as u64);
        // The clock is real, and sleeps are not.
        begun(tick, &leases, &plan, &Outage::new(false), &mut Signals::listen().unwrap())
            .await
            .unwrap()
            .is_here()
    }

    impl TickStart {
        fn is_here(&self) -> bool {
            matches!(self, TickStart::Here(_))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_that_is_set_back_by_hours_delays_no_tick_by_them() {
        let clock = SteppedClock::start();
        let leases = Leases::builder(tenure::memory()).clock(clock.clone()).start().unwrap();
        let words = ["cron", "* * * * *", "k", "--", "true"];
        let plan = Typed::try_parse_from(words).unwrap().cron.validated().unwrap();
        let seen = leases.clock().now().wall;
        let outage = Outage::new(false);
        clock.step(-36_000_000);
        let due = tokio::time::timeout(Duration::from_secs(61), until_after(&plan, &leases, seen));
        due.await.expect("a tick is due each minute").unwrap();
        let mut signals = Signals::listen().unwrap();
        let ahead = plan.schedule.after(leases.clock().now().wall).unwrap();
        let put_off = begun(ahead, &leases, &plan, &outage, &mut signals).await.unwrap();
        assert!(matches!(put_off, TickStart::NotYet), "it comes again");
        // A tick is not left out because a clock goes back by a moment when it is due.
        let waited = until_after(&plan, &leases, Wall(ahead.0 - 1)).await;
        waited.unwrap();
        clock.step(-500);
        assert!(begun(ahead, &leases, &plan, &outage, &mut signals).await.unwrap().is_here());
        clock.step(-500);
        let next = plan.schedule.after(ahead).unwrap();
        until_after(&plan, &leases, ahead).await.unwrap();
        assert!(leases.clock().now().wall >= next, "and it comes once");
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_that_may_pass_ends_no_daemon() {
        let store = FaultyStore::new(tenure::memory());
        let outage = Outage::new(false);
        let leases = Leases::new(outage.watch(AnyStore::new(store.clone()))).unwrap();
        let words = ["cron", "* * * * *", "k", "--missed", "run", "--", "true"];
        let plan = Typed::try_parse_from(words).unwrap().cron.validated().unwrap();
        let tick = plan.schedule.last(leases.clock().now().wall).unwrap();
        let mut signals = Signals::listen().unwrap();
        store.always(Fault::Forbid);
        assert!(begun(tick, &leases, &plan, &outage, &mut signals).await.is_err(), "it was never let in");
        store.always(Fault::None);
        leases.try_acquire("other").await.unwrap().release().await;
        store.always(Fault::Forbid);
        let healed = store.clone();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            healed.always(Fault::None);
        });
        assert!(begun(tick, &leases, &plan, &outage, &mut signals).await.unwrap().is_here());
    }

    #[tokio::test(start_paused = true)]
    async fn a_tick_that_an_outage_makes_late_is_left_out_unless_it_is_to_be_run_all_the_same() {
        let store = FaultyStore::new(tenure::memory());
        store.always(Fault::Refuse);
        let begins_late = tokio::time::timeout(Duration::from_secs(1_000_000), begins(store, &[])).await;
        assert!(!begins_late.expect("it tries for ever"));
        for options in [["--missed", "run"].as_slice(), &["--at-least-once"]] {
            let store = FaultyStore::new(tenure::memory());
            store.always(Fault::Refuse);
            let healed = store.clone();
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(100));
                healed.always(Fault::None);
            });
            assert!(begins(store, options).await, "{options:?}");
        }
    }
}
