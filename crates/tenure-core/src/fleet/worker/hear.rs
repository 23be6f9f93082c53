//! Hearing the plan. A worker that does not plan learns from the board that there is a new plan, and reads its own part. Of the units it
//! reads only those that it is to claim at once.
//!
//! A plan that the board tells of is *news* until it was *heard*. A *reading* asks for the part, then for its units, many at a time, and ends with what
//! is to be *followed*. One that breaks off amid units may go on. A worker whose part can't be told *lists* all for itself.

mod reading;

#[cfg(test)]
pub(super) use self::reading::MANY;
pub(super) use self::reading::Reading;
use super::env::FleetEnv;
use super::known_board::KnownBoard;
use crate::bugs::Bug;
use crate::fleet::board::ToldPlan;
use crate::fleet::part::Part;
use crate::op::{Answer, Listed};
use crate::values::error::StoreError;
use crate::values::fence::Fence;
use crate::values::key::Key;
use crate::values::record::Attachment;
use crate::values::time::{Now, Tick};
use std::collections::VecDeque;

/// What a worker knows of others' plans.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(super) struct Hearing {
    /// Who made the last plan that was heard, and its number.
    heard: Option<(Attachment, u64)>,
    reading: Option<Box<Reading>>,
    /// A reading that was broken off amid units, as one read of it has failed.
    broken: Option<Box<Reading>>,
    /// When to read again what could not be read.
    retry_at: Tick,
    /// It was told to list everything itself, or its part can't be read.
    lists: bool,
    /// Until then a worker that has just begun looks often for the first plan that concerns it: so what others pass to it does not lie idle.
    expects_until: Tick,
}

/// What a worker goes by while it hears.
pub(super) struct HearCtx<'a> {
    pub(super) now: Now,
    pub(super) env: &'a mut FleetEnv,
    pub(super) board: &'a KnownBoard,
    /// The fence of its session.
    pub(super) session: Option<Fence>,
    /// Whether it plans itself.
    pub(super) plans: bool,
    /// Whether the store lets it list.
    pub(super) may_list: bool,
}

/// What hearing comes to, in this order.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HearStep {
    /// All that was to be seen again is read from now on; nothing, if nobody has told this worker anything.
    Begin(Option<Vec<Key>>),
    /// These units are to be read.
    Read(Vec<Key>),
    /// The plan of the planner with this session is not about this worker.
    Unconcerned(Key),
    /// A part was read, which is about these units. Which units are to be read is known by what the worker has, too.
    FindUnits(Vec<Key>),
    /// This was read, and is to be followed.
    Follow(Box<Reading>),
    /// This worker was to have a part, and there is none: somebody has written or deleted something there, and who plans is to be told.
    PartMissing,
    /// By then all is to be seen again.
    ListAgain(Tick),
    Trouble(StoreError),
}

impl Hearing {
    /// Whether this worker has to list everything for itself.
    pub(super) fn lists(&self) -> bool {
        self.lists
    }

    pub(super) fn begin_listing(&mut self) {
        self.lists = false;
        self.end_reading();
    }

    /// What is being read is not wanted any more.
    pub(super) fn end_reading(&mut self) {
        (self.reading, self.broken) = (None, None);
    }

    /// The store does not let it: it goes by what it is told.
    pub(super) fn give_up_listing(&mut self) {
        self.lists = false;
    }

    /// The worker has begun, and is to hear of a plan.
    pub(super) fn expect(&mut self, until: Tick) {
        self.expects_until = until;
    }

    pub(super) fn expects(&self, now: Now) -> bool {
        now.held < self.expects_until
    }

    pub(super) fn is_reading(&self) -> bool {
        self.reading.is_some()
    }

