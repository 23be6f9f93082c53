//! What a lease is called between a machine and its users.

/// Names a lease between a process's machine and its users. Chosen by the user, never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub u64);
