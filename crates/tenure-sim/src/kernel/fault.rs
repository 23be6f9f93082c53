//! What can go wrong in a world.

/// A kind of fault. Those of a message befall single calls, with a probability; the others befall a node or the store
/// now and then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[allow(missing_docs, reason = "each is described by `Fault::about`")]
pub enum Fault {
    RequestLost,
    AnswerLost,
    Slow,
    Zombie,
    Duplicated,
    Refused,
    HintLost,
    Cut,
    CutRequests,
    CutAnswers,
    Flap,
    Pause,
    PauseMidStep,
    PauseBeforeEffect,
    Crash,
    Suspend,
    Hidden,
    Rate,
    WallJump,
    WallDecade,
    StoreDown,
    Throttle,
    StoreClock,
    Failover,
    SpuriousWake,
    SpuriousHint,
    Stall,
    Deleted,
    Frozen,
    RecordDeleted,
    RecordRestored,
    ForcedRelease,
    Denied,
    SameId,
    LateClaim,
    RecordDamaged,
    Forbidden,
    Reboot,
}

/// How many kinds there are.
pub(crate) const KINDS: usize = Fault::ALL.len();

impl Fault {
    /// Every kind.
    pub const ALL: &'static [Fault] = &[
        Fault::RequestLost,
        Fault::AnswerLost,
        Fault::Slow,
        Fault::Zombie,
        Fault::Duplicated,
        Fault::Refused,
        Fault::HintLost,
        Fault::Cut,
        Fault::CutRequests,
        Fault::CutAnswers,
        Fault::Flap,
        Fault::Pause,
        Fault::PauseMidStep,
        Fault::PauseBeforeEffect,
        Fault::Crash,
        Fault::Suspend,
        Fault::Hidden,
        Fault::Rate,
        Fault::WallJump,
        Fault::WallDecade,
        Fault::StoreDown,
        Fault::Throttle,
        Fault::StoreClock,
        Fault::Failover,
        Fault::SpuriousWake,
        Fault::SpuriousHint,
        Fault::Stall,
        Fault::Deleted,
        Fault::Frozen,
        Fault::RecordDeleted,
        Fault::RecordRestored,
        Fault::ForcedRelease,
        Fault::Denied,
        Fault::SameId,
        Fault::LateClaim,
        Fault::RecordDamaged,
        Fault::Forbidden,
        Fault::Reboot,
    ];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Fault::RequestLost => "request-lost",
            Fault::AnswerLost => "answer-lost",
            Fault::Slow => "slow",
            Fault::Zombie => "zombie",
            Fault::Duplicated => "duplicated",
            Fault::Refused => "refused",
            Fault::HintLost => "hint-lost",
            Fault::Cut => "cut",
            Fault::CutRequests => "cut-requests",
            Fault::CutAnswers => "cut-answers",
            Fault::Flap => "flap",
            Fault::Pause => "pause",
            Fault::PauseMidStep => "pause-mid-step",
            Fault::PauseBeforeEffect => "pause-before-effect",
            Fault::Crash => "crash",
            Fault::Suspend => "suspend",
            Fault::Hidden => "hidden",
            Fault::Rate => "rate",
            Fault::WallJump => "wall-jump",
            Fault::WallDecade => "wall-decade",
            Fault::StoreDown => "store-down",
            Fault::Throttle => "throttle",
            Fault::StoreClock => "store-clock",
            Fault::Failover => "failover",
            Fault::SpuriousWake => "spurious-wake",
            Fault::SpuriousHint => "spurious-hint",
            Fault::Stall => "stall",
            Fault::Deleted => "deleted",
            Fault::Frozen => "frozen",
            Fault::RecordDeleted => "record-deleted",
            Fault::RecordRestored => "record-restored",
            Fault::ForcedRelease => "forced-release",
            Fault::Denied => "denied",
            Fault::SameId => "same-id",
            Fault::LateClaim => "late-claim",
            Fault::RecordDamaged => "record-damaged",
            Fault::Forbidden => "forbidden",
            Fault::Reboot => "reboot",
        }
    }

    /// What happens.
    #[must_use]
    pub fn about(self) -> &'static str {
        match self {
            Fault::RequestLost => "a request never reaches the store",
            Fault::AnswerLost => "the store does it, and the answer is lost",
            Fault::Slow => "a call takes up to half a ttl, and is overtaken by later ones",
            Fault::Zombie => "a request reaches the store up to eight ttls later",
            Fault::Duplicated => "a request reaches the store a second time, up to three ttls later",
            Fault::Refused => "the store refuses a call with an error",
            Fault::HintLost => "a hint of a change is lost",
            Fault::Cut => "a node is cut off from the store",
            Fault::CutRequests => "a node's requests are cut off; answers would pass",
            Fault::CutAnswers => "answers to a node are cut off; its requests pass",
            Fault::Flap => "a node's link comes and goes",
            Fault::Pause => "a process is stopped and goes on later",
            Fault::PauseMidStep => "a process is stopped between reading its clock and acting",
            Fault::PauseBeforeEffect => "a process is stopped between a check and its effect",
            Fault::Crash => "a process dies at once",
            Fault::Suspend => "a machine is suspended; its monotonic clock stands still",
            Fault::Hidden => "a virtual machine is paused; all its clocks but the wall clock stand still",
            Fault::Rate => "a node's clocks begin to run at another rate",
            Fault::WallJump => "a node's wall clock jumps by up to an hour",
            Fault::WallDecade => "a node's wall clock jumps by up to ten years",
            Fault::StoreDown => "the store does not answer for a while",
            Fault::Throttle => "the store refuses everything for up to three ttls",
            Fault::StoreClock => "the store's clock jumps by up to an hour",
            Fault::Failover => "the store loses its last acknowledged writes",
            Fault::SpuriousWake => "a wake-up that nobody asked for",
            Fault::SpuriousHint => "a hint of a change that did not happen",
            Fault::Stall => "the store does not answer for one ttl and a half",
            Fault::Frozen => {
                "a virtual machine is paused; all its clocks stand still, the wall clock too, and are not set"
            }
            Fault::RecordDeleted => "somebody deletes the record of a lease or a unit by hand",
            Fault::RecordRestored => {
                "somebody puts an older copy in the place of a lease's or a unit's record"
            }
            Fault::ForcedRelease => "somebody takes a lease or a unit from its holder by force",
            Fault::Denied => "the store refuses a write with an error that does not pass, once",
            Fault::SameId => "a process begins under the holder id of another, or of its own predecessor",
            Fault::LateClaim => "a claim reaches the store when its process has long stopped looking for it",
            Fault::RecordDamaged => {
                "somebody writes something into a lease's or a session's record that isn't one"
            }
            Fault::Forbidden => {
                "the store refuses everything that is asked about the first key, for good; in fleets about some units, or all their writes"
            }
            Fault::Reboot => "a machine restarts: another boot, with a time line of its own",
            Fault::Deleted => "somebody deletes or damages the board of a fleet, or a session, by hand",
        }
    }

    /// Whether it befalls one node.
    pub(crate) fn is_of_node(self) -> bool {
        !matches!(
            self,
            Fault::StoreDown
                | Fault::Stall
                | Fault::Throttle
                | Fault::StoreClock
                | Fault::Failover
                | Fault::RecordDeleted
                | Fault::RecordRestored
                | Fault::ForcedRelease
                | Fault::RecordDamaged
                | Fault::Forbidden
        )
    }

    /// The kind of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Fault> {
        Fault::ALL.iter().copied().find(|fault| fault.name() == name)
    }
}

/// A set of kinds of faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Faults(u64);

impl Faults {
    /// This set and `fault`.
    #[must_use]
    pub fn with(self, fault: Fault) -> Faults {
        Faults(self.0 | 1 << fault as u32)
    }

    /// Whether `fault` is in it.
    #[must_use]
    pub fn has(self, fault: Fault) -> bool {
        self.0 & (1 << fault as u32) != 0
    }

    /// Those in it, by name.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Fault::ALL.iter().filter(move |fault| self.has(**fault)).map(|fault| fault.name())
    }
}
