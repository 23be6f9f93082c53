//! Scenarios of small fleets.

use super::{BODIES, BodyBehaviour, Disturbance, FleetScenario, HANDS, LATE_HINTS, PROMPT, USUAL};
use crate::invariants::Rule;
use crate::kernel::fault::FaultKind;
use crate::kernel::registers::{Ages, StoreSpec};

pub(super) const ALL: &[FleetScenario] = &[
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
        bodies: BodyBehaviour { turn: 400, update: 300, finish: 40, pass: 40, lapse: 20, ..BODIES },
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
        name: "fleet-silent",
        about: "bodies are given up that may go on, and whoever works on the unit next, the same worker too, has a higher fence",
        nodes: 3,
        units: 6,
        // As of what fails.
        wall_off_ms: 20,
        bodies: BodyBehaviour { turn: 200, pass: 100, abandon: 800, finish: 0, ..BODIES },
        disturbances: &[Disturbance::Death, Disturbance::Leave],
        chaos: 30,
        calm: 40,
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
