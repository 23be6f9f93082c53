//! Units of work, each run by one process at a time: those of a job, which end, and those of a fleet, which do not.

pub(crate) mod fleet;
pub(crate) mod job;
mod pace;
pub(crate) mod stream;
pub(crate) mod template;
pub(crate) mod units;
