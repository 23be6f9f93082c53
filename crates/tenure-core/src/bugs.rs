//! Protocol bugs on purpose, each of which the simulator must catch.
//!
//! Without the feature `bugs`, which no release build has, [`Bugs`] has no size and [`Bugs::has`] is always false.

use std::fmt;

/// Declares the bugs, each with what goes wrong, in groups by the machines that can have them.
macro_rules! bugs {
    ($($(#[$meta:meta])* $group:ident { $($bug:ident: $about:literal,)+ })+) => {
        /// A mistake that a lease protocol can make.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Bug {
            $($(#[doc = $about] $bug,)+)+
        }

        impl Bug {
            /// Every bug.
            pub const ALL: &'static [Bug] = &[$($(Bug::$bug,)+)+];

            $(
                $(#[$meta])*
                pub const $group: &'static [Bug] = &[$(Bug::$bug,)+];
            )+

            /// What goes wrong.
            #[must_use]
            pub fn about(self) -> &'static str {
                match self {
                    $($(Bug::$bug => $about,)+)+
                }
            }
        }
    };
}

bugs! {
    /// Those of leases, and of what is made of single ones: elections, ticks and the removal of records.
    OF_LEASES {
        NoDriftMargin: "a holder believes for the full ttl, with no margin for clocks that drift",
        ValidFromAnswer: "validity is counted from the answer, not from before the write was sent",
        SilenceTooShort: "a waiter takes a key after eight tenths of a ttl of silence",
        ReleaseUnconditional: "a release vacates whatever tenure stands there",
        UnknownReleaseIsDone: "a release whose answer was lost is told as done",
        LostIsStillMine: "a renewal that was refused is sent again over whoever stands there",
        RenewAfterExpiry: "a holder goes on renewing when its time is over",
        LossNotTold: "a deadline passes and nobody is told",
        UnknownIsFailure: "a write whose answer was lost is taken for one that failed",
        UnknownIsSuccess: "a write whose answer was lost is taken for one that took effect",
        StaleWinBelieved: "a claim whose answer came after its validity is told as acquired",
        GapIgnored: "what was sent before a time that was hidden is believed in all the same",
        MisdatedBelieved: "a write of one's own is believed in that the store dates before it was sent",
        HiddenTimeMissed: "a store's client does not notice that its answer refutes the date of what was written",
        TakeWithoutCondition: "a key is claimed over a holder that was never judged",
        SessionNotFenced: "leases are taken from a session that was not fenced before",
        AgeIgnoresAttachment: "an attached lease is judged by its own age, though its session beats for it",
        AttachedOutlivesSession: "the session is lost and what was attached to it is not",
        AttachedBeforeSession: "when time is over, what is attached to a session is looked after before the session itself",
        RenewEachAttached: "every lease that is attached is renewed too",
        QueueForgotten: "attempts that waited on a lost session are dropped without a word",
        OwnSessionForeign: "a process takes an old session of its own for another's",
        SilenceNotRestarted: "patience is not started anew when the holder beats",
        MailProlongs: "mail to a dead holder counts as a heartbeat of his",
        MailLost: "a holder empties its mailbox without looking",
        TryForgetsSilence: "an attempt that only tries forgets what it saw, so it never sees a ttl of silence",
        HintWhileLooking: "a hint that comes while the key is being read is dropped",
        WallDecides: "the wall clock alone tells that a holder is dead",
        OneWitness: "the store's clock alone tells that a holder is dead",
        TryClaimsOn: "a try goes on to claim a key for as long as looks are answered and claims are not",
        SharedClockTrusted: "a clock that was set ahead is believed as two witnesses, where the store's host is this one",
        WaiterCountsSuspend: "a waiter counts time by the clock that may leap after a suspend",
        HolderMissesSuspend: "a holder counts time by the clock that stops in suspend",
        FenceNotRaised: "a takeover keeps the fence of the dead",
        FenceResetAtTakeover: "a takeover starts fences from one",
        FenceForgetsClock: "fences of new records start from one, so they repeat after a deletion",
        ZombieForgotten: "claims that land after their process gave them up are left to stand",
        AdoptKeepsId: "a token stays valid after it was adopted, so copies of it can be adopted too",
        LapseVacates: "a lease that was to be left to expire is vacated at once",
        StopVacatesSession: "a stop vacates the session although something on it was left to expire",
        RenewTooLate: "renewals begin at four fifths of the ttl",
        StaleLeadership: "a candidate says that it leads without looking at its deadline",
        ErrorsOutlastDeadline: "a leader counts failed renewals, and leads on past its deadline until they are enough",
        ResignedStillLeads: "a leader that has resigned says that it leads until its deadline",
        LostStillLeads: "a deposed leader goes on as if nothing was",
        CooldownIgnored: "a leader that has stepped down tries again at once",
        BodyOutlivesTerm: "the key is given up while what runs under it still runs",
        FenceChangesOnRenewal: "each renewal has a fence of its own",
        DeadNeverJudged: "a waiter goes on waiting for a holder that is dead",
        GcForgetsFloor: "gc removes a record whose fence the clocks have not reached yet",
        GcTrustsItsClock: "gc goes by its own clock alone, which may be ahead",
        GcDropsRiddenSession: "gc removes sessions that claims still name",
        StampNotCorrected: "who only tries leaves a dead holder's stamp of the future as it is",
        MissingNotMarked: "who only tries tells nobody that an attached lease's session is missing",
        MarkIsOneWitness: "one clock tells how long ago a session was marked as missing",
        HostNotMarked: "who only tries where no ages are told leaves nothing for those who come later",
        RefusedLookRepeated: "a look for a claim that may have landed is repeated at once, though it was refused for good",
        ForeignMarkBelieved: "marks of other hosts, and those by which the clocks disagree, are believed",
        MarkWithoutWall: "a host's time line alone tells how long ago a mark was made",
        GrowthUnbounded: "metadata that can't be written is renewed with all the same",
        AttachedUnaudited: "nobody looks whether the records of attached leases still show them",
        AuditByName: "an attached lease counts as held while its record names the same holder",
        WithdrawnClaimBelieved: "a claim that was unanswered when its key was withdrawn is believed once it is answered",
        LetterForAny: "a letter about one tenure is heard by a later one of the same process",
        WithdrawnUncapped: "users are not told that a withdrawn lease ends before its session",
        SameIdIsOurs: "a session under a process's own name counts as its own, whoever began it",
        DenialIsFinal: "a release that the store refuses once is never tried again",
        SeizedUntold: "a lease is taken away by force, and its holder is not told",
        SeizedEarly: "a lease is taken away by force while its holder still believes",
        OrphanNotAsked: "who only tries asks nobody about a claim that has stood for long",
        AskedEachTime: "each try asks about a claim that has stood for long, though others just did",
        WithdrawnDetached: "a lease that was withdrawn becomes plain data, or is prolonged as such",
        TurnForgotten: "who waits behind others of its process is not told that they went away",
        TurnOfTheGone: "a key is handed on to a lease of the same process that nobody wants any more",
        TurnsUnending: "a process hands a key on among its own for as long as any of them waits",
        WinnerUnwatched: "who lost the race for a key that was given up does not watch the winner",
        OlderTickRuns: "a tick is run though a later one has begun",
        TickRunsAgain: "a tick is run though its record shows it",
        BegunRunsAgain: "a tick that is to run once at most is run again when its host died in the middle",
        BegunIsDone: "a tick that is to run once at least is not run again when its host died in the middle",
        UnwrittenRuns: "a tick is run though it could not be written that it begins",
        EndForgotten: "the end of a tick leaves nothing of it in its record",
        BeginNotAwaited: "a tick is run before it is known to be written that it begins",
        TickCollected: "gc removes the record of a tick that some host may still come with",
        RunsUnheld: "a tick is run though its lease was over when its beginning was known to be written",
    }

    /// Those that only leases of ranges can have.
    OF_SECTIONS {
        SectionOverlaps: "a lease of a range is made without a look at what others hold",
        SectionUnconditional: "a section is written whatever others have made of it meanwhile",
        EntryIdReused: "all of a process's leases in a section go by one id",
        AllTakesPart: "who wants all of its ranges or none is given those that are free",
        ReleaseOfAnother: "a lease of a range that is gone is released by taking another's out",
        EntryCollectedEarly: "a lease of a range is collected after half its duration",
        EntryBornAnew: "each write of a section makes all of its leases young again",
        EntryBornEarly: "a new lease of a range counts from when the oldest of its section began",
        DamagedSectionEmpty: "a section's record that can't be read is taken for one without leases",
    }

    /// Those that only fleets can have.
    OF_FLEETS {
        BusyStorePressed: "a worker goes on at full speed though the store refuses what is over its capacity",
        PlansFromStaleRoster: "a worker plans with the roster that it listed first",
        DeadTransfereeTrusted: "a unit that is attached to a dead worker's session counts as that worker's",
        HandoverKeepsFence: "a unit is handed over under the fence that it has",
        DrainNotAwaited: "a unit is handed over without waiting for its body to end",
        DeadSessionIgnored: "a worker sees that one it watches is dead, and leaves it at that",
        DeathNotTold: "the session of a dead worker is fenced, and the others are not told to look",
        AlarmNotRaised: "nobody is told that a worker is overdue",
        StaleLookTrusted: "what a look shows that may be old is acted on at once",
        HintedVersionIgnored: "a version that the store has told of is not counted from then",
        AwaitedForgotten: "nobody waits for units that another still has, nor looks whether they came",
        DeletedTaken: "units that were finished or deleted are taken like others",
        SessionSilenceForgotten: "each look at a session starts counting its silence anew",
        LeaverTakes: "a worker that leaves still plans with itself",
        RevisionOverwritten: "a checkpoint overwrites what outsiders changed about the unit meanwhile",
        FinishOverwritten: "what outsiders changed meanwhile undoes that a unit is finished",
        PinIgnored: "a plan leaves out of account to which worker a unit is pinned",
        WeightIgnored: "a plan by weight takes all units for equally heavy",
        AuditForgotten: "nobody lists anything unless the board has changed",
        BoardTrusted: "a board that can't be read is taken to be as it was",
        OnePageListed: "the first page of a listing is taken for all of it",
        MissingIsDead: "a session that is missing counts as dead at first sight",
        MissingForgotten: "what is attached to a session that is missing is left to the next audit",
        AwaitedForEver: "a worker looks often for as long as a unit does not come that it waits for",
        RefusalForgotten: "what the store has just refused is claimed with each listing, whatever that is for",
        RefusalIsMiss: "a claim that the store refuses is taken for one that somebody else has won, and all is listed for it at once",
        StandsByForEver: "nobody plans any more once the planner is dead",
        DeposedPlannerObeyed: "a worker does what somebody has planned who does not plan any more",
        OverflowIsNothing: "a plan that concerns more workers than the board can name is taken to concern none",
        MissedPlanIgnored: "a worker that has not heard of one plan asks only whether the next one concerns it",
        ToldOnce: "a worker is told of its part once, whatever comes of it",
        ToldEachTime: "a worker is told its part at each plan as long as it is not done",
        StateIgnored: "a worker does what its part says, whatever its units' records show by now",
        MarkedFirst: "the board says that a plan was told before it is written",
        LargePartCut: "of a part that is too large for a record only the beginning is told",
        PlannerUnwatched: "nobody looks at the planner's session but those who stand by",
        StandbyIdle: "those who stand by look at nobody but the planner",
        SilentPlannerTrusted: "those who stand by leave it to the planner to look at the others, though it is silent",
        AgesTrusted: "those who stand by leave that to the planner, though records do not tell who was silent for how long",
        OnePageWatched: "of all sessions, who watches them looks at the first page only",
        RestersUntold: "whom a plan concerns, and who looks at the board seldom, is not told of it",
        RestsUnseen: "a worker looks seldom though it has not seen the planner renew",
        OldPartStands: "a worker that who plans now has nothing for goes on with what an earlier planner has told it",
        UnfitPlans: "a planner that the store does not let list or tell keeps its role for ever",
        UnfitPlansAgain: "a planner that gave its role up since it could not plan takes it again at once",
        UnderWayForgotten: "a planner that plans anew forgets what it has sent: a part that arrives late stands though nobody is to have it",
        AnySessionsPart: "a part of a plan is obeyed that is for another session of its worker",
        UnreadPartIgnored: "a worker whose part of a plan can't be read does nothing about it",
        PartNotCompared: "a part that somebody else has written over is taken for told",
        LateLapseUnheard: "a lapse of a unit that was just lost is never answered",
        LapseUntold: "nobody is told once a unit is vacated that was withdrawn or could not be ended",
        RetryForgotten: "a unit's failures are forgotten when another worker gets it",
        LetterTakenForLife: "a letter to a dead worker is taken for a sign of life",
        AbandonedInPlace: "a unit whose body may go on rests where it is, and is assigned again under its fence",
        DeclineTellsAll: "each failure of a unit has all workers list everything",
        TransfereeUntold: "nobody tells a worker of the unit that was passed on to it after a failure",
        ForeignTenureIgnored: "a worker does not mind another tenure, or none, in its unit's record",
    }

    /// Those that only semaphores can have.
    OF_SEMAPHORES {
        PermitsUncounted: "permits are granted without counting how many are out",
        WriterBesideReaders: "permits are held exclusively beside those who share",
        GrantForgotten: "whoever gives permits up leaves it to those who wait to get them",
        QueueReversed: "the last one in the queue of a semaphore has its turn first",
        TicketsOvertaken: "permits that are free are taken though others came before",
        GrantKeepsFence: "permits are granted under the fence of those before",
        PermitIdReused: "all of a process's claims to permits of a key go by one id",
        ReleaseTakesAnother: "permits that are gone are given up by taking another's out",
        CancelLeavesTicket: "a ticket that nobody wants any more stays in the queue",
        GhostForgotten: "a write of a semaphore that may still land is taken for one that won't",
        DeadTicketKept: "the sessions of those who hold permits are never found dead",
        SessionFenceForgotten: "a session begins anew under a fence that it has had before, where its record was deleted or put back",
        StraysKept: "claims to permits that stand in a record, and that their process does not know of, are left there",
        PermitsUnaudited: "nobody looks whether a semaphore's record still shows what is held",
        TicketBelieved: "whoever has joined a semaphore's queue counts as a holder",
        SemaphoreUnconditional: "a semaphore is written whatever others have made of it meanwhile",
        FullRemembered: "whoever has once seen a semaphore's record full says so without another look at it, and at who is dead there",
        DamagedPermitsEmpty: "a semaphore's record that can't be read is taken for one without claims",
    }
}

impl Bug {
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
