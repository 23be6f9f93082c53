//! What a world of a fleet is like, as data.

mod aimed;
mod later;
mod usual;

pub(crate) use aimed::STEPS;

use crate::invariants::Rule;
use crate::kernel::fault::FaultKind;
use crate::kernel::registers::StoreSpec;

/// How the bodies of units behave: spans in thousandths of a ttl, shares of turns in thousandths.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyBehaviour {
    /// The mean time between two turns.
    pub(crate) turn: u64,
    /// The share of turns that write a checkpoint.
    pub(crate) update: u64,
    /// The share that finishes the unit.
    pub(crate) finish: u64,
    /// The share that declines it, or hands it to a worker of the user's choice.
    pub(crate) pass: u64,
    /// The share of these, in thousandths, whose body is not known to have ended.
    pub(crate) abandon: u64,
    /// The mean time that a body takes to end.
    pub(crate) ends: u64,
    /// The share of ends that can't be made certain of: the lease is left to lapse.
    pub(crate) lapse: u64,
}

/// What happens in the calm, one at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disturbance {
    /// One worker dies.
    Death,
    /// One dies when it has just renewed its session: nothing is noticed later than that.
    FreshDeath,
    /// A third of all dies at once.
    ZoneDeath,
    /// One leaves in good order, and another takes its place.
    Leave,
    /// Units are created, deleted and revised from outside.
    Churn,
    /// The same, and nobody is told.
    Untold,
    /// One stops for a moment.
    Hiccup,
    /// The board is damaged, and while it is, one dies or leaves.
    Damage,
    /// The planner and up to eleven others die at once.
    Row,
    /// One dies, and somebody deletes its session.
    Vanish,
    /// The planner dies while it tells the others; what it has sent reaches the store once the next planner has told its own plan.
    Telling,
    /// Once in a long while: what the store refuses is permitted again, and nobody is told.
    Permit,
    /// The store does not let the planner plan any more, and there is something to plan.
    Unfit,
    /// The planner dies before or after one step of planning.
    Step,
    /// The planner, both standbys and up to two others die at once.
    Heads,
    /// The wall clock of one worker is set ahead, and soon after that it and the planner die at once.
    Ahead,
    /// Parts of a plan are spoilt when they are told.
    Spoil,
    /// Letters are thrown away, or find no room.
    Mail,
    /// Many units come and go, some workers leave, and all are told again and again, in one instant.
    Burst,
    /// Somebody withdraws a unit, or asks for it.
    Withdraw,
    /// One leaves; and of what is moved to whoever takes its place, one unit is withdrawn or asked for while it drains.
    Catch,
    /// The planner is cut off from the store at one step of planning, and comes back.
    Island,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct FleetScenario {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) nodes: usize,
    pub(crate) units: usize,
    /// How many of the first units fail whenever they are worked on.
    pub(crate) failing: usize,
    /// How long the workers' names are made.
    pub(crate) names: usize,
    /// How many records the store lists at a time.
    pub(crate) page: usize,
    /// About how many workers look at the planner in an interval; the others rest, if there are more.
    pub(crate) lookers: usize,
    /// How much longer than other calls a page takes, in milliseconds at the most.
    pub(crate) list_ms: u64,
    /// How much longer than other calls it takes to write a worker's part of a plan, in milliseconds at the most.
    pub(crate) part_ms: u64,
    /// What the store does in a ttl, in calls about one record; what is more is refused. None: all.
    pub(crate) capacity: Option<u64>,
    /// The most units that a worker takes.
    pub(crate) room: u64,
    /// A fifth of the units need a label, which two thirds of the workers have.
    pub(crate) labels: bool,
    /// Units weigh differently, and it is their weights that are evened out.
    pub(crate) weighs: bool,
    /// Units are pinned to workers now and then.
    pub(crate) pins: bool,
    /// Workers' ttls differ: the world's, a half and a quarter of it.
    pub(crate) ttls: bool,
    /// Clock rates lie within ± this many millionths.
    pub(crate) rate: u64,
    pub(crate) wall_off_ms: u64,
    /// None: by the seed.
    pub(crate) store: Option<StoreSpec>,
    pub(crate) bodies: BodyBehaviour,
    /// The mean time between changes from outside while faults go on, in thousandths of a ttl.
    pub(crate) churn: u64,
    /// The records of new units are written often until somebody has them.
    pub(crate) produces: bool,
    /// Letters from outside: somebody asks for a unit, or withdraws it.
    pub(crate) mail: bool,
    /// The mean number of faults of a kind that strike in 100 ttls.
    pub(crate) faults: &'static [(FaultKind, f64)],
    pub(crate) calls: &'static [(FaultKind, f64)],
    /// How far reads of a recent state lag in the calm, if the store's do, in thousandths of a ttl.
    pub(crate) lag: u64,
    /// Disturbances in the calm, drawn evenly, and the time that each is given, in ttls.
    pub(crate) disturbances: &'static [Disturbance],
    /// How long faults go on, in ttls.
    pub(crate) chaos: u64,
    /// How long it then stays healed.
    pub(crate) calm: u64,
    pub(crate) rounds: u64,
    pub(crate) excused: &'static [Rule],
}

