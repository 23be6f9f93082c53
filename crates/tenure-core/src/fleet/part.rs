//! A worker's part of the plan: a record of its own, written by the planner, with its tasks for units.
//!
//! Each task names the state of the unit's record that it was planned for. So a worker that reads a part again, or late, does nothing twice,
//! and the planner sees which tasks are left.

use super::digest::{mix, spread};
use super::plan::Uncovered;
use super::unit::Status;
use crate::values::fence::{Fence, Nonce};
use crate::values::key::{HolderId, Key};
use crate::values::metadata::{Metadata, Value};
use crate::values::record::{Attachment, Record};
use crate::values::time::Ttl;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// So many bytes of tasks and names fit into one record: some thousand units. A worker with a larger part lists everything itself, which costs
/// no more by then: on DynamoDB, a listing of 1,000 units reads as much.
pub(super) const MAX_BYTES: usize = 48 * 1024;

/// So many bytes of a part that is too large are told all the same, for a worker that the store does not let list: the planner
/// tells it of more once it has done that.
const KEPT_BYTES: usize = MAX_BYTES / 4;

/// Whether `record` is a worker's part of a plan: its metadata may have 48 KiB of tasks and names.
#[must_use]
pub fn is_part(record: &Record) -> bool {
    record.tenure.is_none() && Part::parse(&record.metadata).is_some()
}

/// What a unit's record shows: the tenure that it has, or had last, or the write that vacated it; a part of that one's random number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Shows(u32);

impl Shows {
    pub(super) fn of(record: &Record) -> Shows {
        Shows::of_tenure(record.tenure.as_ref().map_or(record.nonce, |tenure| tenure.id))
    }

    pub(super) fn of_tenure(id: Nonce) -> Shows {
        // Each half of it alone may be the same for many: one names a process, and the other counts.
        let halves = (id.0 >> 64) as u64 ^ (id.0 as u64).rotate_left(32);
        Shows((halves.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32)
    }
}

/// What a worker is to do with a unit.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Task {
    /// Claim it: nobody has it who lives.
    Take,
    /// The same, once the session that it is attached to has been missing for a ttl.
    TakeMissing,
    /// Claim it once this worker, who lives, has given it up.
    Await(HolderId),
    /// Drain it, and pass it to this worker.
    Pass(HolderId),
    /// Drain it, and give it up: it is closed, or nobody can have it any more.
    Close(Status),
    Drop(Uncovered),
}

/// What one worker is to do.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Part {
    /// Who has planned it.
    pub(super) planner: Attachment,
    /// For which session of the worker.
    pub(super) to: Fence,
    /// It is to list everything itself: why, in a number that tells two reasons apart and is the same for the same.
    pub(super) lists: Option<u64>,
    pub(super) tasks: BTreeMap<String, (Shows, Task)>,
    /// The sessions of those whom tasks name.
    pub(super) peers: BTreeMap<HolderId, (Fence, Ttl)>,
}

impl Part {
    pub(super) fn new(planner: Attachment, to: Fence) -> Part {
        Part { planner, to, lists: None, tasks: BTreeMap::new(), peers: BTreeMap::new() }
    }

