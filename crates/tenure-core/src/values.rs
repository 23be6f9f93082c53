//! The ground floor: what records are made of, and time. Nothing here knows a machine.

pub mod error;
pub(crate) mod fence;
pub(crate) mod key;
pub(crate) mod leb;
pub(crate) mod metadata;
pub(crate) mod record;
pub mod reserved;
pub(crate) mod service_clock;
pub(crate) mod steering;
pub mod time;
