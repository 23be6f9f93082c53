//! All tests of this package as one program, which is built and linked once. `cargo xtask test` runs each file of them by itself.

mod support;

mod adopt;
mod adopt_killed;
mod adopt_shards;
mod coordinator;
mod late;
mod leases;
mod rows;
