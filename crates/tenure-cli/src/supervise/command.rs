//! One command under a lease: started, told to stop in time, and seen to its end. What becomes of the lease then is for the
//! verb to decide, but only a command that is known to be over lets it be given up.

use crate::exit::{self, Failure};
use crate::output;
use crate::supervise::client::{Watchdogs, asked_now};
use crate::supervise::health::LeaseHealth;
use crate::supervise::keyboard::{Insistence, Keyboard};
use crate::supervise::process::{self, Ended, ProcessGroup, Running};
use crate::supervise::signals::{self, Asked, Signals};
use crate::supervise::stopping::Stopping;
use crate::supervise::terminal::{self, Terminal};
use nix::sys::signal::Signal;
use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::{ChildStdin, Command, ExitStatus};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tenure::clock::boottime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

/// Why a command was stopped.
#[derive(Debug)]
pub(crate) enum Why {
    Asked(Asked),
    Revoked,
    Losing,
}

/// What came of a command.
#[derive(Debug)]
pub(crate) enum Over {
    /// It is over: by itself, or because it was stopped.
    Ended(std::io::Result<ExitStatus>, Option<Why>),
    /// The user does not want to wait for anything. It was sent KILL, and nothing is known of it.
    AtOnce(Asked),
    /// It can't be killed (it hangs in the kernel), so nothing is known of what it does.
    Stuck,
}

/// What a command has from us besides its environment.
pub(crate) enum Given {
    /// The terminal, if there is one.
    Terminal,
    /// These lines, on its standard input, which must be a pipe.
    Lines(Vec<String>),
}

/// A command that was started.
pub(crate) struct Supervised {
    began: Duration,
    ended: oneshot::Receiver<std::io::Result<Ended>>,
    process_group: Arc<ProcessGroup>,
    terminal: Option<Arc<Terminal>>,
    keyboard: Option<Keyboard>,
    watchdogs: Arc<Watchdogs>,
    /// After `fg` in a shell, the command wants the terminal that it could not have before.
    resumed: tokio::signal::unix::Signal,
}

/// How long after a command that an interrupt has ended whoever hears of the terminal's interrupts may tell of it: both hear it at once.
const TOLD_WITHIN: Duration = Duration::from_secs(1);

impl Supervised {
    /// Starts `command`. What it leaves running in its group has `grace` to end once it has ended itself.
    pub(crate) fn start(
        command: Command,
        given: Given,
        watchdogs: &Arc<Watchdogs>,
        grace: Duration,
    ) -> Result<Supervised, Failure> {
        let program = command.get_program().to_owned();
        let resumed = signal(SignalKind::from_raw(Signal::SIGCONT as i32))
            .map_err(|error| Failure::new(exit::INTERNAL, error.to_string()))?;
        let (grace, process_group, began) =
            (grace.min(watchdogs.lead().term), Arc::new(ProcessGroup::default()), boottime());
        // The threads first, because nobody would see to the command if there were none.
        let (sender, ended) = oneshot::channel();
        let attend = thread("command", {
            let process_group = Arc::clone(&process_group);
            move |(running, terminal): (Running, Option<Arc<Terminal>>)| {
                let ended = running.attend(grace, |signal| {
                    let is_ours = terminal.as_ref().is_none_or(|terminal| terminal.is_lent());
                    if is_ours && terminal::is_suspension(signal) {
                        // A lease can't wait for someone to come back from lunch.
                        process_group.signal(Signal::SIGCONT);
                    }
                });
                // Nobody listens any more after a stop at once.
                let _unheard = sender.send(ended);
            }
        })?;
        let feed = thread("input", |(mut input, lines): (ChildStdin, Vec<String>)| {
            // A command that doesn't read them has them in its environment.
            let _unread = lines.iter().try_for_each(|line| writeln!(input, "{line}"));
        })?;
        let mut running = Running::start(command, Arc::clone(watchdogs), Arc::clone(&process_group))
            .map_err(|error| process::not_started(OsStr::new(&program), &error))?;
        let terminal = match given {
            Given::Terminal => {
                let terminal = Arc::new(Terminal::of(running.group()));
                Some(terminal)
            }
            Given::Lines(lines) => {
                let _heard = running.input().map(|input| feed.send((input, lines)));
                None
            }
        };
        let _heard = attend.send((running, terminal.clone()));
        let (keyboard, watchdogs) = (None, Arc::clone(watchdogs));
        let mut supervised =
            Supervised { began, ended, process_group, terminal, keyboard, watchdogs, resumed };
        supervised.lend();
        Ok(supervised)
    }

    pub(crate) fn kill(&self) {
        self.process_group.signal(Signal::SIGKILL);
    }

