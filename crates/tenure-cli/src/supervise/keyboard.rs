//! The interrupts of a terminal that is lent to a command. They go to the command's process group alone, so this process would
//! not hear of them: a process of ours in that group passes on that they were sent.

use super::client::Watchdogs;
use super::helper;
use nix::sys::signal::Signal;
use nix::unistd::{Pid, setpgid};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tokio::sync::mpsc;

/// The hidden verb.
pub(crate) const VERB: &str = "__keyboard";

/// So many interrupts within [`QUICKLY`] are for us: the command does not heed them.
const INSISTING: usize = 3;
const QUICKLY: Duration = Duration::from_secs(2);

/// Hears of interrupts.
pub(super) struct Keyboard {
    child: Child,
    presses: mpsc::UnboundedReceiver<()>,
    watchdogs: Arc<Watchdogs>,
}

impl Keyboard {
    /// In that group when this returns. None if the group is gone, or there is no process to be had: then nobody hears of interrupts but
    /// the command.
    pub(super) fn beside(group: i32, watchdogs: &Arc<Watchdogs>) -> Option<Keyboard> {
        let mut command = Command::new(helper::own_program().ok()?);
        // It joins the group itself, once it heeds signals: one that stopped it before would stop us, who wait until it is a program
        // of its own (vfork(2)).
        command.arg(VERB).arg(group.to_string()).current_dir("/").process_group(0);
        let mut child = watchdogs.start_beside(command.stdin(Stdio::piped()).stdout(Stdio::piped())).ok()?;
        let told = child.stdout.take();
        let (sender, presses) = mpsc::unbounded_channel();
        let keyboard = Keyboard { child, presses, watchdogs: Arc::clone(watchdogs) };
        let mut told = told?;
        told.read_exact(&mut [0]).ok()?;
        let listen = move || pass_on(told, &sender);
        let thread =
            std::thread::Builder::new().name("keyboard".to_owned()).stack_size(256 << 10).spawn(listen);
        thread.ok().map(|_| keyboard)
    }

    /// The next interrupt. Cancel safe.
    pub(super) async fn next(&mut self) {
        if self.presses.recv().await.is_none() {
            // It has ended, with its group.
            std::future::pending().await
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

/// Joins a group, and writes a byte once it has, and another for each interrupt, until standard input closes.
pub(crate) fn main(arguments: &[String]) -> Option<()> {
    let group = arguments.first()?.parse().ok()?;
    for signal in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGTSTP] {
        let _kept = signal_hook::flag::register(signal as i32, Arc::new(AtomicBool::new(false)));
    }
    let mut out = std::io::stdout();
    let pipe = out.as_fd().try_clone_to_owned().ok()?;
    signal_hook::low_level::pipe::register(Signal::SIGINT as i32, pipe).ok()?;
    helper::call_oneself(helper::KEYBOARD);
    setpgid(Pid::this(), Pid::from_raw(group)).ok()?;
    out.write_all(b"+").and_then(|()| out.flush()).ok()?;
    let mut nothing = [0];
    while let Err(error) = std::io::stdin().read(&mut nothing)
        && error.kind() == std::io::ErrorKind::Interrupted
    {}
    Some(())
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
