//! What a world of a fleet is like, as data.

mod aimed;
mod later;

pub(crate) use aimed::STEPS;

use crate::invariants::Rule;
use crate::kernel::fault::FaultKind;
use crate::kernel::registers::{Ages, StoreSpec};

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
    /// The mean number of faults of a kind in 100 ttls.
    pub(crate) faults: &'static [(FaultKind, f64)],
    pub(crate) calls: &'static [(FaultKind, f64)],
    /// How far reads of a recent state lag in the calm, if the store's do, in thousandths of a ttl.
    pub(crate) lag: u64,
    /// Deeds in the calm, drawn evenly, and the time that each is given, in ttls.
    pub(crate) disturbances: &'static [Disturbance],
    /// How long faults go on, in ttls.
    pub(crate) chaos: u64,
    /// How long it then stays healed.
    pub(crate) calm: u64,
    pub(crate) rounds: u64,
    pub(crate) excused: &'static [Rule],
}

const BODIES: BodyBehaviour =
    BodyBehaviour { turn: 700, update: 250, finish: 4, pass: 6, ends: 30, lapse: 0 };

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
    [ALL, later::ALL, aimed::ALL].concat()
}

const ALL: &[FleetScenario] = &[
    USUAL,
    FleetScenario {
        name: "fleet-calm",
        about: "nothing goes wrong but deaths, joins and leaves: liveness bounds, cost",
        faults: &[],
        calls: &[],
        wall_off_ms: 20,
        mail: false,
        bodies: BodyBehaviour { finish: 0, pass: 0, ..BODIES },
        disturbances: &[
            Disturbance::Death,
            Disturbance::Leave,
            Disturbance::Churn,
            Disturbance::ZoneDeath,
            Disturbance::Hiccup,
        ],
        chaos: 4,
        calm: 100,
        rounds: 1,
        ..USUAL
    },
    FleetScenario {
        name: "fleet-lags",
        about: "nothing changes for long, and what is read of a recent state is old",
        mail: false,
        bodies: BodyBehaviour { finish: 0, pass: 0, ..BODIES },
        store: Some(StoreSpec { ages: Ages::Fine, push: false, lags: true }),
        lag: 500,
        disturbances: &[],
        chaos: 10,
        calm: 100,
        rounds: 1,
        ..USUAL
    },
    FleetScenario {
        name: "fleet-hints",
        about: "a store that pushes hints, of which many come late, out of order, or not at all, to workers who drain for long",
        bodies: BodyBehaviour { ends: 500, ..BODIES },
        store: Some(StoreSpec { ages: Ages::Fine, push: true, lags: false }),
        calls: LATE_HINTS,
        ..USUAL
    },
    FleetScenario {
        name: "fleet-failover",
        about: "the store loses acknowledged writes: only fences hold, and in the calm the fleet is even again",
        wall_off_ms: 0,
        faults: &[
            (FaultKind::Failover, 40.0),
            (FaultKind::Crash, 6.0),
            (FaultKind::Pause, 6.0),
            (FaultKind::Cut, 4.0),
            (FaultKind::Rate, 4.0),
        ],
        // The clock that a claim is made by is read after the failover: nothing holds an older claim back.
        calls: &[
            (FaultKind::RequestLost, 0.03),
            (FaultKind::AnswerLost, 0.04),
            (FaultKind::Refused, 0.02),
            (FaultKind::HintLost, 0.1),
            (FaultKind::PauseBeforeEffect, 0.1),
        ],
        excused: &[Rule::S1, Rule::S3, Rule::S4, Rule::Mail, Rule::Answered],
        ..USUAL
    },
    FleetScenario {
        name: "fleet-zones",
        about: "nine workers in three zones, which are lost together",
        nodes: 9,
        units: 24,
        disturbances: &[Disturbance::ZoneDeath],
        wall_off_ms: 40,
        ..USUAL
    },
    FleetScenario {
        name: "fleet-slow-drain",
        about: "bodies end late, or can't be ended and are left to lapse",
        bodies: BodyBehaviour { ends: 500, lapse: 150, ..BODIES },
        disturbances: &[Disturbance::Leave, Disturbance::Churn],
        ..USUAL
    },
    FleetScenario {
        name: "fleet-churn",
        about: "units come and go all the time, labels and room are short, bodies finish and decline",
        units: 16,
        room: 4,
        labels: true,
        bodies: BodyBehaviour { turn: 400, update: 300, finish: 40, pass: 40, ends: 30, lapse: 20 },
        churn: 500,
        disturbances: &[Disturbance::Churn, Disturbance::Leave],
        ..USUAL
    },
    FleetScenario {
        name: "fleet-failing",
        about: "four units fail whenever somebody works on them, and nobody but who is next is to notice",
        failing: 4,
        mail: false,
        // Whoever gets it while it rests goes by the wall clock; where that is wrong, the rest begins anew.
        wall_off_ms: 20,
        bodies: BodyBehaviour { pass: 0, finish: 0, ..BODIES },
        disturbances: &[Disturbance::Death, Disturbance::Leave],
        chaos: 10,
        calm: 100,
        rounds: 1,
        ..USUAL
    },
    FleetScenario {
        name: "fleet-rolling",
        about: "workers leave and come back one after the other",
        faults: &[(FaultKind::Crash, 2.0), (FaultKind::Pause, 4.0), (FaultKind::Rate, 6.0)],
        disturbances: &[Disturbance::Leave],
        churn: 20_000,
        chaos: 10,
        calm: 80,
        rounds: 1,
        ..USUAL
    },
    FleetScenario {
        name: "fleet-partition",
        about: "workers are cut off from the store, each way, over and over",
        faults: &[
            (FaultKind::Cut, 30.0),
            (FaultKind::CutAnswers, 30.0),
            (FaultKind::CutRequests, 20.0),
            (FaultKind::Flap, 10.0),
            (FaultKind::Rate, 6.0),
        ],
        ..USUAL
    },
    FleetScenario {
        name: "fleet-hands",
        about: "somebody deletes and damages the board and sessions, deletes and restores units, and takes some by force",
        disturbances: &[Disturbance::Damage, Disturbance::Death, Disturbance::Leave, Disturbance::Churn],
        faults: &[
            (FaultKind::Deleted, 30.0),
            (FaultKind::RecordDeleted, 10.0),
            (FaultKind::RecordRestored, 60.0),
            (FaultKind::ForcedRelease, 10.0),
            (FaultKind::Crash, 6.0),
            (FaultKind::Pause, 6.0),
            (FaultKind::Rate, 4.0),
        ],
        // Who writes often finds another tenure by itself.
        bodies: BodyBehaviour { update: 20, ..BODIES },
        calls: HANDS,
        wall_off_ms: 0,
        ..USUAL
    },
    FleetScenario {
        name: "fleet-forbidden",
        about: "the store refuses some units, or their writes, or their records are damaged: nothing else is harmed, and nobody asks all the time",
        nodes: 4,
        units: 10,
        // Sane clocks: what is looked at is who asks for what is refused.
        wall_off_ms: 20,
        mail: false,
        churn: 20_000,
        bodies: BodyBehaviour { finish: 0, pass: 0, ..BODIES },
        faults: &[(FaultKind::Forbidden, 20.0), (FaultKind::Crash, 20.0), (FaultKind::Pause, 6.0)],
        calls: HANDS,
        disturbances: &[Disturbance::Permit],
        chaos: 30,
        calm: 400,
        rounds: 1,
        ..USUAL
    },
    FleetScenario {
        name: "fleet-weights",
        about: "units weigh differently, some are pinned to workers, and somebody keeps in those that are new how much there is to do",
        units: 20,
        produces: true,
        weighs: true,
        pins: true,
        churn: 1000,
        disturbances: &[Disturbance::Churn, Disturbance::Churn, Disturbance::Leave, Disturbance::Death],
        ..USUAL
    },
    FleetScenario {
        name: "fleet-untold",
        about: "units are changed from outside, and whoever does it dies before telling",
        pins: true,
        labels: true,
        mail: false,
        faults: &[(FaultKind::Crash, 2.0), (FaultKind::Pause, 4.0), (FaultKind::Rate, 6.0)],
        disturbances: &[Disturbance::Untold],
        chaos: 5,
        calm: 100,
        rounds: 1,
        ..USUAL
    },
    FleetScenario {
        name: "fleet-a8m-one-page",
        about: "a fleet is listed in many pages (a8m/lease looks at the first one only)",
        units: 16,
        page: 3,
        mail: false,
        disturbances: &[Disturbance::Churn, Disturbance::Untold, Disturbance::Death, Disturbance::Leave],
        ..USUAL
    },
    FleetScenario {
        name: "fleet-long-lists",
        about: "all is listed one record at a time, which takes long: workers join, leave and die meanwhile",
        units: 24,
        page: 1,
        list_ms: 20,
        mail: false,
        wall_off_ms: 40,
        bodies: BodyBehaviour { finish: 0, ..BODIES },
        disturbances: &[Disturbance::Leave, Disturbance::Churn, Disturbance::Death],
        ..USUAL
    },
    FleetScenario {
        name: "fleet-ttls-hands",
        about: "workers whose ttls differ, cut off now and then, while somebody deletes and damages sessions and the board",
        ttls: true,
        nodes: 6,
        rate: 20_000,
        wall_off_ms: 0,
        faults: &[
            (FaultKind::Deleted, 20.0),
            (FaultKind::RecordDeleted, 6.0),
            (FaultKind::RecordRestored, 30.0),
            (FaultKind::ForcedRelease, 6.0),
            (FaultKind::Crash, 6.0),
            (FaultKind::Pause, 6.0),
            (FaultKind::Cut, 6.0),
            (FaultKind::CutAnswers, 4.0),
            (FaultKind::Rate, 4.0),
        ],
        calls: HANDS,
        disturbances: &[Disturbance::Death, Disturbance::Leave, Disturbance::Churn, Disturbance::Damage],
        ..USUAL
    },
    FleetScenario {
        name: "fleet-hands-clocks",
        about: "somebody deletes and damages the board and sessions by hand, and wall clocks are wrong by up to an hour",
        disturbances: &[Disturbance::Damage, Disturbance::Death, Disturbance::Leave, Disturbance::Churn],
        faults: &[
            (FaultKind::Deleted, 20.0),
            (FaultKind::WallJump, 10.0),
            (FaultKind::Crash, 6.0),
            (FaultKind::Pause, 6.0),
            (FaultKind::Rate, 4.0),
        ],
        calls: HANDS,
        ..USUAL
    },
    FleetScenario {
        name: "fleet-ttls",
        about: "workers whose ttls differ by up to four",
        ttls: true,
        nodes: 6,
        // Bounds allow for the slowest clock: the closer the clocks, the tighter the bounds.
        rate: 20_000,
        wall_off_ms: 20,
        disturbances: &[
            Disturbance::Death,
            Disturbance::ZoneDeath,
            Disturbance::Leave,
            Disturbance::Churn,
            Disturbance::Hiccup,
        ],
        ..USUAL
    },
    FleetScenario {
        name: "fleet-prompt",
        about: "workers die when they have just renewed, and clocks are so close that L1's bound is the bare one",
        store: Some(StoreSpec { ages: Ages::Fine, push: false, lags: true }),
        ..PROMPT
    },
    FleetScenario {
        name: "fleet-prompt-push",
        about: "the same where the store tells no ages, and which versions were written",
        store: Some(StoreSpec { ages: Ages::Untold, push: true, lags: true }),
        ..PROMPT
    },
];
