//! Whether an answer that gives something to a client has left for it. What its client can't have heard of is taken back.

use std::fmt;
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

type TakeBack = Box<dyn FnOnce() + Send>;

/// What is given by the answers that a connection has under way.
#[derive(Default)]
pub(crate) struct Delivery(Mutex<Vec<TakeBack>>);

/// So many times as long as a client may take nothing, it may take for all of what is sent to it.
const LONGEST_ANSWER: u32 = 10;

impl Delivery {
    /// The answer that is made now gives something. If it can't be written, that is taken back so.
    pub(crate) fn gives(&self, take_back: impl FnOnce() + Send + 'static) {
        self.under_way().push(Box::new(take_back));
    }

    /// The answer that is made now has this until it is written, or never will be.
    pub(crate) fn keeps(&self, kept: impl Send + 'static) {
        self.gives(move || drop(kept));
    }

    fn under_way(&self) -> MutexGuard<'_, Vec<TakeBack>> {
        // No code that can panic runs under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All that was answered is written.
    fn is_written(&self) {
        self.under_way().clear();
    }

    /// There is no connection any more.
    fn is_over(&self) {
        let unwritten = std::mem::take(&mut *self.under_way());
        for take_back in unwritten {
            take_back();
        }
    }
}

impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Delivery").field("under_way", &self.under_way().len()).finish()
    }
}

/// A connection's stream, which sees when all of an answer is written: only then it is flushed. It ends where that takes too long: a client that takes a
/// little now and then would keep an answer in memory for hours.
pub(crate) struct DeliveringStream<S> {
    stream: S,
    delivery: Arc<Delivery>,
    longest: Duration,
    /// When what is being written is to be written at the latest.
    latest: Option<Pin<Box<Sleep>>>,
}

impl<S> DeliveringStream<S> {
    /// `patience`: for how long a client may take nothing.
    pub(crate) fn new(stream: S, delivery: Arc<Delivery>, patience: Duration) -> DeliveringStream<S> {
        DeliveringStream { stream, delivery, longest: patience.saturating_mul(LONGEST_ANSWER), latest: None }
    }

    fn check_latest(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let longest = self.longest;
        let latest = self.latest.get_or_insert_with(|| Box::pin(tokio::time::sleep(longest)));
        if latest.as_mut().poll(cx).is_ready() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
    }
}

impl<S> Drop for DeliveringStream<S> {
    fn drop(&mut self) {
        self.delivery.is_over();
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for DeliveringStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for DeliveringStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.check_latest(cx)?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.check_latest(cx)?;
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        self.delivery.is_written();
        self.latest = None;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
