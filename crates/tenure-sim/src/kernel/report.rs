//! What came of a run, for people.

use super::clock::SECOND;
use super::coverage::Coverage;
use super::fault::FaultKind;
use super::play::WorldOutcome;
use super::world::WorldTally;
use crate::invariants::Violation;
use std::fmt;

/// So many of the last lines of a timeline are shown to people.
const SHOWN: usize = 60;

/// What came of a run.
#[derive(Debug, Clone, Default)]
pub struct SimReport {
    /// Worlds run.
    pub worlds: u64,
    /// Simulated nanoseconds.
    pub simulated: u128,
    /// Things that happened.
    pub events: u64,
    /// Steps that machines took.
    pub steps: u64,
    /// Faults by kind.
    pub faults: Vec<(FaultKind, u64)>,
    /// Moments that scenarios are about, by kind.
    pub coverage: Vec<(Coverage, u64)>,
    /// Tenures that began.
    pub tenures: u64,
    /// Writes that resources accepted, and refused.
    pub resource: (u64, u64),
    /// How long takeovers from the dead took, in hundredths of a ttl, in order.
    pub takeovers: Vec<u32>,
    /// A hash of everything that happened.
    pub hash: u64,
    /// The broken promise, if one was.
    pub failure: Option<ViolationReport>,
}

/// A broken promise and how to see it again.
#[derive(Debug, Clone)]
pub struct ViolationReport {
    /// What was broken in the history that is told.
    pub violation: Violation,
    /// What was found at first, before it was shrunk, in the world of which seed.
    pub found: (u64, String),
    /// The scenario.
    pub scenario: &'static str,
    /// The world's seed.
    pub seed: u64,
    /// Events up to the violation, before and after shrinking.
    pub events: (u64, u64),
    /// One line that runs it again.
    pub replay: String,
    /// What happened last, line by line.
    pub timeline: Vec<String>,
}

impl SimReport {
    pub(super) fn add(&mut self, outcome: &WorldOutcome, tally: &mut WorldTally) {
        self.worlds += 1;
        self.simulated += u128::from(outcome.simulated);
        self.tenures += outcome.tenures;
        self.resource.0 += outcome.resource.0;
        self.resource.1 += outcome.resource.1;
        tally.add(&outcome.tally);
        self.takeovers.extend_from_slice(&outcome.takeovers);
        self.hash = self.hash.rotate_left(7).wrapping_add(outcome.hash);
    }

    /// All worlds were added: what befell them, by kind.
    pub(super) fn finish(&mut self, tally: &WorldTally) {
        (self.events, self.steps) = (tally.events, tally.steps);
        let faults = FaultKind::ALL.iter().map(|fault| (*fault, tally.faults[*fault as usize]));
        self.faults = faults.filter(|(_, n)| *n > 0).collect();
        let coverage = Coverage::ALL.iter().map(|kind| (*kind, tally.coverage[*kind as usize]));
        self.coverage = coverage.filter(|(_, n)| *n > 0).collect();
        self.takeovers.sort_unstable();
    }

    /// How often there was this kind of moment.
    #[must_use]
    pub fn coverage(&self, coverage: Coverage) -> u64 {
        self.coverage.iter().find(|(kind, _)| *kind == coverage).map_or(0, |(_, n)| *n)
    }

    /// Simulated seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.simulated as f64 / SECOND as f64
    }

    /// How many faults there were.
    #[must_use]
    pub fn fault_count(&self) -> u64 {
        self.faults.iter().map(|(_, n)| n).sum()
    }

    /// The takeover time in ttls below which this share of them lies.
    #[must_use]
    pub fn takeover(&self, share: f64) -> Option<f64> {
        let last = self.takeovers.len().checked_sub(1)?;
        let at = (share * last as f64).round() as usize;
        Some(f64::from(self.takeovers[at.min(last)]) / 100.0)
    }
}

impl fmt::Display for SimReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "worlds     {:>14}", self.worlds)?;
        writeln!(f, "simulated  {:>14.1} h ({:.3e} s)", self.seconds() / 3600.0, self.seconds())?;
        writeln!(f, "events     {:>14}", self.events)?;
        writeln!(f, "steps      {:>14}", self.steps)?;
        writeln!(f, "tenures    {:>14}", self.tenures)?;
        writeln!(f, "resource   {:>14} writes accepted, {} refused", self.resource.0, self.resource.1)?;
        write!(f, "takeovers  {:>14}", self.takeovers.len())?;
        if let (Some(p50), Some(p99), Some(max)) =
            (self.takeover(0.5), self.takeover(0.99), self.takeover(1.0))
        {
            write!(f, " from the dead: p50 {p50:.2}, p99 {p99:.2}, max {max:.2} ttl")?;
        }
        writeln!(f)?;
        writeln!(f, "faults     {:>14}", self.fault_count())?;
        for (fault, n) in &self.faults {
            writeln!(f, "           {n:>14} {}: {}", fault.name(), fault.about())?;
        }
        writeln!(f, "moments")?;
        for (coverage, n) in &self.coverage {
            writeln!(f, "           {n:>14} {}: {}", coverage.name(), coverage.about())?;
        }
        writeln!(f, "history  {:016x}", self.hash)?;
        match &self.failure {
            None => write!(f, "no promise was broken"),
            Some(failure) => write!(f, "{failure}"),
        }
    }
}

impl fmt::Display for ViolationReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What was read is for whoever wants all.
        let lines: Vec<_> = self.timeline.iter().filter(|line| !line.ends_with(": read")).collect();
        let early = lines.len().saturating_sub(SHOWN);
        if early > 0 {
            writeln!(f, "({early} earlier lines, and those of reads; with --json all of them)")?;
        }
        for line in &lines[early..] {
            writeln!(f, "{line}")?;
        }
        let Violation { rule, at, text } = &self.violation;
        writeln!(f, "BROKEN at {:.6} s: {rule}: {}", *at as f64 / SECOND as f64, rule.about())?;
        writeln!(f, "  {text}")?;
        writeln!(f, "  after {} events, shrunk from {}", self.events.1, self.events.0)?;
        if self.found.1 != *text {
            writeln!(f, "  found with seed {} as: {}", self.found.0, self.found.1)?;
        }
        write!(f, "replay: {}", self.replay)
    }
}