    /// Whether it asks for anything.
    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty() && self.lists.is_none()
    }

    /// Whether it fits into a record.
    fn fits(&self) -> bool {
        let tasks = self.tasks.iter().map(|(unit, (_, task))| task.size(unit));
        let peers = self.peers.keys().map(|who| who.as_str().len() + 40);
        tasks.chain(peers).sum::<usize>() <= MAX_BYTES
    }

    /// Names the units, too, that its worker has by their records, if all that fits.
    pub(super) fn name_own(&mut self, units: Vec<(String, Shows)>) {
        let mut named = self.clone();
        for (unit, shows) in units {
            named.tasks.entry(unit).or_insert((shows, Task::Take));
        }
        if named.fits() {
            *self = named;
        }
    }

    /// The same as will fit into a record.
    pub(super) fn bounded(mut self, reason: u64, cuts: bool) -> Part {
        if cuts {
            self.tasks = std::mem::take(&mut self.tasks).into_iter().take(2).collect();
        } else if !self.fits() {
            // A dispute is a reason of its own, however large the part is.
            self.lists = Some(self.lists.map_or(reason, |why| why ^ reason));
            let mut size = 0;
            let is_kept = |(unit, (_, task)): &(String, (Shows, Task))| {
                // The name of a peer may be in two places.
                size += task.size(unit) + task.peer().map_or(0, |who| who.as_str().len() + 40);
                size <= KEPT_BYTES
            };
            self.tasks = std::mem::take(&mut self.tasks).into_iter().take_while(is_kept).collect();
            let named: BTreeSet<&HolderId> =
                self.tasks.values().filter_map(|(_, task)| task.peer()).collect();
            self.peers.retain(|who, _| named.contains(who));
        }
        self
    }

    pub(super) fn compose(&self) -> Metadata {
        let planner = [
            ("session".to_owned(), Value::from(self.planner.session.as_str())),
            ("fence".to_owned(), number(self.planner.fence.0)),
        ];
        let mut fields = Metadata::from([
            ("planner".to_owned(), Value::Map(planner.into_iter().collect())),
            ("to".to_owned(), number(self.to.0)),
        ]);
        if let Some(reason) = self.lists {
            fields.insert("lists".to_owned(), format!("{reason:x}").as_str().into());
        }
        if !self.tasks.is_empty() {
            let text = |(unit, (shows, task)): (&String, &(Shows, Task))| {
                (unit.clone(), Value::from(format!("{:08x}{}", shows.0, task.compose()).as_str()))
            };
            fields.insert("tasks".to_owned(), Value::Map(self.tasks.iter().map(text).collect()));
        }
        if !self.peers.is_empty() {
            let text = |(who, (fence, ttl)): (&HolderId, &(Fence, Ttl))| {
                (who.as_str().to_owned(), Value::from(format!("{} {}", fence.0, ttl.millis()).as_str()))
            };
            fields.insert("peers".to_owned(), Value::Map(self.peers.iter().map(text).collect()));
        }
        fields
    }

    /// None where a record says nothing of the kind.
    pub(super) fn parse(metadata: &Metadata) -> Option<Part> {
        let Value::Map(planner) = metadata.get("planner")? else { return None };
        let session = Key::new(planner.get("session")?.as_text()?).ok()?;
        let fence = |value: &Value| value.as_i64().and_then(|fence| u64::try_from(fence).ok()).map(Fence);
        let planner = Attachment { session, fence: fence(planner.get("fence")?)? };
        let mut part = Part::new(planner, fence(metadata.get("to")?)?);
        if let Some(reason) = metadata.get("lists") {
            part.lists = Some(u64::from_str_radix(reason.as_text()?, 16).ok()?);
        }
        if let Some(tasks) = metadata.get("tasks") {
            let Value::Map(tasks) = tasks else { return None };
            for (unit, task) in tasks {
                let (shows, task) = task.as_text()?.split_at_checked(8)?;
                let shows = Shows(u32::from_str_radix(shows, 16).ok()?);
                part.tasks.insert(unit.clone(), (shows, Task::parse(task)?));
            }
        }
        if let Some(peers) = metadata.get("peers") {
            let Value::Map(peers) = peers else { return None };
            for (who, session) in peers {
                let (fence, ttl) = session.as_text()?.split_once(' ')?;
                let ttl = Ttl::new(Duration::from_millis(ttl.parse().ok()?)).ok()?;
                part.peers.insert(HolderId::new(who).ok()?, (Fence(fence.parse().ok()?), ttl));
            }
        }
        Some(part)
    }
}

impl Task {
    /// Whether its worker is to have the unit.
    pub(super) fn takes(&self) -> bool {
        matches!(self, Task::Take | Task::TakeMissing | Task::Await(_))
    }

    /// How many bytes it takes in a record, for that unit.
    pub(super) fn size(&self, unit: &str) -> usize {
        unit.len() + 24 + self.peer().map_or(0, |who| who.as_str().len())
    }

    /// What it adds to a digest of tasks: for a unit that shows this, and about another worker with this session.
    pub(super) fn share(&self, unit: &Key, shows: Shows, peer: Option<&Key>) -> u64 {
        let verb: u128 = match self {
            Task::Take => 1,
            Task::TakeMissing => 2,
            Task::Await(_) => 3,
            Task::Pass(_) => 4,
            Task::Close(_) => 5,
            Task::Drop(_) => 6,
        };
        let peer = peer.map_or(0, spread);
        mix(unit, verb << 96 | u128::from(shows.0) << 64 | u128::from(peer))
    }

    /// Who else it names.
    pub(super) fn peer(&self) -> Option<&HolderId> {
        match self {
            Task::Await(who) | Task::Pass(who) => Some(who),
            Task::Take | Task::TakeMissing | Task::Close(_) | Task::Drop(_) => None,
        }
    }

    fn compose(&self) -> String {
        match self {
            Task::Take => "take".to_owned(),
            Task::TakeMissing => "missing".to_owned(),
            Task::Await(who) => format!("await {}", who.as_str()),
            Task::Pass(who) => format!("pass {}", who.as_str()),
            Task::Close(Status::Deleted) => "deleted".to_owned(),
            Task::Close(_) => "done".to_owned(),
            Task::Drop(why) => format!("drop {}", reason(*why)),
        }
    }

    fn parse(text: &str) -> Option<Task> {
        let (verb, about) = text.split_once(' ').unwrap_or((text, ""));
        Some(match verb {
            "take" => Task::Take,
            "missing" => Task::TakeMissing,
            "await" => Task::Await(HolderId::new(about).ok()?),
            "pass" => Task::Pass(HolderId::new(about).ok()?),
            "deleted" => Task::Close(Status::Deleted),
            "done" => Task::Close(Status::Done),
            "drop" => {
                let known = [
                    Uncovered::NoWorker,
                    Uncovered::NoLabels,
                    Uncovered::NoRoom,
                    Uncovered::Declined,
                    Uncovered::Damaged,
                    Uncovered::Foreign,
                ];
                Task::Drop(known.into_iter().find(|why| reason(*why) == about)?)
            }
            _ => return None,
        })
    }
}

