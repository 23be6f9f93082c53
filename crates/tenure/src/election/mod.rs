//! Elections: one leader for a key among all who want to lead it.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use tenure::Candidate;
//!
//! let candidate = Candidate::builder(tenure::memory()).key("reports").start()?;
//! let term = candidate.elected().await?;
//! assert!(candidate.is_leader());
//! // Send the fence along with every effect, and let the resource refuse lower ones.
//! println!("leading with fence {} for {:?} at least", term.fence, term.valid_for);
//! candidate.stop().await;
//! # Ok(()) }
//! ```
//!
//! A [`Candidate`] runs in the background from its start: it follows the key, leads it when it can, and follows again
//! when it has lost it. [`Candidate::is_leader`] asks no one and takes nanoseconds; it is never true past the
//! deadline, though every call to the store hangs. Work that must not outlive the leadership goes into
//! [`Candidate::run_while_leader`].
//!
//! Each candidate made by [`Candidate::builder`] renews itself, with one record. Those made by [`Leases::candidate`](crate::Leases::candidate) are attached
//! to the session of a [`crate::Leases`], which renews any number of them with one write.
//!
//! # In a loop, until Ctrl-C
//! The example `leader.rs` is a whole program: [`Candidate::run_while_leader`] in a loop, and [`Candidate::stop`] on Ctrl-C, after which the next leader
//! follows at once.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use tenure::{AcquireError, BodyError, Candidate};
//!
//! let candidate = Candidate::builder(tenure::memory()).key("reports").start()?;
//! # let control = candidate.clone();
//! # tokio::spawn(async move { control.elected().await.unwrap(); control.stop().await });
//! loop {
//!     match candidate.run_while_leader(|held| async move { held.cancelled().await }).await {
//!         // The body has returned by itself: the candidate leads on, and the body begins again at once. One that is done waits, or resigns.
//!         Ok(()) => {}
//!         // It had to: once the candidate leads again, or is sure to go on leading, the body is run again.
//!         Err(BodyError::Interrupted { .. }) => {}
//!         Err(BodyError::Acquire(AcquireError::Stopped)) => break,
//!         Err(error) => return Err(error.into()),
//!     }
//! }
//! # Ok(()) }
//! ```
//!
//! # What is logged
//! Events of `tracing`, with the target `tenure::election`:
//!
//! | name | level | message | fields |
//! |---|---|---|---|
//! | `election.started` | debug | candidate follows the key | `key`, `holder` |
//! | `election.elected` | info | elected: it leads the key | `key`, `fence`, `holder` |
//! | `election.step_down` | info | stepping down | `key`, `fence`, `holder`, `reason` |
//! | `election.ended` | info | leadership ended | `key`, `fence`, `holder`, `reason` |
//! | `election.leader` | info | who leads has changed | `key`, `holder`, `leader` and its `fence`, if anybody leads |
//! | `election.namesake` | warn | a term that this candidate knows nothing of has its id; give each start of a process its own | `key`, `fence`, `holder` |
//! | `election.failing` | warn | the key can't be followed for now | `key`, `holder`, `reason` |
//! | `election.stopped` | debug | candidate stopped | `key`, `holder` |
//!
//! # Who stands by
//! A candidate leaves no trace in the store before it leads. The gauge `tenure_leases_waiting` with `kind="leadership"` tells of each process how many of
//! its candidates wait. Where others are to know them by name, make the key a unit of a [fleet](crate::fleet), which lists its workers.
//!
//! # Scheduled jobs
//! Where every node has the same schedule, each job is locked by name ([`Locker`]), with a [minimum time](Locker::at_least_for)
//! longer than the nodes' clocks are apart and shorter than the schedule's period: then each tick is run once, by whichever node
//! comes first. What must not run twice however clocks differ is run [once per tick](crate::once).
//!
//! The leader alone can run the jobs instead (ask [`Candidate::is_leader`] at each tick), where a run too many or too few does no
//! harm. A tick is skipped while nobody leads: for up to a ttl after a leader has died, and while one steps down. And a tick can
//! run twice when leadership moves between the ticks of two nodes, whose clocks always differ a little.
//!
//! # Many keys over many nodes
//! Candidates of many nodes for many keys end up wherever chance puts them: mostly on the node that came first. To spread
//! leaderships evenly, whatever nodes come and go, make each key a unit of a [fleet](crate::fleet): a node leads those that are
//! assigned to it.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use tenure::fleet::{Fleet, NewUnit};
//!
//! let keys = Fleet::new(tenure::memory(), "leaders")?;
//! keys.create_all(["billing", "search", "mail", "audit"].map(NewUnit::named)).await?;
//! let nodes = [keys.join().start()?, keys.join().start()?];
//! # let watched = nodes.clone();
//! # tokio::spawn(async move {
//! #     while watched.iter().any(|node| node.held().len() != 2) { tokio::task::yield_now().await }
//! #     for node in watched { node.leave().await }
//! # });
//! let lead = |node: tenure::fleet::Worker| async move {
//!     node.run(|key| async move {
//!         println!("leading {} with fence {}", key.name(), key.fence());
//!         key.cancelled().await;
//!         tenure::fleet::Verdict::Again
//!     }).await;
//! };
//! let [first, second] = nodes;
//! tokio::join!(lead(first), lead(second));
//! # Ok(()) }
//! ```

mod bodies;
mod builder;
mod candidate;
mod locker;
mod runner;
mod status;

pub use builder::CandidateBuilder;
pub use candidate::{Candidate, Observer};
pub use locker::{JobLock, Locker};
pub use status::{Leader, Status};
pub use tenure_core::election::{Standing, Term};

#[doc = include_str!("../../docs/coming-from-less.md")]
pub mod coming_from_less {}
