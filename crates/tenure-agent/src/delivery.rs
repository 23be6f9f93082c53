//! Whether an answer that gives something to a client has left for it. What its client can't have heard of is taken back.

use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

type TakeBack = Box<dyn FnOnce() + Send>;

/// What is given by the answers that a connection has under way.
#[derive(Default)]
pub(crate) struct Delivery(Mutex<Vec<TakeBack>>);

impl Delivery {
    /// The answer that is made now gives something. If it can't be written, that is taken back so.
    pub(crate) fn gives(&self, take_back: impl FnOnce() + Send + 'static) {
        self.under_way().push(Box::new(take_back));
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

/// A connection's stream, which sees when all of an answer is written: only then it is flushed.
pub(crate) struct DeliveringStream<S> {
    stream: S,
    delivery: Arc<Delivery>,
}

impl<S> DeliveringStream<S> {
    pub(crate) fn new(stream: S, delivery: Arc<Delivery>) -> DeliveringStream<S> {
        DeliveringStream { stream, delivery }
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
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        self.delivery.is_written();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
