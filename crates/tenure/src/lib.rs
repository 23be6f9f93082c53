//! Leases on the store you already run: the right to one thing, for one holder, for a limited time.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use tenure::{Leases, memory};
//!
//! let leases = Leases::new(memory())?;
//! let guard = leases.acquire("reports/nightly").await?;
//! assert!(guard.is_held());
//! // Send the fence along with every effect, and let the resource refuse lower ones.
//! println!("writing with fence {}", guard.fence());
//! // Dropping the guard gives it back, too, in the background.
//! assert!(guard.release().await, "it was lost before");
//! # leases.stop().await; Ok(()) }
//! ```
//!
//! # What is promised
//! At no instant do two holders both believe that they hold a key. Three things are assumed. Clock *rates* stay within ±10 %. Clocks are
//! not set ahead while leases are held (or `ages=off`). No elapsed time is hidden from a process, as a cloned or paused virtual machine
//! hides it. That is all that any lease can give.
//! What holds whatever the clocks do is the [fence](Guard::fence): a resource that refuses fences lower than the
//! highest it has seen never accepts a write of a deposed holder. Where correctness matters, check fences.
//!
//! # Where to go on
//! [`Leases`] gets leases, [`Guard`] is one that is held, [`Lock::with_lease`] runs a body that ends before its lease does.
//! [`LeaseToken`] passes one on to another process as plain data, and [`Leases::lock_all`] locks several keys at once. [`permits`] has
//! semaphores, readers and writers, and fair locks. [`range::Section`] leases ranges of keys, and a [`Candidate`] leads a key whenever it
//! can ([`election`]). Who writes a store, or a tool that reads records, has the rest in [`store`].
//!
//! # Features
//!
//! | feature | by default | what it brings |
//! |---|---|---|
//! | `sqlite` | yes | the store in a SQLite file, as `tenure::sqlite`; it links SQLite, of which a program has one version (`libsqlite3-sys`) |
//! | `postgres` | no | the store in a PostgreSQL schema, as `tenure::postgres` |
//! | `etcd` | no | the store in an etcd cluster, as `tenure::etcd` |
//! | `redis` | no | the store in Redis or Valkey, as `tenure::redis` |
//! | `dynamodb` | no | the store in a DynamoDB table, as `tenure::dynamodb`; the AWS SDK takes a while to build |
//! | `all-stores` | no | all of these |
//! | `metrics` | yes | counters and histograms: [what is measured](#what-is-measured) |
//! | `serde` | yes | `Serialize` and `Deserialize` for [`LeaseToken`], ids, ranges, and what is seen and listed |
//! | `test-util` | no | the module `testing`, for [tests](#testing) |
//!
//! [`open`] knows the stores whose features are on; [`memory`] is always there. Without SQLite, say
//! `default-features = false, features = ["postgres", "metrics", "serde"]`.
//!
//! # What is logged
//! Events of `tracing`. Each has one message, and a name for whoever takes events apart. Words are the same everywhere: `key`, `fence`, `holder` (this process's
//! name) and `reason` are written as people read them. With the target `tenure::lease`:
//!
//! | name | level | message | fields |
//! |---|---|---|---|
//! | `lease.acquired` | debug | lease acquired | `key`, `fence`, `holder` |
//! | `lease.released` | debug | lease released | `key`, `fence`, `holder` |
//! | `lease.lost` | warn | lease lost | `key`, `fence`, `holder`, `reason`, `loss` (the word for it in metrics, as in `unreachable`) |
//! | `lease.overran` | warn | lease held for as long as it may be | `key`, `fence`, `holder`, `most_ms` |
//! | `leases.left` | warn | not all leases are given back yet; if the process ends now, others wait for them until their ttl is over | `holder` |
//!
//! With the target `tenure::store`:
//!
//! | name | level | message | fields |
//! |---|---|---|---|
//! | `store.failing` | warn | the store fails; trying on | `key`, `holder`, `operation` (`renew`, `write`, `read` or `list`), `reason`, `failures`, `for_ms` |
//! | `store.answers` | info | the store answers again | `key`, `holder`, `for_ms` |
//! | `store.hints` | warn | no hints of changes for now: keys that are waited for are polled | `holder`, `reason` |
//!
//! `store.failing` is told at the first call of each operation that fails, then every 10 s while that goes on. The first renewal that fails is told for each lease,
//! of ten leases in that time: a waiter's look that fails says nothing of what is held.
//!
//! [Elections](election#what-is-logged), [fleets](fleet#metrics-and-traces) and [ranges](range#what-is-logged) have events of their own.
//!
//! Most events are told on the thread that renews leases, and it waits for the subscriber. One that blocks, as a writer to a pipe that nobody reads does, stops all
//! renewals of the process until it goes on: leases are lost. [`Guard::is_held`] and [`Guard::lost`] are right all the same, while what is told of the loss comes late. So write by a
//! thread of the writer's own, as `tracing_appender::non_blocking` has it, and export spans in batches. The command line does so by itself.
//!
//! # What is measured
//! With the feature `metrics`, for the facade of the crate of that name. Durations are in seconds. No label has more than a handful of values.
//! What begins with `tenure_lease_`, `tenure_leases_` or `tenure_permits_` has the label `prefix` where [`LeasesBuilder::metrics_by_prefix`] names prefixes of keys:
//! the longest one that fits, or `other`. What begins with `tenure_lease_` or `tenure_leases_` has the label `kind`: `lock`, `permit` (of a [semaphore](permits)), or `leadership`
//! of a [`Candidate`].
//!
//! | name | kind | what |
//! |---|---|---|
//! | `tenure_leases_acquired_total` | counter | leases that were acquired |
//! | `tenure_leases_released_total` | counter | leases that were given up while they were held |
//! | `tenure_leases_lost_total` | counter | leases that were lost, by `reason`: `expired`, `unreachable`, `taken`, `deleted`, `revoked`, `released` by another or `overran` |
//! | `tenure_leases_held` | gauge | leases that are held now |
//! | `tenure_leases_waiting` | gauge | leases that somebody waits for now; candidates that stand back do not |
//! | `tenure_lease_hold_seconds` | histogram | how long leases were held that have ended, however they did |
//! | `tenure_lease_wait_seconds` | histogram | how long leases were waited for that were acquired |
//! | `tenure_permits_held` | gauge | permits of semaphores that are held now; what is held exclusively counts as one |
//! | `tenure_permits_waiting` | gauge | permits of semaphores that somebody waits for now |
//! | `tenure_leaderships_begun_total` | counter | elections that were won |
//! | `tenure_leaderships_ended_total` | counter | leaderships that are over, by `cause`: `resigned`, `stopping`, `asked`, `failing`, `stuck` or `lost` |
//! | `tenure_range_leases_acquired_total` | counter | leases of parts of a range that were acquired |
//! | `tenure_range_leases_ended_total` | counter | those that have ended, by `how`: `released`, or `expired` if their time was over before |
//! | `tenure_range_leases_held` | gauge | those that are held now, until they are given up |
//! | `tenure_range_leases_waiting` | gauge | those that somebody waits for now |
//! | `tenure_range_lease_hold_seconds` | histogram | how long those were held that have ended |
//! | `tenure_range_lease_wait_seconds` | histogram | how long those were waited for that were had |
//! | `tenure_renewal_seconds` | histogram | how long renewals took that landed in time, by what was renewed (`of`): a `session`, a `lease` with a [ttl of its own](Lock::ttl), or a fleet's `worker` |
//! | `tenure_renewal_remaining_seconds` | histogram | what was left of it when it was renewed, by `of`: alarm on what nears zero, it is lost there |
//! | `tenure_renewal_remaining_least_seconds` | gauge | the least that was left in the minute before the latest renewal, by `of`; of several [`Leases`] or workers in a process, that which renewed last |
//! | `tenure_store_call_seconds` | histogram | how long calls took, by `operation` (`renew`, `write`, `read` or `list`) and `outcome` (`answered`, or as `kind`) |
//! | `tenure_store_failures_total` | counter | calls that failed, by `kind`: `unavailable`, `unknown`, `foreign`, `unsupported` or `invalid` |
//!
//! All counters are there from the start of the first [`Leases`], as 0; those of `tenure_leaderships_` from that of the first candidate, and those of
//! `tenure_range_` from that of the first section. [Fleets](fleet#metrics-and-traces) have metrics of their own.
//!
//! The recorder is called on the thread that renews leases, too: it must not wait. Recorders that count in memory, and are read or exported by a thread of their own, don't.
//!
//! # Testing
//! The feature `test-util` brings the module `testing`: a clock for `#[tokio::test(start_paused = true)]`, in which minutes pass in milliseconds, and a
//! store that fails when it is told to. A paused runtime by itself is not enough: leases and stores go by the machine's clock.
//!
//! # Records that stay
//! A key that is given up keeps its record, vacant, as its fence must go on to grow. Each start of a process that has held anything leaves such a
//! record of its session, `session/` and its name. Nothing in this library removes them: `tenure gc` does, of the command line (the crate
//! `tenure-cli`), once a record has been left alone for a day or more. Run it daily on a store whose keys or processes are new all the time; with a
//! few keys and a few starts a day, once a month is enough. `gc` in these pages is that command.
//!
//! # Cost
//! A lease is attached to its process's session unless it is given a [ttl of its own](Lock::ttl): holding costs one write per
//! third of a ttl, however many leases a process has. Acquiring, renewing and releasing take one round trip each.

