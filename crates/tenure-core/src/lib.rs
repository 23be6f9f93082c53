//! The pure core of [tenure](https://docs.rs/tenure): what leases are, and the machines that get, keep and give them up.
//!
//! Nothing here does I/O, reads a clock or draws randomness. A machine takes an event and the time, and answers with
//! operations to perform, notices for its users, and when to come back ([`op::Machine`]). So the same code runs in
//! production, in the simulator by the million steps, and under a model checker.
//!
//! Users of leases want the crate `tenure`; this one is for those who write stores, drivers or simulators.

mod acquisition;
mod audit;
mod bugs;
mod command;
mod ctx;
pub mod election;
pub mod error;
mod failure_detector;
mod fence;
pub mod fleet;
pub mod gc;
mod holder;
mod host;
mod key;
mod lease;
mod metadata;
mod notice;
pub mod op;
mod orphans;
pub mod range;
mod record;
mod renewal;
pub mod reserved;
pub mod section;
mod seizure;
mod service_clock;
mod session;
mod table;
pub mod time;
mod turns;
mod update;

pub use acquisition::{MetadataPolicy, WaitPolicy};
pub use bugs::{Bug, Bugs};
pub use command::{Command, KeepAlive, LeaseId, Want};
pub use error::{ErrorKind, InvalidInput, StoreError};
pub use failure_detector::Rules;
pub use fence::{Fence, Nonce, Nonces, Version};
pub use holder::{Holder, Identity};
pub use host::{Host, MARKS, Mark};
pub use key::{HolderId, Key};
pub use metadata::{Metadata, Number, RESERVED, Value};
pub use notice::Notice;
pub use record::{Ask, Attachment, Letter, MAILBOX, Occupant, Record, Sighting, Stored, Tenure, Times};
pub use renewal::Loss;
pub use seizure::{Seized, Seizure};
pub use service_clock::ServiceClock;
pub use table::Table;
pub use time::{Clock, Drift, Now, Tick, Ttl, Wall};
pub use update::{Token, Transferee};
