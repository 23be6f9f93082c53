//! Supervision: commands that run under a lease, and that are over before it is.

mod children;
pub(crate) mod client;
pub(crate) mod command;
pub(crate) mod health;
pub(crate) mod process;
pub(crate) mod signals;
mod table;
pub(crate) mod tenancy;
pub(crate) mod terminal;
pub(crate) mod watchdog;
