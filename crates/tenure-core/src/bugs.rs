//! Protocol bugs on purpose, each of which the simulator must catch.
//!
//! Without the feature `bugs`, which no release build has, [`Bugs`] has no size and [`Bugs::has`] is always false.

use std::fmt;

/// A mistake that a lease protocol can make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each is described by `Bug::about`")]
pub enum Bug {
    NoDriftMargin,
    ValidFromAnswer,
    SilenceTooShort,
    ReleaseUnconditional,
    UnknownReleaseIsDone,
    LostIsStillMine,
    RenewAfterExpiry,
    LossNotTold,
    UnknownIsFailure,
    UnknownIsSuccess,
    StaleWinBelieved,
    GapIgnored,
    MisdatedBelieved,
    HiddenTimeMissed,
    TakeWithoutCondition,
    SessionNotFenced,
    AgeIgnoresAttachment,
    AttachedOutlivesSession,
    AttachedBeforeSession,
    RenewEachAttached,
    QueueForgotten,
    OwnSessionForeign,
    SilenceNotRestarted,
    MailProlongs,
    MailLost,
    TryForgetsSilence,
    HintWhileLooking,
    WallDecides,
    OneWitness,
    WaiterCountsSuspend,
    HolderMissesSuspend,
    FenceNotRaised,
    FenceResetAtTakeover,
    FenceForgetsClock,
    ZombieForgotten,
    AdoptKeepsId,
    LapseVacates,
    StopVacatesSession,
    RenewTooLate,
    StaleLeadership,
    ErrorsOutlastDeadline,
    ResignedStillLeads,
    LostStillLeads,
    CooldownIgnored,
    BodyOutlivesTerm,
    FenceChangesOnRenewal,
    DeadNeverJudged,
    SectionOverlaps,
    SectionUnconditional,
    EntryIdReused,
    AllTakesPart,
    ReleaseOfAnother,
    EntryCollectedEarly,
    EntryBornAnew,
    EntryBornEarly,
    PlansFromStaleRoster,
    DeadTransfereeTrusted,
    HandoverKeepsFence,
    DrainNotAwaited,
    DeadSessionIgnored,
    DeathNotTold,
    AlarmNotRaised,
    StaleLookTrusted,
    HintedVersionIgnored,
    AwaitedForgotten,
    DeletedTaken,
    SessionSilenceForgotten,
    LeaverTakes,
    RevisionOverwritten,
    FinishOverwritten,
    PinIgnored,
    WeightIgnored,
    AuditForgotten,
    BoardTrusted,
    OnePageListed,
    MissingIsDead,
    MissingForgotten,
    GcForgetsFloor,
    GcTrustsItsClock,
    GcDropsRiddenSession,
    StampNotCorrected,
    MissingNotMarked,
    MarkIsOneWitness,
    HostNotMarked,
    AwaitedForEver,
    RefusalIsMiss,
    RefusedLookRepeated,
    ForeignMarkBelieved,
    MarkWithoutWall,
    StandsByForEver,
    DeposedPlannerObeyed,
    OverflowIsNothing,
    MissedPlanIgnored,
    ToldOnce,
    ToldEachTime,
    StateIgnored,
    MarkedFirst,
    LargePartCut,
    PlannerUnwatched,
    StandbyIdle,
    SilentPlannerTrusted,
    AgesTrusted,
    OnePageWatched,
    RestersUntold,
    RestsUnseen,
    OldPartStands,
    UnfitPlans,
    UnfitPlansAgain,
    UnderWayForgotten,
    AnySessionsPart,
    UnreadPartIgnored,
    PartNotCompared,
    LateLapseUnheard,
    LapseUntold,
    GrowthUnbounded,
    AttachedUnaudited,
    AuditByName,
    WithdrawnClaimBelieved,
    LetterForAny,
    WithdrawnUncapped,
    SameIdIsOurs,
    DenialIsFinal,
    SeizedUntold,
    SeizedEarly,
    OrphanNotAsked,
    AskedEachTime,
    WithdrawnDetached,
    RetryForgotten,
    DeclineTellsAll,
    TransfereeUntold,
    ForeignTenureIgnored,
    TurnForgotten,
    TurnOfTheGone,
    TurnsUnending,
    WinnerUnwatched,
    PermitsUncounted,
    WriterBesideReaders,
    GrantForgotten,
    QueueReversed,
    TicketsOvertaken,
    GrantKeepsFence,
    PermitIdReused,
    ReleaseTakesAnother,
    CancelLeavesTicket,
    GhostForgotten,
    DeadTicketKept,
    StraysKept,
    PermitsUnaudited,
    TicketBelieved,
    SemaphoreUnconditional,
    OlderTickRuns,
    TickRunsAgain,
    BegunRunsAgain,
    BegunIsDone,
    UnwrittenRuns,
    EndForgotten,
    BeginNotAwaited,
    TickCollected,
    RunsUnheld,
}

