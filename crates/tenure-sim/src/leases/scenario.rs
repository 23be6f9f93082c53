//! Scenarios as data: what a world is like, what goes wrong in it, and what is excused.

use crate::invariants::Rule;
use crate::kernel::fault::FaultKind;
use crate::kernel::registers::StoreSpec;

mod elections;
mod peers;
mod short;
mod ticks;
mod usual;

/// How users behave: spans in thousandths of a ttl, shares in percent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UserBehaviour {
    /// How many tasks a node has.
    pub tasks: usize,
    /// The mean time between leases of a task.
    pub think: u64,
    /// The mean time that a lease is held.
    pub hold: u64,
    /// The share of leases that are attached to the session.
    pub attached: u64,
    /// The share of attempts that only try.
    pub trying: u64,
    /// The share of leases that become tokens and go elsewhere.
    pub tokens: u64,
    /// The mean time between letters to someone.
    pub mail: u64,
    /// Whether a process ends when a try was refused, as those do that cron starts.
    pub fleeting: bool,
    /// On so many nodes they don't: these live on.
    pub residents: usize,
    /// The mean time between rounds of `gc`; zero for none.
    pub gc: u64,
    /// How far the clock of `gc` may be ahead, in milliseconds, beyond what other clocks are off.
    pub gc_ahead: u64,
    /// The mean time between two uses of a held lease.
    pub use_every: u64,
    /// Whether each node has a candidate for each key, in place of tasks.
    pub elects: bool,
    /// How many ttls lie between two ticks at which each task runs something, in place of all else; zero for none.
    pub ticks: u64,
}

/// A world to run in.
#[derive(Debug, Clone, Copy)]
pub struct LeaseScenario {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it is about.
    pub about: &'static str,
    /// Where it was published, for what befell others.
    pub source: &'static str,
    /// How many nodes there are.
    pub nodes: usize,
    /// How many keys they want.
    pub keys: usize,
    /// The ttl of leases and sessions.
    pub ttl_ms: u64,
    /// The clocks' rates lie within ± this many millionths.
    pub rate: u64,
    /// The wall clocks are off by up to this much.
    pub wall_off_ms: u64,
    /// All machines go by one boot's name though their time lines differ, as clones do.
    pub clones: bool,
    /// Wall clocks that jump are ahead afterwards, never behind.
    pub ahead: bool,
    /// What the store can do; None: any, by the seed.
    pub store: Option<StoreSpec>,
    /// How users behave.
    pub users: UserBehaviour,
    /// The mean number of faults of a kind that strike in 100 ttls.
    pub faults: &'static [(FaultKind, f64)],
    /// The probability that a fault befalls a call.
    pub calls: &'static [(FaultKind, f64)],
    /// How long faults go on before everything is healed, in ttls.
    pub chaos: u64,
    /// How long it then stays healed, in ttls.
    pub calm: u64,
    /// How often that is repeated in one world.
    pub rounds: u64,
    /// In the calm, holders are killed and must be followed within L1's bound.
    pub deaths: bool,
    /// In the calm, where there are no faults, calls take up to ttl/8 and single renewals *stumble*: their answers are lost. That must cost nobody a lease.
    pub stumbles: bool,
    /// What does not hold here, by design.
    pub excused: &'static [Rule],
}

const USERS: UserBehaviour = UserBehaviour {
    tasks: 2,
    think: 6000,
    hold: 4000,
    attached: 50,
    trying: 25,
    tokens: 8,
    mail: 12_000,
    fleeting: false,
    residents: 0,
    gc: 40_000,
    gc_ahead: 0,
    use_every: 1500,
    elects: false,
    ticks: 0,
};

