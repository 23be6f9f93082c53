//! The word to end what is done under a lease.

use crate::process::Process;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// The word to end what is done under a lease, a unit, ranges or a leadership: to be asked, awaited, and passed on to whatever works on it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let leases = tenure::Leases::new(tenure::memory())?;
/// let guard = leases.acquire("reports/nightly").await?;
/// let cancelled = guard.cancelled();
/// let work = tokio::spawn(async move {
///     while !cancelled.is_cancelled() {
///         tokio::select! {
///             () = cancelled.clone() => break,
///             () = tokio::task::yield_now() => {} // A piece of work.
///         }
///     }
/// });
/// # leases.stop().await;
/// # work.await?; Ok(()) }
/// ```
///
/// # Cancel safety
/// May be dropped, and awaited again. Clones are told of the same end, each for itself.
#[must_use = "it does nothing unless it is asked or awaited"]
pub struct Cancelled {
    token: CancellationToken,
    /// A child that it forks off is told at once: nobody else would do that.
    process: Process,
    /// Made when it is first awaited.
    wait: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
}

impl Cancelled {
    pub(crate) fn by(token: &CancellationToken, process: &Process) -> Cancelled {
        Cancelled { token: token.clone(), process: process.clone(), wait: None }
    }

    /// Whether the word was given. Takes a few nanoseconds, and never blocks.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.token.is_cancelled() || self.process.is_forked()
    }
}

impl Future for Cancelled {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.is_cancelled() {
            return Poll::Ready(());
        }
        let Cancelled { token, wait, .. } = &mut *self;
        wait.get_or_insert_with(|| Box::pin(token.clone().cancelled_owned())).as_mut().poll(context)
    }
}

impl Clone for Cancelled {
    fn clone(&self) -> Self {
        Cancelled::by(&self.token, &self.process)
    }
}

impl fmt::Debug for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cancelled").field(&self.is_cancelled()).finish()
    }
}

#[cfg(test)]
mod tests {
    //! Plan: pending until the word is given, ready from then on, however often it was polled, dropped, cloned or awaited before; ready in a
    //! forked child.
    use super::*;

    #[tokio::test]
    async fn each_clone_is_told_and_stays_told() {
        let token = CancellationToken::new();
        let this = Process::this();
        let (mut first, second) = (Cancelled::by(&token, &this), Cancelled::by(&token, &this).clone());
        let waits = tokio::spawn(second.clone());
        tokio::select! {
            biased;
            () = &mut first => panic!("nobody has given the word"),
            () = tokio::task::yield_now() => {}
        }
        assert!(!first.is_cancelled() && !second.is_cancelled() && !waits.is_finished());
        token.cancel();
        assert!(first.is_cancelled() && second.is_cancelled());
        (&mut first).await;
        (&mut first).await;
        second.await;
        waits.await.unwrap();
    }

    #[tokio::test]
    async fn a_forked_child_is_told() {
        let told = Cancelled::by(&CancellationToken::new(), &Process::parent());
        assert!(told.is_cancelled());
        told.await;
    }
}
