//! The user's signals: the first INT, TERM or HUP asks for a clean stop, the second for one at once. Others go to the command.
//!
//! Whoever signals a process and its group, as `timeout` does, sends two of a kind at about the same time, and means one. So does whoever sends
//! TERM and HUP, as systemd does to the shells of a session that ends.

use super::ignored::IgnoredSignals;
use super::process::ProcessGroup;
use super::told_to_end;
use crate::exit::{Failure, INTERNAL, SIGNAL, end_by_default};
use crate::output::note;
use crate::text::brief;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;
use tenure::clock::boottime;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// INT, TERM and HUP, those of them that were not ignored when we were started (as nohup and `&` in scripts do).
pub(crate) struct Signals {
    streams: Vec<(i32, Signal)>,
    /// What is not for us.
    others: Vec<(i32, Signal)>,
    /// The command that they are for.
    addressee: Option<Arc<ProcessGroup>>,
    last: Last,
    /// One that was taken, and is for whoever asks next.
    put_back: Option<i32>,
}

/// When the last signal came.
#[derive(Default)]
struct Last(Option<Duration>);

/// Two of them that come within this time are one, of whatever kind.
const AT_ONCE: Duration = Duration::from_millis(50);

impl Signals {
    pub(crate) fn listen() -> Result<Signals, Failure> {
        let others = [
            SignalKind::user_defined1(),
            SignalKind::user_defined2(),
            SignalKind::quit(),
            SignalKind::window_change(),
            SignalKind::alarm(),
        ];
        let ignored = IgnoredSignals::at_start();
        let others = listen_to(&others, ignored)?;
        // The last: whoever sees that these are heeded may send any.
        let ours = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let streams = listen_to(&ours, ignored)?;
        for signal in [SignalKind::terminate(), SignalKind::hangup()] {
            if !ignored.has(signal.as_raw_value()) {
                told_to_end::note(signal.as_raw_value());
            }
        }
        Ok(Signals { streams, others, addressee: None, last: Last::default(), put_back: None })
    }

    /// From now on, what is not for us goes to that command, or to nobody.
    pub(super) fn pass_on_to(&mut self, addressee: Option<Arc<ProcessGroup>>) {
        self.addressee = addressee;
    }

    /// What comes of `work`, unless the user asks to stop before.
    pub(crate) async fn unless<T>(&mut self, work: impl Future<Output = T>) -> Result<T, Failure> {
        tokio::select! {
            done = work => Ok(done),
            signal = self.next() => Err(Failure::by_signal(signal)),
        }
    }

    /// As [`Self::unless`], where the user's wish to stop ends this work only, and is for whoever asks next.
    pub(crate) async fn unless_hurried(&mut self, work: impl Future<Output = ()>) {
        tokio::select! {
            () = work => {}
            signal = self.next() => self.put_back = Some(signal),
        }
    }

    /// Waits for what is to be done in the end, but for no longer than it makes sense to or the user likes. True if it was done.
    pub(crate) async fn wait(&mut self, longest: Duration, end: impl Future<Output = ()>) -> bool {
        matches!(self.unless(tokio::time::timeout(longest, end)).await, Ok(Ok(())))
    }

    /// The same, at the end of a verb with this result: only if the user has time for it. Whoever waits longer than a moment is told for what, as the
    /// verb itself tells its failure at its very end.
    pub(crate) async fn farewell(
        &mut self,
        result: &Result<u8, Failure>,
        longest: Duration,
        end: impl Future<Output = ()>,
    ) -> bool {
        const MOMENT: Duration = Duration::from_secs(1);
        let failure = match result {
            Err(failure) if failure.is_urgent => return false,
            Err(failure) if !failure.text.is_empty() && longest > MOMENT => Some(failure),
            _ => None,
        };
        let told = async {
            if let Some(failure) = failure {
                tokio::time::sleep(MOMENT).await;
                let (text, longest) = (&failure.text, brief(longest));
                note(format!(
                    "{text}; what may have been taken is given back, which may take {longest}; a signal ends that"
                ));
            }
            std::future::pending().await
        };
        let done = async {
            tokio::select! {
                () = end => {}
                () = told => {}
            }
        };
        self.wait(longest, done).await
    }

    /// The next signal. Cancel safe.
    pub(crate) async fn next(&mut self) -> i32 {
        if let Some(signal) = self.put_back.take() {
            return signal;
        }
        loop {
            let number = std::future::poll_fn(|context| {
                for (number, stream) in &mut self.others {
                    while stream.poll_recv(context).is_ready() {
                        pass_on(self.addressee.as_deref(), *number);
                    }
                }
                for (number, stream) in &mut self.streams {
                    if stream.poll_recv(context).is_ready() {
                        return std::task::Poll::Ready(*number);
                    }
                }
                std::task::Poll::Pending
            })
            .await;
            if self.last.is_new(boottime()) {
                return number;
            }
        }
    }
}

impl Last {
    /// Whether this one is not the last wish, told once more.
    fn is_new(&mut self, now: Duration) -> bool {
        if self.0.is_some_and(|last| now.saturating_sub(last) < AT_ONCE) {
            return false;
        }
        self.0 = Some(now);
        true
    }
}

/// A signal that is not for us goes to the command.
fn pass_on(addressee: Option<&ProcessGroup>, number: i32) {
    let Ok(named) = nix::sys::signal::Signal::try_from(number) else { return };
    match addressee {
        Some(command) => command.pass_on(named),
        // Whoever presses Ctrl-\ wants an end of it now; the watchdogs see to what runs.
        None if number == SignalKind::quit().as_raw_value() => {
            end_by_default(number);
            std::process::exit(i32::from(SIGNAL) + number);
        }
        None => {}
    }
}

/// Those of them that were not ignored when we were started.
fn listen_to(kinds: &[SignalKind], ignored: &IgnoredSignals) -> Result<Vec<(i32, Signal)>, Failure> {
    let heeded = kinds.iter().filter(|kind| !ignored.has(kind.as_raw_value()));
    let listened = heeded.map(|kind| Ok((kind.as_raw_value(), signal(*kind)?)));
    listened.collect::<std::io::Result<_>>().map_err(|error| Failure::new(INTERNAL, error.to_string()))
}

/// What a signal is called.
pub(crate) fn name(number: i32) -> &'static str {
    nix::sys::signal::Signal::try_from(number).map_or("a signal", nix::sys::signal::Signal::as_str)
}

/// How a command ended, in words.
pub(crate) fn ending(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with {code}"),
        (None, Some(signal)) => format!("was ended by {}", name(signal)),
        (None, None) => "ended".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_signal_that_ends_one_work_only_is_for_whoever_asks_next() {
        let (streams, others, last) = (Vec::new(), Vec::new(), Last::default());
        let mut signals = Signals { streams, others, addressee: None, last, put_back: Some(15) };
        signals.unless_hurried(std::future::pending()).await;
        assert_eq!(signals.unless(std::future::pending::<()>()).await.unwrap_err().code, 143);
        signals.unless_hurried(std::future::ready(())).await;
        assert_eq!(signals.put_back, None);
    }

    #[test]
    fn two_at_about_the_same_time_are_one() {
        let mut last = Last::default();
        let mut is_new = |ms| last.is_new(Duration::from_millis(ms));
        assert!(is_new(1000) && !is_new(1001) && !is_new(1049));
        // Nobody who goes on and on is left unheard.
        assert!(is_new(1050) && !is_new(1051));
    }
}
