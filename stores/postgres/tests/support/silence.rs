//! Relays to the server that fall silent: their connections stay, and nothing passes any more.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking, also in what they share"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use tenure_postgres::tokio_postgres::Config;
use tenure_postgres::tokio_postgres::config::Host;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Lasts as long as its runtime.
pub(crate) struct Silencer {
    pub(crate) port: u16,
    connections: Arc<AtomicUsize>,
    is_silent: watch::Sender<bool>,
}

impl Silencer {
    /// Relays to the tests' server until it is told to be silent.
    pub(crate) async fn start() -> Silencer {
        let server: Config = crate::support::url().parse().unwrap();
        let [Host::Tcp(host)] = server.get_hosts() else { panic!("the tests' server is on loopback") };
        let to = (host.clone(), server.get_ports()[0]);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (connections, (is_silent, heard)) = (Arc::<AtomicUsize>::default(), watch::channel(false));
        let count = Arc::clone(&connections);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                count.fetch_add(1, SeqCst);
                tokio::spawn(relay(client, to.clone(), heard.clone()));
            }
        });
        Silencer { port, connections, is_silent }
    }

    /// One that never says a word.
    pub(crate) async fn silent() -> Silencer {
        let silencer = Silencer::start().await;
        silencer.set_silent(true);
        silencer
    }

    /// Of those that there are, and of new ones. What was silent once stays so.
    pub(crate) fn set_silent(&self, is_silent: bool) {
        self.is_silent.send_replace(is_silent);
    }

    /// How many were made in all.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(SeqCst)
    }
}

async fn relay(mut client: TcpStream, to: (String, u16), mut is_silent: watch::Receiver<bool>) {
    let mut server = TcpStream::connect((to.0.as_str(), to.1)).await.unwrap();
    tokio::select! {
        biased;
        _silent = is_silent.wait_for(|is_silent| *is_silent) => {}
        _ended = tokio::io::copy_bidirectional(&mut client, &mut server) => return,
    }
    // It reads until its client goes, and says nothing.
    let _gone = client.read_to_end(&mut Vec::new()).await;
    let _ended = server.shutdown().await;
}
