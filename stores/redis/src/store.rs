//! The store itself.

use crate::client::RedisClient;
use crate::config::RedisConfig;
use crate::connect::RedisConnector;
use crate::connection_manager::ConnectionManager;
use crate::error::{Call, unanswered};
use crate::gather::ScriptBatch;
use crate::guard::RedisGuard;
use crate::inspect::inspect;
use crate::listen::ChannelSubscriber;
use crate::scripts::{Invocation, Scripts};
use crate::value::bytes;
use crate::{mend, read, write};
use redis::Value;
use std::fmt;
use std::sync::Arc;
use tenure_core::op::{Freshness, Listed, Outcome, Write};
use tenure_core::{ErrorKind, Fence, Key, Record, StoreError, Stored, Version};
use tenure_store::parts::Right;
use tenure_store::{Capabilities, Changes, Image, Inspection, Store};

/// The version of the layout that this program makes and knows.
const LAYOUT: u32 = 1;

/// Records in one namespace of a Redis or Valkey server or cluster. Clones share their connections.
#[derive(Clone)]
pub struct RedisStore {
    inner: Arc<RedisClient>,
    gathering: Arc<ScriptBatch>,
}

impl RedisStore {
    /// Opens the store. It examines the server; a namespace that was never used gets an id, and nothing else is written.
    ///
    /// # Errors
    /// Each names the server, the namespace and the remedy, and none a password; all come within one and a half times the time for a call, which
    /// is 4.5 s unless said otherwise.
    /// `Invalid`: the configuration, the user, a missing right, or a server that would drop leases. `Foreign`: the namespace is
    /// another program's, or newer than this one. `Unavailable`: the server can't be reached, is no primary, or takes no writes.
    ///
    /// # Cancel safety
    /// The namespace may have got its id.
    pub async fn open(config: RedisConfig) -> Result<Self, StoreError> {
        config.check()?;
        let (limit, place) = (config.timeout + config.timeout / 2, config.place());
        let opening = tokio::time::timeout(limit, Self::opened(config)).await;
        opening.unwrap_or_else(|_| Err(unanswered(&place, Call::Read)))
    }

    async fn opened(config: RedisConfig) -> Result<Self, StoreError> {
        let connector = RedisConnector::open(&config).await?;
        let admission = Arc::clone(&connector.admission);
        let connections = Arc::new(ConnectionManager::new(connector));
        let name = |what: &str| config.name(what);
        let scripts = Scripts::new();
        let Some(id) = examine(&connections, &scripts, &config).await? else {
            return Err(StoreError::invalid(format!(
                "{}: the namespace was never used; check its name and the database",
                connections.place
            )));
        };
        // Messages know no databases.
        let channel = name(&format!("changes:{}", config.db));
        // That it is refused is better known now than from waiters that are slow.
        let listener = match config.push {
            true => Some(ChannelSubscriber::of(Arc::clone(&connections), channel.clone()).await?),
            false => None,
        };
        let capabilities = config.capabilities();
        admission.granted(Right::Login);
        let inner = Arc::new(RedisClient {
            connections,
            scripts,
            keys: [name("records"), name("index")],
            channel,
            tells_ages: config.attested_ages,
            id,
            capabilities,
            listener,
            admission,
        });
        let gathering = Arc::new(ScriptBatch::new(Arc::clone(&inner)));
        Ok(RedisStore { inner, gathering })
    }
}

impl RedisStore {
    /// What the server says of itself: what of its configuration can lose leases, as no append-only file, replicas that follow
    /// asynchronously, eviction; how full it is; its clock. After a loss only fences protect. What the user may not see is noted.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn inspect(&self) -> Inspection {
        inspect(&self.inner.connections).await
    }

    /// The same of the server of a namespace that was never used, which no store is opened for without its being begun. Nothing is written. None
    /// if the namespace is used.
    ///
    /// # Errors
    /// As [`Self::open`].
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn inspect_unused(config: RedisConfig) -> Result<Option<Inspection>, StoreError> {
        config.check()?;
        let (limit, place) = (config.timeout + config.timeout / 2, config.place());
        let config = config.create(false);
        let looking = async {
            let connections = ConnectionManager::new(RedisConnector::open(&config).await?);
            let id = examine(&connections, &Scripts::new(), &config).await?;
            Ok(if id.is_some() { None } else { Some(inspect(&connections).await) })
        };
        tokio::time::timeout(limit, looking).await.unwrap_or_else(|_| Err(unanswered(&place, Call::Read)))
    }
}