mod acquire_request;
mod belief;
mod bodies;
pub mod body;
mod builder;
mod cancelled;
mod cells;
pub mod clock;
mod direct;
mod driver;
pub mod election;
mod ending;
mod error;
pub mod fleet;
mod guard;
mod home;
mod latest;
mod leases;
#[doc(hidden)]
pub mod liveness;
mod lock;
mod lock_all;
mod mail;
mod meters;
pub mod once;
mod patience;
mod pending_claim;
mod permit_share;
pub mod permits;
mod prefixes;
mod process;
pub mod range;
pub mod registry;
mod renewals;
mod request;
mod seize;
mod shared;
mod sink;
pub mod store;
#[cfg(feature = "test-util")]
pub mod testing;
mod token;
mod ttl;
mod users;

pub use body::Held;
pub use builder::LeasesBuilder;
pub use cancelled::Cancelled;
pub use driver::Trouble;
pub use election::{Candidate, CandidateBuilder, Observer};
pub use error::{AcquireError, BodyError, LeaseError};
pub use guard::Guard;
pub use latest::Latest;
pub use leases::Leases;
pub use lock::Lock;
pub use lock_all::{Guards, LockAll};
pub use permits::Permits;
pub use request::Request;
pub use seize::Forced;
pub use tenure_core::{
    Clock, Drift, ErrorKind, Fence, HolderId, InvalidInput, Key, Loss, Metadata, Number, Occupant, Sighting,
    StoreError, Ttl, Value, Wall,
};
#[cfg(feature = "dynamodb")]
pub use tenure_dynamodb as dynamodb;
#[cfg(feature = "etcd")]
pub use tenure_etcd as etcd;
#[cfg(feature = "postgres")]
pub use tenure_postgres as postgres;
#[cfg(feature = "redis")]
pub use tenure_redis as redis;
#[cfg(feature = "sqlite")]
pub use tenure_sqlite as sqlite;
pub use tenure_store::{AnyStore, MemoryStore, Store};
pub use token::LeaseToken;

