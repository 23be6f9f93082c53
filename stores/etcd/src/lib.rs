//! [tenure](https://docs.rs/tenure) on etcd.
mod auth;
mod config;
mod connect;
mod error;
mod guard;
mod listen;
mod memo;
mod mend;
mod pair;
mod read;
mod store;
mod wire;
mod write;

pub use config::{EtcdConfig, Tls};
pub use guard::{Condition, EtcdGuard};
pub use store::EtcdStore;
