//! What machines go by, whichever they are: how far clocks may be off, how often things are done, and bugs on purpose.

use crate::bugs::Bugs;
use crate::values::time::Drift;
use crate::values::time::host::Host;
use std::time::Duration;

/// What a process's machines go by.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Rules {
    /// How far clock rates may be off.
    pub drift: Drift,
    /// Whether two witnesses may stand in for observed silence.
    pub first_sight: bool,
    /// The time line that the processes of this host share: the second witness where the store tells no ages. None: there is none.
    pub host: Option<Host>,
    /// The longest time between two looks at a key that is waited for.
    pub poll: Duration,
    /// How often a lease that renews itself, a session for one, is renewed: a third of its ttl if this is not said,
    /// or longer. Somewhat more often at random, so that not all renew at once.
    pub renew: Option<Duration>,
    /// How many of the leases that are attached to a session are looked at after each of its renewals, in turn: whether their records still
    /// show them, or somebody has deleted or replaced one behind the protocol's back. 0: none.
    pub audit: usize,
    /// The most bytes that the store takes for a semaphore's holders and tickets; [`SemaphoreLedger::MAX_BYTES`](crate::semaphore::SemaphoreLedger::MAX_BYTES)
    /// at the most.
    pub semaphore_bytes: usize,
    /// Bugs on purpose.
    pub bugs: Bugs,
}

impl Rules {
    /// As many reads of a recent state as cost less than the session's renewal, where a write costs ten times as much (DynamoDB).
    pub const AUDIT: usize = 8;
}

impl Default for Rules {
    fn default() -> Self {
        Rules {
            drift: Drift::default(),
            first_sight: true,
            host: None,
            poll: Duration::from_secs(1),
            renew: None,
            audit: Rules::AUDIT,
            semaphore_bytes: crate::semaphore::SemaphoreLedger::MAX_BYTES,
            bugs: Bugs::default(),
        }
    }
}
