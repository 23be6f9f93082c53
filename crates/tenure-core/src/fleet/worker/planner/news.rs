//! Whom a plan is told. What a worker was told and has not done is told again after a ttl, then after two, four, and so on up to 32: it may
//! not have heard of it, and where it can't be done, as where the store refuses a unit, nobody is told all the time. It is also told again once
//! somebody has had all look again: what it found when it was told last may be another thing by now.

use crate::bugs::Bug;
use crate::fleet::names::FleetName;
use crate::fleet::part::{Part, Shows, Task};
use crate::fleet::worker::env::FleetEnv;
use crate::fleet::worker::listed::Owner;
use crate::fleet::worker::listing::Listing;
use crate::values::fence::Fence;
use crate::values::key::Key;
use crate::values::time::{Now, Tick};
use std::collections::BTreeMap;
use std::time::Duration;

/// The longest pause, in ttls.
const LONGEST: u32 = 32;

/// What each worker was told last, by its session.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(super) struct ToldParts(BTreeMap<Key, Told>);

/// What a worker was told last.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Told {
    part: Part,
    /// What was last to be written: it may be that some of it was done since, and is no part of the plan any more.
    wrote: Option<Part>,
    reminder: Reminder,
}

/// When a worker is told the same again, unless that is done by then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Reminder {
    at: Tick,
    /// How long it had for that.
    pause: Duration,
    /// What the listing was of by which it was told last.
    generation: Fence,
}

impl Reminder {
    fn after(now: Now, pause: Duration, generation: Fence) -> Reminder {
        Reminder { at: now.held.after(pause), pause, generation }
    }

    fn is_due(&self, now: Now, generation: Fence) -> bool {
        now.held >= self.at || generation != self.generation
    }

    /// The one after this, which is due.
    fn next(self, now: Now, generation: Fence, longest: Duration) -> Reminder {
        let pause = if now.held >= self.at { self.pause.saturating_mul(2).min(longest) } else { self.pause };
        Reminder::after(now, pause, generation)
    }
}

impl ToldParts {
    /// Only these workers are still there.
    pub(super) fn retain(&mut self, is_there: impl Fn(&Key) -> bool) {
        self.0.retain(|session, _| is_there(session));
    }

    /// A worker's part is being written.
    pub(super) fn writes(&mut self, session: &Key, part: &Part) {
        if let Some(told) = self.0.get_mut(session) {
            told.wrote = Some(part.clone());
        }
    }

    /// What was last to be written for a worker.
    pub(super) fn written(&self, session: &Key) -> Option<Part> {
        self.0.get(session)?.wrote.clone()
    }

    /// Whether a worker is to be told of its part: it is another one than it was told before, or nothing has come of it for some time.
    pub(super) fn is_news(
        &mut self,
        now: Now,
        env: &FleetEnv,
        session: &Key,
        part: &Part,
        stands: Option<&Part>,
        listing: &Listing,
    ) -> bool {
        let told = self.0.remove(session).filter(|told| told.part.to == part.to);
        // What does not stand there did not arrive, or somebody has written something else since: nobody goes by it.
        let (bugs, fleet) = (env.bugs, env.fleet());
        let told = told.filter(|told| match &told.wrote {
            Some(wrote) => Some(wrote) == stands,
            // What was sent long ago may have arrived since.
            None => !stands.is_some_and(|stands| {
                (&stands.planner, stands.to) == (&part.planner, part.to)
                    && (stands.lists.is_some() || !left_of(fleet, session, stands, listing).is_empty())
            }),
        });
        let reminder = told.as_ref().filter(|told| told.part == *part).map(|told| told.reminder);
        let (before, wrote, is_known) = match told {
            Some(told) => (Some(told.part), told.wrote, true),
            None => (stands.cloned(), None, false),
        };
        let left = before.as_ref().filter(|before| before.to == part.to);
        let left = left.map(|before| left_of(fleet, session, before, listing)).unwrap_or_default();
        let is_due = reminder.is_none_or(|reminder| reminder.is_due(now, listing.generation));
        let is_news = match () {
            () if reminder.is_some() && (part.is_empty() || bugs.has(Bug::ToldOnce)) => false,
            () if reminder.is_some() && !bugs.has(Bug::ToldEachTime) => is_due,
            () if before.as_ref().is_some_and(|it| awaits_in_vain(fleet, session, it, part, listing)) => true,
            // What was told before is being done.
            () if part.tasks == left && part.lists.is_none() => !is_known && !part.is_empty(),
            () => true,
        };
        let reminder = match reminder {
            None => Reminder::after(now, env.part(1), listing.generation),
            Some(due) if is_due => due.next(now, listing.generation, env.part(1) * LONGEST),
            Some(later) => later,
        };
        let wrote = if is_news { Some(part.clone()) } else { wrote };
        self.0.insert(session.clone(), Told { part: part.clone(), wrote, reminder });
        is_news
    }

    /// When all is to be listed again, since somebody is to be told again: whether all is done by then shows whether all agree. Half of a pause passes between two such
    /// listings, however many are to be told.
    pub(super) fn undone_at(&self, now: Now) -> Option<Tick> {
        let undone = self.0.values().filter(|told| !told.part.is_empty());
        let reminders = undone.map(|told| told.reminder.at.max(now.held.after(told.reminder.pause / 2)));
        reminders.min()
    }
}

/// Whether a worker waits for a unit that has gone elsewhere since, and is not planned for it any more. It would wait for ever, and claim
/// the unit as soon as that is free, whoever it is planned for then.
fn awaits_in_vain(fleet: &FleetName, session: &Key, before: &Part, part: &Part, listing: &Listing) -> bool {
    let came = |name: &String| {
        let unit = fleet.unit(name).ok();
        let unit = unit.and_then(|unit| listing.units.get(&unit));
        unit.is_some_and(|unit| matches!(&unit.owner, Owner::Worker(owner) if owner == session))
    };
    let is_dropped = |name: &String, task: &Task| {
        matches!(task, Task::Await(_)) && !part.tasks.contains_key(name) && !came(name)
    };
    // What an earlier planner has told it is over when it hears that there is another.
    (&before.planner, before.to) == (&part.planner, part.to)
        && before.tasks.iter().any(|(name, (_, task))| is_dropped(name, task))
}

/// The tasks of a part that are not done yet, as their units' records show.
fn left_of(
    fleet: &FleetName,
    session: &Key,
    part: &Part,
    listing: &Listing,
) -> BTreeMap<String, (Shows, Task)> {
    let is_left = |name: &String, shows: &Shows, task: &Task| {
        let unit = fleet.unit(name).ok();
        unit.and_then(|unit| listing.units.get(&unit)).is_some_and(|unit| {
            let has = task.takes() && matches!(&unit.owner, Owner::Worker(owner) if owner == session);
            unit.shows == *shows && !has
        })
    };
    let tasks = part.tasks.iter().filter(|(name, (shows, task))| is_left(name, shows, task));
    tasks.map(|(name, task)| (name.clone(), task.clone())).collect()
}
