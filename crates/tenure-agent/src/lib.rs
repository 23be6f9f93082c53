//! The lease agent of a host: [`tenure`]'s leases for programs in any language, by HTTP/1.1 and JSON on a Unix socket.
//!
//! `tenure serve` runs it. A program asks for a lease, is told a deadline, and asks again (a *beat*) for as long as it wants the lease. All
//! clients of an agent share one store session, so thousands of their leases cost one write an interval.
//!
//! # Until when a client may act
//! Promise S9: at no instant does a client that keeps to what it was told act on a lease that another holder can have.
//!
//! - On the agent's host, a client goes by `deadline_boottime_ms`: it holds the lease while its own reading of CLOCK_BOOTTIME is below that.
//!   That number means something only where `boot`, the name of the time line, is the client's own.
//! - Anywhere else it counts `good_for_ms` by its own clock, from when *it sent* the request that was answered. That is what is left by the
//!   agent's clock times (1−ρ)/(1+ρ), so no clock whose rate is within ρ gets past the deadline.
//! - A later deadline is told by the answer to a beat and by nothing else. An [event](Event) may bring bad news early.
//! - The agent keeps a lease until the last deadline that it told, and gives it back then if no beat came. A closed connection means nothing, but for a lease
//!   of which the agent could not write the answer: nobody was told of it, and it is given back.
//! - A client that asks with `"on_exit": "release"` has its lease given back as soon as its process is seen to have ended. That is for who does all
//!   of its work in that one process: what it has started would otherwise be at work beside the next holder.
//! - An agent that is told to stop prolongs nothing more, and ends when all that it told is over. One that is killed leaves its session to
//!   expire, which is later than any deadline that it told.
//!
//! # Ticks and units
//! A tick that runs once over all hosts (`/v1/once`) and a unit of a fleet are kept as leases are, by the same beats, and end by a word of what came of them.
//! A client is a worker of a fleet for as long as it asks for units; each worker has a session of its own. A beat tells that a unit is to go to
//! another worker. That one has it when the client has given it back, or the deadline that it was told last is over.
//!
//! Ranges of a section (`/v1/sections/SECTION/leases`) have a deadline that no beat puts off, and are held until then also where the agent ends.
//!
//! # Who may do what
//! Whoever can open the Unix socket may do all. A TCP address asks for a token, and one that is not loopback speaks TLS alone. A read token may look at
//! everything and change nothing. See [`Access`] and [`Certificate`].
//!
//! # Dashboard
//! `/dashboard` is a page of files that are in this program, for browsers at a loopback address. It asks for a token and shows what the
//! interface tells. While somebody listens to `/v1/events?records=true`, the agent looks for what has changed in the store, whoever wrote it: once for all who
//! listen, and for a bounded part of the time. `/v1/tenures` tells of tenures that it has seen so, and of its clients'.
//!
//! # Metrics
//! | name | kind | what |
//! |---|---|---|
//! | `tenure_agent_leases` | gauge | leases that clients have |
//! | `tenure_agent_leases_ended_total` | counter | clients' leases that are over, by `how`: `released`, `lapsed`, `exited`, `lost`, or `stopped`: at their deadlines, while the agent is being stopped |
//! | `tenure_agent_operator_total` | counter | requests of operators, by `action`: `revoke`, `drain`, `release`, `move`; each is logged to the target `tenure::agent::operator`, too |
//! | `tenure_agent_connections` | gauge | connections of clients |
//! | `tenure_agent_refused_total` | counter | connections that were closed at once, as there were too many |
//! | `tenure_agent_strangers_closed_total` | counter | connections without a token, or with one that may only look, that made room for others |
//! | `tenure_agent_certificate_expires_seconds` | gauge | when the certificate that the agent shows ends, in seconds since 1970 |
//!
//! Besides, there are those of [`tenure`].
//!
//! # What is logged
//! By `tracing`, beside what [`tenure`] logs:
//!
//! | event | target | level | when |
//! |---|---|---|---|
//! | `agent.operator` | `tenure::agent::operator` | warn | an operator's request: `action`, `by` (address, or user and process on a Unix socket), `key`, `fence`, `holder`; and what came of a forced release, which is given up where the agent is told to stop |
//! | `agent.lease` | `tenure::agent` | debug | an [event](Event) of a client's lease: `event`, `key`, `fence`, `reason` |
//! | `agent.unit` | `tenure::agent` | warn | what a client did for a unit has failed: `key`, `fence`, `says` |
//! | `agent.lease` | `tenure::agent` | warn | a client's lease can't be given back, and is left to expire: `key`, `fence`, `why`, `error` |
//! | a message | `tenure::agent::certificate` | warn | the certificate's files can't be used: `reason` |
//!
//! `tenure serve` logs these warnings also where nothing is said of logs.

mod access;
mod agent;
mod agent_state;
mod certificate;
mod config;
mod connection;
mod dashboard;
mod delivery;
mod directory;
mod door;
mod events;
mod history;
mod holding;
mod lease_table;
mod listing;
mod metrics_server;
mod named;
mod news;
mod openapi;
mod page_room;
mod peer;
mod permit;
mod posted;
mod problem;
mod room;
mod router;
mod routes;
mod sections;
mod seizures;
mod socket;
mod strangers;
mod waits;
mod wire;
mod workers;

pub use access::{Access, Secret};
pub use agent::Agent;
pub use certificate::Certificate;
pub use config::{Address, Limits, default_socket};
pub use door::{Door, ServeError};
pub use events::Event;
pub use metrics_server::{MetricsServer, Scrape};
pub use openapi::document;

/// The example of the crate's page in registries is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
