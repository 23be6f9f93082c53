//! `tenure range`: one command for those keys of a range that nobody else works on.

use crate::exit::{self, Failure};
use crate::keeper::{Keeper, asked_now};
use crate::meant;
use crate::process::{self, Leash, Running, shell_status};
use crate::run::{Stopping, Why};
use crate::say;
use crate::signals::{self, Signals};
use crate::stores::{Missing, Url};
use crate::watchdog::Lead;
use nix::sys::signal::Signal;
use std::io::Write;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tenure::range::{KeyRange, RangeLease, Section};
use tenure::{BodyError, Clock};
use tokio::sync::{Mutex, oneshot};

/// The longest list of ranges that is put into the environment; Linux takes 128 KiB for a variable.
const MOST_IN_ENVIRONMENT: usize = 100_000;

pub(crate) async fn range(url: &Url, plan: meant::Range) -> Result<u8, Failure> {
    process::find(&plan.command.program)?;
    let signals = Signals::listen().map_err(|error| Failure::new(exit::INTERNAL, error.to_string()))?;
    let clock: Arc<dyn Clock> = tenure::clock::system();
    let store = url.open(Missing::Create, Arc::clone(&clock)).await?;
    let lead = Lead::new(plan.duration, plan.grace);
    let section = Section::builder(store, &plan.section).clock(clock).grace(lead.total()).start()?;
    let keeper = Arc::new(Keeper::start(section.holder().as_str().to_owned(), lead)?);
    let result = leased(&section, &plan, &keeper, signals).await;
    keeper.dismiss();
    result
}

async fn leased(
    section: &Section,
    plan: &meant::Range,
    keeper: &Arc<Keeper>,
    signals: Signals,
) -> Result<u8, Failure> {
    let signals = Arc::new(Mutex::new(signals));
    let (begin, begun) = oneshot::channel();
    let attendant = Attendant {
        section: section.clone(),
        plan: plan.clone(),
        keeper: Arc::clone(keeper),
        signals: Arc::clone(&signals),
    };
    let with_lease = section.with_lease(plan.range.clone(), plan.duration, move |lease| async move {
        // Nobody waits for this any more if the user was quicker.
        let _begun = begin.send(());
        attendant.attend(lease).await
    });
    // Until the command runs, a signal simply ends it all.
    let early = async {
        let signal = {
            let mut signals = signals.lock().await;
            tokio::select! {
                biased;
                _ = begun => None,
                signal = signals.next() => Some(signal),
            }
        };
        match signal {
            Some(signal) => signal,
            None => std::future::pending().await,
        }
    };
    let result = tokio::select! {
        result = with_lease => result,
        signal = early => return Err(Failure::by_signal(signal)),
    };
    let lost =
        || Failure::new(exit::LOST, format!("{}: the time was over; the command was stopped", section.key()));
    match result {
        Ok(result) => result,
        Err(BodyError::Acquire(error)) => Err(error.into()),
        // What it ended with, it ended with too late; unless the user wanted it to end.
        Err(BodyError::Interrupted { value: Some(Err(failure)), .. }) => Err(failure),
        Err(BodyError::Interrupted { .. }) => Err(lost()),
        Err(error) => Err(Failure::new(exit::INTERNAL, error.to_string())),
    }
}

/// Starts the command and sees it to its end.
struct Attendant {
    section: Section,
    plan: meant::Range,
    keeper: Arc<Keeper>,
    signals: Arc<Mutex<Signals>>,
}

