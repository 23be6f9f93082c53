//! What must hold in a fleet: one file for each promise, its statement and source on top. What is the same for any lease
//! is in `crate::invariants`, which says how files are named.

pub(crate) mod c1;
pub(crate) mod l2;
pub(crate) mod l2_plan;
pub(crate) mod l3;
pub(crate) mod s1;
pub(crate) mod s10;
pub(crate) mod s2;
pub(crate) mod s3;
pub(crate) mod s4;
pub(crate) mod s5;
pub(crate) mod s6;
