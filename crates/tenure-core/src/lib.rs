//! The pure core of [tenure](https://docs.rs/tenure): what leases are, and the machines that get, keep and give them up.
//!
//! Nothing here does I/O, reads a clock or draws randomness. A machine takes an event and the time, and answers with
//! operations to perform, notices for its users, and when to come back ([`op::Machine`]). So the same code runs in
//! production, in the simulator by the million steps, and under a model checker.
//!
//! Users of leases want the crate `tenure`; this one is for those who write stores, drivers or simulators.

mod audit;
mod bid;
mod bugs;
mod command;
mod ctx;
mod edit;
pub mod election;
pub mod error;
mod fence;
pub mod fleet;
pub mod gc;
mod hold;
mod holder;
mod host;
mod key;
mod lease;
mod loose;
mod metadata;
mod notice;
pub mod op;
pub mod range;
mod record;
pub mod reserved;
pub mod section;
mod seizure;
mod service_clock;
mod session;
mod table;
pub mod time;
mod turns;
mod vigil;

pub use bid::{Carry, Patience};
pub use bugs::{Bug, Bugs};
pub use command::{Beat, Command, LeaseId, Want};
pub use edit::{Heir, Token};
pub use error::{ErrorKind, InvalidInput, StoreError};
pub use fence::{Fence, Nonce, Nonces, Version};
pub use hold::Loss;
pub use holder::{Holder, Identity};
pub use host::{Host, MARKS, Mark};
pub use key::{HolderId, Key};
pub use metadata::{Metadata, Number, RESERVED, Value};
pub use notice::Notice;
pub use record::{Ask, Letter, MAILBOX, Occupant, Record, Ride, Sighting, Stored, Tenure, Times};
pub use seizure::{Seized, Seizure};
pub use service_clock::ServiceClock;
pub use table::Table;
pub use time::{Clock, Drift, Now, Tick, Ttl, Wall};
pub use vigil::Rules;
