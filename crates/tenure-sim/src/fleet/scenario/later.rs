//! Scenarios of larger fleets, of planners that fail, and of clocks that no bound is kept for.

use super::{BODIES, BodyBehaviour, Disturbance, FleetScenario, HANDS, USUAL};
use crate::invariants::Rule;
use crate::kernel::fault::FaultKind;
use crate::kernel::registers::{Ages, StoreSpec};

pub(super) const ALL: &[FleetScenario] = &[
    FleetScenario {
        name: "fleet-rows",
        about: "of 24 workers, 8 to 12 who stand side by side die at once, and the store tells neither ages nor changes",
        nodes: 24,
        units: 36,
        rate: 20_000,
        store: Some(StoreSpec { ages: Ages::Untold, push: false, lags: true }),
        faults: &[(FaultKind::Pause, 10.0), (FaultKind::Crash, 10.0), (FaultKind::Rate, 10.0)],
        disturbances: &[Disturbance::Row],
        chaos: 5,
        calm: 50,
        rounds: 1,
        ..USUAL
    },
    FleetScenario {
        name: "fleet-rows-coarse",
        about: "the same where the store tells ages to some seconds, as DynamoDB does",
        nodes: 24,
        units: 36,
        rate: 20_000,
        wall_off_ms: 20,
        store: Some(StoreSpec { ages: Ages::Coarse, push: false, lags: true }),
        faults: &[(FaultKind::Pause, 10.0), (FaultKind::Crash, 10.0), (FaultKind::Rate, 10.0)],
        disturbances: &[Disturbance::Row, Disturbance::Death],
        chaos: 5,
        calm: 50,
        rounds: 1,
        ..USUAL
    },
    FleetScenario {
        name: "fleet-rests",
        about: "of 24 workers, some six look at the board in an interval, and the others are told by letters; the planner dies, and others with it",
        nodes: 24,
        units: 36,
        lookers: 6,
        page: 10,
        rate: 20_000,
        store: Some(StoreSpec { ages: Ages::Untold, push: false, lags: true }),
        faults: &[(FaultKind::Pause, 10.0), (FaultKind::Crash, 10.0), (FaultKind::Rate, 10.0)],
        disturbances: &[Disturbance::Row, Disturbance::Death, Disturbance::Leave, Disturbance::Churn],
        chaos: 5,
        calm: 60,
        rounds: 1,
        ..USUAL
    },
    FleetScenario {
        name: "fleet-names",
        about: "so many workers with long names that the board can't name all whom a plan concerns",
        nodes: 16,
        units: 48,
        names: 60,
        rate: 20_000,
        wall_off_ms: 20,
        mail: false,
        bodies: BodyBehaviour { finish: 0, pass: 0, ..BODIES },
        faults: &[(FaultKind::Pause, 10.0), (FaultKind::Crash, 10.0), (FaultKind::Rate, 10.0)],
        disturbances: &[Disturbance::ZoneDeath, Disturbance::Leave, Disturbance::Churn],
        chaos: 5,
        calm: 50,
        rounds: 1,
        ..USUAL
    },
    FleetScenario {
        name: "fleet-telling",
        about: "planners die while they tell their plans, which takes long, and what they have sent arrives after the next one's",
        part_ms: 2000,
        rate: 1000,
        wall_off_ms: 20,
        mail: false,
        bodies: BodyBehaviour { finish: 0, pass: 0, ..BODIES },
        faults: &[(FaultKind::Pause, 10.0), (FaultKind::Crash, 10.0), (FaultKind::Rate, 10.0)],
        disturbances: &[Disturbance::Telling, Disturbance::Churn, Disturbance::Leave],
        chaos: 5,
        calm: 100,
        rounds: 1,
        ..USUAL
    },
    FleetScenario {
        name: "fleet-unfit",
        about: "the store does not let one worker list, or tell others their parts; most often it is the planner",
        wall_off_ms: 20,
        mail: false,
        bodies: BodyBehaviour { finish: 0, pass: 0, ..BODIES },
        faults: &[
            (FaultKind::Unfit, 20.0),
            (FaultKind::Pause, 10.0),
            (FaultKind::Crash, 10.0),
            (FaultKind::Cut, 6.0),
        ],
        disturbances: &[Disturbance::Unfit, Disturbance::Churn, Disturbance::Leave, Disturbance::Death],
        chaos: 10,
        calm: 100,
        rounds: 1,
        ..USUAL
    },
    FleetScenario {
        name: "fleet-unfit-failing",
        about: "the same, where a unit fails and users hand units over: who may not list knows few of the others, or none",
        failing: 1,
        wall_off_ms: 20,
        mail: false,
        bodies: BodyBehaviour { finish: 0, pass: 30, ..BODIES },
        faults: &[
            (FaultKind::Unfit, 20.0),
            (FaultKind::Pause, 10.0),
            (FaultKind::Crash, 10.0),
            (FaultKind::Cut, 6.0),
        ],
        disturbances: &[Disturbance::Unfit, Disturbance::Churn, Disturbance::Leave, Disturbance::Death],
        chaos: 10,
        calm: 100,
        rounds: 1,
        ..USUAL
    },
    FleetScenario {
        name: "fleet-vanish",
        about: "workers die and their sessions are deleted",
        faults: &[
            (FaultKind::Crash, 2.0),
            (FaultKind::Pause, 4.0),
            (FaultKind::Rate, 6.0),
            (FaultKind::Deleted, 10.0),
        ],
        calls: HANDS,
        disturbances: &[Disturbance::Vanish],
        wall_off_ms: 0,
        chaos: 10,
        calm: 80,
        rounds: 1,
        ..USUAL
    },
    FleetScenario {
        name: "fleet-hidden",
        about: "virtual machines are paused and none of their clocks tells: only fences hold",
        faults: &[
            (FaultKind::Hidden, 30.0),
            (FaultKind::Crash, 6.0),
            (FaultKind::Pause, 6.0),
            (FaultKind::Cut, 4.0),
        ],
        excused: &[Rule::S1],
        ..USUAL
    },
    FleetScenario {
        name: "fleet-beyond-rho",
        about: "clock rates off by 50 %: only fences hold",
        rate: 500_000,
        excused: &[Rule::S1, Rule::L2, Rule::L3, Rule::C1, Rule::Answered],
        ..USUAL
    },
    FleetScenario {
        name: "fleet-store-clock",
        about: "the store's clock jumps by up to an hour; wall clocks are right",
        store: Some(StoreSpec { ages: Ages::Fine, push: false, lags: false }),
        wall_off_ms: 0,
        faults: &[
            (FaultKind::StoreClock, 40.0),
            (FaultKind::Crash, 6.0),
            (FaultKind::Pause, 6.0),
            (FaultKind::Cut, 6.0),
            (FaultKind::Rate, 4.0),
        ],
        ..USUAL
    },
    FleetScenario {
        name: "fleet-decades",
        about: "the usual faults, and wall clocks that jump by up to ten years, either way",
        faults: &[
            (FaultKind::WallDecade, 8.0),
            (FaultKind::Pause, 10.0),
            (FaultKind::Crash, 10.0),
            (FaultKind::Suspend, 4.0),
            (FaultKind::Rate, 6.0),
            (FaultKind::Cut, 6.0),
            (FaultKind::CutAnswers, 4.0),
            (FaultKind::StoreDown, 1.0),
            (FaultKind::SpuriousHint, 20.0),
            (FaultKind::ForcedRelease, 4.0),
        ],
        ..USUAL
    },
    FleetScenario {
        name: "fleet-crowd",
        about: "ten workers begin at once, or inherit much at once, on a store that refuses what is over its capacity: nobody loses anything",
        nodes: 10,
        units: 300,
        capacity: Some(1000),
        rate: 20_000,
        wall_off_ms: 20,
        mail: false,
        churn: 20_000,
        bodies: BodyBehaviour { turn: 20_000, finish: 0, pass: 0, ..BODIES },
        faults: &[],
        calls: &[],
        disturbances: &[Disturbance::ZoneDeath, Disturbance::Leave],
        chaos: 8,
        calm: 40,
        rounds: 1,
        ..USUAL
    },
    FleetScenario {
        name: "fleet-frozen",
        about: "virtual machines are paused, and their wall clocks stay behind: only fences hold",
        faults: &[
            (FaultKind::Frozen, 30.0),
            (FaultKind::Crash, 6.0),
            (FaultKind::Pause, 6.0),
            (FaultKind::Cut, 4.0),
        ],
        excused: &[Rule::S1],
        ..USUAL
    },
];
