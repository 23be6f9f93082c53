//! All tests of this package as one program, which is built and linked once. `cargo xtask test` runs each file of them by itself.

#[path = "support/proxy.rs"]
mod proxy;
mod support;

mod cluster;
mod cluster_tls;
mod conformance;
mod faults;
mod gather;
mod guard;
mod opening;
mod replicas;
mod rights;
