//! A client's socket. A request that waits watches it beside the connection that reads from it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

#[derive(Debug, Clone)]
pub(crate) struct ClientSocket(Arc<Socket>);

#[derive(Debug)]
enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// What both kinds have by the same name.
macro_rules! of_either {
    ($socket:expr, $stream:ident => $does:expr) => {
        match &*$socket.0 {
            Socket::Unix($stream) => $does,
            Socket::Tcp($stream) => $does,
        }
    };
}

impl From<UnixStream> for ClientSocket {
    fn from(stream: UnixStream) -> ClientSocket {
        ClientSocket(Arc::new(Socket::Unix(stream)))
    }
}

impl From<TcpStream> for ClientSocket {
    fn from(stream: TcpStream) -> ClientSocket {
        ClientSocket(Arc::new(Socket::Tcp(stream)))
    }
}

impl ClientSocket {
    /// Waits until its client sends no more, whatever there still is to read: nobody reads while a request waits, so bytes behind it would hide the end.
    pub(crate) async fn ended(&self) {
        // This interest hears of the end, and not of bytes. An urgent byte comes by it, too, and is no end.
        of_either!(self, stream => loop {
            match stream.ready(Interest::PRIORITY).await {
                Ok(ready) if ready.is_read_closed() => return,
                Ok(_) => {
                    // What was heard is forgotten: the next word is waited for.
                    let _blocks: io::Result<()> =
                        stream.try_io(Interest::PRIORITY, || Err(io::ErrorKind::WouldBlock.into()));
                }
                Err(_) => return std::future::pending::<()>().await,
            }
        })
    }
}

/// Tries again whenever the socket is ready, until it does not say that it would block.
macro_rules! until_done {
    ($socket:expr, $is_ready:ident, $context:expr, $stream:ident => $tries:expr) => {
        of_either!($socket, $stream => loop {
            ready!($stream.$is_ready($context))?;
            match $tries {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                tried => break tried,
            }
        })
    };
}

impl AsyncRead for ClientSocket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let read =
            until_done!(self, poll_read_ready, cx, stream => stream.try_read(buf.initialize_unfilled()));
        Poll::Ready(read.map(|bytes| buf.advance(bytes)))
    }
}

impl AsyncWrite for ClientSocket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(until_done!(self, poll_write_ready, cx, stream => stream.try_write(bytes)))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(until_done!(self, poll_write_ready, cx, stream => stream.try_write_vectored(bytes)))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// The system has what was written.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        use rustix::net::{Shutdown, shutdown};
        Poll::Ready(of_either!(self, stream => shutdown(stream, Shutdown::Write)).map_err(io::Error::from))
    }
}
