//! All tests of this package as one program, which is built and linked once. `cargo xtask test` runs each file of them by itself.

mod support;

mod kept;
mod late;
mod leases;
mod lost;
mod requests;
mod told;