impl Bug {
    /// Every bug.
    pub const ALL: &'static [Bug] = &[
        Bug::NoDriftMargin,
        Bug::ValidFromAnswer,
        Bug::SilenceTooShort,
        Bug::ReleaseUnconditional,
        Bug::UnknownReleaseIsDone,
        Bug::LostIsStillMine,
        Bug::RenewAfterExpiry,
        Bug::LossNotTold,
        Bug::UnknownIsFailure,
        Bug::UnknownIsSuccess,
        Bug::StaleWinBelieved,
        Bug::GapIgnored,
        Bug::MisdatedBelieved,
        Bug::HiddenTimeMissed,
        Bug::TakeWithoutCondition,
        Bug::SessionNotFenced,
        Bug::AgeIgnoresAttachment,
        Bug::AttachedOutlivesSession,
        Bug::AttachedBeforeSession,
        Bug::RenewEachAttached,
        Bug::QueueForgotten,
        Bug::OwnSessionForeign,
        Bug::SilenceNotRestarted,
        Bug::MailProlongs,
        Bug::MailLost,
        Bug::TryForgetsSilence,
        Bug::HintWhileLooking,
        Bug::WallDecides,
        Bug::OneWitness,
        Bug::WaiterCountsSuspend,
        Bug::HolderMissesSuspend,
        Bug::FenceNotRaised,
        Bug::FenceResetAtTakeover,
        Bug::FenceForgetsClock,
        Bug::ZombieForgotten,
        Bug::AdoptKeepsId,
        Bug::LapseVacates,
        Bug::StopVacatesSession,
        Bug::RenewTooLate,
        Bug::FenceChangesOnRenewal,
        Bug::DeadNeverJudged,
        Bug::StaleLeadership,
        Bug::ErrorsOutlastDeadline,
        Bug::ResignedStillLeads,
        Bug::LostStillLeads,
        Bug::CooldownIgnored,
        Bug::BodyOutlivesTerm,
        Bug::SectionOverlaps,
        Bug::SectionUnconditional,
        Bug::EntryIdReused,
        Bug::AllTakesPart,
        Bug::ReleaseOfAnother,
        Bug::EntryCollectedEarly,
        Bug::EntryBornAnew,
        Bug::EntryBornEarly,
        Bug::PlansFromStaleRoster,
        Bug::DeadTransfereeTrusted,
        Bug::HandoverKeepsFence,
        Bug::DrainNotAwaited,
        Bug::DeadSessionIgnored,
        Bug::DeathNotTold,
        Bug::AlarmNotRaised,
        Bug::StaleLookTrusted,
        Bug::HintedVersionIgnored,
        Bug::AwaitedForgotten,
        Bug::DeletedTaken,
        Bug::SessionSilenceForgotten,
        Bug::LeaverTakes,
        Bug::RevisionOverwritten,
        Bug::FinishOverwritten,
        Bug::PinIgnored,
        Bug::WeightIgnored,
        Bug::AuditForgotten,
        Bug::BoardTrusted,
        Bug::OnePageListed,
        Bug::MissingIsDead,
        Bug::MissingForgotten,
        Bug::GcForgetsFloor,
        Bug::GcTrustsItsClock,
        Bug::GcDropsRiddenSession,
        Bug::StampNotCorrected,
        Bug::MissingNotMarked,
        Bug::MarkIsOneWitness,
        Bug::HostNotMarked,
        Bug::AwaitedForEver,
        Bug::RefusalIsMiss,
        Bug::RefusedLookRepeated,
        Bug::ForeignMarkBelieved,
        Bug::MarkWithoutWall,
        Bug::StandsByForEver,
        Bug::DeposedPlannerObeyed,
        Bug::OverflowIsNothing,
        Bug::MissedPlanIgnored,
        Bug::ToldOnce,
        Bug::ToldEachTime,
        Bug::StateIgnored,
        Bug::MarkedFirst,
        Bug::LargePartCut,
        Bug::PlannerUnwatched,
        Bug::StandbyIdle,
        Bug::SilentPlannerTrusted,
        Bug::AgesTrusted,
        Bug::OnePageWatched,
        Bug::RestersUntold,
        Bug::RestsUnseen,
        Bug::OldPartStands,
        Bug::UnfitPlans,
        Bug::UnfitPlansAgain,
        Bug::UnderWayForgotten,
        Bug::AnySessionsPart,
        Bug::UnreadPartIgnored,
        Bug::PartNotCompared,
        Bug::LateLapseUnheard,
        Bug::LapseUntold,
        Bug::GrowthUnbounded,
        Bug::AttachedUnaudited,
        Bug::AuditByName,
        Bug::WithdrawnClaimBelieved,
        Bug::LetterForAny,
        Bug::WithdrawnUncapped,
        Bug::SameIdIsOurs,
        Bug::DenialIsFinal,
        Bug::SeizedUntold,
        Bug::SeizedEarly,
        Bug::OrphanNotAsked,
        Bug::AskedEachTime,
        Bug::WithdrawnDetached,
        Bug::RetryForgotten,
        Bug::DeclineTellsAll,
        Bug::TransfereeUntold,
        Bug::ForeignTenureIgnored,
        Bug::TurnForgotten,
        Bug::TurnOfTheGone,
        Bug::TurnsUnending,
        Bug::WinnerUnwatched,
        Bug::PermitsUncounted,
        Bug::WriterBesideReaders,
        Bug::GrantForgotten,
        Bug::QueueReversed,
        Bug::TicketsOvertaken,
        Bug::GrantKeepsFence,
        Bug::PermitIdReused,
        Bug::ReleaseTakesAnother,
        Bug::CancelLeavesTicket,
        Bug::GhostForgotten,
        Bug::DeadTicketKept,
        Bug::StraysKept,
        Bug::PermitsUnaudited,
        Bug::TicketBelieved,
        Bug::SemaphoreUnconditional,
        Bug::OlderTickRuns,
        Bug::TickRunsAgain,
        Bug::BegunRunsAgain,
        Bug::BegunIsDone,
        Bug::UnwrittenRuns,
        Bug::EndForgotten,
        Bug::BeginNotAwaited,
        Bug::TickCollected,
        Bug::RunsUnheld,
    ];

    /// Those that only fleets can have.
    pub const OF_FLEETS: &'static [Bug] = &[
        Bug::PlansFromStaleRoster,
        Bug::DeadTransfereeTrusted,
        Bug::HandoverKeepsFence,
        Bug::DrainNotAwaited,
        Bug::DeadSessionIgnored,
        Bug::DeathNotTold,
        Bug::AlarmNotRaised,
        Bug::StaleLookTrusted,
        Bug::HintedVersionIgnored,
        Bug::AwaitedForgotten,
        Bug::DeletedTaken,
        Bug::SessionSilenceForgotten,
        Bug::LeaverTakes,
        Bug::RevisionOverwritten,
        Bug::FinishOverwritten,
        Bug::PinIgnored,
        Bug::WeightIgnored,
        Bug::AuditForgotten,
        Bug::BoardTrusted,
        Bug::OnePageListed,
        Bug::MissingIsDead,
        Bug::MissingForgotten,
        Bug::StandsByForEver,
        Bug::DeposedPlannerObeyed,
        Bug::OverflowIsNothing,
        Bug::MissedPlanIgnored,
        Bug::ToldOnce,
        Bug::ToldEachTime,
        Bug::StateIgnored,
        Bug::MarkedFirst,
        Bug::LargePartCut,
        Bug::PlannerUnwatched,
        Bug::StandbyIdle,
        Bug::SilentPlannerTrusted,
        Bug::AgesTrusted,
        Bug::OnePageWatched,
        Bug::RestersUntold,
        Bug::RestsUnseen,
        Bug::OldPartStands,
        Bug::UnfitPlans,
        Bug::UnfitPlansAgain,
        Bug::UnderWayForgotten,
        Bug::AnySessionsPart,
        Bug::UnreadPartIgnored,
        Bug::PartNotCompared,
        Bug::LateLapseUnheard,
        Bug::LapseUntold,
        Bug::RetryForgotten,
        Bug::DeclineTellsAll,
        Bug::TransfereeUntold,
        Bug::ForeignTenureIgnored,
        Bug::AwaitedForEver,
        Bug::RefusalIsMiss,
    ];

    /// What goes wrong.
    #[must_use]
    pub fn about(self) -> &'static str {
        match self {
            Bug::NoDriftMargin => "a holder believes for the full ttl, with no margin for clocks that drift",
            Bug::ValidFromAnswer => "validity is counted from the answer, not from before the write was sent",
            Bug::SilenceTooShort => "a waiter takes a key after eight tenths of a ttl of silence",
            Bug::ReleaseUnconditional => "a release vacates whatever tenure stands there",
            Bug::UnknownReleaseIsDone => "a release whose answer was lost is told as done",
            Bug::LostIsStillMine => "a renewal that was refused is sent again over whoever stands there",
            Bug::RenewAfterExpiry => "a holder goes on renewing when its time is over",
            Bug::LossNotTold => "a deadline passes and nobody is told",
            Bug::UnknownIsFailure => "a write whose answer was lost is taken for one that failed",
            Bug::UnknownIsSuccess => "a write whose answer was lost is taken for one that took effect",
            Bug::StaleWinBelieved => "a claim whose answer came after its validity is told as acquired",
            Bug::GapIgnored => "what was sent before a time that was hidden is believed in all the same",
            Bug::MisdatedBelieved => {
                "a write of one's own is believed in that the store dates before it was sent"
            }
            Bug::HiddenTimeMissed => {
                "a store's client does not notice that its answer refutes the date of what was written"
            }
            Bug::TakeWithoutCondition => "a key is claimed over a holder that was never judged",
            Bug::SessionNotFenced => "leases are taken from a session that was not fenced before",
            Bug::AgeIgnoresAttachment => {
                "an attached lease is judged by its own age, though its session beats for it"
            }
            Bug::AttachedOutlivesSession => "the session is lost and what was attached to it is not",
            Bug::AttachedBeforeSession => {
                "when time is over, what is attached to a session is looked after before the session itself"
            }
            Bug::RenewEachAttached => "every lease that is attached is renewed too",
            Bug::QueueForgotten => "attempts that waited on a lost session are dropped without a word",
            Bug::OwnSessionForeign => "a process takes an old session of its own for another's",
            Bug::SilenceNotRestarted => "patience is not started anew when the holder beats",
            Bug::MailProlongs => "mail to a dead holder counts as a heartbeat of his",
            Bug::MailLost => "a holder empties its mailbox without looking",
            Bug::TryForgetsSilence => {
                "an attempt that only tries forgets what it saw, so it never sees a ttl of silence"
            }
            Bug::HintWhileLooking => "a hint that comes while the key is being read is dropped",
            Bug::WallDecides => "the wall clock alone tells that a holder is dead",
            Bug::OneWitness => "the store's clock alone tells that a holder is dead",
            Bug::WaiterCountsSuspend => "a waiter counts time by the clock that may leap after a suspend",
            Bug::HolderMissesSuspend => "a holder counts time by the clock that stops in suspend",
            Bug::FenceNotRaised => "a takeover keeps the fence of the dead",
            Bug::FenceResetAtTakeover => "a takeover starts fences from one",
            Bug::FenceForgetsClock => "fences of new records start from one, so they repeat after a deletion",
            Bug::ZombieForgotten => "claims that land after their process gave them up are left to stand",
            Bug::AdoptKeepsId => {
                "a token stays valid after it was adopted, so copies of it can be adopted too"
            }
            Bug::LapseVacates => "a lease that was to be left to expire is vacated at once",
            Bug::StopVacatesSession => {
                "a stop vacates the session although something on it was left to expire"
            }
            Bug::RenewTooLate => "renewals begin at four fifths of the ttl",
            Bug::StaleLeadership => "a candidate says that it leads without looking at its deadline",
            Bug::ErrorsOutlastDeadline => {
                "a leader counts failed renewals, and leads on past its deadline until they are enough"
            }
            Bug::ResignedStillLeads => "a leader that has resigned says that it leads until its deadline",
            Bug::LostStillLeads => "a deposed leader goes on as if nothing was",
            Bug::CooldownIgnored => "a leader that has stepped down tries again at once",
            Bug::BodyOutlivesTerm => "the key is given up while what runs under it still runs",
            Bug::FenceChangesOnRenewal => "each renewal has a fence of its own",
            Bug::DeadNeverJudged => "a waiter goes on waiting for a holder that is dead",
            Bug::SectionOverlaps => "a lease of a range is made without a look at what others hold",
            Bug::SectionUnconditional => "a section is written whatever others have made of it meanwhile",
            Bug::AllTakesPart => "who wants all of its ranges or none is given those that are free",
            Bug::EntryIdReused => "all of a process's leases in a section go by one id",
            Bug::ReleaseOfAnother => "a lease of a range that is gone is released by taking another's out",
            Bug::EntryCollectedEarly => "a lease of a range is collected after half its duration",
            Bug::EntryBornAnew => "each write of a section makes all of its leases young again",
            Bug::EntryBornEarly => "a new lease of a range counts from when the oldest of its section began",
            Bug::PlansFromStaleRoster => "a worker plans with the roster that it listed first",
            Bug::DeadTransfereeTrusted => {
                "a unit that is attached to a dead worker's session counts as that worker's"
            }
            Bug::HandoverKeepsFence => "a unit is handed over under the fence that it has",
            Bug::DrainNotAwaited => "a unit is handed over without waiting for its body to end",
            Bug::DeadSessionIgnored => "a worker sees that one it watches is dead, and leaves it at that",
            Bug::DeathNotTold => {
                "the session of a dead worker is fenced, and the others are not told to look"
            }
            Bug::AlarmNotRaised => "nobody is told that a worker is overdue",
            Bug::StaleLookTrusted => "what a look shows that may be old is acted on at once",
            Bug::HintedVersionIgnored => "a version that the store has told of is not counted from then",
            Bug::AwaitedForgotten => {
                "nobody waits for units that another still has, nor looks whether they came"
            }
            Bug::DeletedTaken => "units that were finished or deleted are taken like others",
            Bug::SessionSilenceForgotten => "each look at a session starts counting its silence anew",
            Bug::LeaverTakes => "a worker that leaves still plans with itself",
            Bug::RevisionOverwritten => {
                "a checkpoint overwrites what outsiders changed about the unit meanwhile"
            }
            Bug::PinIgnored => "a plan leaves out of account to which worker a unit is pinned",
            Bug::WeightIgnored => "a plan by weight takes all units for equally heavy",
            Bug::AuditForgotten => "nobody lists anything unless the board has changed",
            Bug::BoardTrusted => "a board that can't be read is taken to be as it was",
            Bug::OnePageListed => "the first page of a listing is taken for all of it",
            Bug::MissingIsDead => "a session that is missing counts as dead at first sight",
            Bug::MissingForgotten => {
                "what is attached to a session that is missing is left to the next audit"
            }
            Bug::GcForgetsFloor => "gc removes a record whose fence the clocks have not reached yet",
            Bug::GcTrustsItsClock => "gc goes by its own clock alone, which may be ahead",
            Bug::GcDropsRiddenSession => "gc removes sessions that claims still name",
            Bug::StampNotCorrected => "who only tries leaves a dead holder's stamp of the future as it is",
            Bug::MissingNotMarked => {
                "who only tries tells nobody that an attached lease's session is missing"
            }
            Bug::RefusedLookRepeated => {
                "a look for a claim that may have landed is repeated at once, though it was refused for good"
            }
            Bug::AwaitedForEver => {
                "a worker looks often for as long as a unit does not come that it waits for"
            }
            Bug::RefusalIsMiss => {
                "a claim that the store refuses is taken for one that somebody else has won, and all is listed for it at once"
            }
            Bug::HostNotMarked => {
                "who only tries where no ages are told leaves nothing for those who come later"
            }
            Bug::ForeignMarkBelieved => {
                "marks of other hosts, and those by which the clocks disagree, are believed"
            }
            Bug::MarkWithoutWall => "a host's time line alone tells how long ago a mark was made",
            Bug::MarkIsOneWitness => "one clock tells how long ago a session was marked as missing",
            Bug::RetryForgotten => "a unit's failures are forgotten when another worker gets it",
            Bug::DeclineTellsAll => "each failure of a unit has all workers list everything",
            Bug::TransfereeUntold => {
                "nobody tells a worker of the unit that was passed on to it after a failure"
            }
            Bug::ForeignTenureIgnored => {
                "a worker does not mind another tenure, or none, in its unit's record"
            }
            Bug::StandsByForEver => "nobody plans any more once the planner is dead",
            Bug::DeposedPlannerObeyed => "a worker does what somebody has planned who does not plan any more",
            Bug::OverflowIsNothing => {
                "a plan that concerns more workers than the board can name is taken to concern none"
            }
            Bug::MissedPlanIgnored => {
                "a worker that has not heard of one plan asks only whether the next one concerns it"
            }
            Bug::ToldOnce => "a worker is told of its part once, whatever comes of it",
            Bug::ToldEachTime => "a worker is told its part at each plan as long as it is not done",
            Bug::StateIgnored => "a worker does what its part says, whatever its units' records show by now",
            Bug::MarkedFirst => "the board says that a plan was told before it is written",
            Bug::LargePartCut => "of a part that is too large for a record only the beginning is told",
            Bug::PlannerUnwatched => "nobody looks at the planner's session but those who stand by",
            Bug::StandbyIdle => "those who stand by look at nobody but the planner",
            Bug::SilentPlannerTrusted => {
                "those who stand by leave it to the planner to look at the others, though it is silent"
            }
            Bug::AgesTrusted => {
                "those who stand by leave that to the planner, though records do not tell who was silent for how long"
            }
            Bug::OnePageWatched => "of all sessions, who watches them looks at the first page only",
            Bug::RestersUntold => {
                "whom a plan concerns, and who looks at the board seldom, is not told of it"
            }
            Bug::RestsUnseen => "a worker looks seldom though it has not seen the planner renew",
            Bug::OldPartStands => {
                "a worker that who plans now has nothing for goes on with what an earlier planner has told it"
            }
            Bug::UnfitPlans => "a planner that the store does not let list or tell keeps its role for ever",
            Bug::UnfitPlansAgain => {
                "a planner that gave its role up since it could not plan takes it again at once"
            }
            Bug::UnderWayForgotten => {
                "a planner that plans anew forgets what it has sent: a part that arrives late stands though nobody is to have it"
            }
            Bug::AnySessionsPart => "a part of a plan is obeyed that is for another session of its worker",
            Bug::UnreadPartIgnored => "a worker whose part of a plan can't be read does nothing about it",
            Bug::PartNotCompared => "a part that somebody else has written over is taken for told",
            Bug::LateLapseUnheard => "a lapse of a unit that was just lost is never answered",
            Bug::LapseUntold => {
                "nobody is told once a unit is vacated that was withdrawn or could not be ended"
            }
            Bug::GrowthUnbounded => "metadata that can't be written is renewed with all the same",
            Bug::AttachedUnaudited => "nobody looks whether the records of attached leases still show them",
            Bug::AuditByName => "an attached lease counts as held while its record names the same holder",
            Bug::WithdrawnClaimBelieved => {
                "a claim that was unanswered when its key was withdrawn is believed once it is answered"
            }
            Bug::LetterForAny => "a letter about one tenure is heard by a later one of the same process",
            Bug::WithdrawnUncapped => "users are not told that a withdrawn lease ends before its session",
            Bug::SameIdIsOurs => "a session under a process's own name counts as its own, whoever began it",
            Bug::DenialIsFinal => "a release that the store refuses once is never tried again",
            Bug::SeizedUntold => "a lease is taken away by force, and its holder is not told",
            Bug::SeizedEarly => "a lease is taken away by force while its holder still believes",
            Bug::OrphanNotAsked => "who only tries asks nobody about a claim that has stood for long",
            Bug::AskedEachTime => {
                "each try asks about a claim that has stood for long, though others just did"
            }
            Bug::WithdrawnDetached => {
                "a lease that was withdrawn becomes plain data, or is prolonged as such"
            }
            Bug::TurnForgotten => "who waits behind others of its process is not told that they went away",
            Bug::TurnOfTheGone => {
                "a key is handed on to a lease of the same process that nobody wants any more"
            }
            Bug::TurnsUnending => "a process hands a key on among its own for as long as any of them waits",
            Bug::WinnerUnwatched => "who lost the race for a key that was given up does not watch the winner",
            Bug::PermitsUncounted => "permits are granted without counting how many are out",
            Bug::WriterBesideReaders => "permits are held exclusively beside those who share",
            Bug::GrantForgotten => "whoever gives permits up leaves it to those who wait to get them",
            Bug::QueueReversed => "the last one in the queue of a semaphore has its turn first",
            Bug::TicketsOvertaken => "permits that are free are taken though others came before",
            Bug::GrantKeepsFence => "permits are granted under the fence of those before",
            Bug::PermitIdReused => "all of a process's claims to permits of a key go by one id",
            Bug::ReleaseTakesAnother => "permits that are gone are given up by taking another's out",
            Bug::CancelLeavesTicket => "a ticket that nobody wants any more stays in the queue",
            Bug::GhostForgotten => "a write of a semaphore that may still land is taken for one that won't",
            Bug::DeadTicketKept => "the sessions of those who hold permits are never found dead",
            Bug::StraysKept => {
                "claims to permits that stand in a record, and that their process does not know of, are left there"
            }
            Bug::PermitsUnaudited => "nobody looks whether a semaphore's record still shows what is held",
            Bug::TicketBelieved => "whoever has joined a semaphore's queue counts as a holder",
            Bug::SemaphoreUnconditional => "a semaphore is written whatever others have made of it meanwhile",
            Bug::FinishOverwritten => "what outsiders changed meanwhile undoes that a unit is finished",
            Bug::OlderTickRuns => "a tick is run though a later one has begun",
            Bug::TickRunsAgain => "a tick is run though its record shows it",
            Bug::BegunRunsAgain => {
                "a tick that is to run once at most is run again when its host died in the middle"
            }
            Bug::BegunIsDone => {
                "a tick that is to run once at least is not run again when its host died in the middle"
            }
            Bug::UnwrittenRuns => "a tick is run though it could not be written that it begins",
            Bug::EndForgotten => "the end of a tick leaves nothing of it in its record",
            Bug::BeginNotAwaited => "a tick is run before it is known to be written that it begins",
            Bug::TickCollected => "gc removes the record of a tick that some host may still come with",
            Bug::RunsUnheld => {
                "a tick is run though its lease was over when its beginning was known to be written"
            }
        }
    }

    /// Whether only leases of ranges have it.
    #[must_use]
    pub fn is_of_sections(self) -> bool {
        use Bug::{
            AllTakesPart, EntryBornAnew, EntryBornEarly, EntryCollectedEarly, EntryIdReused,
            ReleaseOfAnother, SectionOverlaps, SectionUnconditional,
        };
        matches!(
            self,
            SectionOverlaps
                | SectionUnconditional
                | EntryIdReused
                | AllTakesPart
                | ReleaseOfAnother
                | EntryCollectedEarly
                | EntryBornAnew
                | EntryBornEarly
        )
    }

    /// Those that only semaphores can have.
    pub const OF_SEMAPHORES: &'static [Bug] = &[
        Bug::PermitsUncounted,
        Bug::WriterBesideReaders,
        Bug::GrantForgotten,
        Bug::QueueReversed,
        Bug::TicketsOvertaken,
        Bug::GrantKeepsFence,
        Bug::PermitIdReused,
        Bug::ReleaseTakesAnother,
        Bug::CancelLeavesTicket,
        Bug::GhostForgotten,
        Bug::DeadTicketKept,
        Bug::StraysKept,
        Bug::PermitsUnaudited,
        Bug::TicketBelieved,
        Bug::SemaphoreUnconditional,
    ];

    /// The bug of this name, as its `Display` writes it.
    #[must_use]
    pub fn named(name: &str) -> Option<Bug> {
        Bug::ALL.iter().copied().find(|bug| bug.to_string() == name)
    }
}

impl fmt::Display for Bug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{self:?}"))
    }
}

/// The bugs that are switched on.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Bugs {
    #[cfg(feature = "bugs")]
    on: [u128; 2],
}

impl Bugs {
    /// No bug at all.
    pub const NONE: Bugs = Bugs {
        #[cfg(feature = "bugs")]
        on: [0; 2],
    };

    /// Switches `bug` on.
    #[cfg(feature = "bugs")]
    #[must_use]
    pub fn with(self, bug: Bug) -> Bugs {
        let (mut on, bug) = (self.on, bug as usize);
        on[bug / 128] |= 1 << (bug % 128);
        Bugs { on }
    }

    /// Whether `bug` is switched on.
    #[cfg(feature = "bugs")]
    #[must_use]
    pub fn has(self, bug: Bug) -> bool {
        let bug = bug as usize;
        self.on[bug / 128] & (1 << (bug % 128)) != 0
    }

    /// Whether `bug` is switched on: never in this build.
    #[cfg(not(feature = "bugs"))]
    #[inline]
    #[must_use]
    pub const fn has(self, _bug: Bug) -> bool {
        false
    }
}
