//! [tenure](https://docs.rs/tenure) on Redis and Valkey: leases whose fences no eviction, restart or failover takes back while clocks are sane.
//!
//! ```no_run
//! use tenure_redis::{RedisConfig, RedisStore};
//!
//! # async fn example() -> Result<(), tenure_store::StoreError> {
//! let url = "rediss://app@redis.example/0?namespace=jobs&password-file=/etc/app/redis-password";
//! let store = RedisStore::open(RedisConfig::from_url(url)?).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # What it can do
//!
//! | capability | here |
//! |---|---|
//! | expiry | a record's age is attested by the server's clock; it is one of two witnesses, never the only one |
//! | fencing | yes; the script that takes a vacant record raises its fence |
//! | list | yes, in byte order of keys |
//! | watch | yes, by publishing; a hint names the version that was written. Switched off by `push=off` |
//! | batch | 1,000 writes in one script |
//!
//! # What a lease costs
//!
//! An acquisition, a renewal and a release are one call of a script each: one round trip, whatever comes of it. Those of a process that
//! are asked for in one moment share a call, 64 at the most, and each has its own outcome. A refusal answers with the record that
//! stands there. Listings are a call for a page. Each process has one connection. While it waits for a lease it has a
//! second one, which is subscribed.
//!
//! # Setup and rights
//!
//! Nothing is made beforehand: a namespace begins with its first use. It is `default` unless the URL names one. Redis 6.2 or newer (tested with 7.0), or Valkey
//! (tested with 8.0). [`acl`] makes the line with the least rights, which the tests use:
//!
//! ```
//! # let line =
//! tenure_redis::acl("app", "jobs");
//! # assert_eq!(line, "ACL SETUSER app on resetkeys ~tenure:{jobs}:* resetchannels &tenure:{jobs}:* -@all \
//! # +ping +info +select +asking +wait +subscribe +publish +evalsha +eval +time +hget +hmget +hset +hlen +hkeys +zadd +zcard \
//! # +zrangebylex +zremrangebyrank");
//! // ACL SETUSER app on resetkeys ~tenure:{jobs}:* resetchannels &tenure:{jobs}:* -@all +ping +info +select
//! // +asking +wait +subscribe +publish +evalsha +eval +time +hget +hmget +hset +hlen +hkeys +zadd +zcard
//! // +zrangebylex +zremrangebyrank
//! ```
//!
//! Such a user can't remove a record; `gc`, `work rm`, `fleet rm --all` and `rm --damaged` run as one that has `+hdel +zrem` besides. `tenure doctor`
//! reports more with `+config|get +pubsub|numsub`. The password follows (`>PASSWORD`).
//!
//! `rediss://` is TLS with a verified certificate, of the system's authorities or `ca=FILE`. `redis://` is plain text, and refused to
//! another host unless `plain=accept` is there. A password comes from `password-file=`, which is read for each new connection, or the URL,
//! which the command line also reads from `TENURE_STORE`; it is in no error and no log.
//!
//! **Cluster**: name some of its nodes, with commas between. All keys of a namespace have the hash tag `{NAMESPACE}`, so they are in one
//! slot and on one primary, which is found and followed when it changes. While that slot is moved, calls are `Unavailable` for the
//! moment at which some of its three keys have moved and others have not. A cluster over TLS whose certificates are for names needs
//! `cluster-announce-hostname` and `cluster-preferred-endpoint-type hostname` (Redis 7 and later), or certificates with the addresses in
//! them, since `MOVED` names addresses otherwise. Redis 7.0 and older also need `tls-cluster yes`, without which `MOVED` names ports of plain
//! text. **Primary and replicas**: name them all; the primary is found,
//! also after a failover by Sentinel. Sentinels themselves aren't asked, and one that is named as a server is refused. Of several primaries the
//! first to answer is used, so two processes may use two: `tenure doctor` tells that.
//!
//! # What it survives
//!
//! - Connections that end, hang or lose an answer: others are made. A write whose answer was lost is `Unknown`, and found out by the
//!   next read; nothing is sent twice unless the server said that it did not do it.
//! - A name with several addresses: the first is used at which a server answers that is no replica. One that is silent is waited for alone for a quarter
//!   of a second at most, and then the next one is tried besides. They are to be one primary and its replicas: two primaries would each give out leases.
//! - A server that is stopped, restarted or full, and one that has forgotten the scripts. A password that is changed in its file.
//! - A server that refuses this user, or a right that was there before: after a failover to one with other users, or while they are changed. Calls are
//!   `Unavailable`, which is told, and all goes on once it is mended. Users are not replicated: make them on each server.
//! - A server that refuses writes while another one that is named takes them: a primary that is cut off from its replicas
//!   (`min-replicas-to-write`), one that loads its data, a node that was taken out of its cluster. Others are asked, once a second at the most.
//! - Its wall clock jumping: nothing here has a Redis expiry (TTL), and an age alone decides nothing. A process on the
//!   server's own host shares that clock: each `Leases`, `Section` and `Worker` notices a jump that it lives to see. What begins within a ttl of a
//!   jump ahead may take a live holder for dead; `ages=off` prevents that.
//! - Records damaged or changed by hand, by their digest too: `Foreign`, and never written over. A lost index is made again from the records.
//!
//! # What it does not
//!
//! A lease is lost in Redis when its record is, and then somebody else may be granted it while its holder still believes: **only
//! fences protect then**. They do: a new fence is at least its acquirer's wall clock in milliseconds, so it exceeds what was lost, as
//! long as clocks are not further behind than the loss lies back, and the key had no more than a thousand tenures a second. A record is lost by
//!
//! - **asynchronous failover**: what a promoted replica had not received, usually the last milliseconds, with a partition all since its
//!   beginning. The old primary may grant leases until it hears of it, or `min-replicas-to-write` stops it.
//! - **a restart without `appendonly yes`**: all since the last snapshot, or everything. With `appendfsync everysec`, up to about a
//!   second when the machine dies, and usually nothing when only the process does; with `always`, nothing. With `no-appendfsync-on-rewrite yes`
//!   nothing is synced while the file is rewritten or a snapshot is saved, not even with `always`.
//! - **eviction**: a server with a memory limit and an `allkeys-` policy is refused. With `eviction=accept` it drops the whole
//!   namespace at once, as that is one hash.
//! - `DEL`, `FLUSHALL` and the like by hand.
//!
//! Where a server has come back empty, processes go on in it. The next that opens the store draws a new id: tokens that are exported by processes from before
//! are refused by later ones, and the other way round, until all have been restarted.
//!
//! `tenure doctor`, and [`RedisStore::inspect`], say which of these a server's configuration allows.
//!
//! **`wait=N`** makes a write count only once N replicas have confirmed it (`WAIT`), and has what could resolve it wait as well: a read,
//! or a write whose refusal shows it. So no holder believes in a lease that fewer have. It costs a round trip to the replicas for each
//! script that writes, and calls fail while fewer answer. Once a process has given up a write, which may arrive at any time, its reads and
//! refused writes cost one as well, until the process ends. It does not make Redis a consensus: a replica that has not confirmed may be promoted, and a confirmation means memory and
//! not disk. What was refused this way stands on the primary all the same.
//!
//! # A lease as a condition of your own writes
//!
//! ```no_run
//! # async fn example(store: &tenure_redis::RedisStore, key: &tenure_core::Key,
//! #     fence: tenure_core::Fence) -> Result<(), Box<dyn std::error::Error>> {
//! // Of a `tenure::Guard`: `lease.key()`, `lease.fence()`.
//! if let Some(guard) = store.guard(key, fence).await? {
//!     let landed = store.set_guarded(&guard, "{jobs}:leader-says", b"hello").await?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The user needs `+set` and the name besides (`~{jobs}:leader-says`). In a cluster the name must have the hash tag `{NAMESPACE}`; elsewhere any name will do.
//! After a failover that has lost a takeover, the lease before it stands again, and so does its condition.
//!
//! # Layout
//!
//! | key | what is in it |
//! |---|---|
//! | `tenure:{NAMESPACE}:records` | a hash of all records, by key: what scripts compare as text, then the record |
//! | `tenure:{NAMESPACE}:index` | a sorted set of the keys, for listings |
//! | `tenure:{NAMESPACE}:meta` | the id and the layout's version |
//! | `tenure:{NAMESPACE}:confirmed` | with `wait=N`: written so that replicas confirm what came before; it says nothing |
//! | `tenure:{NAMESPACE}:changes:DB` | the channel of hints |
//!
//! `tenure rm --damaged` drops a damaged record, and `tenure gc` an old one. To drop a sound one by hand, stop who uses it, then `HDEL` it from the
//! hash and `ZREM` its key from the index.

mod attempts;
mod client;
mod config;
mod connect;
mod connection_manager;
mod error;
mod gather;
mod guard;
mod inspect;
mod listen;
mod mend;
mod read;
mod scripts;
mod store;
mod value;
mod write;

pub use config::RedisConfig;
pub use guard::RedisGuard;
pub use store::{RedisStore, acl};

/// The example of the crate's page in registries is compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