impl RedisStore {
    /// A condition for writes of the caller's own in the same database: true only while the record of `key` shows a tenure with the
    /// fence `fence`. If that tenure is attached to a session, the session's record must show a tenure, too, and the fence that it was
    /// attached to. None if it does not stand now. It is good for as long as the lease: renewals leave it as it is.
    ///
    /// A write with this condition can't land after the loss of the lease, however late it is, and whatever the clocks did, as long as the
    /// server forgets nothing.
    ///
    /// `key` is the key as it is in this store. A lease that was acquired through a `PrefixedStore` has its prefix there before the
    /// key. If it is attached to a session, it has no condition, because the session's key in the record lacks the prefix: give such a lease
    /// a ttl of its own.
    ///
    /// # Errors
    /// As [`Store::read`].
    ///
    /// # Cancel safety
    /// It only reads.
    pub async fn guard(&self, key: &Key, fence: Fence) -> Result<Option<RedisGuard>, StoreError> {
        RedisGuard::of(&self.inner, key, fence).await
    }

    /// Sets a key of the caller's own (`SET`) in the same database, if the lease of `guard` stands; false if it is lost. Both are one script.
    ///
    /// The name is any but those that begin with `tenure:{`. In a cluster it has the hash tag of the namespace, `{NAMESPACE}`. The user needs
    /// more rights than [`acl`] gives: `+set ~NAME`.
    ///
    /// # Errors
    /// As [`Store::write`]; `Invalid` for a name that is tenure's, or in another slot of the cluster: nothing is sent.
    ///
    /// # Cancel safety
    /// It may be done or not.
    pub async fn set_guarded(
        &self,
        guard: &RedisGuard,
        name: &str,
        value: &[u8],
    ) -> Result<bool, StoreError> {
        guard.set(&self.inner, name, value).await
    }
}

/// Whose the namespace is: its id. None if it was never used, and is not to be begun.
async fn examine(
    connections: &ConnectionManager,
    scripts: &Scripts,
    config: &RedisConfig,
) -> Result<Option<String>, StoreError> {
    let create = config.create;
    // While a cluster moves the namespace, a script of two keys has to wait. Who makes the namespace needs one.
    let both = [config.name("meta"), config.name("records")];
    let meta = if create { &both[..1] } else { &both[..] };
    let layout = LAYOUT.to_string();
    let script =
        Invocation::new(&scripts.meta, meta).arg(layout.as_bytes()).arg(if create { b"1" } else { b"0" });
    let call = if create { Call::Write } else { Call::Read };
    let found = match connections.call(call, &script).await {
        Ok(found) => found,
        // Asking again does no harm.
        Err(error) if error.kind() == ErrorKind::Unknown => {
            return Err(StoreError::unavailable(error.to_string()));
        }
        Err(error) => return Err(error),
    };
    let place = &connections.place;
    let text =
        |value: &Value| bytes(value).and_then(|bytes| std::str::from_utf8(bytes).ok()).map(str::to_owned);
    let Value::Array(found) = &found else {
        return Err(StoreError::unavailable(format!("{place}: a script was answered unclearly")));
    };
    let (id, layout) = (found.first().and_then(text), found.get(1).and_then(text));
    match (id, layout.and_then(|layout| layout.parse::<u32>().ok())) {
        (Some(id), Some(LAYOUT)) => Ok(Some(format!("redis:{id}"))),
        (Some(_), Some(newer)) => Err(StoreError::foreign(format!(
            "{place}: the namespace has layout {newer}, this program knows up to {LAYOUT}; upgrade it"
        ))),
        (None, None) if !create => check_free(connections, config).await.map(|()| None),
        _ => Err(StoreError::foreign(format!(
            "{place}: another program uses keys of this namespace; name another with namespace=…"
        ))),
    }
}

