//! All tests of this package as one program, which is built and linked once. `cargo xtask test` runs each file of them by itself.

mod checker;

mod exhaustive;
mod fleet;
mod peers;
mod promises;
mod regressions;
mod sections;
mod semaphores;
