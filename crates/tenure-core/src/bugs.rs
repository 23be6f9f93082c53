//! Protocol bugs on purpose, each of which the simulator must catch.
//!
//! Without the feature `bugs`, which no release build has, [`Bugs`] has no size and [`Bugs::has`] is always false.

/// A mistake that a lease protocol can make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each is described by `Bug::about`")]
pub enum Bug {
    NoDriftMargin,
    ValidFromAnswer,
    ReleaseUnconditional,
    RenewAfterExpiry,
    UnknownIsFailure,
    UnknownIsSuccess,
    SessionNotFenced,
    VigilNotRestarted,
    VigilFromBeforeRead,
    MailProlongs,
    MailLost,
    OneWitness,
    AgeIgnoresRide,
    FenceNotRaised,
    FenceResetAtTakeover,
    LossNotTold,
    WaiterCountsSuspend,
    HolderMissesSuspend,
    RiderOutlivesSession,
    StaleWinBelieved,
    TakeWithoutCondition,
    ZombieForgotten,
    ReleaseGivesUp,
    RenewTooLate,
    TryForgetsVigil,
    WallDecides,
    RenewEachRider,
    LostIsStillMine,
}

impl Bug {
    /// Every bug.
    pub const ALL: &'static [Bug] = &[
        Bug::NoDriftMargin,
        Bug::ValidFromAnswer,
        Bug::ReleaseUnconditional,
        Bug::RenewAfterExpiry,
        Bug::UnknownIsFailure,
        Bug::UnknownIsSuccess,
        Bug::SessionNotFenced,
        Bug::VigilNotRestarted,
        Bug::VigilFromBeforeRead,
        Bug::MailProlongs,
        Bug::MailLost,
        Bug::OneWitness,
        Bug::AgeIgnoresRide,
        Bug::FenceNotRaised,
        Bug::FenceResetAtTakeover,
        Bug::LossNotTold,
        Bug::WaiterCountsSuspend,
        Bug::HolderMissesSuspend,
        Bug::RiderOutlivesSession,
        Bug::StaleWinBelieved,
        Bug::TakeWithoutCondition,
        Bug::ZombieForgotten,
        Bug::ReleaseGivesUp,
        Bug::RenewTooLate,
        Bug::TryForgetsVigil,
        Bug::WallDecides,
        Bug::RenewEachRider,
        Bug::LostIsStillMine,
    ];
}

/// The bugs that are switched on.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Bugs {
    #[cfg(feature = "bugs")]
    on: u64,
}

impl Bugs {
    /// Switches `bug` on.
    #[cfg(feature = "bugs")]
    #[must_use]
    pub fn with(self, bug: Bug) -> Bugs {
        Bugs { on: self.on | 1 << bug as u32 }
    }

    /// Whether `bug` is switched on.
    #[cfg(feature = "bugs")]
    #[must_use]
    pub fn has(self, bug: Bug) -> bool {
        self.on & (1 << bug as u32) != 0
    }

    /// Whether `bug` is switched on: never in this build.
    #[cfg(not(feature = "bugs"))]
    #[inline]
    #[must_use]
    pub const fn has(self, _bug: Bug) -> bool {
        false
    }
}