/// The store at `url`, of any kind that this build has: `sqlite:leases.db`, `postgres://user@host/db?schema=leases`, …
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let url = "memory:";
/// let leases = tenure::Leases::new(tenure::open(url).await?)?;
/// # leases.stop().await; Ok(()) }
/// ```
///
/// A SQLite file and a namespace of Redis are made if they aren't there; a table or a schema on a server is not.
/// [`Registry::open`](registry::Registry::open) has the choice, and [kinds of your own](registry::Registry::register).
///
/// # Errors
/// `Invalid` when the URL is no good; of a kind that this build lacks, it names the feature of this crate that brings it. Otherwise as
/// the store's own opening.
///
/// # Cancel safety
/// When the future is dropped the store may have been made, or not.
pub async fn open(url: impl AsRef<str>) -> Result<AnyStore, StoreError> {
    registry::Registry::standard().open(url.as_ref(), registry::Opening::default()).await
}

/// A new store in this process's memory: for tests, and for programs that are a single process today. It goes by the machine's clock; for
/// tests in simulated time, [`MemoryStore::new`] takes the clock that [`LeasesBuilder::clock`] has.
#[must_use]
pub fn memory() -> AnyStore {
    AnyStore::new(MemoryStore::new(format!("memory:{:016x}", clock::instance()), clock::system()))
}

/// The examples of the crate's page in registries are compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
