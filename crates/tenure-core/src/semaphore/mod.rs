//! Semaphores: permits of a key, with their holders and waiters in one record.
//!
//! The record has no tenure. Its one metadata field lists holders and tickets ([`SemaphoreLedger`]), and every change is one conditional
//! write of all of it. So grants never exceed the number of permits, whatever the processes do. A permit is held *shared*, beside
//! as many others as there are permits, or *exclusively*, alone. With one mode only this is a counting semaphore or a fair
//! lock. With both it is a lock for readers and writers.
//!
//! Holders and tickets are attached to sessions: each is live while its session's record shows the same fence, like an attached
//! lease. None is ever renewed. The write that gives a permit up grants free permits to the head of the queue. A
//! waiter looks for dead processes, fences their sessions first, and grants on.
//!
//! `Semaphore` is the part of a [`Holder`](crate::Holder) that drives one key. All wishes of its users at a time go into one write.

mod job;
mod ledger;
mod machine;

pub use ledger::{FIELD, Grant, PREFIX, SemaphoreLedger, Ticket, is_idle, is_semaphore, key};
pub(crate) use machine::Semaphore;

use crate::holder::acquisition::WaitPolicy;
use crate::values::error::{InvalidInput, StoreError};
use crate::values::key::Key;
use std::fmt;

/// How a permit is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Mode {
    /// Beside others, as long as there are permits.
    Shared,
    /// Beside nobody.
    Exclusive,
}

impl Mode {
    /// In one word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Mode::Shared => "shared",
            Mode::Exclusive => "exclusive",
        }
    }
}

/// Its name.
impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why permits are refused that others would get: their record has no room for one more claim. It is the source of that error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{key} has too many holders and waiters for one record of {most} bytes; divide them among several semaphores"
)]
pub struct SemaphoreFull {
    key: Key,
    most: usize,
}

impl SemaphoreFull {
    /// Whether that is what an error is about.
    #[must_use]
    pub fn is_why(error: &StoreError) -> bool {
        std::error::Error::source(error).is_some_and(|source| source.is::<SemaphoreFull>())
    }
}

/// Permits that a user wants.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Wish {
    /// Of which key.
    pub key: Key,
    /// How many there are in all. Whoever uses the key at a time must say the same.
    pub permits: u32,
    /// How many are wanted.
    pub take: u32,
    /// How they are held.
    pub mode: Mode,
    /// Takes what is free though others wait for more, instead of waiting behind them.
    pub barges: bool,
    /// How long to wait.
    pub wait_policy: WaitPolicy,
}

impl Wish {
    /// Whether it can ever be had.
    ///
    /// # Errors
    /// When there are no permits, or too many, or more are wanted than there are.
    pub fn check(&self) -> Result<(), InvalidInput> {
        let Wish { key, permits, take, .. } = self;
        if *permits == 0 || *permits > SemaphoreLedger::MOST_PERMITS {
            let most = SemaphoreLedger::MOST_PERMITS;
            return Err(InvalidInput::new(format!("{key} can't have {permits} permits; say 1 to {most}")));
        }
        if *take == 0 || take > permits {
            return Err(InvalidInput::new(format!(
                "{take} permits of {key} can't be had: it has {permits}; take 1 to {permits}"
            )));
        }
        if matches!(self.wait_policy, WaitPolicy::Follow { .. } | WaitPolicy::Watch { .. }) {
            return Err(InvalidInput::new(format!("permits of {key} can be waited for, and not followed")));
        }
        Ok(())
    }
}
