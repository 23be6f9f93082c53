//! Applies what the planner's role comes to, to the worker that has it.

use super::planner::{MarkOutcome, PlannerCtx, PlannerRole, PlannerStep, Targets};
use super::{FleetWorker, InFlight};
use crate::fleet::talk::FleetNotice;
use crate::fleet::worker::listing::Listing;
use crate::op::{Answer, Op, Write};
use crate::values::error::StoreError;
use crate::values::fence::Nonce;
use crate::values::key::Key;
use crate::values::time::Now;

impl FleetWorker {
    /// Lets the role take a step, and does what comes of it.
    fn as_planner<S: IntoIterator<Item = PlannerStep>>(
        &mut self,
        now: Now,
        step: impl FnOnce(&mut PlannerRole, &mut PlannerCtx<'_>) -> S,
    ) {
        let plans = self.is_planner();
        let mut ctx = PlannerCtx { now, env: &mut self.env, board: &self.board, plans };
        let steps = step(&mut self.planner, &mut ctx);
        steps.into_iter().for_each(|step| self.on_planner_step(now, step));
    }

    fn on_planner_step(&mut self, now: Now, step: PlannerStep) {
        match step {
            PlannerStep::WritePart(write) => {
                self.send(InFlight::Part(write.key.clone(), write.record.nonce), Op::Write(write));
            }
            PlannerStep::WriteBoard(write) => {
                self.send(InFlight::ToldPlan(write.clone()), Op::Write(write));
            }
            PlannerStep::Letter(who) => self.tell_of_part(now, &who),
            PlannerStep::ListAgain(at) => self.list_again(at),
            PlannerStep::Trouble(error) => self.tell(FleetNotice::Trouble(error)),
        }
    }

    /// Tells the plan to those whose parts it changes.
    pub(super) fn tell_plan(
        &mut self,
        now: Now,
        listing: &Listing,
        targets: &Targets,
        counts: (usize, usize),
    ) {
        self.as_planner(now, |planner, ctx| planner.plan(ctx, listing, targets, counts));
    }

    /// Sends what parts it may.
    pub(super) fn wake_planner(&mut self, now: Now) {
        self.as_planner(now, |planner, _| planner.wake(now));
    }

    /// A look has shown the board: what could not be written there before may be now.
    pub(super) fn mark_plan(&mut self, now: Now) {
        self.as_planner(now, PlannerRole::mark);
    }

    pub(super) fn told_part(
        &mut self,
        now: Now,
        key: &Key,
        nonce: Nonce,
        result: Result<Answer, StoreError>,
    ) {
        self.as_planner(now, |planner, ctx| planner.part_answered(ctx, key, nonce, result));
    }

    pub(super) fn marked(&mut self, now: Now, write: Write, result: Result<Answer, StoreError>) {
        let plan = match self.planner.board_answered(now, &self.env, write, result) {
            MarkOutcome::Stands(board, plan) => {
                // It can be written.
                self.advance.forget_refusal();
                self.saw_board(now, Some(*board));
                plan
            }
            MarkOutcome::Overtaken(current) => {
                self.saw_board(now, current);
                None
            }
            MarkOutcome::Unknown => None,
            MarkOutcome::Failed(steps) => {
                return steps.into_iter().for_each(|step| self.on_planner_step(now, step));
            }
        };
        self.as_planner(now, |planner, ctx| planner.go_on(ctx, plan));
    }

    /// The store does not let this planner list. Whether it gives its role up.
    pub(super) fn cannot_list(&mut self, now: Now) -> bool {
        let mut resigns = false;
        self.as_planner(now, |planner, ctx| {
            let write = planner.could_not_list(ctx);
            resigns = write.is_some();
            write
        });
        resigns
    }
}