const BODIES: BodyBehaviour =
    BodyBehaviour { turn: 700, update: 250, finish: 4, pass: 6, abandon: 0, ends: 30, lapse: 0 };

const CALLS: &[(FaultKind, f64)] = &[
    (FaultKind::RequestLost, 0.03),
    (FaultKind::AnswerLost, 0.04),
    (FaultKind::Slow, 0.04),
    (FaultKind::Zombie, 0.03),
    (FaultKind::Duplicated, 0.02),
    (FaultKind::Refused, 0.02),
    (FaultKind::HintLost, 0.1),
    (FaultKind::PauseMidStep, 0.004),
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

/// Where records are deleted: a claim that is repeated after that takes effect once more, and then only fences hold.
const HANDS: &[(FaultKind, f64)] = &[
    (FaultKind::RequestLost, 0.03),
    (FaultKind::AnswerLost, 0.04),
    (FaultKind::Refused, 0.02),
    (FaultKind::HintLost, 0.1),
    (FaultKind::PauseMidStep, 0.004),
    (FaultKind::PauseBeforeEffect, 0.1),
];

const USUAL: FleetScenario = FleetScenario {
    name: "fleet-usual",
    about: "five workers, twelve units, the usual faults",
    nodes: 5,
    units: 12,
    failing: 0,
    names: 0,
    page: 1000,
    lookers: 1000,
    list_ms: 0,
    part_ms: 0,
    capacity: None,
    room: u64::MAX,
    labels: false,
    weighs: false,
    pins: false,
    ttls: false,
    rate: 100_000,
    wall_off_ms: 3_600_000,
    store: None,
    bodies: BODIES,
    churn: 3000,
    produces: false,
    mail: true,
    faults: &[
        (FaultKind::Pause, 10.0),
        (FaultKind::Crash, 10.0),
        (FaultKind::Suspend, 4.0),
        (FaultKind::Rate, 6.0),
        (FaultKind::WallJump, 4.0),
        (FaultKind::Cut, 6.0),
        (FaultKind::CutAnswers, 4.0),
        (FaultKind::CutRequests, 3.0),
        (FaultKind::Flap, 2.0),
        (FaultKind::StoreDown, 1.0),
        (FaultKind::Throttle, 1.0),
        (FaultKind::SpuriousWake, 20.0),
        (FaultKind::SpuriousHint, 20.0),
        (FaultKind::ForcedRelease, 4.0),
    ],
    calls: CALLS,
    lag: 10,
    disturbances: &[Disturbance::Death, Disturbance::Leave, Disturbance::Churn, Disturbance::ZoneDeath],
    chaos: 30,
    calm: 40,
    rounds: 2,
    excused: &[],
};

const PROMPT: FleetScenario = FleetScenario {
    rate: 1000,
    wall_off_ms: 20,
    mail: false,
    bodies: BodyBehaviour { finish: 0, pass: 0, ..BODIES },
    faults: &[(FaultKind::Crash, 6.0), (FaultKind::Pause, 6.0)],
    disturbances: &[Disturbance::FreshDeath],
    chaos: 3,
    calm: 100,
    rounds: 1,
    ..USUAL
};

/// All scenarios of fleets.
pub(crate) fn all() -> Vec<FleetScenario> {
    [usual::ALL, later::ALL, aimed::ALL].concat()
}
