//! The kernel: whatever is the same in every world. A world has nodes with clocks of their own, a process on each, a network, a
//! store, and a queue of what happens next. All chance comes from one seed. Faults go on for a while (chaos), everything is healed
//! (calm), and that is repeated; safety is checked all the time, liveness in the calm.
//!
//! A *scene* says what differs: the machine that processes run, their users, their own faults, and what must hold. There are
//! `leases` (elections, too), `fleet`, `sections` and `semaphores`. The kernel calls the scene at fixed points, which [`Scene`] lists in the order of a
//! world's life.
//!
//! | to find out | read |
//! |---|---|
//! | what is due, and when | `world.rs` |
//! | how a process begins, takes a step, stands still and ends | `node.rs` |
//! | what becomes of a request, an answer, a hint | `net.rs` |
//! | which faults there are, and what they do | `fault.rs`, `chaos.rs` |
//! | when faults go on, and when all is healed | `phase.rs` |
//! | what the store does | `registers.rs` |
//! | how many worlds run, on how many threads, and what is told of them | `run.rs`, `report.rs`, `trace.rs` |
//! | how a history is made short | `shrink.rs` |
//!
//! Some words: a *frame* is what the kernel knows of a scenario. A fault *strikes* now and then, or *befalls* single calls, which then *stumble*. A request
//! is a *stray* if nobody waits for its answer. A read or write is *dated* if it bears its service's wall clock.
//!
//! # To add a fault
//!
//! 1. `fault.rs`: its name in the enum, and in the table (`kinds!`) what happens. `is_of_node` says whether it befalls one node.
//! 2. What it does: for any scene in `chaos.rs` (now and then; the kernel tells the trace) or `net.rs` (`befalls`, for single calls; tell the trace
//!    yourself); for one scene in that scene's `strike`.
//! 3. A scenario that has it, in the scene's `scenario.rs`, with how often it comes. The usual ones, if their promises hold in it. The scenarios are played in
//!    turn, so with one more each seed of all of them is another world: run the tests `promises` and `bugs`.
//! 4. If it breaks a promise, the scenario names that in `excused`, and a unit test plays it with nothing excused, as in `sections/gc.rs`.
//! 5. `cargo xtask api`.
//!
//! # To add a scene
//!
//! 1. A folder with a type that implements [`Scene`]: its state, its scenarios as data, and the methods without a body. The smallest is
//!    `sections`. The worlds are `kernel::World<TheScene>`; what the scene does stands in `impl World` blocks of its own files.
//! 2. `run.rs`: a line in `kinds`. All options, jobs, shrinking, reports and `--list` work from then on.
//! 3. Its invariants, a file each, and a bug on purpose that each of them catches.

mod chaos;
pub(crate) mod clock;
pub(crate) mod coverage;
pub(crate) mod fault;
pub(crate) mod kinds;
mod net;
mod node;
mod phase;
pub(crate) mod registers;
pub(crate) mod report;
pub(crate) mod rng;
pub(crate) mod run;
mod scene;
mod shrink;
pub(crate) mod trace;
mod world;

pub(crate) use net::{Envelope, key_of};
pub(crate) use node::{Input, Node};
pub(crate) use scene::{Frame, Process, Scene};
#[cfg(test)]
pub(crate) use world::Setup;
pub(crate) use world::{What, World};
