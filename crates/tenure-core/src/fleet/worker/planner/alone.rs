//! The planner's role by itself, and its simulated surroundings in unit tests.

use super::*;
use crate::fleet::UnitSpec;
use crate::fleet::part::Shows;
use crate::fleet::plan::Uncovered;
use crate::fleet::sorted::Sorted;
use crate::fleet::unit::Status;
use crate::fleet::worker::alone::*;
use crate::fleet::worker::listed::{Owner, Unit};
use crate::values::fence::{Fence, Version};
use crate::values::record::Record;
use std::collections::BTreeMap;

/// For which worker a unit is planned, if it is planned at all.
pub(super) type Target = Option<Result<usize, Uncovered>>;

/// The role of the worker 0, which plans for others, and what it is told of them.
pub(super) struct RoleAlone {
    pub(super) role: PlannerRole,
    pub(super) env: FleetEnv,
    pub(super) board: KnownBoard,
    pub(super) peers: BTreeMap<Key, Peer>,
    /// The parts that stand in the store.
    pub(super) parts: BTreeMap<Key, Stored>,
    /// When all is to be listed again.
    pub(super) list_at: Option<Tick>,
}

impl RoleAlone {
    /// It plans for so many others.
    pub(super) fn of(others: usize) -> RoleAlone {
        let worker = led(others, true);
        let (role, parts) = (PlannerRole::default(), BTreeMap::new());
        RoleAlone {
            role,
            env: worker.env,
            board: worker.board,
            peers: BTreeMap::clone(&worker.roster),
            parts,
            list_at: None,
        }
    }

    pub(super) fn step<S: IntoIterator<Item = PlannerStep>>(
        &mut self,
        secs: u64,
        step: impl FnOnce(&mut PlannerRole, &mut PlannerCtx<'_>) -> S,
    ) -> Vec<PlannerStep> {
        let mut ctx = PlannerCtx { now: at(secs), env: &mut self.env, board: &self.board, plans: true };
        step(&mut self.role, &mut ctx).into_iter().collect()
    }

    pub(super) fn plan(&mut self, secs: u64, (listing, targets): &(Listing, Targets)) -> Vec<PlannerStep> {
        let counts = (3, listing.units.values().count());
        self.step(secs, |role, ctx| role.plan(ctx, listing, targets, counts))
    }

    pub(super) fn answers(
        &mut self,
        secs: u64,
        part: &Write,
        result: Result<Answer, StoreError>,
    ) -> Vec<PlannerStep> {
        let nonce = part.record.nonce;
        self.step(secs, |role, ctx| role.part_answered(ctx, &part.key, nonce, result))
    }

    /// The board is written as it asked.
    pub(super) fn marks(&mut self, secs: u64, write: &Write) -> Vec<PlannerStep> {
        let outcome = self.role.board_answered(at(secs), &self.env, write.clone(), won(write));
        let MarkOutcome::Stands(board, plan) = outcome else { panic!("{outcome:?}") };
        self.board.see(Some(*board));
        self.step(secs, |role, ctx| role.go_on(ctx, plan))
    }

    /// Tells a plan, where all is written at once, and the parts of those before stand as they were written; whom it concerns.
    pub(super) fn tells(&mut self, secs: u64, (listing, targets): &(Listing, Targets)) -> Vec<HolderId> {
        let mut listing = listing.clone();
        for (key, part) in &self.parts {
            listing.parts.entry(key.clone()).or_insert_with(|| part.clone());
        }
        let (mut told, mut steps) = (None, self.plan(secs, &(listing, targets.clone())));
        while !steps.is_empty() {
            for step in std::mem::take(&mut steps) {
                match step {
                    PlannerStep::WritePart(write) => {
                        steps.extend(self.answers(secs, &write, won(&write)));
                        self.parts.insert(write.key, Stored::new(write.record).versioned(Version(5)));
                    }
                    PlannerStep::WriteBoard(write) => {
                        told = board::marked(&write.record).and_then(|mark| mark.told);
                        steps.extend(self.marks(secs, &write));
                    }
                    PlannerStep::ListAgain(at) => {
                        self.list_at = Some(self.list_at.map_or(at, |planned| planned.min(at)));
                    }
                    PlannerStep::Letter(_) | PlannerStep::Trouble(_) => {}
                }
            }
        }
        assert!(!self.role.is_telling());
        told.unwrap_or_default().into_iter().collect()
    }

    /// What was last written for a worker.
    pub(super) fn part(&self, n: usize) -> Part {
        Part::parse(&self.parts[&fleet().part(&holder(n)).unwrap()].record.metadata).unwrap()
    }
}

pub(super) fn won(write: &Write) -> Result<Answer, StoreError> {
    Ok(Answer::Write(Outcome::Won { version: Version(9), fence: write.record.fence }))
}

pub(super) fn writes(steps: Vec<PlannerStep>) -> Vec<Write> {
    let write = |step| match step {
        PlannerStep::WritePart(write) | PlannerStep::WriteBoard(write) => Some(*write),
        _ => None,
    };
    steps.into_iter().filter_map(write).collect()
}

/// When all is to be listed again after these steps.
pub(super) fn lists_at(steps: &[PlannerStep]) -> Option<Tick> {
    let at = |step: &PlannerStep| if let PlannerStep::ListAgain(at) = step { Some(*at) } else { None };
    steps.iter().filter_map(at).min()
}

/// What the worker 0 has listed, with these units, and their owners and targets.
pub(super) fn planned(worker: &RoleAlone, units: Vec<(usize, Owner, Status, Target)>) -> (Listing, Targets) {
    let mut peers = worker.peers.clone();
    peers.insert(session(0), Peer { holder: holder(0), fence: Fence(5), ..peers[&session(1)].clone() });
    let mut listing = Listing::of_peers(peers);
    let mut targets = Sorted::default();
    for (n, owner, status, target) in units {
        let (spec, shows) = (UnitSpec { status, ..UnitSpec::default() }, Shows::of_tenure(Nonce(n as u128)));
        listing.units.insert(unit(n), Unit { spec: spec.into(), owner, held: None, shows });
        if let Some(target) = target {
            targets.insert(unit(n), target.map(session));
        }
    }
    (listing, targets)
}

pub(super) fn of(n: usize) -> Owner {
    Owner::Worker(session(n))
}

/// A part of a plan as it stands in the store.
pub(super) fn standing(part: &Part) -> Stored {
    Stored::new(Record { metadata: part.compose(), ..vacant().record }).versioned(Version(5))
}
