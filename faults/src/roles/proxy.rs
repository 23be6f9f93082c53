//! What stands between a machine and the servers: it delays, ends connections after a request has arrived and before its answer goes
//! back, and keeps requests back to deliver them when nobody waits for them any more.

use super::{orders, say};
use crate::raw;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};

/// What it does to what passes from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProxyMode {
    Pass,
    /// Each piece comes later by up to this; each connection keeps its order, connections overtake each other.
    Delay(Duration),
    /// Of all answers, every so manieth ends its connection instead; but a connection gets far enough to be used.
    Cut(u64),
    /// Requests wait until there is another order.
    Keep,
}

#[derive(Default)]
struct ProxyCounts {
    /// Answers that could have been cut off.
    seen: AtomicU64,
    /// Pieces whose fate the present order has changed.
    changed: AtomicU64,
}

/// `LISTEN=SERVER…`, addresses with ports. Each order is answered with how many pieces the last one has changed the fate of.
pub(super) async fn run(words: &[&str]) -> Result<(), String> {
    let mut lines = orders();
    let (order, told) = watch::channel(ProxyMode::Pass);
    let counts = Arc::new(ProxyCounts::default());
    for word in words {
        let (listen, server) = word.split_once('=').ok_or("proxy LISTEN=SERVER…")?;
        let listener = TcpListener::bind(listen).await.map_err(|error| format!("{listen}: {error}"))?;
        let (server, told, counts) = (server.to_owned(), told.clone(), Arc::clone(&counts));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(relay(client, server.clone(), told.clone(), Arc::clone(&counts)));
            }
        });
    }
    say("ready");
    while let Some(line) = lines.recv().await {
        let (word, number) = line.split_once(' ').unwrap_or((&line, "0"));
        let number = number.parse().map_err(|error| format!("{line}: {error}"))?;
        order.send_replace(match word {
            "delay" => ProxyMode::Delay(Duration::from_millis(number)),
            "cut" => ProxyMode::Cut(number),
            "keep" => ProxyMode::Keep,
            _ => ProxyMode::Pass,
        });
        say(&format!("did {}", counts.changed.swap(0, Ordering::SeqCst)));
    }
    Ok(())
}

async fn relay(
    client: TcpStream,
    server: String,
    told: watch::Receiver<ProxyMode>,
    counts: Arc<ProxyCounts>,
) {
    let Ok(server) = TcpStream::connect(server).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let requests = pass(from_client, to_server, told.clone(), Arc::clone(&counts), false);
    let answers = pass(from_server, to_client, told.clone(), counts, true);
    tokio::pin!(requests, answers);
    tokio::select! {
        // What was asked is delivered all the same, also if whoever asked is gone.
        () = &mut requests => {}
        () = &mut answers => if *told.borrow() == ProxyMode::Keep { requests.await },
    }
}

async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut told: watch::Receiver<ProxyMode>,
    counts: Arc<ProxyCounts>,
    are_answers: bool,
) {
    let (sender, mut pieces) = mpsc::unbounded_channel::<(u64, Vec<u8>)>();
    let orders = told.clone();
    let counted = Arc::clone(&counts);
    let reads = async move {
        /// Pieces of an answer that belong to greetings.
        const GREETINGS: u64 = 2;
        let (mut buffer, mut answers, mut due) = (vec![0; 1 << 16], 0, 0);
        while let Ok(count @ 1..) = from.read(&mut buffer).await {
            let order = *orders.borrow();
            answers += u64::from(are_answers);
            match order {
                ProxyMode::Cut(each) if are_answers && answers > GREETINGS => {
                    let all = counted.seen.fetch_add(1, Ordering::SeqCst) + 1;
                    if all.is_multiple_of(each.max(1)) {
                        counted.changed.fetch_add(1, Ordering::SeqCst);
                        return true;
                    }
                }
                ProxyMode::Cut(_) => {}
                ProxyMode::Keep if are_answers => {}
                ProxyMode::Keep | ProxyMode::Delay(_) => {
                    counted.changed.fetch_add(1, Ordering::SeqCst);
                }
                _ => {}
            }
            let most = if let ProxyMode::Delay(most) = order { most.as_nanos() as u64 } else { 0 };
            due = due.max(raw::now() + raw::noise(most));
            if sender.send((due, buffer[..count].to_vec())).is_err() {
                return false;
            }
        }
        drop(sender);
        false
    };
    let writes = async move {
        while let Some((due, bytes)) = pieces.recv().await {
            let early = due.saturating_sub(raw::now());
            if early > 0 {
                tokio::time::sleep(Duration::from_nanos(early)).await;
            }
            if !are_answers {
                // The sender lives as long as the process.
                let _ = told.wait_for(|order| *order != ProxyMode::Keep).await;
            }
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
    };
    tokio::pin!(reads, writes);
    tokio::select! {
        was_cut = &mut reads => if !was_cut { writes.await },
        () = &mut writes => {}
    }
}
