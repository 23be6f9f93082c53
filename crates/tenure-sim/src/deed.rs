//! What happened in a world besides faults: the moments that scenarios are about. A scenario in which none of its moments
//! ever came would prove nothing, so they are counted, reported and asserted.

/// A kind of moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each is described by `Deed::about`")]
pub enum Deed {
    Renewed,
    TakenOver,
    TakenByTrying,
    FreshRowRace,
    LateRenewal,
    LateRelease,
    LossUnreachable,
    LossOverdue,
    HandedOver,
    MailMetRenewal,
    OwnSessionAgain,
    LeftToExpire,
    RefusedByResource,
    DiedHolding,
}

impl Deed {
    /// Every kind.
    pub const ALL: &'static [Deed] = &[
        Deed::Renewed,
        Deed::TakenOver,
        Deed::TakenByTrying,
        Deed::FreshRowRace,
        Deed::LateRenewal,
        Deed::LateRelease,
        Deed::LossUnreachable,
        Deed::LossOverdue,
        Deed::HandedOver,
        Deed::MailMetRenewal,
        Deed::OwnSessionAgain,
        Deed::LeftToExpire,
        Deed::RefusedByResource,
        Deed::DiedHolding,
    ];

    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Deed::Renewed => "renewed",
            Deed::TakenOver => "taken-over",
            Deed::TakenByTrying => "taken-by-trying",
            Deed::FreshRowRace => "fresh-row-race",
            Deed::LateRenewal => "late-renewal",
            Deed::LateRelease => "late-release",
            Deed::LossUnreachable => "loss-unreachable",
            Deed::LossOverdue => "loss-overdue",
            Deed::HandedOver => "handed-over",
            Deed::MailMetRenewal => "mail-met-renewal",
            Deed::OwnSessionAgain => "own-session-again",
            Deed::LeftToExpire => "left-to-expire",
            Deed::RefusedByResource => "refused-by-resource",
            Deed::DiedHolding => "died-holding",
        }
    }

    /// What happened.
    #[must_use]
    pub fn about(self) -> &'static str {
        match self {
            Deed::Renewed => "a renewal took effect",
            Deed::TakenOver => "a key was taken over the record of another that was found dead",
            Deed::TakenByTrying => "it was taken so by someone who never waited",
            Deed::FreshRowRace => "of two who claimed a key without a record, one was refused",
            Deed::LateRenewal => "a deposed holder's renewal met its successor's record, and was refused",
            Deed::LateRelease => "a deposed holder's release met its successor's record, and was refused",
            Deed::LossUnreachable => "a holder that could not reach the store was told of its loss",
            Deed::LossOverdue => {
                "a holder that was stopped beyond its deadline was told as soon as it went on"
            }
            Deed::HandedOver => "a lease went on as another process's, under the same fence",
            Deed::MailMetRenewal => "a renewal lost to a letter and was repeated",
            Deed::OwnSessionAgain => "a process met its own former session's record, and began anew",
            Deed::LeftToExpire => "what could not be ended was left to expire",
            Deed::RefusedByResource => "the resource refused a deposed holder's write",
            Deed::DiedHolding => "a process died while it held something",
        }
    }
}
