//! All tests of this package as one program, which is built and linked once. `cargo xtask test` runs each file of them by itself.

#[path = "support/relay.rs"]
mod relay;
#[path = "support/silence.rs"]
mod silence;
mod support;

mod conformance;
mod connections;
mod cost;
mod faults;
mod fences;
mod guard;
mod hints;
mod hosts;
mod opening;
mod pool;
mod standby;
