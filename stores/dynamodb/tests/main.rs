//! All tests of this package as one program, which is built and linked once. `cargo xtask test` runs each file of them by itself.

mod ages;
mod conformance;
mod faults;
mod guard;
mod opening;
mod requests;
mod rights;
