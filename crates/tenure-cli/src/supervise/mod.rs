//! Supervision: commands that run under a lease, and that are over before it is.

pub(crate) mod client;
pub(crate) mod command;
pub(crate) mod health;
pub(crate) mod process;
pub(crate) mod signals;
pub(crate) mod tenancy;
pub(crate) mod terminal;
pub(crate) mod watchdog;
