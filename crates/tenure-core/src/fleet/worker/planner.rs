//! The planner's role: telling the others what a plan asks of them, while this worker plans for all.
//!
//! A *plan* is told in a round. The parts that have changed are *written*, so many at a time. Once all of them are written or left alone, the board is
//! *marked* with the plan's number and the names of the workers concerned. Other workers read nothing. Once the mark stands, *letters* go to those who
//! rest. A new plan takes the place of a round that has not come to its end: whom that was to be told of is told of the new one. A part that the store
//! refuses stays as it was, and all is listed again soon.
//!
//! What was told is remembered for as long as the worker plans. So a part that is being done is not repeated, one that stays undone is, ever more seldom,
//! and a worker that has other units than the store shows is found. Whoever can neither list nor tell for a ttl *resigns*: it takes its name off the
//! board, and takes the role again only if nobody else does.
//!
//! The role knows the board and what was listed from its arguments, and keeps neither. Its steps end with [`PlannerStep`]s; `on_planner` applies them to
//! the worker.

#[cfg(test)]
mod alone;
mod disputes;
mod fitness;
mod news;
mod parts;
mod resters;
mod writing;

use self::disputes::Disputes;
use self::fitness::Fitness;
use self::news::ToldParts;
pub(super) use self::parts::Targets;
use self::parts::{listed_of, parts};
use self::resters::Resters;
use self::writing::{PartOutcome, PartWrites, Patience};
use super::env::FleetEnv;
use super::known_board::KnownBoard;
use super::listed::Peer;
use super::listing::Listing;
use crate::bugs::Bug;
use crate::fleet::board::{self, SeenBoard, ToldPlan};
use crate::fleet::digest::spread;
use crate::fleet::part::Part;
use crate::op::{Answer, Outcome, Write};
use crate::values::error::StoreError;
use crate::values::fence::Nonce;
use crate::values::key::{HolderId, Key};
use crate::values::record::Stored;
use crate::values::time::{Now, Tick, Ttl};
use std::collections::BTreeSet;

/// How many workers stand by.
const STANDBYS: usize = 2;

/// One plan that is being told.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct PlanRound {
    mark: ToldPlan,
    standbys: BTreeSet<HolderId>,
    /// The store did not take some of its parts.
    refused: bool,
}

/// The role, and what whoever has it knows of what it has told.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(super) struct PlannerRole {
    /// The number of the last plan that this worker has told, in whichever of its terms.
    number: u64,
    told: ToldParts,
    disputes: Disputes,
    round: Option<Box<PlanRound>>,
    writing: PartWrites,
    /// The board is being written.
    is_marking: bool,
    resters: Resters,
    fitness: Fitness,
}

/// What the role goes by while it takes a step.
pub(super) struct PlannerCtx<'a> {
    pub(super) now: Now,
    pub(super) env: &'a mut FleetEnv,
    pub(super) board: &'a KnownBoard,
    /// Whether this worker has the role now.
    pub(super) plans: bool,
}

/// What a step of the role came to, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PlannerStep {
    /// A part is to be written.
    WritePart(Box<Write>),
    /// The board is to be written: a plan was told, or the role is given up.
    WriteBoard(Box<Write>),
    /// This worker is to be told by a letter that its part is a new one.
    Letter(HolderId),
    /// By then all is to be listed again.
    ListAgain(Tick),
    Trouble(StoreError),
}

/// A plan whose mark stands on the board. Those who rest do not know of it yet.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MarkedPlan(Box<PlanRound>);

/// What became of a write of the board.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum MarkOutcome {
    /// This is the board now, and that plan was told.
    Stands(Box<Stored>, Option<MarkedPlan>),
    /// Somebody else has written there: this is the board.
    Overtaken(Option<Stored>),
    /// Nothing is known of it.
    Unknown,
    Failed(Vec<PlannerStep>),
}

impl PlannerRole {
    /// Whether a plan is being told.
    pub(super) fn is_telling(&self) -> bool {
        self.round.is_some()
    }