impl Attendant {
    async fn attend(self, lease: RangeLease) -> Result<u8, Failure> {
        if lease.fence().is_none() {
            let (key, range) = (self.section.key(), &self.plan.range);
            return Err(Failure::new(exit::HELD, format!("{key}: all of {range} is held by others")));
        }
        let leash = Arc::new(Leash::default());
        let mut status = self.start(&lease, &leash)?;
        let mut signals = self.signals.lock().await;
        let mut stop = None::<Stopping>;
        let within = self.keeper.lead().term;
        let status = loop {
            let pause = if stop.is_some() { Duration::from_millis(5) } else { Duration::from_millis(250) };
            tokio::select! {
                biased;
                status = &mut status => break status,
                signal = signals.next() => match &stop {
                    Some(stopping) if stopping.is_by_signal() => {
                        leash.signal(Signal::SIGKILL);
                        return Err(Failure::by_signal(signal));
                    }
                    _ => {
                        let key = self.section.key();
                        say::note(format!("{key}: stopping the command; once more to stop at once ({})", signals::name(signal)));
                        Stopping::begin(&mut stop, Why::Signal(signal), self.plan.grace, &leash);
                    }
                },
                () = lease.cancelled().cancelled(), if !stop.as_ref().is_some_and(Stopping::is_for_time) => {
                    Stopping::begin_for_time(&mut stop, within, &leash);
                }
                () = tokio::time::sleep(pause) => {}
            }
            if let Some(stop) = &mut stop
                && stop.is_overdue(&leash)
            {
                let text = format!(
                    "{}: the command can't be killed; its ranges are left to expire",
                    self.section.key()
                );
                say::note(&text);
                // The library's watch over this body ends it, and leaves the lease to expire.
                std::future::pending::<()>().await;
            }
        };
        let status = status.map_err(|_| Failure::new(exit::INTERNAL, "the command's thread has ended"))?;
        match stop {
            Some(stop) => Err(stop.failure(|| {
                Failure::new(
                    exit::LOST,
                    format!("{}: the time was over; the command was stopped", self.section.key()),
                )
            })),
            None => {
                let status = status.map_err(|error| Failure::new(exit::INTERNAL, error.to_string()))?;
                Ok(shell_status(status))
            }
        }
    }

    fn start(
        &self,
        lease: &RangeLease,
        leash: &Arc<Leash>,
    ) -> Result<oneshot::Receiver<std::io::Result<ExitStatus>>, Failure> {
        let asked_at = asked_now();
        self.keeper.prolong(asked_at, lease.held_for());
        let lines: Vec<String> = lease.parts().iter().map(KeyRange::to_string).collect();
        let mut command = Command::new(&self.plan.command.program);
        command.args(&self.plan.command.arguments).stdin(Stdio::piped());
        command.env("TENURE_KEY", self.section.key().as_str());
        command.env("TENURE_FENCE", lease.fence().unwrap_or_default().to_string());
        let deadline = u128::from(self.section.clock().now().wall.0) + lease.remaining().as_millis();
        command.env("TENURE_DEADLINE", deadline.to_string());
        let ranges = lines.join(" ");
        if ranges.len() <= MOST_IN_ENVIRONMENT {
            command.env("TENURE_RANGES", ranges);
        } else {
            command.env_remove("TENURE_RANGES");
        }
        self.keeper.mark(&mut command);
        let mut running = Running::start(command, Arc::clone(&self.keeper), Arc::clone(leash))
            .map_err(|error| process::not_started(&self.plan.command.program, &error))?;
        if !lease.is_held() {
            leash.signal(Signal::SIGKILL);
        }
        let (sender, status) = oneshot::channel();
        let (grace, input) = (self.plan.grace.min(self.keeper.lead().term), running.input());
        let feed = move || {
            if let Some(mut input) = input {
                // A command that doesn't read them has them in its environment.
                let _unread = lines.iter().try_for_each(|line| writeln!(input, "{line}"));
            }
        };
        let resume = Arc::clone(leash);
        let attend = move || {
            let status = running.attend(grace, |signal| {
                if crate::terminal::is_suspension(signal) {
                    resume.signal(Signal::SIGCONT);
                }
            });
            // Nobody listens any more after a stop at once.
            let _unheard = sender.send(status);
        };
        for (name, work) in
            [("input", Box::new(feed) as Box<dyn FnOnce() + Send>), ("command", Box::new(attend))]
        {
            let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work);
            thread.map_err(|error| {
                Failure::new(exit::INTERNAL, format!("no thread for the command: {error}"))
            })?;
        }
        Ok(status)
    }
}
