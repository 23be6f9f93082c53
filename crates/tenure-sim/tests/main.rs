//! All tests of this package as one program, which is built and linked once. `cargo xtask test` runs each file of them by itself.

/// A world allocates all the time: with the system's allocator it takes an eighth more.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod checker;

mod exhaustive;
mod fleet;
mod peers;
mod promises;
mod regressions;
mod sections;
mod semaphores;
