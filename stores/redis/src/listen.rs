//! Hints of changes: one connection that is subscribed while anybody listens, made again whenever it ends.
//!
//! Where nobody listens, nobody is subscribed: a message costs the server and each subscriber as much as a call does.

use crate::connection_manager::ConnectionManager;
use futures_util::StreamExt;
use redis::aio::PubSub;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tenure_core::op::Hint;
use tenure_core::{Key, StoreError, Version};
use tenure_store::Changes;
use tenure_store::parts::{Subscribers, Teller};
use tokio::time::MissedTickBehavior;

/// How long to wait before the connection is made again: at first, and at most.
const AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// How often the server is asked whether it is still there, and a primary; and how long that may take.
const QUIET: Duration = Duration::from_secs(5);

/// What a message says: a version in hexadecimal digits, and a key. Another one may mean anything.
fn hint(message: &[u8]) -> Hint {
    let understood = || {
        let (version, key) = message.split_at_checked(33)?;
        let digits = std::str::from_utf8(version).ok()?.strip_suffix(' ')?;
        let version = Version(u128::from_str_radix(digits, 16).ok()?);
        Some(Hint::Written(Key::from_bytes(key).ok()?, version))
    };
    understood().unwrap_or(Hint::Any)
}

/// What subscribes while anybody listens.
pub(crate) struct ChannelSubscriber {
    connections: Arc<ConnectionManager>,
    channel: String,
    teller: Mutex<Option<Teller>>,
}

impl ChannelSubscriber {
    /// Makes sure that subscribing is allowed.
    pub(crate) async fn of(
        connections: Arc<ConnectionManager>,
        channel: String,
    ) -> Result<ChannelSubscriber, StoreError> {
        connections.subscription(&channel).await?;
        Ok(ChannelSubscriber { connections, channel, teller: Mutex::default() })
    }

    /// Hints of changes of keys that begin with `prefix`. Who asks first begins to listen, on its own runtime.
    pub(crate) fn subscribe(&self, prefix: &str) -> Result<Changes, StoreError> {
        let mut teller = self.teller.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(changes) = teller.as_ref().and_then(|running| running.subscribe(prefix)) {
            return Ok(changes);
        }
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| {
            StoreError::unavailable("listening for changes needs a tokio runtime; poll instead")
        })?;
        let (connections, channel) = (Arc::clone(&self.connections), self.channel.clone());
        let listen = |told: Subscribers| async move { listen_on(&connections, &channel, &told).await };
        let over = || StoreError::unavailable("the runtime is about to end; poll instead");
        teller.insert(Teller::start(&runtime, listen)).subscribe(prefix).ok_or_else(over)
    }
}

async fn listen_on(connections: &ConnectionManager, channel: &str, subscribers: &Subscribers) {
    let mut pause = AGAIN.0;
    loop {
        subscribers.any().await;
        if let Ok((messages, from)) = connections.subscription(channel).await {
            // What changed while nobody listened was not told.
            subscribers.tell(&Hint::Any);
            receive(connections, from, messages, subscribers).await;
            pause = AGAIN.0;
        }
        if subscribers.are_any() {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(AGAIN.1);
        }
    }
}

/// Passes on what comes, until the connection ends, the server is silent when it is asked, or nobody listens any more. A server that was
/// demoted may hear of nothing any more, and whoever only reads has no other sign of that.
async fn receive(
    connections: &ConnectionManager,
    from: SocketAddr,
    messages: PubSub,
    subscribers: &Subscribers,
) {
    let (mut asking, mut messages) = messages.split();
    // Also where there is much to hear: a primary that was demoted may go on to pass messages on.
    let mut due = tokio::time::interval(QUIET);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    due.reset();
    while subscribers.are_any() {
        tokio::select! {
            message = messages.next() => match message {
                Some(message) => subscribers.tell(&hint(message.get_payload_bytes())),
                None => return,
            },
            _ = due.tick() => {
                let answer = tokio::time::timeout(QUIET, asking.ping::<redis::Value>()).await;
                if !answer.is_ok_and(|answer| answer.is_ok()) || !connections.goes_to(from).await {
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    //! Plan: a message names the key and the version; any other may mean anything.
    use super::*;

    #[test]
    fn a_message_names_the_key_and_the_version() {
        let key = Key::new("a \n").unwrap();
        assert_eq!(hint(b"0000000000000000000000000000ff01 a \n"), Hint::Written(key, Version(0xff01)));
        let other: [&[u8]; 5] = [
            b"",
            b"x",
            b"0000000000000000000000000000ff01 ",
            b"z000000000000000000000000000ff01 a",
            &[0xff; 40],
        ];
        for other in other {
            assert_eq!(hint(other), Hint::Any, "{other:?}");
        }
    }
}
