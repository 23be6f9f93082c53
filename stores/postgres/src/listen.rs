//! Hints of changes: one connection that listens, made again whenever it ends.

use crate::config::PostgresConfig;
use crate::connect::tls;
use std::future::poll_fn;
use std::time::Duration;
use tenure_core::op::Hint;
use tenure_core::{Key, StoreError, Version};
use tenure_store::Changes;
use tenure_store::parts::Subscribers;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::AbortHandle;
use tokio_postgres::{AsyncMessage, Connection, NoTls};

/// How long to wait before the connection is made again: at first, and at most.
const AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

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

/// The connection that listens, for as long as this value lives.
#[derive(Debug)]
pub(crate) struct Listener {
    subscribers: Subscribers,
    task: AbortHandle,
}

impl Listener {
    /// Begins to listen, in the background.
    pub(crate) fn start(config: PostgresConfig, channel: String) -> Result<Listener, StoreError> {
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| {
            StoreError::unavailable("listening for changes needs a tokio runtime; poll instead")
        })?;
        let subscribers = Subscribers::default();
        let told = subscribers.clone();
        let task = runtime.spawn(async move { listen_on(&config, &channel, &told).await }).abort_handle();
        Ok(Listener { subscribers, task })
    }

    /// Hints of changes of keys that begin with `prefix`.
    pub(crate) fn subscribe(&self, prefix: &str) -> Changes {
        self.subscribers.subscribe(prefix)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn listen_on(config: &PostgresConfig, channel: &str, subscribers: &Subscribers) {
    let mut pause = AGAIN.0;
    loop {
        // Whatever ended it, what changed meanwhile was not told.
        if listen(config, channel, subscribers).await {
            pause = AGAIN.0;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(AGAIN.1);
    }
}

/// Listens until the connection ends. False if it never stood.
async fn listen(config: &PostgresConfig, channel: &str, subscribers: &Subscribers) -> bool {
    let Ok(server) = config.driver() else { return false };
    match tls(config) {
        Ok(None) => match server.connect(NoTls).await {
            Ok((client, connection)) => receive(&client, connection, channel, subscribers).await,
            Err(_) => false,
        },
        Ok(Some(tls)) => match server.connect(tls).await {
            Ok((client, connection)) => receive(&client, connection, channel, subscribers).await,
            Err(_) => false,
        },
        Err(_) => false,
    }
}

async fn receive<S, T>(
    client: &tokio_postgres::Client,
    mut connection: Connection<S, T>,
    channel: &str,
    subscribers: &Subscribers,
) -> bool
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    let ask = format!("LISTEN \"{channel}\"");
    let asking = async {
        if client.batch_execute(&ask).await.is_ok() {
            subscribers.tell(&Hint::Any);
        }
        std::future::pending::<()>().await;
    };
    let mut stood = false;
    let receiving = async {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            stood = true;
            if let AsyncMessage::Notification(notification) = message {
                subscribers.tell(&hint(notification.payload()));
            }
        }
    };
    tokio::select! { () = asking => {}, () = receiving => {} }
    stood
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
