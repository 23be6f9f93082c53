//! `tenure work --forever`: a worker of a fleet, with a command for each of its units.

mod alarms;
#[cfg(feature = "dynamodb")]
mod kcl;
mod member;
mod native;
mod runner;

#[cfg(feature = "dynamodb")]
pub(crate) use kcl::{is_of_tenure, skipped};

use crate::config::fleet::Forever;
use crate::exit::{self, Failure};
use crate::output;
use crate::stores::Url;
use crate::supervise::process;
use crate::supervise::run::{CommandOutcome, Policy};
use crate::supervise::signals::{self, Signals};
use crate::supervise::will::Will;
use crate::text::{brief, count, escaped};
use crate::work::units;
use member::{Assignment, Event, Member};
use runner::{Next, Over, Runner, RunnerSetup};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tenure::Clock;
use tenure::clock::boottime;
use tokio::sync::mpsc;

pub(crate) async fn forever(url: &Url, mut plan: Forever) -> Result<u8, Failure> {
    if plan.quiet {
        output::be_quiet();
    }
    plan.command = process::found(plan.command)?;
    let given = units::read(&plan.source, plan.separator)?;
    let keys = given.keys(&plan.name.unit_prefix())?;
    let mut signals = Signals::listen()?;
    let clock: Arc<dyn Clock> = tenure::clock::system();
    let mut member = signals.unless(enlist(url, &plan, clock)).await??;
    let names: Vec<&str> = keys.iter().filter_map(|key| plan.name.unit_of(key)).collect();
    match signals.unless(member.register(&names)).await.and_then(|registered| registered) {
        Ok(_) if names.is_empty() => {
            output::tell(format!("{}: working on the units that are there", member.fleet()))
        }
        Ok(created) => {
            output::tell(format!("{}: {} ({created} new)", member.fleet(), count(names.len(), "unit")));
        }
        Err(failure) => {
            member.resign().await;
            return Err(failure);
        }
    }
    let policy = Policy::for_many_judged(member.name(), plan.ttl, plan.grace)?;
    policy.watchdogs.bequeath(Will::of_worker(url, &plan.name, member.name()));
    let (sender, over) = mpsc::unbounded_channel();
    let setup = Arc::new(RunnerSetup { plan, policy, ended: sender });
    let runners = Runners {
        setup,
        member,
        over,
        runners: BTreeMap::new(),
        next: BTreeMap::new(),
        stop: None,
        leave_by: None,
    };
    runners.work(&mut signals).await
}

/// Joins the fleet, of whatever layout the store is.
async fn enlist(url: &Url, plan: &Forever, clock: Arc<dyn Clock>) -> Result<Box<dyn Member>, Failure> {
    #[cfg(feature = "dynamodb")]
    if let Some(rest) = url.of_dialect(tenure::dynamodb::Dialect::Kcl)? {
        return Ok(Box::new(kcl::enlist(rest, plan, clock).await?));
    }
    Ok(Box::new(native::enlist(url, plan, clock).await?))
}

/// All units of this process.
struct Runners {
    setup: Arc<RunnerSetup>,
    member: Box<dyn Member>,
    over: mpsc::UnboundedReceiver<Over>,
    /// By name.
    runners: BTreeMap<String, Runner>,
    /// Units that are ours again before what ran for them when they were lost is dead.
    next: BTreeMap<String, Box<dyn Assignment>>,
    /// Why this process leaves.
    stop: Option<Failure>,
    /// A worker that leaves does not wait longer than this.
    leave_by: Option<Duration>,
}

