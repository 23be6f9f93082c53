//! The time of a world, and the failover time of all its workers, by which other times are set.

/// All times of a world are in microseconds.
pub(super) type Micros = u64;

pub(super) const FAILOVER: Micros = 2_000_000;
