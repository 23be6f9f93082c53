//! [tenure](https://docs.rs/tenure) on PostgreSQL: a table in a schema of its own, shared by any number of hosts.
//!
//! ```no_run
//! use tenure_postgres::{PostgresConfig, PostgresStore};
//!
//! # async fn example() -> Result<(), tenure_store::StoreError> {
//! let config = PostgresConfig::from_url("postgres://app@db.example/jobs?password-file=/etc/app/db-password")?;
//! PostgresStore::migrate(&config).await?; // once, by a role that may CREATE in the database
//! let store = PostgresStore::open(config).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # What it can do
//!
//! | capability | here |
//! |---|---|
//! | expiry | a record's age is attested by the server's clock; it is one of two witnesses, never the only one |
//! | fencing | yes; the server raises a vacant record's fence in the statement that takes it |
//! | list | yes, in byte order of keys |
//! | watch | yes, by `LISTEN`; a hint names the version that was written. Switched off by `push=off` |
//! | batch | 1,000 writes in one statement, and so in one transaction |
//!
//! # What a lease costs
//!
//! An acquisition, a renewal and a release are one statement each, which commits by itself: one round trip. A refusal answers with the
//! record that stands there, and writes nothing. A renewal rewrites one row, in place as a rule: the table's pages are filled by half.
//!
//! Several reads, a page of a listing and a batch of writes are one statement each, too, whatever their number.
//!
//! All calls of a store share its connections. Once none is idle, statements are sent behind others without waiting for their answers. A
//! write tries the row that tenure itself wrote last, and else calls a function of the server's, which also tells the row that stands
//! there. What is used again is prepared, which needs a session of one's own: each connection checks that by a setting of its own
//! (`tenure.session`). `prepare=off` switches it off.
//!
//! Who waits for a key listens on a connection besides, and shares an advisory lock meanwhile, once the session is seen to be its own. While
//! nobody has that lock, writes notify nobody: a notification has all commits of the database wait for each other.
//!
//! # Setup and rights
//!
//! Tables come by [`PostgresStore::migrate`] or `tenure doctor --create-table`, and by nothing else; the same brings older ones up to
//! date, which are refused until then: stop what uses them first. The role that uses the store needs what [`grants`] says: `USAGE` on the
//! schema, `SELECT`, `INSERT` and `UPDATE` on its table. It can't remove a record; `gc`, `work rm`, `fleet rm --all` and
//! `rm --damaged` run under a role that has `DELETE` besides. PostgreSQL 13 or newer (tested with PostgreSQL 15 and 18).
//!
//! A trigger keeps fences, whoever writes: a row's fence never goes back, its key stays, and it is removed only once its fence is below the
//! server's clock. The next one begins with the acquirer's clock, which has to be sane for that to be higher. It can't see what stood where a row is inserted, and restores and replication go
//! around triggers. Only the tables' owner can switch it off.
//!
//! The connection is plain text to a Unix socket or loopback, and TLS with a verified certificate to everything else. A password comes
//! from `password-file=`, which is read for each new connection, or the URL, which the command line also reads from `TENURE_STORE`.
//!
//! A pooler that lends connections for a transaction (PgBouncer's `pool_mode = transaction`) may stand between: behind one, nothing is
//! prepared, and no statement leaves anything behind on its connection. One that keeps prepared statements apart (PgBouncer from 1.21 on,
//! with `max_prepared_statements`) may be told so by `prepare=on`; with any other that runs *other clients'* statements. A pooler passes no
//! notifications on, so waiters poll; with `push=off` nobody tries to listen in vain.
//!
//! # What it survives
//!
//! - Connections that end, idle ones too: they are made again. The one that listens is asked for a sign of life when it is quiet. A write
//!   whose answer was lost is `Unknown`, and found out by the next read.
//! - Limits on statements (`statement_timeout`), stricter isolation by default, deadlocks: what the server undid is sent again, or
//!   `Unavailable`. A password that is changed in its file.
//! - A password, a grant, a table or a database that was there before and is refused or missing now: calls are `Unavailable`, which is told, and all goes
//!   on once it is there again.
//! - Locks that others hold for long: the server gives up a wait for one (`lock_timeout`) after a second, or before the caller's time is over, and the
//!   call is `Unavailable`. Callers that give up sooner leave a few connections waiting until then, and no more ([`PostgresConfig::connections`]). A pooler and a pool of the caller's leave that to the role's settings. Without it a write that was given up is `Unknown`,
//!   and its connection stays at the server until the lock is free. Whoever gives a write up sooner does not know its outcome, either.
//! - A server that is stopped, restarted or full: calls are `Unavailable` or `Unknown`, and all goes on when it is back.
//! - A host that is silent, as without power: of several hosts, and of a name's addresses, the next one is tried besides, after half a
//!   second at most.
//! - Its wall clock jumping: an age alone decides nothing. A process on the
//!   server's own host shares that clock: each `Leases`, `Section` and `Worker` notices a jump that it lives to see. What begins within a ttl of a
//!   jump ahead may take a live holder for dead; `ages=off` prevents that.
//! - Rows damaged or changed by hand: `Foreign`, and never written over. A row shows which transaction wrote it last; if that was not tenure's,
//!   its digest decides, as after a restore. Reads compare it, too, and `tenure rm --damaged` removes what it contradicts. Only a fence that was
//!   raised by hand is taken as it is.
//!
//! # What it does not
//!
//! - **Asynchronous failover can lose commits.** A standby that lags and is promoted knows less: a lease that was granted may be
//!   granted again, while its first holder believes. Fences protect: new ones start from the wall clock, and so are higher than those that
//!   were lost. With `synchronous_commit = on` and a synchronous standby nothing is lost. Where commits wait for some of several standbys
//!   (`ANY 1 (a, b)`), promote only the one that is furthest: another lacks what it has confirmed.
//! - `synchronous_commit = off` or `fsync = off` on the server: a crash loses commits in the same way.
//! - A replica can be read, not written: name the primary, or all hosts (`postgres://a,b/db`): the one that takes writes is used. So it is of a name's
//!   addresses; where none of them takes writes, one that can be read is used.
//!
//! # A lease as a condition of your own transaction
//!
//! ```no_run
//! # async fn example(store: &tenure_postgres::PostgresStore, app: &mut tokio_postgres::Client, key: &tenure_core::Key,
//! #     fence: tenure_core::Fence) -> Result<tenure_postgres::Fenced<u64>, Box<dyn std::error::Error>> {
//! let guard = store.guard(key, fence); // of a `tenure::Guard`: `lease.key()`, `lease.fence()`
//! // `Fenced::Committed`, and nobody else has had the key meanwhile; or `Fenced::Lost`, and nothing was changed.
//! guard.run(app, async |work| Ok(work.execute("UPDATE account SET balance = 0 WHERE id = 7", &[]).await?)).await
//! # }
//! ```
//!
//! [`SqlGuard::hold`] does the same within a transaction that the caller begins and ends. In a single statement, [`SqlGuard::sql`] and
//! [`SqlGuard::predicate`] go after `WHERE`.

mod cells;
mod client;
mod config;
mod connect;
mod connection;
mod connections;
mod error;
mod functions;
mod guard;
mod hosts;
mod inspect;
mod listen;
mod mend;
mod proof;
mod read;
mod row;
mod schema;
mod sql;
mod store;
mod write;

/// For tables of other programs on the same server, which tenure shares with them: not for users.
#[doc(hidden)]
pub mod statements {
    pub use crate::connection::Params;
    pub use crate::connections::Connections;
    pub use crate::error::Call;
}

pub use config::{PostgresConfig, Prepare, Tls};
pub use guard::SqlGuard;
pub use schema::grants;
pub use store::PostgresStore;
pub use tenure_store::Fenced;

pub use deadpool_postgres;
pub use tokio_postgres;

/// The example of the crate's page in registries is compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
