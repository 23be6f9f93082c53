//! Scenarios in which one fault is aimed at the planner, or at what it tells.

use super::{BODIES, BodyBehaviour, Disturbance, FleetScenario, USUAL};
use crate::kernel::registers::{Ages, StoreSpec};

/// Nothing else goes wrong: bodies work on, and clocks are close.
const AIMED: FleetScenario = FleetScenario {
    nodes: 6,
    rate: 20_000,
    wall_off_ms: 20,
    mail: false,
    bodies: BodyBehaviour { finish: 0, pass: 0, ..BODIES },
    faults: &[],
    calls: &[],
    chaos: 3,
    calm: 100,
    rounds: 1,
    ..USUAL
};

pub(crate) const STEPS: FleetScenario = FleetScenario {
    name: "fleet-steps",
    about: "the planner dies before or after one step of planning and telling, by parts and by letters",
    lookers: 3,
    disturbances: &[Disturbance::Step],
    ..AIMED
};

pub(super) const ALL: &[FleetScenario] = &[
    STEPS,
    FleetScenario {
        name: "fleet-heads",
        about: "the planner and both standbys die at once, and owners with them",
        nodes: 9,
        units: 18,
        disturbances: &[Disturbance::Heads],
        calm: 60,
        ..AIMED
    },
    FleetScenario {
        name: "fleet-standbys",
        about: "of 16 workers the planner dies, with those who stand by or with one whose wall clock was just set ahead, where ages tell who was silent",
        nodes: 16,
        units: 24,
        lookers: 4,
        page: 10,
        store: Some(StoreSpec { ages: Ages::Coarse, push: false, lags: true }),
        disturbances: &[Disturbance::Ahead, Disturbance::Ahead, Disturbance::Heads, Disturbance::Row],
        ..AIMED
    },
    FleetScenario {
        name: "fleet-spoilt",
        about: "somebody cuts parts of a plan short, garbles or deletes them, or makes them another planner's or another session's",
        disturbances: &[Disturbance::Spoil],
        calm: 60,
        ..AIMED
    },
    FleetScenario {
        name: "fleet-mail",
        about: "letters to workers that rest are thrown away, or find no room",
        nodes: 16,
        units: 24,
        lookers: 2,
        page: 10,
        store: Some(StoreSpec { ages: Ages::Coarse, push: false, lags: true }),
        disturbances: &[Disturbance::Mail],
        calm: 60,
        ..AIMED
    },
    FleetScenario {
        name: "fleet-bursts",
        about: "many units come and go and workers leave in one instant, all are told again and again, and no board can name all whom that concerns",
        nodes: 12,
        units: 24,
        names: 90,
        disturbances: &[Disturbance::Burst],
        calm: 60,
        ..AIMED
    },
    FleetScenario {
        name: "fleet-withdrawn",
        about: "units are withdrawn or asked for, also while they drain, and their bodies end too late, or can't be ended",
        bodies: BodyBehaviour { ends: 400, lapse: 150, ..AIMED.bodies },
        disturbances: &[Disturbance::Withdraw, Disturbance::Catch],
        ..AIMED
    },
    FleetScenario {
        name: "fleet-island",
        about: "the planner is cut off from the store in the midst of planning, for a moment or for long, and comes back with a stale plan",
        disturbances: &[Disturbance::Island],
        ..AIMED
    },
];
