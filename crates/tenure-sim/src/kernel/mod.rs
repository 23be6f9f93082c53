//! The kernel: the parts that all worlds share. A world has nodes with clocks of their own, a process on each, a network, a
//! store, and a queue of coming events. All chance comes from one seed. Faults last for a while (*chaos*), then everything is healed
//! (*calm*), by turns. Safety is checked all the time, liveness in the calm.
//!
//! A *scene* has the parts that differ: the machine that processes run, their users, their own faults, and the invariants. There are
//! `leases` (with elections), `fleet`, `sections` and `semaphores`. The kernel calls the scene at fixed points, which [`Scene`] lists in the order of a
//! world's life.
//!
//! | question | file |
//! |---|---|
//! | which events are due, and when | `world.rs` |
//! | how a process begins, takes a step, stands still and ends | `world/node.rs` |
//! | how requests, answers and hints travel | `world/net.rs` |
//! | which faults there are, and what they do | `fault.rs`, `world/chaos.rs` |
//! | when faults happen, and when everything is healed | `world/phase.rs` |
//! | what the store does | `registers.rs` |
//! | how many worlds run, on how many threads, and how they are reported | `run.rs`, `play.rs`, `report.rs`, `trace.rs` |
//! | how a history is shrunk | `shrink.rs` |
//!
//! Some words: a *frame* is the kernel's part of a scenario. A fault *strikes* a node or the store now and then, or it *befalls* a single call,
//! hint or step. In the calm there are none; there a renewal may *stumble*, where the scenario says so: its answer is lost. A request is a *stray* if no process
//! waits for its answer. A read or write is *dated* if it carries its service's wall clock.
//!
//! # To add a fault
//!
//! 1. `fault.rs`: add its name to the enum, and its effect to the table (`kinds!`). `is_of_node` says whether one that
//!    strikes has one node for its victim.
//! 2. Implement the effect. One that strikes in all scenes has it in `world/chaos.rs`, and the kernel writes the trace. One that strikes in one scene has it in
//!    that scene's `strike`. One that befalls calls has it where they are made, mostly `world/net.rs`: ask `befalls` last of all conditions, as it draws and
//!    counts, and write the trace yourself. The latter two also have an empty arm in `strike` of `world/chaos.rs`.
//! 3. Add it to a scenario with its frequency: to `faults` if it strikes, to `calls` if it befalls calls. They are in `scenario.rs` of the scene, and in files
//!    below `scenario/` where there are many. The test `promises` fails for a kind that never comes in a scenario of leases
//!    that names it. Add it to the usual ones, too, if their promises hold in it. The scenarios are played in turn. One more makes each seed of all of them
//!    another world: run the tests `promises` and `bugs`.
//! 4. If the fault breaks a promise, the scenario names that in `excused`. Say there which assumption of the promise it takes away.
//! 5. `cargo xtask api`.
//!
//! # To add a scene
//!
//! 1. Add a folder with a type that implements [`Scene`]: its state, its scenarios as data, and the methods without a body. The smallest is
//!    `sections`. The worlds are `kernel::World<TheScene>`; the scene's code is in `impl World` blocks of its own files.
//! 2. `run.rs`: add a line to `kinds`. All options, jobs, shrinking, reports and `--list` then work.
//! 3. Add its invariants, a file each, and a deliberate bug that each of them catches.

pub(crate) mod clock;
pub(crate) mod coverage;
mod envelope;
pub(crate) mod fault;
pub(crate) mod kinds;
mod play;
pub(crate) mod registers;
pub(crate) mod report;
pub(crate) mod rng;
pub(crate) mod run;
mod shrink;
pub(crate) mod trace;
mod world;

pub(crate) use envelope::{Envelope, key_of};
pub(crate) use world::WorldSetup;
pub(crate) use world::node::{Node, NodeInput};
pub(crate) use world::scene::{Frame, NewProcess, Scene};
pub(crate) use world::{What, World};
