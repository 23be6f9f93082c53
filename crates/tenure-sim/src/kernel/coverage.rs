//! What happened in a world besides faults: the moments that scenarios are about. A scenario in which none of its moments
//! ever came would prove nothing, so all are counted and reported. Tests assert some of them: those of peers' bugs (`tests/peers.rs`), and some of fleets and
//! sections. Of faults, `tests/promises.rs` asserts that each kind came that a scenario of leases names.

use super::kinds::kinds;

/// A kind of moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each is described by `Coverage::about`")]
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
    TickRun,
    TickHadRun,
    PlannerStruck,
    HeadsLost,
    DiedAhead,
    PartSpoilt,
    LetterLost,
    MailboxFull,
    Burst,
    OverCapacity,
    Outlasted,
    Caught,
    SectionRemoved,
}

kinds! { Coverage,
    Renewed "renewed": "a renewal took effect",
    TakenOver "taken-over": "a key was taken over the record of another that was found dead",
    TakenByTrying "taken-by-trying": "it was taken so by someone who never waited",
    FreshRowRace "fresh-row-race": "of two who claimed a key without a record, one was refused",
    LateRenewal "late-renewal": "a deposed holder's renewal met its successor's record, and was refused",
    LateRelease "late-release": "a deposed holder's release met its successor's record, and was refused",
    LossUnreachable "loss-unreachable": "a holder that could not reach the store was told of its loss",
    LossOverdue "loss-overdue": "a holder that was stopped beyond its deadline was told as soon as it went on",
    HandedOver "handed-over": "a lease went on as another process's, under the same fence",
    MailMetRenewal "mail-met-renewal": "a renewal lost to a letter and was repeated",
    OwnSessionAgain "own-session-again": "a process met its own former session's record, and began anew",
    LeftToExpire "left-to-expire": "what could not be ended was left to expire",
    RefusedByResource "refused-by-resource": "the resource refused a deposed holder's write",
    DiedHolding "died-holding": "a process died while it held something",
    TickRun "tick-run": "a tick was run",
    TickHadRun "tick-had-run": "who had the lease found that the tick, or a later one, had run",
    PlannerStruck "planner-struck": "a fleet's planner died, or was cut off, at a step of planning that was chosen",
    HeadsLost "heads-lost": "a fleet's planner and all who stood by died at once",
    DiedAhead "died-ahead": "a fleet's planner died, and with it a worker whose wall clock had been set ahead",
    PartSpoilt "part-spoilt": "a worker's part of a plan was spoilt before it was read",
    LetterLost "letter-lost": "a letter to a worker that rests was thrown away",
    MailboxFull "mailbox-full": "there was no room for letters to a worker",
    Outlasted "outlasted": "the body of a unit outlasted the unit's withdrawal",
    Caught "caught": "a unit that was being moved was withdrawn or asked for, and was to stay after all",
    SectionRemoved "section-removed": "`gc` removed a section",
    OverCapacity "over-capacity": "a call was refused, as the store had no capacity left for it",
    Burst "burst": "many units came or went and workers left in one instant",
}

/// How many kinds there are.
pub(crate) const MOMENTS: usize = Coverage::ALL.len();