impl Runners {
    /// Works until told to leave.
    async fn work(mut self, signals: &mut Signals) -> Result<u8, Failure> {
        let mut is_in = true;
        while is_in || self.runners.values().any(|runner| runner.is_running() && !runner.is_stuck()) {
            let pause = self.pause();
            tokio::select! {
                biased;
                signal = signals.next() => self.on_signal(signal)?,
                event = self.member.next(), if is_in => match event {
                    Some(event) => self.on(event),
                    None => {
                        is_in = false;
                        // Nothing is held any more.
                        self.kill_all();
                    }
                },
                Some(over) = self.over.recv() => self.on_over(over),
                () = tokio::time::sleep(pause) => {}
            }
            self.look_after();
            if is_in && self.leave_by.is_some_and(|by| boottime() > by) {
                output::note("the store does not answer: what is held is left to expire");
                self.kill_all();
                is_in = false;
            }
        }
        let is_all_over = self.runners.values().all(|runner| !runner.is_running());
        if is_all_over {
            self.setup.policy.watchdogs.dismiss();
        }
        match self.stop.take() {
            // Whoever stops us has to know that not all has stopped.
            Some(Failure { by: Some(_), .. }) if !is_all_over => Err(Failure::silent(exit::LOST)),
            Some(failure) => Err(failure),
            None => {
                self.member.end()?;
                output::tell("asked to leave the fleet, and left");
                Ok(exit::OK)
            }
        }
    }

    fn on_signal(&mut self, signal: i32) -> Result<(), Failure> {
        let failure = Failure::by_signal(signal);
        if self.stop.as_ref().is_some_and(|stop| stop.by.is_some()) {
            self.abandon();
            return Err(failure);
        }
        let held = count(self.runners.len(), "unit");
        output::note(format!("{}: giving back {held}; once more to stop at once", signals::name(signal)));
        self.leave(failure);
        Ok(())
    }

    /// Of several reasons the user's counts, or else the first.
    fn leave(&mut self, why: Failure) {
        if self.stop.is_some() && why.by.is_none() {
            return;
        }
        self.stop = Some(why);
        let plan = &self.setup.plan;
        let patience = plan.grace + plan.ttl * 3 + Duration::from_secs(5);
        self.leave_by.get_or_insert(boottime() + patience);
        self.member.leave();
    }

    fn on(&mut self, event: Event) {
        match event {
            Event::Assigned(assignment) => {
                let (asked_at, unit) = (boottime(), assignment.unit());
                // One that was asked for long ago may end before the others.
                self.setup.policy.watchdogs.not_beyond(asked_at, unit.remaining());
                let name = unit.name().to_owned();
                tell(&name, &format!("owned, with fence {}", unit.fence().unwrap_or_default()));
                if self.runners.contains_key(&name) {
                    self.next.insert(name, assignment);
                } else {
                    self.begin(name, assignment);
                }
            }
            Event::Draining { unit, why, within } => {
                let is_running = self.runners.get(&unit).is_some_and(Runner::is_running);
                let and = if is_running { "; CMD is stopped" } else { "" };
                tell(&unit, &format!("{why}{and}"));
                // Nothing was begun for it yet.
                drop(self.next.remove(&unit));
                let grace = within.min(self.setup.plan.grace);
                self.let_go(&unit, grace, |runner| runner.unit().is_draining());
            }
            Event::Lost { unit, why } => {
                note(&unit, &why);
                self.next.retain(|_, assignment| !assignment.unit().is_over());
                self.let_go(&unit, Duration::ZERO, |runner| runner.unit().is_over());
            }
        }
    }

    /// Who is told to stop expects no further start. What runs goes on until its unit is to go, so that others wait for nothing.
    fn starts_any(&self) -> bool {
        self.stop.is_none()
    }

    fn begin(&mut self, unit: String, assignment: Box<dyn Assignment>) {
        let mut runner = Runner::new(assignment, self.setup.plan.backoff);
        if self.starts_any() {
            runner.look_after(&self.setup);
        }
        self.runners.insert(unit, runner);
    }

    fn let_go(&mut self, unit: &str, grace: Duration, is_meant: impl Fn(&Runner) -> bool) {
        let Some(runner) = self.runners.get_mut(unit).filter(|runner| is_meant(runner)) else { return };
        if runner.let_go(grace) {
            self.conclude(unit);
        }
    }

    /// Nothing runs for the unit any more: it goes.
    fn conclude(&mut self, unit: &str) {
        if let Some(runner) = self.runners.remove(unit) {
            runner.conclude();
        }
        if let Some((unit, assignment)) = self.next.remove_entry(unit) {
            self.begin(unit, assignment);
        }
    }

