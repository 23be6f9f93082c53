//! Fleets: units of work, partitioned over the workers of one name.
//!
//! Everything is a record below one prefix. A *unit* is a record that exists with or without a holder, and carries the data that
//! the plan needs. A *worker* is a process's session, which names its capacity; so the sessions are the
//! roster. The *board* is one small record. Its fence grows when the fleet has changed in a way that others should look into.
//! No worker lists anything before that.
//!
//! [`FleetWorker`] is the machine of one process in a fleet. It has a [`crate::Holder`] in it, and adds a look at the board in every third of a
//! ttl. The planner lists everything when the board has changed, makes the [`plan`], and tells each worker its part. The other workers
//! read their parts, and act on the units that they have or should have.

mod about;
mod ages;
mod board;
mod digest;
mod layout;
mod names;
mod part;
pub mod plan;
mod plan_input;
mod planning;
mod seen;
mod sorted;
mod talk;
mod unit;
mod worker;

pub use about::About;
pub use ages::least_ttl_attested;
pub use board::{advance, generation, planner, standbys, told_plan};
pub use layout::{is_of_this_layout, other_layout};
pub use names::{FleetKey, FleetName};
pub use part::is_part;
pub use plan::{Balance, Cause, Uncovered};
pub use plan_input::{PlanInput, PlanOwner, PlanWorker};
pub use planning::{Planning, Role};
pub use talk::{FleetCommand, FleetNotice, Options, Reason, RequestId, Summary, Taken};
pub use unit::{Retry, Status, UnitSpec};
pub use worker::FleetWorker;