/// The world of the published figure: three nodes, one key, the usual faults.
const USUAL: LeaseScenario = LeaseScenario {
    name: "usual",
    about: "three nodes, one key, leases that renew themselves, the usual faults",
    source: "holders that stop, die and suspend; clocks; messages lost, late and doubled; partitions; stores that restart and fail",
    nodes: 3,
    keys: 1,
    ttl_ms: 10_000,
    rate: 100_000,
    wall_off_ms: 3_600_000,
    clones: false,
    ahead: false,
    store: None,
    users: UserBehaviour { tasks: 1, think: 10_000, hold: 5000, attached: 0, use_every: 4000, ..USERS },
    faults: &[
        (FaultKind::Pause, 4.0),
        (FaultKind::Crash, 3.0),
        (FaultKind::Suspend, 2.0),
        (FaultKind::Rate, 4.0),
        (FaultKind::WallJump, 2.0),
        (FaultKind::Cut, 3.0),
        (FaultKind::CutAnswers, 2.0),
        (FaultKind::CutRequests, 1.0),
        (FaultKind::Flap, 1.0),
        (FaultKind::StoreDown, 1.0),
        (FaultKind::Throttle, 1.0),
        (FaultKind::SpuriousWake, 10.0),
        (FaultKind::SpuriousHint, 10.0),
        (FaultKind::ForcedRelease, 2.0),
    ],
    calls: &[
        (FaultKind::RequestLost, 0.03),
        (FaultKind::AnswerLost, 0.04),
        (FaultKind::Slow, 0.04),
        (FaultKind::Zombie, 0.03),
        (FaultKind::Refused, 0.02),
        (FaultKind::Denied, 0.01),
        (FaultKind::HintLost, 0.1),
        (FaultKind::PauseMidStep, 0.01),
        (FaultKind::PauseBeforeEffect, 0.1),
    ],
    chaos: 60,
    calm: 14,
    rounds: 3,
    deaths: true,
    stumbles: false,
    excused: &[],
};

/// Leases' records are changed by hand. Clocks are sane, and nothing is under way for long: a claim that lands after the record
/// was deleted would have a fence from before that.
const HAND_MADE: LeaseScenario = LeaseScenario {
    users: UserBehaviour { tasks: 4, attached: 80, think: 2000, hold: 6000, gc: 0, ..USERS },
    wall_off_ms: 0,
    deaths: false,
    ..USUAL
};

const HANDS: &[(FaultKind, f64)] = &[
    (FaultKind::RecordDeleted, 15.0),
    (FaultKind::RecordRestored, 15.0),
    (FaultKind::ForcedRelease, 15.0),
    (FaultKind::Crash, 4.0),
    (FaultKind::Pause, 4.0),
    (FaultKind::Rate, 4.0),
    (FaultKind::Cut, 3.0),
    (FaultKind::StoreDown, 1.0),
];

const GENTLE: &[(FaultKind, f64)] = &[
    (FaultKind::RequestLost, 0.03),
    (FaultKind::AnswerLost, 0.04),
    (FaultKind::Refused, 0.02),
    (FaultKind::Denied, 0.01),
    (FaultKind::HintLost, 0.1),
    (FaultKind::PauseBeforeEffect, 0.1),
];

const LATE_HINTS: &[(FaultKind, f64)] = &[
    (FaultKind::RequestLost, 0.03),
    (FaultKind::AnswerLost, 0.04),
    (FaultKind::Slow, 0.04),
    (FaultKind::Refused, 0.02),
    (FaultKind::HintLost, 0.2),
    (FaultKind::HintLate, 0.4),
    (FaultKind::PauseBeforeEffect, 0.1),
];

/// The same with writes that are refused for good so often that some of them give a lease up that nobody else asks for.
const DENYING: &[(FaultKind, f64)] = &[
    (FaultKind::RequestLost, 0.03),
    (FaultKind::AnswerLost, 0.04),
    (FaultKind::Refused, 0.02),
    (FaultKind::Denied, 0.06),
    (FaultKind::HintLost, 0.1),
    (FaultKind::PauseBeforeEffect, 0.1),
];

/// All scenarios, those of peers' published bugs included.
#[must_use]
pub fn all() -> Vec<LeaseScenario> {
    [usual::ALL, short::ALL, elections::ALL, peers::ALL, ticks::ALL].concat()
}

/// The scenario of this name.
#[must_use]
pub fn named(name: &str) -> Option<LeaseScenario> {
    all().into_iter().find(|scenario| scenario.name == name)
}
