//! A scenario that can be run, whatever its kind, and what comes of one world.

use super::world::scene::{Frame, Scene};
use super::world::{World, WorldSetup, WorldTally};
use crate::invariants::Violation;

/// A scenario that can be run, whatever its kind.
pub(super) trait Play: Send + Sync {
    fn frame(&self) -> Frame;
    /// Runs one world, for at most so many events.
    fn play(&self, setup: WorldSetup, most: u64) -> WorldOutcome;
}

/// What is left of a world that has run.
pub(super) struct WorldOutcome {
    pub(super) simulated: u64,
    pub(super) tally: WorldTally,
    pub(super) tenures: u64,
    pub(super) resource: (u64, u64),
    pub(super) takeovers: Vec<u32>,
    pub(super) hash: u64,
    pub(super) broken: Option<Violation>,
    pub(super) lines: Vec<String>,
}

/// A scenario of this kind of world.
pub(super) struct ScenarioOf<S: Scene>(pub(super) S::Scenario);

impl<S: Scene> Play for ScenarioOf<S> {
    fn frame(&self) -> Frame {
        S::frame(&self.0)
    }

    fn play(&self, setup: WorldSetup, most: u64) -> WorldOutcome {
        let mut world = World::<S>::new(self.0, setup);
        world.run(most);
        WorldOutcome {
            simulated: world.t,
            tenures: S::tenures(&world),
            resource: (world.checks.resource.accepted, world.checks.resource.refused),
            hash: world.trace.hash,
            broken: world.checks.broken,
            tally: world.tally,
            takeovers: world.scene.takeovers(),
            lines: world.trace.lines(),
        }
    }
}