    /// Sees it to its end, within a lease that has so much left and this health whenever that is asked.
    pub(crate) async fn see(
        mut self,
        standing: impl Fn() -> (Duration, LeaseHealth),
        ttl: Duration,
        grace: Duration,
        watchdogs: &Watchdogs,
        signals: &mut Signals,
    ) -> Over {
        let slow = (ttl / 40).clamp(Duration::from_millis(5), Duration::from_millis(250));
        let mut stop = Stop::default();
        let (mut insistence, mut was_interrupted) = (Insistence::default(), false);
        let ended = loop {
            let pause = if stop.is_begun() { Duration::from_millis(5) } else { slow };
            tokio::select! {
                biased;
                ended = &mut self.ended => break ended,
                signal = signals.next() => {
                    if self.is_asked(&mut stop, Asked::Signal(signal), grace) {
                        return Over::AtOnce(Asked::Signal(signal));
                    }
                },
                () = pressed(&mut self.keyboard) => {
                    was_interrupted = true;
                    if insistence.note(boottime()) && self.is_asked(&mut stop, Asked::Keyboard, grace) {
                        return Over::AtOnce(Asked::Keyboard);
                    }
                },
                Some(()) = self.resumed.recv() => self.lend(),
                () = tokio::time::sleep(pause) => {}
            }
            let asked_at = asked_now();
            let (left, health) = standing();
            watchdogs.prolong(asked_at, left);
            let (why, within) = match health {
                LeaseHealth::Good => (None, Duration::ZERO),
                LeaseHealth::Revoked(within) => (Some(Why::Revoked), within.min(grace)),
                LeaseHealth::Losing(within) => (Some(Why::Losing), within),
                LeaseHealth::Lost => (Some(Why::Losing), Duration::ZERO),
            };
            if let Some(why) = why {
                stop.begin(why, within, &self.process_group);
            }
            if stop.stopping.as_mut().is_some_and(|stopping| stopping.go_on(&self.process_group)) {
                return Over::Stuck;
            }
        };
        if let Some(terminal) = &self.terminal {
            terminal.take_back();
        }
        let may_be_told = self.keyboard.is_some() && !was_interrupted;
        if may_be_told && matches!(&ended, Ok(Ok(ended)) if is_interrupted(&ended.status)) {
            was_interrupted = tokio::time::timeout(TOLD_WITHIN, pressed(&mut self.keyboard)).await.is_ok();
        }
        match ended {
            // It may still act.
            Ok(Ok(Ended { is_stuck: true, .. })) => Over::Stuck,
            Ok(ended) => {
                if let Some(text) = ended.as_ref().ok().and_then(|ended| process::left_behind(&ended.left)) {
                    output::note(text);
                }
                let status = ended.map(|ended| ended.status);
                let by_watchdog = || watchdogs.may_have_stopped(self.began).then_some(Why::Losing);
                // What ends by the interrupt was to end, and so was whoever called us.
                let by_keyboard = || was_interrupted && status.as_ref().is_ok_and(is_interrupted);
                let by_keyboard = || by_keyboard().then_some(Why::Asked(Asked::Keyboard));
                let why = stop.why.or_else(by_watchdog).or_else(by_keyboard);
                Over::Ended(status, why)
            }
            // Its thread is gone, and nobody knows of the command.
            Err(_) => Over::Stuck,
        }
    }

    /// The user asks to stop. True if that was not the first time, and all was done about it.
    fn is_asked(&self, stop: &mut Stop, by: Asked, grace: Duration) -> bool {
        if matches!(stop.why, Some(Why::Asked(_))) {
            // The watchdog sees to it that nothing is left.
            self.kill();
            return true;
        }
        let name = signals::name(by.signal());
        output::note(format!("{name}: stopping the command; once more to stop at once"));
        stop.begin(Why::Asked(by), grace, &self.process_group);
        false
    }

    fn lend(&mut self) {
        if let Some(terminal) =
            self.terminal.as_ref().filter(|terminal| !terminal.is_lent() && terminal.is_ours())
        {
            // Before anything can be typed into the command.
            self.keyboard = Keyboard::beside(terminal.group(), &self.watchdogs);
            terminal.lend();
        }
    }
}

/// The next interrupt, if anybody hears of them. Cancel safe.
async fn pressed(keyboard: &mut Option<Keyboard>) {
    match keyboard {
        Some(keyboard) => keyboard.next().await,
        None => std::future::pending().await,
    }
}

fn is_interrupted(status: &ExitStatus) -> bool {
    status.signal() == Some(Signal::SIGINT as i32)
}

/// A thread that does `work` with what it is sent; nothing, if the sender is dropped.
fn thread<T: Send + 'static>(
    name: &str,
    work: impl FnOnce(T) + Send + 'static,
) -> Result<mpsc::Sender<T>, Failure> {
    let (sender, given) = mpsc::channel();
    let work = move || {
        if let Ok(given) = given.recv() {
            work(given);
        }
    };
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    thread.map_err(|error| Failure::new(exit::INTERNAL, format!("no thread for the command: {error}")))?;
    Ok(sender)
}

/// Why the command was told to stop, and how far that is.
#[derive(Default)]
struct Stop {
    why: Option<Why>,
    stopping: Option<Stopping>,
}

impl Stop {
    fn begin(&mut self, why: Why, within: Duration, process_group: &ProcessGroup) {
        // What the user wants says more than what would have happened anyway.
        if self.why.is_none() || matches!(why, Why::Asked(_)) {
            self.why = Some(why);
        }
        Stopping::begin(&mut self.stopping, within, process_group);
    }

    fn is_begun(&self) -> bool {
        self.stopping.is_some()
    }
}
