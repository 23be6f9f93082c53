//! Whether a tick begins here: nobody has run it, it is not too late, and the store lets it.

use crate::args::cron::Missed;
use crate::config;
use crate::exit::{self, Failure};
use crate::output::{self, RepeatedNote};
use crate::supervise::outage::Outage;
use crate::supervise::signals::Signals;
use crate::text::brief;
use std::time::Duration;
use tenure::once::{OnceError, OncePer, TickGuard, Ticked};
use tenure::store::{Changes, reserved};
use tenure::{AcquireError, Leases, Occupant, Store as _, Wall};

/// What is less late is run in any case.
const LATE: Duration = Duration::from_secs(60);
/// For how long what ran is kept from gc when the next tick is due.
const KEEP: Duration = Duration::from_secs(40 * 86_400);
/// Before a tick is tried again that the store kept from beginning.
const AGAIN: Duration = Duration::from_secs(1);

pub(super) fn is_wanted(tick: Wall, now: Wall, missed: Missed) -> bool {
    missed == Missed::Run || now.since(tick) < LATE
}

/// What becomes of a tick that was due.
pub(super) enum TickStart {
    /// With its lease, once that it begins is written.
    Here(Box<TickGuard>),
    /// It ran, runs elsewhere, or is left out.
    NotHere,
    /// It is left out, as an earlier one still runs, there if that is known.
    Busy(Option<Occupant>),
    /// The clock was set back, and it lies ahead again.
    NotYet,
}