    /// When the next part is sent, unless one has to be answered before.
    pub(super) fn wake_at(&self) -> Option<Tick> {
        self.writing.wake_at()
    }

    /// Whether this worker could not plan when it last tried.
    pub(super) fn has_failed(&self) -> bool {
        self.fitness.has_failed()
    }

    /// Whether this worker may plan if nobody does.
    pub(super) fn may_plan(&self, now: Now, env: &FleetEnv) -> bool {
        !self.fitness.waits(now) || env.has_bug(Bug::UnfitPlansAgain)
    }

    /// The worker gets the role, or has it no more.
    pub(super) fn begin(&mut self) {
        self.end();
        self.resters.end();
        self.fitness.begin();
    }

    /// This worker plans no more. What it has sent may still be answered.
    pub(super) fn end(&mut self) {
        self.told = ToldParts::default();
        self.disputes = Disputes::default();
        self.round = None;
        self.writing.take();
    }

    /// A plan was made of what was listed, for so many workers and units. It is told to those whose parts it changes.
    pub(super) fn plan(
        &mut self,
        ctx: &mut PlannerCtx<'_>,
        listing: &Listing,
        targets: &Targets,
        (workers, units): (usize, usize),
    ) -> Vec<PlannerStep> {
        let mut steps = Vec::new();
        let Some(planner) = ctx.board.planner().cloned().filter(|_| !ctx.board.is_blind()) else {
            return steps;
        };
        let number = self.number + 1;
        let before = self.round.take();
        let unmarked = before.and_then(|round| round.mark.told).unwrap_or_default();
        let mut under_way = self.writing.take();
        if ctx.env.has_bug(Bug::UnderWayForgotten) {
            under_way.clear();
        }
        let (mut parts, sums) = parts(ctx.env, &planner, listing, targets);
        let (disputed, settled_at) = self.disputes.settle(ctx.now, ctx.env, listing);
        steps.extend(settled_at.map(PlannerStep::ListAgain));
        for (session, reason) in disputed {
            if let Some(part) = parts.get_mut(&session) {
                part.lists = Some(reason);
                // Whom the store does not let list goes by that.
                part.name_own(listed_of(ctx.env, listing, &session));
            }
        }
        let mut round = PlanRound {
            mark: ToldPlan {
                number,
                // Those of a plan that was not told to the end are told of this one.
                told: Some(unmarked),
                counts: (workers as u64, units as u64),
                ttls: ttls(ctx.env, listing),
                rest: self.resters.next(ctx.now, ctx.env, ctx.board.stored(), workers),
            },
            standbys: standbys(ctx, listing),
            refused: false,
        };
        self.told.retain(|session| parts.contains_key(session));
        for (session, part) in parts {
            let sum = sums.get(&session).copied().unwrap_or_default();
            let part = part.bounded(sum.token(), ctx.env.has_bug(Bug::LargePartCut));
            let Some(peer) = listing.peers.get(&session) else { continue };
            let Ok(key) = ctx.env.fleet().part(&peer.holder) else { continue };
            let stands = listing.parts.get(&key);
            // What was sent for an earlier plan may stand there at any time, unless this one is written.
            let is_under_way = under_way.contains_key(&key);
            let mut stood = stands.and_then(|stands| Part::parse(&stands.record.metadata));
            if ctx.env.has_bug(Bug::PartNotCompared) {
                stood = self.told.written(&session).or(stood);
            }
            let is_news = self.told.is_news(ctx.now, ctx.env, &session, &part, stood.as_ref(), listing);
            if !is_news && !is_under_way {
                continue;
            }
            if let Some(told) = &mut round.mark.told {
                told.insert(peer.holder.clone());
            }
            if is_under_way || stood.as_ref() != Some(&part) {
                self.told.writes(&session, &part);
                let refused_since = under_way.get(&key).copied().flatten();
                let write = writing::part_write(ctx.now, ctx.env, key, stands, &part);
                self.writing.add(write, refused_since);
            }
        }
        steps.extend(self.told.undone_at(ctx.now).map(PlannerStep::ListAgain));
        let is_same = |board: &SeenBoard| {
            let plan = board.plan.as_ref().map(|plan| (plan.counts, plan.ttls, plan.rest));
            plan == Some((round.mark.counts, round.mark.ttls, round.mark.rest))
                && board.standbys == round.standbys
        };
        let is_told =
            round.mark.told.as_ref().is_some_and(BTreeSet::is_empty) && ctx.board.seen().is_some_and(is_same);
        if is_told {
            self.fitness.told();
            return steps;
        }
        self.number = number;
        self.round = Some(Box::new(round));
        steps.extend(self.wake(ctx.now));
        steps.extend(self.mark(ctx));
        steps
    }

