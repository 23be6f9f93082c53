//! The process at the other end of a Unix socket, and its end.

use crate::delivery::Delivery;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{getsockopt, sockopt};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use tokio::io::unix::AsyncFd;
use tokio::net::UnixStream;
use tokio::net::unix::UCred;

/// Whoever has made a connection.
#[derive(Debug)]
pub(crate) struct ClientIdentity {
    /// Who that is, for logs.
    name: String,
    /// None for a client of a TCP address, and where the system doesn't tell.
    process: Option<PeerProcess>,
    /// Of the connection that it has made.
    delivery: Arc<Delivery>,
}

/// It can't be mistaken for another: a descriptor names the process, not its number.
#[derive(Debug)]
struct PeerProcess {
    id: i32,
    descriptor: AsyncFd<OwnedFd>,
}

impl ClientIdentity {
    /// Nobody that is known.
    #[cfg(test)]
    pub(crate) fn unknown() -> ClientIdentity {
        ClientIdentity { name: "unknown".to_owned(), process: None, delivery: Arc::default() }
    }

    /// Whoever has connected from this address. Its process can't be watched.
    pub(crate) fn at(address: SocketAddr) -> ClientIdentity {
        ClientIdentity { name: address.to_string(), process: None, delivery: Arc::default() }
    }

    /// Its address, or the user and the process, as far as the system tells.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// What its connection is answering.
    pub(crate) fn delivery(&self) -> &Arc<Delivery> {
        &self.delivery
    }

    /// The process that has connected.
    pub(crate) fn of(stream: &UnixStream) -> ClientIdentity {
        let who = stream.peer_cred().ok();
        let id = who.as_ref().and_then(UCred::pid).filter(|id| *id > 0);
        let name = match (&who, id) {
            (Some(who), Some(id)) => format!("uid {} pid {id}", who.uid()),
            (Some(who), None) => format!("uid {}", who.uid()),
            (None, _) => "unknown".to_owned(),
        };
        let process = id.and_then(|id| {
            #[allow(
                deprecated,
                reason = "what takes its place is unsafe code; an owned descriptor is closed once only"
            )]
            let descriptor = AsyncFd::new(descriptor(stream, id)?).ok()?;
            Some(PeerProcess { id, descriptor })
        });
        ClientIdentity { name, process, delivery: Arc::default() }
    }

    /// The number of its process, if its end can be seen.
    pub(crate) fn process_id(&self) -> Option<i32> {
        self.process.as_ref().map(|process| process.id)
    }

    /// Whether the two are surely one process, that has not ended.
    pub(crate) fn is_same(&self, other: &ClientIdentity) -> bool {
        match (&self.process, &other.process) {
            // As long as the first has not ended, its number is its own.
            // What can't be asked counts as ended: nobody else is taken for it then.
            (Some(one), Some(two)) => one.id == two.id && one.has_ended() == Ok(false),
            _ => false,
        }
    }

    /// Waits until the process of whoever is to be watched has ended. For ever, where nobody is.
    pub(crate) async fn any_ended(watched: Option<&ClientIdentity>) {
        match watched {
            Some(peer) => peer.ended().await,
            None => std::future::pending().await,
        }
    }

    /// Waits until the process has ended, all threads of it. For ever, where that can't be seen.
    async fn ended(&self) {
        let Some(process) = &self.process else { return std::future::pending().await };
        loop {
            let Ok(mut ready) = process.descriptor.readable().await else {
                // A descriptor that can't be waited for says nothing of its process.
                return std::future::pending().await;
            };
            // The runtime may be woken for nothing; a lease goes by the kernel's word alone.
            if process.has_ended() == Ok(true) {
                return;
            }
            ready.clear_ready();
        }
    }
}

impl PeerProcess {
    fn has_ended(&self) -> Result<bool, Errno> {
        let mut polled = [PollFd::new(self.descriptor.get_ref().as_fd(), PollFlags::POLLIN)];
        loop {
            match poll(&mut polled, PollTimeout::ZERO) {
                // A signal says nothing of the process.
                Err(Errno::EINTR) => {}
                answered => return answered.map(|ready| ready > 0),
            }
        }
    }
}

/// The kernel's own word on who has connected. Kernels before 6.5 tell only its number, which may be another's since: then a lease would go by
/// the wrong process's end, so it goes by none.
fn descriptor(stream: &UnixStream, id: i32) -> Option<OwnedFd> {
    if let Ok(descriptor) = getsockopt(stream, sockopt::PeerPidfd) {
        return Some(descriptor);
    }
    let descriptor = pidfd_open(Pid::from_raw(id)?, PidfdFlags::NONBLOCK).ok()?;
    // Somebody holds the other end open after the descriptor was had. It is the process that has connected, unless that one has passed it on.
    let mut other_end = [PollFd::new(stream.as_fd(), PollFlags::empty())];
    // That it has hung up is told though there is something to read yet.
    loop {
        match poll(&mut other_end, PollTimeout::ZERO) {
            Err(Errno::EINTR) => {}
            answered => return (answered == Ok(0)).then_some(descriptor),
        }
    }
}
