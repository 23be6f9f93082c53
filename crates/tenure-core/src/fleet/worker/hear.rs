//! Hearing the plan. A worker that does not plan learns from the board that there is a new plan, and reads its own part. Of the units it
//! reads only those that it is to claim at once. A task is out of date if its unit's record shows something else by now; it is ignored.

mod following;
mod reading;

use super::{FleetWorker, InFlight};
use crate::bugs::Bug;
use crate::fleet::board::ToldPlan;
use crate::fleet::part::Part;
use crate::fleet::talk::FleetNotice;
use crate::op::{Answer, Freshness, Listed, Op};
use crate::values::error::StoreError;
use crate::values::fence::Fence;
use crate::values::record::Attachment;
use crate::values::time::{Now, Tick};
use reading::Reading;
use std::collections::{BTreeMap, VecDeque};

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

impl Hearing {
    /// Whether this worker has to list everything for itself.
    pub(super) fn lists(&self) -> bool {
        self.lists
    }

    pub(super) fn begin_listing(&mut self) {
        self.lists = false;
        self.end_reading();
    }

    fn end_reading(&mut self) {
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

    /// It has heard this planner's plan of this number.
    #[cfg(test)]
    pub(super) fn after(planner: Attachment, number: u64) -> Hearing {
        Hearing { heard: Some((planner, number)), ..Hearing::default() }
    }
}

impl FleetWorker {
    /// The last plan that the board tells of, unless it was heard.
    fn news(&self) -> Option<(&Attachment, &ToldPlan)> {
        let (mark, planner) = (self.board.told_plan()?, self.board.planner()?);
        let is_heard =
            self.hearing.heard.as_ref().is_some_and(|(who, number)| who == planner && *number >= mark.number);
        (!is_heard && !self.is_planner()).then_some((planner, mark))
    }

    /// Whether the board tells of a plan that this worker has not heard.
    pub(super) fn has_news(&self) -> bool {
        self.news().is_some()
    }

    pub(super) fn hearing_wake_at(&self) -> Option<Tick> {
        if self.is_deaf() || self.hearing.is_reading() {
            return None;
        }
        let again = self.doubts.list_at.filter(|_| self.board.planner().is_some());
        let news = self.has_news().then_some(self.hearing.retry_at);
        news.into_iter().chain(again.map(|at| at.max(self.hearing.retry_at))).min()
    }

    /// Whether this worker goes by what it lists itself.
    fn is_deaf(&self) -> bool {
        self.session_fence().is_none() || self.is_planner() || self.board.is_blind() || self.hearing.lists
    }

    pub(super) fn wake_hearing(&mut self, now: Now) {
        if self.is_deaf() {
            return self.hearing.end_reading();
        }
        if self.hearing_wake_at().is_none_or(|at| now.held < at) {
            return;
        }
        let news = self.news().map(|(planner, mark)| (planner.clone(), mark.clone()));
        let mut is_news = false;
        if let Some((planner, mark)) = &news {
            self.env.pace.meet([mark.ttls.0, mark.ttls.1].into_iter());
            let is_next = self
                .hearing
                .heard
                .as_ref()
                .is_some_and(|(who, number)| who == planner && number + 1 == mark.number);
            let is_next = is_next || self.env.has_bug(Bug::MissedPlanIgnored);
            let is_many = !self.env.has_bug(Bug::OverflowIsNothing);
            let me = &self.env.id;
            let is_told = mark.told.as_ref().map_or(is_many, |told| told.contains(me));
            is_news = is_told;
            if is_next && !is_told {
                self.hearing.heard = Some((planner.clone(), mark.number));
                self.tell_summary(&planner.session.clone(), 0);
                return;
            }
        }
        let plan = match news {
            Some((planner, mark)) => (planner, mark.number),
            // Who plans anew has not told anybody yet: what was heard last is another one's plan.
            None => match self.hearing.heard.clone().filter(|(who, _)| Some(who) == self.board.planner()) {
                Some(heard) => heard,
                None => return self.doubts.list_at = None,
            },
        };
        let Ok(key) = self.env.fleet().part(&self.env.id) else { return };
        self.doubts.list_at = None;
        if let Some(broken) = self.hearing.broken.take().filter(|broken| self.goes_on(now, broken, &plan)) {
            return drop(self.read_units(broken));
        }
        let reading = Reading {
            plan,
            is_news,
            began: now.held,
            part: None,
            asked: Vec::new(),
            units: VecDeque::new(),
            found: BTreeMap::new(),
            answered: now.held,
        };
        self.hearing.reading = Some(Box::new(reading));
        self.send(InFlight::Hear, Op::ReadMany(vec![key], Freshness::Latest));
    }