    /// The parts that may be sent now.
    pub(super) fn wake(&mut self, now: Now) -> Vec<PlannerStep> {
        let mut steps = Vec::new();
        while let Some(write) = self.writing.next(now) {
            steps.push(PlannerStep::WritePart(Box::new(write)));
        }
        steps
    }

    /// A part was written, or was not.
    pub(super) fn part_answered(
        &mut self,
        ctx: &mut PlannerCtx<'_>,
        key: &Key,
        nonce: Nonce,
        result: Result<Answer, StoreError>,
    ) -> Vec<PlannerStep> {
        let error = result.as_ref().err().cloned();
        let busy = error.as_ref().filter(|error| ctx.env.finds_busy(error));
        let busy = busy.map(|_| Patience { pause: ctx.env.refusal_pause(), longest: ctx.env.part(1) });
        let outcome = self.writing.answered(ctx.now, (key, nonce), result, ctx.plans, busy);
        let trouble = error.filter(|_| outcome != PartOutcome::Superseded);
        let mut steps: Vec<PlannerStep> = trouble.map(PlannerStep::Trouble).into_iter().collect();
        match outcome {
            PartOutcome::Superseded | PartOutcome::PutOff => {}
            PartOutcome::Retried => steps.extend(self.wake(ctx.now)),
            PartOutcome::Written | PartOutcome::Unwritable => steps.extend(self.mark(ctx)),
            PartOutcome::Contended => steps.extend(self.tell_anew(ctx)),
            PartOutcome::Refused => {
                if let Some(round) = &mut self.round {
                    round.refused = true;
                }
                let since = self.fitness.cannot_tell(ctx.now);
                match self.resign(ctx, since) {
                    Some(write) => steps.push(write),
                    None => steps.extend(self.tell_anew(ctx)),
                }
            }
        }
        steps
    }

    /// Forgets what was told, so that all are told once all was listed again.
    fn tell_anew(&mut self, ctx: &mut PlannerCtx<'_>) -> Vec<PlannerStep> {
        self.told = ToldParts::default();
        let mut steps = vec![PlannerStep::ListAgain(ctx.now.held.after(ctx.env.interval()))];
        steps.extend(self.mark(ctx));
        steps
    }

    /// The board may be written now: it is to say which plan was told, once all parts are written.
    pub(super) fn mark(&mut self, ctx: &mut PlannerCtx<'_>) -> Option<PlannerStep> {
        let first = ctx.env.has_bug(Bug::MarkedFirst);
        let round = self.round.as_ref().filter(|_| self.writing.is_done() || first)?;
        let is_free = !self.is_marking && !ctx.board.is_blind() && ctx.plans;
        let seen = ctx.board.stored().filter(|_| is_free)?;
        let (key, nonce) = (ctx.env.board_key.clone(), ctx.env.nonces.draw());
        let write = board::mark(key, seen, &round.mark, &round.standbys, nonce, ctx.now.wall);
        Some(self.write_board(write))
    }

    fn write_board(&mut self, write: Write) -> PlannerStep {
        self.is_marking = true;
        PlannerStep::WriteBoard(Box::new(write))
    }

