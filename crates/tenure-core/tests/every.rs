//! Plan: every test of this directory once more, as one program: for `cargo xtask mutants`, which builds it two thousand times,
//! and where most of the time goes into building. `cargo test` builds and runs each file for itself.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]
#![allow(clippy::duplicate_mod, reason = "what the files share is in each of them")]

#[path = "acquire.rs"]
mod acquire;
#[path = "audit.rs"]
mod audit;
#[path = "bid.rs"]
mod bid;
#[path = "bid_again.rs"]
mod bid_again;
#[path = "change.rs"]
mod change;
#[path = "doubtful.rs"]
mod doubtful;
#[path = "election.rs"]
mod election;
#[path = "fleet.rs"]
mod fleet;
#[path = "fleet_asked.rs"]
mod fleet_asked;
#[path = "fleet_dead.rs"]
mod fleet_dead;
#[path = "fleet_retry.rs"]
mod fleet_retry;
#[path = "fleet_trouble.rs"]
mod fleet_trouble;
#[path = "follow.rs"]
mod follow;
#[path = "give_up.rs"]
mod give_up;
#[path = "hold.rs"]
mod hold;
#[path = "knock.rs"]
mod knock;
#[path = "loose.rs"]
mod loose;
#[path = "marks.rs"]
mod marks;
#[path = "plan.rs"]
mod plan;
#[path = "range_keys.rs"]
mod range_keys;
#[path = "range_vectors.rs"]
mod range_vectors;
#[path = "section.rs"]
mod section;
#[path = "section_records.rs"]
mod section_records;
#[path = "section_trouble.rs"]
mod section_trouble;
#[path = "seizure.rs"]
mod seizure;
#[path = "session.rs"]
mod session;
#[path = "session_trouble.rs"]
mod session_trouble;
#[path = "turns.rs"]
mod turns;
#[path = "withdrawn.rs"]
mod withdrawn;