/// Begins the tick, if it is to be run here. Trouble with the store is waited out, and an earlier tick that still runs, for as long as the
/// tick is not too late.
pub(super) async fn begun(
    tick: Wall,
    leases: &Leases,
    plan: &config::cron::CronConfig,
    outage: &Outage,
    signals: &mut Signals,
) -> Result<TickStart, Failure> {
    let (once, key) = (once(tick, leases, plan), &plan.key);
    let now = || leases.clock().now().wall;
    let is_left_out = || {
        if is_wanted(tick, now(), plan.missed) {
            return false;
        }
        let late = brief(now().since(tick));
        output::note(format!("{key}: the tick {tick} was missed by {late}, and is left out"));
        true
    };
    if is_left_out() {
        return Ok(TickStart::NotHere);
    }
    let (mut trouble, mut busy) = (RepeatedNote::default(), None);
    loop {
        let early = tick.since(now());
        if early >= super::SET_BACK {
            return Ok(TickStart::NotYet);
        }
        // The clock was set back by a little, and the tick lies ahead again.
        signals.unless(tokio::time::sleep(early)).await?;
        match signals.unless(once.begin()).await? {
            Ok(Ticked::Here(guard)) => return Ok(TickStart::Here(Box::new(guard))),
            Ok(Ticked::Busy(by)) => {
                let patience = patience(tick, now(), plan);
                // Who has just come may have met the host that begins this very tick. The next look tells.
                if patience.is_zero() && busy.is_some() {
                    return Ok(TickStart::Busy(by));
                }
                // The host of the earlier one may die.
                let freed = busy.get_or_insert_with(|| KeyNews::of(leases, key));
                signals.unless(freed.within(patience.min(plan.ttl / 5))).await?;
                continue;
            }
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

fn once(tick: Wall, leases: &Leases, plan: &config::cron::CronConfig) -> OncePer {
    // A missed tick may be run until the next one is due.
    let next = plan.schedule.after(tick).unwrap_or(tick);
    let once = leases.once_per(&plan.key, tick).ttl(plan.ttl).keep(next.since(tick) + KEEP);
    let once = once.metadata(plan.about.metadata());
    if plan.at_least_once { once.at_least_once() } else { once }
}

/// For how long an earlier tick that still runs is waited for: until the next one is due, or this one is too late.
fn patience(tick: Wall, now: Wall, plan: &config::cron::CronConfig) -> Duration {
    let next = plan.schedule.after(tick).map_or(Duration::MAX, |next| next.since(now));
    match plan.missed {
        Missed::Run => next,
        Missed::Skip => next.min(LATE.saturating_sub(now.since(tick))),
    }
}

/// News of a key that another holds, where the store tells of changes.
struct KeyNews {
    key: String,
    changes: Option<Changes>,
}

impl KeyNews {
    fn of(leases: &Leases, name: &str) -> KeyNews {
        let key = format!("{}{name}", reserved::ONCE);
        let changes = leases.store().changed(&key).ok();
        KeyNews { key, changes }
    }

    /// Until it has changed, but for no longer than this.
    async fn within(&mut self, longest: Duration) {
        // Whatever ends it, the next look tells.
        let _ = tokio::time::timeout(longest, self.news()).await;
    }

    async fn news(&mut self) {
        while let Some(changes) = &mut self.changes {
            match changes.recv().await {
                // Other keys may begin like this one.
                Some(hint) if hint.key().is_some_and(|key| key.as_str() != self.key) => {}
                Some(_) => return,
                None => self.changes = None,
            }
        }
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests {
    //! Plan: a tick that the store keeps from beginning is left out once it is late, unless missed ticks are to be run, or each at least once;
    //! a clock that is set back; a refusal that passes; an earlier tick that still runs.
    use super::super::until_after;
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

    /// What becomes of a tick that is due while another host runs an earlier one, which is cut off after so long, and how late that is known.
    async fn beside_an_earlier_one(words: &[&str], after: Duration) -> (bool, Duration) {
        let (store, clock) = (FaultyStore::new(tenure::memory()), SteppedClock::start());
        let host = || Leases::builder(store.clone()).clock(clock.clone()).start().unwrap();
        let (here, there) = (host(), host());
        let words = ["cron"].iter().chain(words).chain(&["--", "true"]);
        let plan = Typed::try_parse_from(words).unwrap().cron.validated().unwrap();
        let now = || here.clock().now().wall;
        let earlier = plan.schedule.last(now()).unwrap();
        let Ok(Ticked::Here(guard)) = once(earlier, &there, &plan).begin().await else {
            panic!("nobody has it")
        };
        until_after(&plan, &here, now()).await.unwrap();
        let tick = plan.schedule.last(now()).unwrap();
        let cut_off = async {
            tokio::time::sleep(after).await;
            guard.lapse().await;
        };
        let (outage, mut signals) = (Outage::new(false), Signals::listen().unwrap());
        let begun = async {
            let start = begun(tick, &here, &plan, &outage, &mut signals).await.unwrap();
            if let TickStart::Busy(by) = &start {
                assert_eq!(by.as_ref().map(|by| &by.holder), Some(there.holder()), "it is told who is busy");
            }
            (start.is_here(), now().since(tick))
        };
        tokio::join!(begun, cut_off).0
    }

    #[tokio::test(start_paused = true)]
    async fn a_tick_that_comes_while_an_earlier_one_runs_is_run_if_that_is_cut_off_in_time() {
        let seconds = Duration::from_secs;
        let often = ["*/20 * * * * *", "k", "--ttl", "6s"];
        let (is_run, late) = beside_an_earlier_one(&often, seconds(3)).await;
        assert!(is_run && late > seconds(3) && late < seconds(12), "{late:?}");
        // The next one is due by then.
        let (is_run, late) = beside_an_earlier_one(&often, seconds(50)).await;
        assert!(!is_run && (seconds(20)..seconds(22)).contains(&late), "{late:?}");
        let seldom = ["*/5 * * * *", "k"];
        assert!(beside_an_earlier_one(&seldom, seconds(30)).await.0);
        let (is_run, late) = beside_an_earlier_one(&seldom, seconds(100)).await;
        assert!(!is_run && (seconds(60)..seconds(63)).contains(&late), "{late:?}");
        let missed = ["*/5 * * * *", "k", "--missed", "run"];
        assert!(beside_an_earlier_one(&missed, seconds(100)).await.0, "however late");
        let (is_run, late) = beside_an_earlier_one(&missed, seconds(400)).await;
        assert!(!is_run && (seconds(300)..seconds(303)).contains(&late), "{late:?}");
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
