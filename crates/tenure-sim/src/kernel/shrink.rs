//! From a broken promise to a short history that breaks it: fewer kinds of faults, fewer nodes, another seed.

use super::play::{Play, WorldOutcome};
use super::report::ViolationReport;
use super::world::WorldSetup;
use crate::invariants::Rule;

/// Seeds that are tried for a shorter history.
const SEEDS: u64 = 300;

/// Runs at most so many events in all.
const EVENTS: u64 = 4_000_000;

struct Best<'a> {
    play: &'a dyn Play,
    rule: Rule,
    setup: WorldSetup,
    events: u64,
    /// Events that have been run.
    spent: u64,
}

impl Best<'_> {
    /// Takes `setup` instead if it breaks the same promise, and no later.
    fn offer(&mut self, setup: WorldSetup) -> bool {
        if self.spent > EVENTS {
            return false;
        }
        let outcome = self.play.play(setup, self.events);
        self.spent += outcome.tally.events;
        let breaks = outcome.broken.is_some_and(|violation| violation.rule == self.rule);
        if breaks {
            (self.setup, self.events) = (setup, outcome.tally.events);
        }
        breaks
    }

    fn fewer_faults(&mut self) {
        let frame = self.play.frame();
        for (fault, _) in frame.faults.iter().chain(frame.calls) {
            if !self.setup.without.has(*fault) {
                let without = self.setup.without.with(*fault);
                self.offer(WorldSetup { without, ..self.setup });
            }
        }
    }

    fn fewer_nodes(&mut self) {
        let frame = self.play.frame();
        let most = if self.setup.nodes == 0 { frame.nodes } else { self.setup.nodes };
        let _fewest =
            (frame.least_nodes..most).find(|nodes| self.offer(WorldSetup { nodes: *nodes, ..self.setup }));
    }

    fn other_seeds(&mut self) {
        let first = self.setup.seed;
        for seed in (0..SEEDS).map(|n| first.wrapping_add(n * 7919 + 1)) {
            self.offer(WorldSetup { seed, ..self.setup });
        }
    }
}

/// What is told of a world that has run, if a promise was broken in it.
pub(super) fn explain(
    play: &dyn Play,
    setup: WorldSetup,
    outcome: &WorldOutcome,
    shrink: bool,
) -> Option<ViolationReport> {
    let found = outcome.broken.as_ref()?;
    let events = outcome.tally.events;
    let mut best = Best { play, rule: found.rule, setup, events, spent: 0 };
    if shrink {
        best.fewer_faults();
        best.fewer_nodes();
        best.other_seeds();
        best.fewer_faults();
    }
    // The same world again, this time told.
    let told = play.play(WorldSetup { trace: true, ..best.setup }, u64::MAX);
    let scenario = play.frame().name;
    Some(ViolationReport {
        violation: told.broken.unwrap_or_else(|| found.clone()),
        found: (setup.seed, found.text.clone()),
        scenario,
        seed: best.setup.seed,
        events: (events, best.events),
        replay: replay_line(scenario, &best.setup),
        timeline: told.lines,
    })
}

/// The line that runs a world again.
fn replay_line(scenario: &str, setup: &WorldSetup) -> String {
    let mut line = format!("tenure sim --scenario {scenario} --seed {} --worlds 1", setup.seed);
    for bug in tenure_core::Bug::ALL.iter().filter(|bug| setup.bugs.has(**bug)) {
        line += &format!(" --bug {bug:?}");
    }
    let without: Vec<_> = setup.without.names().collect();
    if !without.is_empty() {
        line += &format!(" --without {}", without.join(","));
    }
    if setup.nodes > 0 {
        line += &format!(" --nodes {}", setup.nodes);
    }
    if let Some(rule) = setup.only {
        line += &format!(" --only {rule}");
    }
    line
}