fn reason(why: Uncovered) -> &'static str {
    match why {
        Uncovered::NoWorker => "worker",
        Uncovered::NoLabels => "labels",
        Uncovered::NoRoom => "room",
        Uncovered::Declined => "declined",
        Uncovered::Damaged => "damaged",
        Uncovered::Foreign => "foreign",
    }
}

fn number(n: u64) -> Value {
    Value::from(i64::try_from(n).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    //! Plan: whatever a part says is read as it was written; what is no part is none; one that is too large says that all is to be listed,
    //! and some of it.
    use super::*;
    use crate::fleet::worker::alone::*;

    fn part() -> Part {
        Part::new(Attachment { session: session(1), fence: Fence(7) }, Fence(9))
    }

    #[test]
    fn what_a_part_says_is_read_as_it_was_written() {
        let all = [Uncovered::NoWorker, Uncovered::NoLabels, Uncovered::NoRoom];
        let all = all.into_iter().chain([Uncovered::Declined, Uncovered::Damaged, Uncovered::Foreign]);
        let tasks = [
            Task::Take,
            Task::TakeMissing,
            Task::Await(HolderId::new("w 2").unwrap()),
            Task::Pass(holder(3)),
            Task::Close(Status::Done),
            Task::Close(Status::Deleted),
        ];
        for (n, task) in (0..).zip(tasks.into_iter().chain(all.map(Task::Drop))) {
            let tasks = BTreeMap::from([("a/b".to_owned(), (Shows(n), task))]);
            let peers = BTreeMap::from([(HolderId::new("w 2").unwrap(), (Fence(5), ttl()))]);
            let part = Part { tasks, peers, ..part() };
            assert!(!part.is_empty());
            assert_eq!(Part::parse(&part.compose()), Some(part));
        }
        let lists = Part { lists: Some(u64::MAX), ..part() };
        assert_eq!(Part::parse(&lists.compose()), Some(lists));
        assert!(part().is_empty());
    }

    #[test]
    fn what_is_no_part_is_none() {
        assert_eq!(Part::parse(&Metadata::new()), None);
        for (name, value) in [
            ("planner", Value::from("w1")),
            ("to", Value::from("9")),
            ("lists", Value::from("why")),
            ("tasks", Value::from("take")),
            ("tasks", Value::Map(Metadata::from([("u".to_owned(), Value::from("0000000"))]))),
            ("tasks", Value::Map(Metadata::from([("u".to_owned(), Value::from("00000000fly"))]))),
            ("peers", Value::Map(Metadata::from([("w".to_owned(), Value::from("5"))]))),
        ] {
            let mut fields = part().compose();
            fields.insert(name.to_owned(), value);
            assert_eq!(Part::parse(&fields), None, "{fields:?}");
        }
    }

    #[test]
    fn a_part_that_is_too_large_says_that_all_is_to_be_listed() {
        let of = |units: usize| {
            let tasks = (0..units).map(|n| (format!("unit {n:05}"), (Shows(1), Task::Take)));
            Part { tasks: tasks.collect(), ..part() }.bounded(8, false)
        };
        assert_eq!((of(1_400).tasks.len(), of(1_400).lists), (1_400, None));
        // Some of it is for whom the store does not let list.
        let kept = KEPT_BYTES / 34;
        assert_eq!((of(1_500).tasks.len(), of(1_500).lists, of(9_000).tasks.len()), (kept, Some(8), kept));
        // A dispute is told of, too, however large the part is.
        let tasks = |units: usize| of(units).tasks;
        let disputed = |why| Part { lists: Some(why), tasks: tasks(1_400), ..part() };
        let grown = |why| {
            let more = (0..100).map(|n| (format!("unit x{n:04}"), (Shows(1), Task::Take)));
            let mut part = disputed(why);
            part.tasks.extend(more);
            part.bounded(8, false).lists
        };
        assert!(grown(3).is_some() && grown(3) == grown(3) && grown(3) != grown(4) && grown(3) != Some(8));
        let awaits = |n: usize| (format!("unit {n:05}"), (Shows(1), Task::Await(holder(n))));
        let peers = (0..5_000).map(|n| (holder(n), (Fence(5), ttl()))).collect();
        let part = Part { tasks: (0..5_000).map(awaits).collect(), peers, ..part() }.bounded(8, false);
        assert!(part.tasks.len() > 100 && part.fits());
        assert_eq!(part.peers.len(), part.tasks.len());
        let own = |units: usize| (0..units).map(|n| (format!("unit {n:05}"), Shows(1))).collect();
        for (units, named) in [(1_400, 1_400), (1_500, 1)] {
            let mut part = of(1);
            part.name_own(own(units));
            assert_eq!(part.tasks.len(), named);
        }
    }
}
