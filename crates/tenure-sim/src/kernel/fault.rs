//! What can go wrong in a world.

use super::kinds::kinds;

/// A kind of fault. Some befall single calls, hints or steps, each with a probability. The others strike a node or the store now and then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[allow(missing_docs, reason = "each is described by `FaultKind::about`")]
pub enum FaultKind {
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
    Buried,
    Unfit,
    HintLate,
    SharedClock,
    WritesHang,
}

kinds! { FaultKind,
    RequestLost "request-lost": "a request never reaches the store",
    AnswerLost "answer-lost": "the store does it, and the answer is lost",
    Slow "slow": "a call takes up to half a ttl, and is overtaken by later ones",
    Zombie "zombie": "a request reaches the store up to eight ttls later",
    Duplicated "duplicated": "a request reaches the store a second time, up to three ttls later",
    Refused "refused": "the store refuses a call with an error",
    HintLost "hint-lost": "a hint of a change is lost",
    Cut "cut": "a node is cut off from the store",
    CutRequests "cut-requests": "a node's requests are cut off; answers would pass",
    CutAnswers "cut-answers": "answers to a node are cut off; its requests pass",
    Flap "flap": "a node's link comes and goes",
    Pause "pause": "a process is stopped and goes on later",
    PauseMidStep "pause-mid-step": "a process is stopped between reading its clock and acting",
    PauseBeforeEffect "pause-before-effect": "a process is stopped between a check and its effect",
    Crash "crash": "a process dies at once",
    Suspend "suspend": "a machine is suspended; its monotonic clock stands still",
    Hidden "hidden": "a virtual machine is paused; all its clocks but the wall clock stand still",
    Rate "rate": "a node's clocks begin to run at another rate",
    WallJump "wall-jump": "a node's wall clock jumps by up to an hour",
    WallDecade "wall-decade": "a node's wall clock jumps by up to ten years",
    StoreDown "store-down": "the store does not answer for a while",
    Throttle "throttle": "the store refuses everything for up to three ttls",
    StoreClock "store-clock": "the store's clock jumps by up to an hour",
    Failover "failover": "the store loses its last acknowledged writes",
    SpuriousWake "spurious-wake": "a wake-up that nobody asked for",
    SpuriousHint "spurious-hint": "a hint of a change that did not happen",
    Stall "stall": "the store does not answer for one ttl and a half",
    Deleted "deleted": "somebody deletes or damages the board of a fleet, or a session, by hand",
    Frozen "frozen": "a virtual machine is paused; all its clocks stand still, the wall clock too, and are not set",
    RecordDeleted "record-deleted": "somebody deletes the record of a lease or a unit by hand",
    RecordRestored "record-restored": "somebody puts an older copy in the place of a lease's or a unit's record",
    ForcedRelease "forced-release": "somebody takes a lease or a unit from its holder by force",
    Denied "denied": "the store refuses a write with an error that does not pass, once",
    SameId "same-id": "a process begins under the holder id of another, or of its own predecessor",
    LateClaim "late-claim": "a claim reaches the store when its process has long stopped looking for it",
    RecordDamaged "record-damaged": "somebody writes something into a lease's or a session's record that isn't one",
    Forbidden "forbidden": "the store refuses everything that is asked about the first key, for good; in fleets about some units, or all their writes",
    Reboot "reboot": "a machine restarts: another boot, with a time line of its own",
    Buried "buried": "a process dies, and whoever sees that gives back at once what it held",
    Unfit "unfit": "the store refuses one worker of a fleet every listing, or to write others' parts of a plan",
    HintLate "hint-late": "a hint of a change comes up to a ttl later, after those of later changes",
    SharedClock "shared-clock": "the clock of the store's host is set ahead by up to an hour, and the first node is on that host",
    WritesHang "writes-hang": "for six ttls the store does no write and says nothing of it; it reads",
}

/// How many kinds there are.
pub(crate) const KINDS: usize = FaultKind::ALL.len();

impl FaultKind {
    /// Whether it strikes one node, which the trace then names. Asked only of faults that strike; of the others, as the table must be whole, it is true.
    pub(crate) fn is_of_node(self) -> bool {
        match self {
            FaultKind::StoreDown
            | FaultKind::Stall
            | FaultKind::Throttle
            | FaultKind::StoreClock
            | FaultKind::SharedClock
            | FaultKind::WritesHang
            | FaultKind::Failover
            | FaultKind::RecordDeleted
            | FaultKind::RecordRestored
            | FaultKind::ForcedRelease
            | FaultKind::RecordDamaged
            | FaultKind::Forbidden => false,
            FaultKind::RequestLost
            | FaultKind::AnswerLost
            | FaultKind::Slow
            | FaultKind::Zombie
            | FaultKind::Duplicated
            | FaultKind::Refused
            | FaultKind::HintLost
            | FaultKind::Cut
            | FaultKind::CutRequests
            | FaultKind::CutAnswers
            | FaultKind::Flap
            | FaultKind::Pause
            | FaultKind::PauseMidStep
            | FaultKind::PauseBeforeEffect
            | FaultKind::Crash
            | FaultKind::Suspend
            | FaultKind::Hidden
            | FaultKind::Rate
            | FaultKind::WallJump
            | FaultKind::WallDecade
            | FaultKind::SpuriousWake
            | FaultKind::SpuriousHint
            | FaultKind::Deleted
            | FaultKind::Frozen
            | FaultKind::Denied
            | FaultKind::SameId
            | FaultKind::LateClaim
            | FaultKind::Reboot
            | FaultKind::Buried
            | FaultKind::Unfit
            | FaultKind::HintLate => true,
        }
    }
}

/// A set of kinds of faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FaultSet(u64);

const _: () = assert!(KINDS <= u64::BITS as usize);

impl FaultSet {
    /// This set and `fault`.
    #[must_use]
    pub fn with(self, fault: FaultKind) -> FaultSet {
        FaultSet(self.0 | 1 << fault as u32)
    }

    /// Whether `fault` is in it.
    #[must_use]
    pub fn has(self, fault: FaultKind) -> bool {
        self.0 & (1 << fault as u32) != 0
    }

    /// Those in it, by name.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        FaultKind::ALL.iter().filter(move |fault| self.has(**fault)).map(|fault| fault.name())
    }
}
