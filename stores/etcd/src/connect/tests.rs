//! Plan: pings go with calls alone, and the kernel probes in between; an unanswered call is over in its time, and the next one goes elsewhere;
//! a caller that goes away at once moves nobody, and one that has waited a while does.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use super::*;
use crate::wire::{RangeResponse, range};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::task::Poll;
use tenure_core::ErrorKind;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// As long as a busy machine may take.
const LONG: Duration = Duration::from_secs(60);

/// A member that answers pings, but no call.
struct SilentMember {
    port: u16,
    pings: Arc<AtomicU32>,
    /// The port of who connected last.
    client: Arc<AtomicU32>,
}

impl SilentMember {
    async fn start() -> SilentMember {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (port, pings) = (listener.local_addr().unwrap().port(), Arc::new(AtomicU32::new(0)));
        let (counted, client) = (Arc::clone(&pings), Arc::new(AtomicU32::new(0)));
        let connected = Arc::clone(&client);
        tokio::spawn(async move {
            while let Ok((stream, from)) = listener.accept().await {
                connected.store(from.port().into(), Ordering::SeqCst);
                let counted = Arc::clone(&counted);
                tokio::spawn(async move { answer_pings(stream, &counted).await });
            }
        });
        SilentMember { port, pings, client }
    }

    fn pings(&self) -> u32 {
        self.pings.load(Ordering::SeqCst)
    }
}

/// Whether the kernel will probe the connection of this port (proc_pid_net(5), the column `tr`: a keepalive timer is 2).
#[cfg(target_os = "linux")]
fn is_probed(port: u32) -> bool {
    let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
    sockets.lines().any(|socket| {
        let columns: Vec<&str> = socket.split_whitespace().collect();
        columns[1].ends_with(&format!(":{port:04X}")) && columns[5].starts_with("02:")
    })
}

/// The least of HTTP/2 (RFC 9113, sections 3.4, 4.1, 6.5 and 6.7), until the connection ends.
async fn answer_pings(mut stream: TcpStream, pings: &AtomicU32) -> Option<()> {
    const SETTINGS: u8 = 4;
    const PING: u8 = 6;
    const ACK: u8 = 1;
    stream.read_exact(&mut [0; 24]).await.ok()?;
    stream.write_all(&[0, 0, 0, SETTINGS, 0, 0, 0, 0, 0]).await.ok()?;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await.ok()?;
        let [high, middle, low, kind, flags, ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, high, middle, low]) as usize];
        stream.read_exact(&mut payload).await.ok()?;
        if flags & ACK != 0 {
            continue;
        }
        if kind == SETTINGS {
            stream.write_all(&[0, 0, 0, SETTINGS, ACK, 0, 0, 0, 0]).await.ok()?;
        } else if kind == PING {
            pings.fetch_add(1, Ordering::SeqCst);
            stream.write_all(&[&[0, 0, 8, PING, ACK, 0, 0, 0, 0][..], &payload].concat()).await.ok()?;
        }
    }
}

#[tokio::test]
async fn a_member_is_pinged_while_a_call_is_under_way_and_never_without_one() {
    let member = SilentMember::start().await;
    let endpoint = Endpoint::from_shared(format!("http://127.0.0.1:{}", member.port)).unwrap();
    let channel = watchful(endpoint, (Duration::from_millis(5), LONG)).connect_lazy();
    let request = Request::new(range(b"k", true));
    let call = unary::<_, RangeResponse>(channel.clone(), path::RANGE, request);
    let pinged = async {
        while member.pings() < 3 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        answer = call => panic!("it was answered: {answer:?}"),
        pinged = tokio::time::timeout(LONG, pinged) => pinged.unwrap(),
    }
    // What is under way when the call is given up may still come. Forty pings would come in each of these spans.
    let rests = async {
        loop {
            let before = member.pings();
            tokio::time::sleep(Duration::from_millis(200)).await;
            if member.pings() == before {
                return;
            }
        }
    };
    tokio::time::timeout(LONG, rests).await.expect("etcd ends the connection for that");
    #[cfg(target_os = "linux")]
    assert!(is_probed(member.client.load(Ordering::SeqCst)), "nobody notices that its host is gone");
}

#[tokio::test]
async fn a_call_that_is_not_answered_is_over_in_its_time_and_the_next_goes_elsewhere() {
    let members = [SilentMember::start().await, SilentMember::start().await];
    let config = EtcdConfig::new(members.iter().map(|member| format!("127.0.0.1:{}", member.port)))
        .timeout(Duration::from_millis(100));
    let channels = MemberChannels::new(&config).unwrap();
    for _ in 0..2 {
        let before = channels.current.load(Ordering::SeqCst);
        let write = channels.ask::<_, RangeResponse>(Call::Write, path::RANGE, range(b"k", false));
        let error = tokio::time::timeout(LONG, write).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
        assert_ne!(channels.current.load(Ordering::SeqCst), before, "it stays with the silent one");
    }
}

#[tokio::test]
async fn a_caller_that_goes_away_at_once_moves_nobody_to_another_member() {
    let members = [SilentMember::start().await, SilentMember::start().await];
    let config = EtcdConfig::new(members.iter().map(|member| format!("127.0.0.1:{}", member.port)))
        .timeout(Duration::from_secs(20));
    let channels = MemberChannels::new(&config).unwrap();
    let current = || channels.current.load(Ordering::SeqCst);
    let call = || channels.ask::<_, RangeResponse>(Call::Read, path::RANGE, range(b"k", true));
    let before = current();
    for _ in 0..20 {
        let mut call = Box::pin(call());
        let asked = poll_fn(|context| Poll::Ready(call.as_mut().poll(context).is_pending()));
        assert!(asked.await, "nobody answers");
        drop(call);
        assert_eq!(current(), before);
    }
    assert!(tokio::time::timeout(Duration::from_millis(500), call()).await.is_err());
    assert_ne!(current(), before, "it stays with the silent one");
    // Two who wait for a moment, as leases with short ttls do.
    let (before, mut moved) = (current(), false);
    for _ in 0..2 {
        assert!(tokio::time::timeout(Duration::from_millis(50), call()).await.is_err());
        moved |= current() != before;
    }
    assert!(moved, "it stays with the silent one");
}
