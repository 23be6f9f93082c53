//! The interrupts of a terminal that is lent to a command. They go to the command's process group alone, so this process would
//! not hear of them: a process of ours in that group passes on that they were sent.

use super::client::Watchdogs;
use nix::sys::signal::Signal;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tokio::sync::mpsc;

/// The hidden verb.
pub(crate) const VERB: &str = "__keyboard";
/// What the process is called in the table of processes.
pub(crate) const NAME: &str = "tenure-keyboard";

/// So many interrupts within [`QUICKLY`] are for us: the command does not heed them.
const INSISTING: usize = 3;
const QUICKLY: Duration = Duration::from_secs(2);

/// Hears of interrupts.
pub(super) struct Keyboard {
    group: i32,
    child: Child,
    presses: mpsc::UnboundedReceiver<()>,
    watchdogs: Arc<Watchdogs>,
    /// The process has ended, and there can't be another one.
    is_over: bool,
}

impl Keyboard {
    /// None if the group is gone, or there is no process to be had: then nobody hears of interrupts but the command.
    pub(super) fn beside(group: i32, watchdogs: &Arc<Watchdogs>) -> Option<Keyboard> {
        let mut command = Command::new(super::own_program().ok()?);
        command.arg(VERB).stdin(Stdio::piped()).stdout(Stdio::piped()).current_dir("/").process_group(group);
        let mut child = watchdogs.start_beside(&mut command).ok()?;
        let told = child.stdout.take()?;
        let (sender, presses) = mpsc::unbounded_channel();
        let listen = move || pass_on(told, &sender);
        let thread =
            std::thread::Builder::new().name("keyboard".to_owned()).stack_size(256 << 10).spawn(listen);
        let keyboard = Keyboard { group, child, presses, watchdogs: Arc::clone(watchdogs), is_over: false };
        thread.ok().map(|_| keyboard)
    }

    /// The next interrupt. Cancel safe.
    pub(super) async fn next(&mut self) {
        if self.presses.recv().await.is_some() {
            return;
        }
        // Its end of the pipe is closed, so it has ended.
        let by = self.child.wait().ok().and_then(|status| status.signal());
        if self.is_over || by != Some(Signal::SIGINT as i32) {
            return std::future::pending().await;
        }
        // It was interrupted before it was ready for that, which tells as much.
        match Keyboard::beside(self.group, &self.watchdogs) {
            Some(another) => *self = another,
            None => self.is_over = true,
        }
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _reaped = self.child.wait();
        self.watchdogs.reaped(self.child.id().cast_signed());
    }
}

fn pass_on(mut told: ChildStdout, presses: &mpsc::UnboundedSender<()>) {
    let mut byte = [0];
    while told.read(&mut byte).is_ok_and(|read| read > 0) && presses.send(()).is_ok() {}
}

/// When the last interrupts came.
#[derive(Debug, Default)]
pub(super) struct Insistence(Vec<Duration>);

impl Insistence {
    /// True if this one is one too many for the command alone.
    pub(super) fn note(&mut self, now: Duration) -> bool {
        self.0.retain(|at| now.saturating_sub(*at) < QUICKLY);
        self.0.push(now);
        self.0.len() >= INSISTING
    }
}

/// Writes a byte for each interrupt, until standard input closes.
pub(crate) fn main() {
    for signal in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGTSTP] {
        let _kept = signal_hook::flag::register(signal as i32, Arc::new(AtomicBool::new(false)));
    }
    let Ok(out) = std::io::stdout().as_fd().try_clone_to_owned() else { return };
    if signal_hook::low_level::pipe::register(Signal::SIGINT as i32, out).is_err() {
        return;
    }
    super::call_oneself(NAME);
    let mut nothing = [0];
    loop {
        match std::io::stdin().read(&mut nothing) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_is_interrupted_now_and_then_keeps_its_terminal() {
        let insists = |times: &[u64]| {
            let mut insistence = Insistence::default();
            times.iter().map(|ms| insistence.note(Duration::from_millis(*ms))).collect::<Vec<_>>()
        };
        assert_eq!(insists(&[1000, 1100, 2900, 3150]), [false, false, true, false]);
        assert_eq!(insists(&[1000, 2500, 4000, 5500]), [false; 4]);
    }
}