    fn on_over(&mut self, Over { unit, outcome, taken }: Over) {
        let Some(runner) = self.runners.get_mut(&unit) else { return };
        let Some(outcome) = outcome else {
            note(&unit, "CMD can't be killed; the unit is left to expire");
            return runner.lapse();
        };
        match runner.ended(&outcome, taken) {
            Next::Free => {
                if let (true, CommandOutcome::Ended { status, .. }) = (self.setup.plan.verbose, &outcome) {
                    note(&unit, &format!("CMD {} after {}", signals::ending(*status), brief(taken)));
                }
                self.conclude(&unit);
            }
            Next::Resume => note(&unit, "CMD was stopped, since the unit could not be kept for certain"),
            Next::Again(pause) => {
                let is_well = matches!(&outcome, CommandOutcome::Ended { status, .. } if status.success());
                let how = match outcome {
                    CommandOutcome::NotStarted(error) if is_for_good(&error) => {
                        let program = &self.setup.plan.command.program;
                        return self.leave(process::not_started(program, &error));
                    }
                    CommandOutcome::NotStarted(error) => format!("CMD can't be started: {error}"),
                    CommandOutcome::Ended { status, .. } => {
                        format!("CMD {} after {}", signals::ending(status), brief(taken))
                    }
                    CommandOutcome::TooLate | CommandOutcome::Stuck(_) => return,
                };
                let text = if self.starts_any() { format!("{how}; again in {}", brief(pause)) } else { how };
                if is_well { tell(&unit, &text) } else { note(&unit, &text) }
            }
        }
    }

    /// Starts what is due, and sees to the deadline that the watchdogs go by.
    fn look_after(&mut self) {
        self.member.sound();
        let asked_at = boottime();
        let session = self.member.remaining();
        self.runners.values().for_each(|runner| runner.keep_clear(session, &self.setup));
        // A unit that was withdrawn ends at the deadline that it had, however long the session lives. It was withdrawn before the session was
        // renewed, so to look for that after it is in time.
        let left = self.runners.values().filter_map(Runner::needs).fold(session, Duration::min);
        if !left.is_zero() {
            self.setup.policy.watchdogs.prolong(asked_at, left);
        }
        let starts_any = self.starts_any();
        for runner in self.runners.values_mut() {
            runner.judge(&self.setup);
            if starts_any {
                runner.look_after(&self.setup);
            }
        }
    }

    fn kill_all(&mut self) {
        self.next.clear();
        let mut idle = Vec::new();
        for (unit, runner) in &mut self.runners {
            runner.kill();
            if !runner.is_running() {
                idle.push(unit.clone());
            }
        }
        for unit in idle {
            self.conclude(&unit);
        }
    }

    /// Kills what runs, and waits for none of it. The watchdogs see to it that nothing is left, and what is held expires: to drop it would give it
    /// away beside a command that may live.
    fn abandon(&mut self) {
        std::mem::take(&mut self.next).into_values().for_each(|assignment| assignment.lapse());
        self.kill_all();
        self.runners.values_mut().for_each(Runner::lapse);
    }

    /// How long nothing needs to be looked at if nothing happens.
    fn pause(&self) -> Duration {
        const SHORT: Duration = Duration::from_millis(5);
        let slow = (self.setup.plan.ttl / 40).clamp(SHORT, Duration::from_millis(100));
        let starts = self.runners.values().filter(|_| self.starts_any());
        let starts = starts.filter_map(Runner::starts_at).min();
        starts.map_or(slow, |at| slow.min(at.saturating_sub(boottime())).max(SHORT))
    }
}

/// Whether a command that can't be started can't be started later, either.
fn is_for_good(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::PermissionDenied)
}

fn note(unit: &str, text: &str) {
    output::note(format!("{}: {text}", escaped(unit)));
}

/// What says nothing that is wrong.
fn tell(unit: &str, text: &str) {
    output::tell(format!("{}: {text}", escaped(unit)));
}
