//! All tests of this package as one program, which is built and linked once. `cargo xtask test` runs each file of them by itself.

mod lapse;
mod late;
mod panics;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;
mod told;
