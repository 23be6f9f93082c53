//! All tests of this package as one program, which is built and linked once. `cargo xtask test` runs each file of them by itself.

mod common;
mod harness;
mod sections;
mod table;

mod acquire;
mod acquire_again;
mod acquisition;
mod audit;
mod challenge;
mod doubtful;
mod election;
mod fleet;
mod fleet_asked;
mod fleet_dead;
mod fleet_retry;
mod fleet_service;
mod fleet_trouble;
mod follow;
mod give_up;
mod marks;
mod orphans;
mod plan;
mod range_keys;
mod range_vectors;
mod renewal;
mod section;
mod section_records;
mod section_trouble;
mod seizure;
mod semaphore;
mod session;
mod session_trouble;
mod turns;
mod updates;
mod withdrawn;