    pub(super) fn heard(&mut self, now: Now, result: Result<Answer, StoreError>) {
        let Some(mut reading) = self.hearing.reading.take() else { return };
        let found = match result {
            Ok(Answer::Listed(found)) => found,
            Ok(_) => return,
            Err(error) => {
                self.hearing.retry_at = now.held.after(self.env.pause(16, &error));
                self.list_again(self.hearing.retry_at);
                // Of many reads some fail now and then: what the others have shown stands.
                self.hearing.broken = Some(reading).filter(|reading| reading.part.is_some());
                return self.tell(FleetNotice::Trouble(error));
            }
        };
        reading.answered = now.held;
        if reading.part.is_none() {
            let part = match found.into_iter().next().map(|listed| listed.stored) {
                Some(Ok(stored)) => Part::parse(&stored.record.metadata),
                Some(Err(error)) => {
                    // Nobody can tell this worker anything: it sees for itself.
                    self.tell(FleetNotice::Trouble(error));
                    self.hearing.heard = Some(reading.plan);
                    self.hearing.lists =
                        self.lister.may_list(now) && !self.env.has_bug(Bug::UnreadPartIgnored);
                    return;
                }
                None => None,
            };
            let part = self.valid_part(part, &reading.plan.0);
            if part.is_none() && self.env.has_bug(Bug::OldPartStands) {
                return self.hearing.heard = Some(reading.plan);
            }
            reading.is_news &= part.is_some();
            let part = part.unwrap_or_else(|| self.no_part(now, &reading.plan.0));
            // Whom the store does not let list does what it is told besides.
            if part.lists.is_some() && self.lister.may_list(now) {
                self.hearing.heard = Some(reading.plan);
                self.hearing.lists = true;
                return;
            }
            reading.units = self.units_to_read(&part);
            reading.part = Some(part);
        } else {
            reading.found.extend(found.into_iter().map(|Listed { key, stored }| (key, stored)));
        }
        reading.asked.clear();
        let Some(reading) = self.read_units(reading) else { return };
        let Reading { plan, is_news, began, part, found, .. } = *reading;
        self.hearing.heard = Some(plan);
        if is_news {
            self.hearing.expects_until = Tick(0);
        }
        self.planned_from = began;
        if let Some(part) = part {
            let is_overtaken = self.follow_part(now, &part, found, is_news);
            if is_news && is_overtaken {
                // Somebody has done meanwhile what an earlier plan said.
                self.want_advance(now.held.after(self.env.interval() / 2));
            }
        }
    }

    /// A part counts if who plans now has written it, and for this very session.
    fn valid_part(&self, part: Option<Part>, planner: &Attachment) -> Option<Part> {
        let obeys = self.env.has_bug(Bug::DeposedPlannerObeyed);
        let any = self.env.has_bug(Bug::AnySessionsPart);
        part.filter(|part| {
            (any || Some(part.to) == self.session_fence()) && (obeys || part.planner == *planner)
        })
    }

    /// There is no part for this worker, and so nothing to do, whatever an earlier planner has told it. If there was to be one, somebody
    /// has written or deleted something there: who plans is told.
    fn no_part(&mut self, now: Now, planner: &Attachment) -> Part {
        let named = self.news().and_then(|(_, mark)| mark.told.clone());
        if named.is_some_and(|told| told.contains(&self.env.id)) {
            self.want_advance(now.held.after(self.env.interval() / 2));
        }
        Part::new(planner.clone(), self.session_fence().unwrap_or(Fence(0)))
    }
}

#[cfg(test)]
mod tests;
