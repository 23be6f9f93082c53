//! Ports on loopback for the servers of tests.
//!
//! A server is told its port on its command line, so somebody else must find the port first. The kernel's answer to "port 0" is no
//! such port: once its listener is closed, the kernel gives the number to the next who asks, or to the near end of a connection. So
//! a port here is below those that the kernel gives, and is claimed: no other process that asks here gets it before this one ends.

use std::net::TcpListener;
use std::ops::Range;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::Mutex;

/// Linux gives ports from 32768 on, unless `net.ipv4.ip_local_port_range` says otherwise.
const PORTS: Range<u16> = 16_384..32_768;

/// What this process has claimed, for as long as it lives.
static CLAIMS: Mutex<Vec<UnixListener>> = Mutex::new(Vec::new());

/// A port on 127.0.0.1 where nobody listens, and which no other caller of this function is given while this process lives.
///
/// # Errors
///
/// None of the ports is left, which says that something leaves servers behind.
pub fn unused_port() -> Result<u16, String> {
    // Processes begin at different places, so that a port rests for a while after its last use.
    let first = std::process::id().wrapping_mul(101) as usize % PORTS.len();
    let mut ports = PORTS.cycle().skip(first).take(PORTS.len());
    let free = ports.find(|&port| TcpListener::bind(("127.0.0.1", port)).is_ok() && claim(port));
    free.ok_or_else(|| {
        let (first, last) = (PORTS.start, PORTS.end - 1);
        format!("no port from {first} to {last} is free on loopback: `ss -ltnp` tells who listens")
    })
}

/// Claims a port by a name that one process of this network can have, and loses when it ends, however it does.
fn claim(port: u16) -> bool {
    let name = SocketAddr::from_abstract_name(format!("tenure-port-{port}"));
    let Ok(claimed) = name.and_then(|name| UnixListener::bind_addr(&name)) else { return false };
    CLAIMS.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(claimed);
    true
}

#[cfg(test)]
mod tests {
    //! Plan: a port is given once in a process, once among processes, and not where somebody listens.
    use super::*;

    #[test]
    fn a_port_is_given_once() {
        let given: std::collections::BTreeSet<u16> = (0..100).map(|_| unused_port().unwrap()).collect();
        assert_eq!(given.len(), 100);
        assert!(given.iter().all(|port| PORTS.contains(port)));
    }

    #[test]
    fn a_port_of_another_process_is_not_given() {
        let port = unused_port().unwrap();
        // Another process would be refused the name as this one is, which has it already.
        assert!(!claim(port));
    }

    #[test]
    fn a_port_where_somebody_listens_is_not_given() {
        let next = unused_port().unwrap();
        let listeners: Vec<TcpListener> =
            (next + 1..next + 4).filter_map(|port| TcpListener::bind(("127.0.0.1", port)).ok()).collect();
        let taken: Vec<u16> = listeners.iter().map(|taken| taken.local_addr().unwrap().port()).collect();
        let given: Vec<u16> = (0..8).map(|_| unused_port().unwrap()).collect();
        assert!(given.iter().all(|port| !taken.contains(port)), "{given:?} {taken:?}");
    }
}
