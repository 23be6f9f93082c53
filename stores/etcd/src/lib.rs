//! [tenure](https://docs.rs/tenure) on etcd: records below a prefix of a cluster, shared by any number of hosts.
//!
//! ```no_run
//! use tenure_etcd::{EtcdConfig, EtcdStore};
//!
//! # async fn example() -> Result<(), tenure_store::StoreError> {
//! let url = "etcds://app@a.example,b.example,c.example/leases?password-file=/etc/app/etcd-password";
//! let store = EtcdStore::open(EtcdConfig::from_url(url)?).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # What it can do
//!
//! | capability | here |
//! |---|---|
//! | expiry | by observed silence: etcd tells no ages. Who waits counts it from the last renewal that the watch has told of: a dead holder's key is taken within 1.15 × ttl, or 1.4 × ttl with `push=off` |
//! | fencing | yes; a transaction raises the fence of the record that it was compared with |
//! | list | yes, in byte order of keys |
//! | watch | yes, from the last revision that was seen; a hint names the version that was written. Switched off by `push=off` |
//! | batch | 100 writes in one transaction, each with its own condition |
//!
//! # What a lease costs
//!
//! A renewal, a release, and an acquisition are one transaction each, and so is a refusal, which answers with the record that stands
//! there. A condition compares etcd's revision with the one that this process has last seen, in an answer or by a watch. Where it has
//! seen none it expects nothing to be there. So an acquisition costs a second transaction if there is a record, released, that it never
//! saw; and so does a write on a version that was passed on as plain data. What each process remembers is bounded (65,536 keys).
//!
//! Each write adds a revision to etcd's history. Have it compacted (`--auto-compaction-retention=1h`), or it fills its disk.
//! A watch passes every write below the prefix on to each process that waits, renewals too: `n` processes with one ttl cost
//! `3n²` messages in it. Beyond some hundred processes of one prefix take `push=off`, or a prefix for each application.
//!
//! # Setup and rights
//!
//! Nothing has to be made: the first write does. etcd 3.4 or newer (tested with etcd 3.4 and 3.5). Names are the prefix (`tenure`, unless the URL has
//! another), `:` and the key; no prefix may contain `:`, so no two of them mix, not even `a` and `a/b`. Where the cluster asks who calls:
//!
//! ```sh
//! etcdctl role add tenure
//! etcdctl role grant-permission tenure --prefix=true readwrite leases:
//! etcdctl user add app && etcdctl user grant-role app tenure
//! ```
//!
//! That is all it needs. etcd can't grant writing without removing, so `tenure gc` needs no other role, and has no other.
//!
//! `etcd:` is plain text, and refused beyond this host unless the URL says `tls=off`. `etcds:` verifies the certificate by the system's
//! authorities or `ca=FILE`, and shows `cert=FILE` with `key=FILE` where the cluster wants one. A password comes from `password-file=`, which
//! is read for each login, or the URL, which the command line also reads from `TENURE_STORE`. A pass that etcd no longer takes is replaced.
//! The files of `ca=`, `cert=` and `key=` are read once, when the store is opened. Restart processes after a certificate is renewed, before the old one
//! ends: connections that stand go on, but each new one would be refused, and all leases of the process would be lost. `tenure doctor` tells so.
//!
//! # What it survives
//!
//! - Members that die, fall silent or come back: calls go to one member for as long as it answers, then to the next in the ring.
//!   `timeout-ms` (4 s) bounds a call with all its attempts. A write that may have landed is never sent again: it is `Unknown`.
//! - A minority: a member that sees no leader answers nothing, not even reads of a recent state. All goes on with the majority.
//! - Watches that end: they go on from the revision after the last one that was seen; where that is compacted, everything may have changed.
//! - A full cluster (`NOSPACE`): writes are `Unavailable`, with the remedy; reads, removals and writes that go together go on. etcd refuses also the
//!   write by which it became full, which is done. So each write that is refused for that is looked for once: it is `Won` if it stands
//!   there, and `Unknown` if somebody else has written since.
//! - A password that was right before and is refused now: calls are `Unavailable`, which is told, and all goes on once it is right again. A role's grant that
//!   is taken away is `Invalid`: etcd grants by keys, and another key may never have been granted.
//! - Values that can't be decoded, or that contradict their own head: `Foreign`, and never written over. They have no digest, so other damage and
//!   other changes by hand are not noticed: what stands there is taken as it is.
//! - A member that is of another cluster, by a mistake in the URL or a name that leads elsewhere: it is passed over. What it answers is no answer,
//!   and a write that went there is `Unknown`. A cluster that was made anew with another token is another one: restart processes.
//! - A cluster that was restored from an older copy: a write on a version of the lost history wins nothing, though the same revision is
//!   counted again. New fences start from the wall clock.
//!
//! # What it does not
//!
//! - Native leases of etcd are not used. They expire by the clock of etcd's leader, begin anew when it changes, and a record that they
//!   deleted would take its fence along. Garbage is what `tenure gc` removes. As the store tells no ages, it watches all records for as long
//!   as `--older-than` says.
//! - Processes that only try (`tenure run --try`) take a dead holder's key at the second try of one host that finds it silent, more than
//!   a ttl after the first: that one leaves in the record what the host's clocks showed. This goes by Linux's boot id; on other systems
//!   wait for longer than the ttl, or `tenure release`.
//! - A ttl below some seconds does not outlive an election of etcd's own leader, which takes one or two.
//! - Rights to a part of a prefix do not hold for batches (`write_many`): etcd looks neither at rights nor at space within the transactions of a
//!   transaction (seen with 3.4). Give whoever must be kept apart a prefix of its own, by another role.
//! - `--unsafe-no-fsync` and `etcdctl snapshot restore` can lose what was granted. Fences protect.
//!
//! # A lease as a condition of your own writes
//!
//! ```no_run
//! # async fn example(store: &tenure_etcd::EtcdStore, key: &tenure_core::Key,
//! #     fence: tenure_core::Fence) -> Result<(), Box<dyn std::error::Error>> {
//! // Of a `tenure::Guard`: `lease.key()`, `lease.fence()`.
//! if let Some(guard) = store.guard(key, fence).await? {
//!     let landed = store.put_guarded(&guard, b"/app/leader-says", b"hello").await?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! [`EtcdGuard::conditions`] are the comparisons for a transaction by any other client of etcd.

mod auth;
mod client;
mod config;
mod connect;
mod error;
mod full;
mod guard;
mod inspect;
mod listen;
mod memo;
mod mend;
mod pair;
mod read;
mod store;
mod unary;
mod wire;
mod write;

pub use config::{EtcdConfig, Tls};
pub use guard::{Condition, EtcdGuard};
pub use store::EtcdStore;

/// The example of the crate's page in registries is compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
