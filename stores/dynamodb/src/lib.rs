//! [tenure](https://docs.rs/tenure) on DynamoDB: many applications in one table, each in a namespace of its own.
//!
//! ```no_run
//! use std::sync::Arc;
//! use tenure_dynamodb::{DynamoConfig, DynamoStore};
//!
//! # async fn example(clock: Arc<dyn tenure_core::Clock>) -> Result<(), tenure_store::StoreError> {
//! let config = DynamoConfig::new("leases").region("eu-west-1").namespace("billing");
//! let store = DynamoStore::open(config, clock).await?; // `tenure::clock::system()`
//! # Ok(())
//! # }
//! ```
//!
//! As a URL, for the command line and `tenure::registry`: `dynamodb://leases?region=eu-west-1&namespace=billing`; the other
//! options are at [`DynamoConfig::from_url`]. Credentials come from where every AWS program has them: environment, profile,
//! web identity, container, instance. Not from AWS's single sign-on, whose client would be built in for all: let `aws
//! configure export-credentials` be the profile's `credential_process`, or bring a client of your own
//! ([`DynamoStore::with_client`]). So do if there is a proxy on the way: none is taken from the environment. Loading them may take longer
//! than a request, which a short ttl cuts off: the load goes on, and the next request waits for the same one. A lease whose time is over
//! before that is lost. What was loaded is used to its end, and others are loaded from five minutes before that on, while requests go on. What the
//! service refuses is loaded anew. A client of your own loads and keeps as you had it made.
//!
//! # The table
//!
//! A HASH key `namespace` and a RANGE key `key`, both of type S, and nothing else: no index, no stream, no TTL. It is never
//! made by the way. `tenure doctor --create-table` makes it, billed on demand, or anything else that you make tables with:
//!
//! ```text
//! aws dynamodb create-table --table-name leases --billing-mode PAY_PER_REQUEST \
//!   --attribute-definitions AttributeName=namespace,AttributeType=S AttributeName=key,AttributeType=S \
//!   --key-schema AttributeName=namespace,KeyType=HASH AttributeName=key,KeyType=RANGE
//! ```
//!
//! # Shards
//!
//! The service lets about 1,000 writes and 3,000 reads a second go to one partition key. A namespace is one, unless it is spread over more:
//! [`DynamoConfig::shards`], or `&shards=16` in a URL. So take it for a fleet of thousands of workers.
//!
//! - Every process says the same number. The first write to a namespace fixes it for good, in an item of its own; whoever says another
//!   number is refused when it opens the store, or before its first write. To change it, take another namespace.
//! - A namespace that has records in one shard is not spread any more.
//! - Each page of a listing asks all shards, and reads about a quarter more than it tells.
//! - Nothing else costs more: a record is in one shard, and what reads or writes it asks that one.
//!
//! # What it can do
//!
//! | capability | here |
//! |---|---|
//! | expiry | a record's age is attested by the service's own dates; it falls short of the truth by up to 3 s, or with a ttl above 12 s by up to 2 s and 0.08 × ttl |
//! | fencing | yes |
//! | list | yes, by `Query` over all pages, in byte order of keys; never by `Scan` |
//! | watch | no: waiters poll |
//! | batch | 100 writes, which are requests of their own, up to 25 at a time |
//! | least ttl | 1 s |
//!
//! # What it costs
//!
//! To acquire, to renew and to release is one `UpdateItem` each, also right after another process's release, and so is to find
//! the key held: the refusal brings the holder's record along. A record of up to 1 KB is one write unit; so is a refusal. A
//! contender needs a second request when its wall clock is behind that of the last holder by more than the key was vacant
//! for. Reads are strongly consistent, one read unit for each 4 KB, but for the looks of a fleet that expects no news: half a unit.
//! Opening is one `DescribeTable` and one `GetItem`, and the first write to a namespace is two.
//!
//! A look of a fleet's worker at rest reads two records where ages are told to a quarter of its ttl, and nine where they are not. The
//! service's dates have whole seconds. So that is nine with a ttl under 8 s, and two from 12 s on. Between these it is nine now and
//! then, the more often the more workers there are. In read units it is 4.5 or 1 in each third of a ttl and worker.
//!
//! # What it survives
//!
//! - Lost answers: nothing is retried behind your back, so that no retry hides what became of the first request. A write without
//!   an answer is `Unknown`, and is resolved by its nonce.
//! - Requests that the network delivers twice, or late: each is conditional on what it found.
//! - Throttling, failures and outages of the service: errors that pass, each with its remedy. A lease is lost in time, or kept.
//! - Credentials or a right that were there before and are refused now: calls are `Unavailable`, which is told, and all goes on once they are there again.
//!   What is refused from the beginning is `Invalid`.
//! - Clocks: no two hosts' clocks are compared. If the service's own clock is set, ages are wrong for once; they are one of
//!   two witnesses, and count for nothing alone. They can be switched off ([`DynamoConfig::attested_ages`]). The rates of the
//!   service's clock and of a host's may each be off by 10 % ([`DynamoConfig::drift`]).
//! - Records deleted by hand, or by a TTL that you switch on over an attribute of your own. The next fence begins at its
//!   acquirer's wall time, so it is higher all the same where clocks are sane. tenure itself has no TTL attribute,
//!   so no live lease is ever hit; `tenure gc` removes old vacant records.
//! - Items damaged or written by others: `Foreign`, and never written over. Listings show them with the reason. Only an item
//!   whose RANGE key has over 512 bytes, which is no key of tenure's, ends each listing that covers it. The error names table, namespace
//!   and key: delete that item by hand.
//!
//! # What it does not
//!
//! - *Global tables* whose last writer wins are refused: two regions would both have the lease. Those with multi-region strong
//!   consistency are fine. With [`DynamoConfig::one_region`] you promise that all processes use one region's replica; the
//!   others are then for reading after a disaster, and every lease must have expired before another region takes over.
//! - A table that is *restored* from a backup has an id of its own, so tokens of the old one are refused; fences go on by the
//!   acquirers' clocks.
//! - A hostile process with the right to `UpdateItem` can do anything to its namespace: DynamoDB has no condition that a role
//!   can't leave out.
//! - All of this is tested on DynamoDB Local. Nothing local proves the service itself: try it with `tenure doctor`.
//!
//! # Least privilege
//!
//! A program with leases needs this much, and can be kept to its namespaces and their shards. The policy names them by what they begin with, so no
//! namespace of another role may be called as one of these with `#` and more behind it:
//!
//! ```json
#![doc = include_str!("../docs/iam-policy.json")]
//! ```
//!
//! `gc`, `work rm`, `fleet rm --all` and `rm --damaged` remove records, `bench` and `doctor` those of their own, and `tenure doctor --create-table` makes the table.
//! That is for another role, which has the above and:
//!
//! ```json
#![doc = include_str!("../docs/iam-policy-operator.json")]
//! ```
//!
//! No role of a store needs `PutItem` or `Scan`. Tables in the layout of other programs do, as the pages of their crates say. A program
//! that [guards](DynamoStore::guard) its own transactions needs `dynamodb:ConditionCheckItem` on this table, besides the rights to its own.
//!
//! # Tables in which other programs have leases
//!
//! They are shared with those programs by a *dialect*: their items, their conditions, and their rule of expiry. None of them is
//! a store, because their items have no room for what a store keeps.
//!
//! | dialect | whose leases | in programs | on the command line |
//! |---|---|---|---|
//! | `tabletheory` | those of TableTheory's package `lease` | [`tenure-tabletheory`](https://docs.rs/tenure-tabletheory) | `tenure run` |
//! | `kcl` | those of the KCL, and of `a8m/lease` | [`tenure-kcl`](https://docs.rs/tenure-kcl) | `tenure work --forever` |
//!
//! What those crates need of this one is in [`service`].
//!
//! # A lease as a condition of your own transaction
//!
//! ```no_run
//! # use tenure_dynamodb::aws_sdk_dynamodb::{Client, types::TransactWriteItem};
//! # async fn example(store: &tenure_dynamodb::DynamoStore, client: &Client, mine: Vec<TransactWriteItem>,
//! #     key: &tenure_core::Key, fence: tenure_core::Fence) -> Result<(), Box<dyn std::error::Error>> {
//! let guard = store.guard(key, fence).await?; // of a `tenure::Guard`: `lease.key()`, `lease.fence()`
//! let transaction = client.transact_write_items().set_transact_items(Some([guard, mine].concat()));
//! transaction.send().await?; // canceled if the lease is lost
//! # Ok(())
//! # }
//! ```

mod client;
mod conditional;
mod config;
mod connect;
mod credential_cache;
mod credential_load;
mod credential_refusals;
mod credentials;
mod dates;
mod dialect;
mod error;
mod guard;
mod inspect;
mod item;
mod layout;
mod list;
mod location;
mod mend;
mod read;
mod released;
pub mod service;
mod shards;
mod store;
mod table;
mod write;

/// The SDK, for clients of one's own and for guarded transactions.
pub use aws_sdk_dynamodb;
pub use config::DynamoConfig;
pub use dialect::Dialect;
pub use store::DynamoStore;

/// The example of the crate's page in registries is compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
