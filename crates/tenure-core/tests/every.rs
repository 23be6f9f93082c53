//! Plan: every test of this directory once more, as one program: for `cargo xtask mutants`, which builds it two thousand times,
//! and where most of the time goes into building. `cargo test` builds and runs each file for itself.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail")]
#![allow(clippy::duplicate_mod, reason = "what the files share is in each of them")]

#[path = "acquire.rs"]
mod acquire;
#[path = "acquire_again.rs"]
mod acquire_again;
#[path = "acquisition.rs"]
mod acquisition;
#[path = "audit.rs"]
mod audit;
#[path = "challenge.rs"]
mod challenge;
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
#[path = "marks.rs"]
mod marks;
#[path = "orphans.rs"]
mod orphans;
#[path = "plan.rs"]
mod plan;
#[path = "range_keys.rs"]
mod range_keys;
#[path = "range_vectors.rs"]
mod range_vectors;
#[path = "renewal.rs"]
mod renewal;
#[path = "section.rs"]
mod section;
#[path = "section_records.rs"]
mod section_records;
#[path = "section_trouble.rs"]
mod section_trouble;
#[path = "seizure.rs"]
mod seizure;
#[path = "semaphore.rs"]
mod semaphore;
#[path = "session.rs"]
mod session;
#[path = "session_trouble.rs"]
mod session_trouble;
#[path = "turns.rs"]
mod turns;
#[path = "updates.rs"]
mod updates;
#[path = "withdrawn.rs"]
mod withdrawn;