/// That no other program has a key where records and their index would be. Who may not ask hears of it with the first write.
async fn check_free(connections: &ConnectionManager, config: &RedisConfig) -> Result<(), StoreError> {
    for (command, what) in [("HLEN", "records"), ("ZCARD", "index")] {
        let mut ask = redis::cmd(command);
        ask.arg(config.name(what));
        match connections.ask::<u64>(&ask).await {
            Err(error) if error.kind() == ErrorKind::Foreign => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// What a user of the server needs to use a namespace, as a line of its own: no right to remove a record, which `gc`, `work rm`, `fleet rm --all`
/// and `rm --damaged` need besides (`+hdel +zrem`).
///
/// `user` and `namespace` are put into it as they are. Its password follows: `>PASSWORD`, or the SHA-256 of it as `#HEX`.
#[must_use]
pub fn acl(user: &str, namespace: &str) -> String {
    let name = format!("tenure:{{{namespace}}}:*");
    format!(
        "ACL SETUSER {user} on resetkeys ~{name} resetchannels &{name} -@all +ping +info +select +asking +wait +subscribe +publish \
         +evalsha +eval +time +hget +hmget +hset +hlen +hkeys +zadd +zcard +zrangebylex +zremrangebyrank"
    )
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("id", &self.inner.id)
            .field("place", &self.inner.connections.place)
            .finish_non_exhaustive()
    }
}

impl Store for RedisStore {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities
    }

    fn id(&self) -> String {
        self.inner.id.clone()
    }

    async fn read(&self, key: &Key) -> Result<Option<Stored>, StoreError> {
        self.inner.judged(Right::Read, |_| true, read::one(&self.inner, key).await)
    }

    async fn read_many(&self, keys: &[Key], _freshness: Freshness) -> Result<Vec<Listed>, StoreError> {
        self.inner.judged(Right::Read, |_| true, read::many(&self.inner, keys).await)
    }

    async fn write(&self, write: Write) -> Result<Outcome, StoreError> {
        self.inner.judged(Right::Write, is_won, self.gathering.write(write).await)
    }

    async fn write_many(&self, writes: Vec<Write>) -> Result<Vec<Outcome>, StoreError> {
        self.inner.capabilities.check_batch(writes.len())?;
        if writes.is_empty() {
            return Ok(Vec::new());
        }
        self.inner.judged(
            Right::Write,
            |outcomes| outcomes.iter().any(is_won),
            write::many(&self.inner, writes).await,
        )
    }

    async fn list(&self, prefix: &str, after: Option<&Key>, limit: usize) -> Result<Vec<Listed>, StoreError> {
        self.inner.judged(Right::Read, |_| true, read::list(&self.inner, prefix, after, limit).await)
    }

    async fn remove(&self, key: &Key, version: Version) -> Result<bool, StoreError> {
        self.inner.judged(Right::Remove, |is_done| *is_done, write::remove(&self.inner, key, version).await)
    }

    async fn image(&self, key: &Key) -> Result<Option<Image>, StoreError> {
        self.inner.judged(Right::Read, |_| true, mend::image(&self.inner, key).await)
    }

    async fn mend(&self, key: &Key, seen: &Image, instead: Option<Record>) -> Result<bool, StoreError> {
        let removes = instead.is_none();
        let mended = mend::mend(&self.inner, key, seen, instead).await;
        self.inner.judged(Right::Remove, |is_done| *is_done && removes, mended)
    }

    fn changed(&self, prefix: &str) -> Result<Changes, StoreError> {
        let listener = self.inner.listener.as_ref();
        let off = || StoreError::unsupported("push of the Redis store is switched off; poll instead");
        listener.ok_or_else(off)?.subscribe(prefix)
    }
}

/// Scripts write nothing for a claim that is lost.
fn is_won(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Won { .. })
}