    /// The board was written, or was not. The worker sees it, and then goes on by `go_on`.
    pub(super) fn board_answered(
        &mut self,
        now: Now,
        env: &FleetEnv,
        write: Write,
        result: Result<Answer, StoreError>,
    ) -> MarkOutcome {
        self.is_marking = false;
        match result {
            Ok(Answer::Write(Outcome::Won { version, .. })) => {
                let marked = board::marked(&write.record).map(|mark| mark.number);
                let round = self.round.take_if(|round| Some(round.mark.number) == marked);
                let board = Stored::new(write.record).versioned(version);
                MarkOutcome::Stands(Box::new(board), round.map(MarkedPlan))
            }
            // The next attempt goes by that.
            Ok(Answer::Write(Outcome::Lost(current))) => MarkOutcome::Overtaken(current),
            Ok(_) => MarkOutcome::Unknown,
            Err(error) => {
                let mut steps = vec![PlannerStep::Trouble(error)];
                // Another attempt is made when a look has shown what stands there; to give the role up, once all was listed again.
                if !self.is_telling() {
                    steps.push(PlannerStep::ListAgain(now.held.after(env.interval())));
                }
                MarkOutcome::Failed(steps)
            }
        }
    }

    /// The board that was written was seen. Those who rest are told of the plan whose mark stands there, if there is one.
    pub(super) fn go_on(&mut self, ctx: &mut PlannerCtx<'_>, plan: Option<MarkedPlan>) -> Vec<PlannerStep> {
        let mut steps = Vec::new();
        if let Some(MarkedPlan(round)) = plan {
            self.writing.take();
            if !round.refused {
                self.fitness.told();
            }
            let told = self.resters.marked(ctx.now, ctx.env, &round.mark, round.standbys);
            steps.extend(told.into_iter().map(PlannerStep::Letter));
        }
        steps.extend(self.mark(ctx));
        steps
    }

    /// A page could be listed.
    pub(super) fn listed_page(&mut self) {
        self.fitness.listed();
    }

    /// The store does not let this planner list. It gives its role up, or goes on trying.
    pub(super) fn could_not_list(&mut self, ctx: &mut PlannerCtx<'_>) -> Option<PlannerStep> {
        let since = self.fitness.cannot_list(ctx.now);
        self.resign(ctx, since)
    }

    /// What has lasted for a ttl may last: the role is given up, if the board can be written.
    fn resign(&mut self, ctx: &mut PlannerCtx<'_>, since: Tick) -> Option<PlannerStep> {
        if !ctx.plans || self.is_marking || ctx.now.held.since(since) < ctx.env.part(1) {
            return None;
        }
        let is_kept = ctx.board.is_blind() || ctx.env.has_bug(Bug::UnfitPlans);
        let seen = ctx.board.stored().filter(|_| !is_kept)?;
        let write = board::resign(ctx.env.board_key.clone(), seen, ctx.env.nonces.draw(), ctx.now.wall);
        self.fitness.resign(ctx.now, ctx.env);
        self.end();
        Some(self.write_board(write))
    }
}

/// Those who are to stand by: the same as before, as long as they are there.
fn standbys(ctx: &PlannerCtx<'_>, listing: &Listing) -> BTreeSet<HolderId> {
    let stays = |(session, peer): &(&Key, &Peer)| **session != ctx.env.me && !peer.about.leaving;
    let mut peers: Vec<(&Key, &Peer)> = listing.peers.iter().filter(stays).collect();
    peers.sort_by_key(|(session, peer)| (!ctx.board.names_standby(&peer.holder), spread(session)));
    peers.into_iter().take(STANDBYS).map(|(_, peer)| peer.holder.clone()).collect()
}

/// The shortest and the longest ttl of all workers.
fn ttls(env: &FleetEnv, listing: &Listing) -> (Ttl, Ttl) {
    let ttls = listing.peers.values().map(|peer| peer.ttl);
    ttls.fold((env.ttl, env.ttl), |(least, most), ttl| (least.min(ttl), most.max(ttl)))
}

#[cfg(test)]
mod tests;