    /// The last plan that the board tells of, unless it was heard, or this worker plans.
    fn news<'a>(&self, board: &'a KnownBoard, plans: bool) -> Option<(&'a Attachment, &'a ToldPlan)> {
        let (mark, planner) = (board.told_plan()?, board.planner()?);
        let is_heard =
            self.heard.as_ref().is_some_and(|(who, number)| who == planner && *number >= mark.number);
        (!is_heard && !plans).then_some((planner, mark))
    }

    /// Whether the board tells of a plan that this worker has not heard.
    pub(super) fn has_news(&self, board: &KnownBoard, plans: bool) -> bool {
        self.news(board, plans).is_some()
    }

    /// When a worker that goes by what it is told reads next. `again_at`: by then all is to be seen again.
    pub(super) fn wake_at(&self, board: &KnownBoard, again_at: Option<Tick>) -> Option<Tick> {
        if self.is_reading() {
            return None;
        }
        let again = again_at.filter(|_| board.planner().is_some());
        let news = self.has_news(board, false).then_some(self.retry_at);
        news.into_iter().chain(again.map(|at| at.max(self.retry_at))).min()
    }

    /// Begins to read what is to be heard, if it is time for that.
    pub(super) fn wake(&mut self, ctx: &mut HearCtx<'_>, again_at: Option<Tick>) -> Option<HearStep> {
        if self.wake_at(ctx.board, again_at).is_none_or(|at| ctx.now.held < at) {
            return None;
        }
        let news = self.news(ctx.board, ctx.plans);
        let mut is_news = false;
        if let Some((planner, mark)) = news {
            ctx.env.pace.meet([mark.ttls.0, mark.ttls.1].into_iter());
            let is_next =
                self.heard.as_ref().is_some_and(|(who, number)| who == planner && number + 1 == mark.number);
            let is_next = is_next || ctx.env.has_bug(Bug::MissedPlanIgnored);
            let is_many = !ctx.env.has_bug(Bug::OverflowIsNothing);
            let is_told = mark.told.as_ref().map_or(is_many, |told| told.contains(&ctx.env.id));
            is_news = is_told;
            if is_next && !is_told {
                self.heard = Some((planner.clone(), mark.number));
                return Some(HearStep::Unconcerned(planner.session.clone()));
            }
        }
        let plan = match news {
            Some((planner, mark)) => (planner.clone(), mark.number),
            // Who plans anew has not told anybody yet: what was heard last is another one's plan.
            None => match self.heard.clone().filter(|(who, _)| Some(who) == ctx.board.planner()) {
                Some(heard) => heard,
                None => return Some(HearStep::Begin(None)),
            },
        };
        let part = ctx.env.fleet().part(&ctx.env.id).ok()?;
        if let Some(mut broken) = self.broken.take().filter(|broken| broken.goes_on(ctx, &plan)) {
            let units = broken.next();
            self.reading = units.is_some().then_some(broken);
            return Some(HearStep::Begin(units));
        }
        self.reading = Some(Box::new(Reading::new(plan, is_news, ctx.now)));
        Some(HearStep::Begin(Some(vec![part])))
    }

    /// A part or some units were read, or were not.
    pub(super) fn answered(
        &mut self,
        ctx: &HearCtx<'_>,
        result: Result<Answer, StoreError>,
    ) -> Vec<HearStep> {
        let Some(mut reading) = self.reading.take() else { return Vec::new() };
        let found = match result {
            Ok(Answer::Listed(found)) => found,
            Ok(_) => return Vec::new(),
            Err(error) => {
                self.retry_at = ctx.now.held.after(ctx.env.pause(16, &error));
                // Of many reads some fail now and then: what the others have shown stands.
                self.broken = Some(reading).filter(|reading| reading.part.is_some());
                return vec![HearStep::ListAgain(self.retry_at), HearStep::Trouble(error)];
            }
        };
        reading.answered = ctx.now.held;
        if reading.part.is_none() {
            return self.read_part(ctx, reading, found);
        }
        reading.found.extend(found.into_iter().map(|Listed { key, stored }| (key, stored)));
        reading.asked.clear();
        vec![self.go_on(reading)]
    }

    fn read_part(
        &mut self,
        ctx: &HearCtx<'_>,
        mut reading: Box<Reading>,
        found: Vec<Listed>,
    ) -> Vec<HearStep> {
        let part = match found.into_iter().next().map(|listed| listed.stored) {
            Some(Ok(stored)) => Part::parse(&stored.record.metadata),
            Some(Err(error)) => {
                // Nobody can tell this worker anything: it sees for itself.
                self.heard = Some(reading.plan);
                self.lists = ctx.may_list && !ctx.env.has_bug(Bug::UnreadPartIgnored);
                return vec![HearStep::Trouble(error)];
            }
            None => None,
        };
        let part = part.filter(|part| counts(ctx, part, &reading.plan.0));
        if part.is_none() && ctx.env.has_bug(Bug::OldPartStands) {
            self.heard = Some(reading.plan);
            return Vec::new();
        }
        reading.is_news &= part.is_some();
        let is_missing = part.is_none() && self.was_to_have_part(ctx);
        let mut steps = Vec::from_iter(is_missing.then_some(HearStep::PartMissing));
        // Where there is none, there is nothing to do, whatever an earlier planner has told it.
        let nothing = || Part::new(reading.plan.0.clone(), ctx.session.unwrap_or(Fence(0)));
        let part = part.unwrap_or_else(nothing);
        // Whom the store does not let list does what it is told besides.
        if part.lists.is_some() && ctx.may_list {
            self.heard = Some(reading.plan);
            self.lists = true;
            return steps;
        }
        let units = part.tasks.keys().filter_map(|name| ctx.env.fleet().unit(name).ok()).collect();
        reading.part = Some(part);
        self.reading = Some(reading);
        steps.push(HearStep::FindUnits(units));
        steps
    }

    /// Whether the plan that is news names this worker.
    fn was_to_have_part(&self, ctx: &HearCtx<'_>) -> bool {
        let told = self.news(ctx.board, ctx.plans).and_then(|(_, mark)| mark.told.as_ref());
        told.is_some_and(|told| told.contains(&ctx.env.id))
    }

    /// These units are to be read for the part that was read.
    pub(super) fn read_units(&mut self, units: VecDeque<Key>) -> Option<HearStep> {
        let mut reading = self.reading.take()?;
        reading.units = units;
        Some(self.go_on(reading))
    }

    /// Reads the next units, until all are read.
    fn go_on(&mut self, mut reading: Box<Reading>) -> HearStep {
        if let Some(units) = reading.next() {
            self.reading = Some(reading);
            return HearStep::Read(units);
        }
        self.heard = Some(reading.plan.clone());
        if reading.is_news {
            self.expects_until = Tick(0);
        }
        HearStep::Follow(reading)
    }
}

/// A part counts if who plans now has written it, and for this very session.
fn counts(ctx: &HearCtx<'_>, part: &Part, planner: &Attachment) -> bool {
    let obeys = ctx.env.has_bug(Bug::DeposedPlannerObeyed);
    let any = ctx.env.has_bug(Bug::AnySessionsPart);
    (any || Some(part.to) == ctx.session) && (obeys || part.planner == *planner)
}

#[cfg(test)]
impl Hearing {
    /// It has heard this planner's plan of this number.
    pub(super) fn after(planner: Attachment, number: u64) -> Hearing {
        Hearing { heard: Some((planner, number)), ..Hearing::default() }
    }
}
