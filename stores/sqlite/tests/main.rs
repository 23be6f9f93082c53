//! All tests of this package as one program, which is built and linked once. `cargo xtask test` runs each file of them by itself.

mod support;

mod conformance;
mod faults;
mod guard;
mod looking;
mod news;
mod opening;
mod processes;
mod removed;
mod waiters;
