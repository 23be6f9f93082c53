//! What holds of the workspace's sources, as one program, which is built and linked once. `cargo xtask test` runs each file of it by itself.

mod circles;
mod told;
