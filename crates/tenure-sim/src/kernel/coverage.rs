//! What happened in a world besides faults: the moments that scenarios are about. A scenario in which none of its moments
//! ever came would prove nothing, so they are counted, reported and asserted.

/// A kind of moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each is described by `Deed::about`")]
pub enum Coverage {
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

impl Coverage {
    /// Every kind.
    pub const ALL: &'static [Coverage] = &[
        Coverage::Renewed,
        Coverage::TakenOver,
        Coverage::TakenByTrying,
        Coverage::FreshRowRace,
        Coverage::LateRenewal,
        Coverage::LateRelease,
        Coverage::LossUnreachable,
        Coverage::LossOverdue,
        Coverage::HandedOver,
        Coverage::MailMetRenewal,
        Coverage::OwnSessionAgain,
        Coverage::LeftToExpire,
        Coverage::RefusedByResource,
        Coverage::DiedHolding,
    ];

    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Coverage::Renewed => "renewed",
            Coverage::TakenOver => "taken-over",
            Coverage::TakenByTrying => "taken-by-trying",
            Coverage::FreshRowRace => "fresh-row-race",
            Coverage::LateRenewal => "late-renewal",
            Coverage::LateRelease => "late-release",
            Coverage::LossUnreachable => "loss-unreachable",
            Coverage::LossOverdue => "loss-overdue",
            Coverage::HandedOver => "handed-over",
            Coverage::MailMetRenewal => "mail-met-renewal",
            Coverage::OwnSessionAgain => "own-session-again",
            Coverage::LeftToExpire => "left-to-expire",
            Coverage::RefusedByResource => "refused-by-resource",
            Coverage::DiedHolding => "died-holding",
        }
    }

    /// What happened.
    #[must_use]
    pub fn about(self) -> &'static str {
        match self {
            Coverage::Renewed => "a renewal took effect",
            Coverage::TakenOver => "a key was taken over the record of another that was found dead",
            Coverage::TakenByTrying => "it was taken so by someone who never waited",
            Coverage::FreshRowRace => "of two who claimed a key without a record, one was refused",
            Coverage::LateRenewal => "a deposed holder's renewal met its successor's record, and was refused",
            Coverage::LateRelease => "a deposed holder's release met its successor's record, and was refused",
            Coverage::LossUnreachable => "a holder that could not reach the store was told of its loss",
            Coverage::LossOverdue => {
                "a holder that was stopped beyond its deadline was told as soon as it went on"
            }
            Coverage::HandedOver => "a lease went on as another process's, under the same fence",
            Coverage::MailMetRenewal => "a renewal lost to a letter and was repeated",
            Coverage::OwnSessionAgain => "a process met its own former session's record, and began anew",
            Coverage::LeftToExpire => "what could not be ended was left to expire",
            Coverage::RefusedByResource => "the resource refused a deposed holder's write",
            Coverage::DiedHolding => "a process died while it held something",
        }
    }
}
