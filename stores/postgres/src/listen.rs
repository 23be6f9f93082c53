//! Hints of changes: one connection that listens while anybody wants them, made again whenever it ends.
//!
//! A notification locks the whole database until its transaction is over, so commits that notify go one after the other. Hence nobody is
//! notified where nobody listens: who listens shares an advisory lock, and a write tells only if it can't have that lock for itself for a
//! moment. Where it can't even share it, another write has it for itself in that very moment, so nobody listens then, either.
//!
//! Both belong to a session, so whoever listens asks first whether the session is his own. A pooler would pass nothing on, and its session
//! would go on to share the lock after everybody has gone.

use crate::config::PostgresConfig;
use crate::hosts::reach;
use crate::proof::Proof;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tenure_core::op::Hint;
use tenure_core::{Key, StoreError, Version};
use tenure_store::parts::{Subscribers, Teller};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

/// How long to wait before the connection is made again: at first, and at most.
const AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// After how long without a notification it is asked whether anybody still wants them, and whether the server is still there; or after the
/// timeout of calls, if that is shorter.
const QUIET: Duration = Duration::from_secs(5);

/// The key of the advisory lock of a channel, as an expression.
fn lock(channel: &str) -> String {
    format!("hashtextextended('{channel}', 0)")
}

/// Whether a write tells of itself, as an expression: if it is news, as another expression says, and somebody listens to the channel.
/// The lock is given back within the expression, so a pooler may lend the session to another one after it.
pub(crate) fn tells(news: &str, channel: &str) -> String {
    let lock = lock(channel);
    format!(
        "CASE WHEN NOT ({news}) THEN false \
         WHEN pg_try_advisory_lock({lock}) THEN NOT pg_advisory_unlock({lock}) \
         WHEN pg_try_advisory_lock_shared({lock}) THEN pg_advisory_unlock_shared({lock}) \
         ELSE false END"
    )
}

/// What a notification says: a version and a key, both in hexadecimal digits. Another one may mean anything.
fn hint(text: &str) -> Hint {
    let understood = || {
        let (version, key) = text.split_once(' ')?;
        let version = Version(u128::from_str_radix(version, 16).ok()?);
        let digits = |at: usize| key.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
        let bytes: Option<Vec<u8>> = (0..key.len()).step_by(2).map(digits).collect();
        Some(Hint::Written(Key::from_bytes(&bytes?).ok()?, version))
    };
    understood().unwrap_or(Hint::Any)
}

/// Begins to listen, in the background, on the runtime of whoever asks.
pub(crate) fn start(
    config: PostgresConfig,
    tls: Option<MakeRustlsConnect>,
    channel: String,
) -> Result<Teller, StoreError> {
    let runtime = tokio::runtime::Handle::try_current()
        .map_err(|_| StoreError::unavailable("listening for changes needs a tokio runtime; poll instead"))?;
    let listen = |told: Subscribers| async move { listen_on(&config, tls.as_ref(), &channel, &told).await };
    Ok(Teller::start(&runtime, listen))
}

async fn listen_on(
    config: &PostgresConfig,
    tls: Option<&MakeRustlsConnect>,
    channel: &str,
    subscribers: &Subscribers,
) {
    let mut pause = AGAIN.0;
    loop {
        subscribers.any().await;
        // Whatever ended it, what changed meanwhile was not told.
        if listen(config, tls, channel, subscribers).await {
            pause = AGAIN.0;
        }
        if subscribers.are_any() {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(AGAIN.1);
        }
    }
}

/// Listens until the connection ends, or nobody wants hints any more. False if it never stood.
async fn listen(
    config: &PostgresConfig,
    tls: Option<&MakeRustlsConnect>,
    channel: &str,
    subscribers: &Subscribers,
) -> bool {
    let Ok(server) = config.driver().await else { return false };
    // A pooler refuses the mark, or does not know it afterwards.
    let (proof, server) = Proof::of(&server);
    let ear = Ear { proof, channel, subscribers, timeout: config.timeout };
    match tls {
        None => {
            let connect = |host: Config| async move { host.connect(NoTls).await };
            let Ok((client, connection)) = reach(&server, config.connecting(), connect).await else {
                return false;
            };
            ear.receive(&client, connection).await
        }
        Some(tls) => {
            let connect = |host: Config| {
                let tls = tls.clone();
                async move { host.connect(tls).await }
            };
            let Ok((client, connection)) = reach(&server, config.connecting(), connect).await else {
                return false;
            };
            ear.receive(&client, connection).await
        }
    }
}

/// Who listens on one connection.
struct Ear<'a> {
    proof: Proof,
    channel: &'a str,
    subscribers: &'a Subscribers,
    /// How long an answer is waited for. After a fifth of that everybody is told to look once more.
    timeout: Duration,
}

impl Ear<'_> {
    async fn receive<S, T>(&self, client: &Client, mut connection: Connection<S, T>) -> bool
    where
        S: AsyncRead + AsyncWrite + Unpin,
        T: AsyncRead + AsyncWrite + Unpin,
    {
        let lock = lock(self.channel);
        let ask = format!("SELECT pg_advisory_lock_shared({lock}); LISTEN \"{}\"", self.channel);
        let (quiet, has_heard) = (QUIET.min(self.timeout), AtomicBool::new(false));
        let stood = AtomicBool::new(false);
        let asking = async {
            let begun = async { self.proof.holds(client).await && client.batch_execute(&ask).await.is_ok() };
            if !tokio::time::timeout(self.timeout, begun).await.is_ok_and(|has_begun| has_begun) {
                return;
            }
            stood.store(true, Ordering::SeqCst);
            self.subscribers.tell(&Hint::Any);
            // A write that saw the lock free, and landed only after everybody had looked at the keys, has told nobody.
            tokio::time::sleep(self.timeout / 5).await;
            self.subscribers.tell(&Hint::Any);
            // One on which nothing passes any more looks like one on which there is nothing to tell.
            loop {
                tokio::time::sleep(quiet).await;
                let is_there = async {
                    has_heard.swap(false, Ordering::SeqCst) || client.check_connection().await.is_ok()
                };
                if !tokio::time::timeout(self.timeout, is_there).await.is_ok_and(|is_there| is_there) {
                    return;
                }
            }
        };
        let receiving = async {
            while self.subscribers.are_any() {
                let message = poll_fn(|context| connection.poll_message(context));
                match tokio::time::timeout(quiet, message).await {
                    Ok(Some(Ok(message))) => {
                        has_heard.store(true, Ordering::SeqCst);
                        if let AsyncMessage::Notification(notification) = message {
                            self.subscribers.tell(&hint(notification.payload()));
                        }
                    }
                    Ok(_) => return,
                    Err(_) => {}
                }
            }
        };
        tokio::select! { () = asking => {}, () = receiving => {} }
        stood.into_inner()
    }
}

#[cfg(test)]
mod tests {
    //! Plan: a notification names the key and the version; any other may mean anything.
    use super::*;

    #[test]
    fn a_notification_names_the_key_and_the_version() {
        let key = Key::new("a\n").unwrap();
        assert_eq!(hint("0000000000000000000000000000ff01 610a"), Hint::Written(key, Version(0xff01)));
        for other in ["", "x", "12", "12 zz", "12 6", "12 é", "12 "] {
            assert_eq!(hint(other), Hint::Any, "{other:?}");
        }
    }
}
